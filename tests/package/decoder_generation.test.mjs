// Generation step by step and as a promise: progress, stopping, aborting, and the cache after each.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { locant, refuses } from './helpers.mjs';

const rotation = locant.rotaryPlan({ rule: 'default', headDim: 8 });
const make = (weights = { seed: 3 }) => locant.decoder(
  { vocabulary: 50, width: 32, heads: 4, kvHeads: 2, headDim: 8, feedForwardWidth: 64, layers: [{ rotation }, { rotation }] }, weights);
const prompts = [[1, 2, 3, 9, 8, 7, 6], [4, 5, 6, 7]];
const lists = (rows) => rows.map(({ tokens }) => Array.from(tokens));
const sampled = { prompts, newTokens: 6, temperature: 1.2, topK: 20, topP: 0.9, seed: 4, prefillChunk: 3 };

test('generation: step by step, as a promise and at once give the same tokens', async () => {
  const decoder = make();
  const expected = decoder.generate(sampled);
  const generation = decoder.generation(sampled);
  const seen = [];
  assert.deepEqual(generation.rows(), prompts.map(() => ({ tokens: new Int32Array(), reason: 'unfinished' })));
  while (!generation.ended) seen.push(generation.step());
  assert.deepEqual(generation.rows(), expected);
  assert.deepEqual(seen.map(({ phase, done, total }) => [phase, done, total]),
    [['prefill', 6, 11], ['prefill', 10, 11], ['prefill', 11, 11], ...[1, 2, 3, 4, 5].map((done) => ['decode', done, 5])]);
  const told = [[], []];
  for (const { rows, tokens } of seen) rows.forEach((row, i) => told[row].push(tokens[i]));
  assert.deepEqual(told, lists(expected));
  refuses(() => generation.step(), 'cache-state', 'step: it has ended, there is no further step');
  generation.dispose();
  refuses(() => generation.rows(), 'disposed', 'rows: the generation has been disposed');
  const heard = [];
  assert.deepEqual(await decoder.generateAsync({ ...sampled, onProgress: (progress) => { heard.push(progress); } }), expected);
  assert.deepEqual(heard, seen);
  decoder.dispose();
});

test('generateAsync: the event loop gets its turn after every step', async () => {
  const decoder = make();
  const before = locant.liveObjects();
  let turns = 0, ended = false;
  const count = () => { turns++; if (!ended) setImmediate(count); };
  setImmediate(count);
  let steps = 0;
  await decoder.generateAsync({ prompts: [[1]], newTokens: 30, onProgress: () => { steps++; } });
  ended = true;
  assert.equal(steps, 30);
  assert.ok(turns >= 15, `${turns} turns of the loop in 30 steps`);
  assert.equal(locant.liveObjects(), before);
  decoder.dispose();
});

test('generateAsync: "stop" keeps what there is, and generation goes on from there', async () => {
  const decoder = make();
  const cache = decoder.cache({ sequences: 2 });
  const expected = lists(decoder.generate({ prompts, newTokens: 8 }));
  const rows = await decoder.generateAsync({ prompts, cache, newTokens: 8, onProgress: async ({ phase, done }) => {
    await null;
    return phase === 'decode' && done === 2 ? 'stop' : undefined;
  } });
  assert.deepEqual(rows.map(({ reason }) => reason), ['cancelled', 'cancelled']);
  assert.deepEqual(lists(rows), expected.map((tokens) => tokens.slice(0, 3)));
  assert.deepEqual([cache.rows(0), cache.rows(1)], [9, 6]);
  const more = decoder.generate({ prompts: rows.map(({ tokens }) => tokens.slice(-1)), cache, newTokens: 5 });
  assert.deepEqual(lists(more), expected.map((tokens) => tokens.slice(3)));
  cache.dispose();
  decoder.dispose();
});

test('generation: a cache that another call changed in between is noticed, and stays as that call left it', async () => {
  const decoder = make();
  const others = [
    (cache) => cache.truncate(1),
    (cache) => cache.evict([0, 1]),
    (cache) => decoder.generate({ prompts: [[5, 6]], cache, newTokens: 2 }),
    (cache) => { decoder.forward({ tokens: [7], positions: cache.next([1]), cache }); },
  ];
  for (const other of others) {
    const cache = decoder.cache();
    const generation = decoder.generation({ prompts: [[1, 2, 3]], cache, newTokens: 6 });
    generation.step();
    generation.step();
    other(cache);
    const rows = cache.rows();
    assert.throws(() => generation.rollBack(), { name: 'CacheError', code: 'cache-state' });
    assert.throws(() => generation.step(), { name: 'CacheError', code: 'cache-state', message: /changed by another call/ });
    assert.equal(cache.rows(), rows);
    generation.dispose();
    await assert.rejects(decoder.generateAsync({ prompts: [[1, 2, 3]], cache, newTokens: 6, onProgress: () => other(cache) }),
      { code: 'cache-state' });
    cache.dispose();
  }
  decoder.dispose();
});

test('generateAsync: aborted, it rejects with the reason and the cache is as it was', async () => {
  const decoder = make();
  const cache = decoder.cache({ sequences: 2 });
  decoder.generate({ prompts: [[7, 8]], newTokens: 2, cache });
  const before = cache.rows(0);
  for (const at of [1, 4]) {
    const controller = new AbortController();
    let steps = 0;
    const running = decoder.generateAsync({ prompts, cache, newTokens: 8, signal: controller.signal, prefillChunk: 3,
      onProgress: () => { if (++steps === at) controller.abort(new Error(`enough after ${at}`)); } });
    await assert.rejects(running, new Error(`enough after ${at}`));
    assert.equal(steps, at);
    assert.deepEqual([cache.rows(0), cache.rows(1)], [before, 0]);
  }
  const gone = AbortSignal.abort();
  await assert.rejects(decoder.generateAsync({ prompts, cache, signal: gone }), (error) => error === gone.reason);
  await assert.rejects(decoder.prefillAsync({ prompts, cache, signal: gone }), (error) => error === gone.reason);
  assert.deepEqual([cache.rows(0), cache.rows(1)], [before, 0]);
  // An error of the callback passes through, with the cache as it was, too.
  await assert.rejects(decoder.generateAsync({ prompts, cache, onProgress: () => { throw new RangeError('mine'); } }), new RangeError('mine'));
  assert.deepEqual([cache.rows(0), cache.rows(1)], [before, 0]);
  cache.dispose();
  decoder.dispose();
});

test('generate: a cache that fills up leaves no row behind, whichever way it is called', async () => {
  const decoder = make();
  const cache = decoder.cache({ capacity: { fixed: 8 } });
  const prompt = { prompts: [[1, 2, 3]], cache };
  refuses(() => decoder.generate(prompt), 'cache-full', /^generate: /);
  assert.equal(cache.rows(), 0);
  const generation = decoder.generation(prompt);
  refuses(() => { while (!generation.ended) generation.step(); }, 'cache-full', /^step: /);
  assert.equal(generation.ended, true);
  assert.equal(cache.rows(), 0);
  generation.dispose();
  await assert.rejects(decoder.generateAsync(prompt), { code: 'cache-full', message: /^generateAsync: / });
  assert.equal(cache.rows(), 0);
  refuses(() => decoder.generate({ prompts: [new Array(9).fill(1)], cache }), 'cache-full',
    'generate: sequence 0 holds 0 rows and its prompt 9 tokens, the cache has room for 8');
  assert.equal(decoder.generate({ ...prompt, newTokens: 6 })[0].tokens.length, 6);
  assert.equal(cache.rows(), 8);
  cache.dispose();
  decoder.dispose();
});

test('prefillAsync: logits after every prompt are those of the full forward, and it can be aborted', async () => {
  const decoder = make();
  const cache = decoder.cache({ sequences: 2 });
  const heard = [];
  const logits = await decoder.prefillAsync({ prompts, cache, prefillChunk: 3, onProgress: ({ done, total }) => { heard.push([done, total]); } });
  assert.deepEqual(heard, [[6, 11], [10, 11], [11, 11]]);
  assert.equal(logits.length, 2 * 50);
  prompts.forEach((tokens, r) => {
    const full = decoder.forward({ tokens, positions: locant.positions.range(tokens.length) });
    assert.ok(locant.difference(logits.slice(r * 50, (r + 1) * 50), full).largest < 1e-5);
  });
  assert.deepEqual([cache.rows(0), cache.rows(1)], [7, 4]);
  const controller = new AbortController();
  await assert.rejects(decoder.prefillAsync({ prompts, cache, prefillChunk: 2, signal: controller.signal, onProgress: () => controller.abort() }), { name: 'AbortError' });
  assert.deepEqual([cache.rows(0), cache.rows(1)], [7, 4]);
  await assert.rejects(decoder.prefillAsync({ prompts, cache, onProgress: () => 'stop', prefillChunk: 1 }), { code: 'argument', message: /half a prompt has no logits$/ });
  assert.deepEqual([cache.rows(0), cache.rows(1)], [7, 4]);
  cache.dispose();
  decoder.dispose();
});

test('generation: one cache serves one promise at a time, and parts that go away are named', async () => {
  const decoder = make();
  const cache = decoder.cache({ sequences: 2 });
  const first = decoder.generateAsync({ prompts, cache, newTokens: 4 });
  await assert.rejects(decoder.generateAsync({ prompts, cache }), { code: 'cache-state', message: 'generateAsync: the cache is being written by another call that has not ended yet' });
  await assert.rejects(decoder.prefillAsync({ prompts, cache }), { code: 'cache-state' });
  assert.equal((await first)[0].tokens.length, 4);
  // Two promises on one decoder with a cache each do not disturb each other.
  const expected = decoder.generate(sampled);
  const both = await Promise.all([decoder.generateAsync(sampled), decoder.generateAsync(sampled)]);
  assert.deepEqual(both, [expected, expected]);

  await assert.rejects(decoder.generateAsync({ prompts, cache, onProgress: () => cache.dispose() }), { code: 'disposed', message: 'generateAsync: the cache has been disposed' });
  const generation = decoder.generation({ prompts });
  generation.step();
  decoder.dispose();
  refuses(() => generation.step(), 'disposed', 'step: the decoder has been disposed');
  generation.dispose();
  await assert.rejects(decoder.generateAsync({ prompts }), { code: 'disposed' });
});

test('generation: a promise that rejects leaves the cache as it was, whichever step it ends at, in its own name', async () => {
  const ways = {
    decoder: [({ decoder }) => decoder.dispose(), 'the decoder has been disposed'],
    abort: [({ controller }) => controller.abort(), undefined],
  };
  for (const [call, steps, more] of [['generateAsync', 4, { newTokens: 3 }], ['prefillAsync', 2, {}]]) {
    for (const [way, [act, sentence]] of Object.entries(ways)) {
      for (let at = 1; at <= steps; ++at) {
        const decoder = make(), cache = decoder.cache(), controller = new AbortController();
        decoder.forward({ tokens: [7], positions: cache.next([1]), cache });
        let told = 0;
        const onProgress = () => { if (++told === at) act({ decoder, controller }); };
        await assert.rejects(decoder[call]({ prompts: [[1, 2, 3, 4]], cache, prefillChunk: 2, ...more, signal: controller.signal, onProgress }),
          sentence ? { code: 'disposed', message: `${call}: ${sentence}` } : { name: 'AbortError' }, `${call}, ${way}, ${at}`);
        assert.equal(cache.rows(), 1, `${call}, ${way}, ${at}`);
        cache.dispose();
        decoder.dispose();
      }
    }
  }
});

test('generation: options that cannot be are refused in a sentence; promises reject with it', async () => {
  const decoder = make();
  const cache = decoder.cache();
  await assert.rejects(decoder.generateAsync({ prompts: [[]] }), { code: 'argument', message: /^generateAsync: / });
  await assert.rejects(decoder.generateAsync({ prompts, onprogress() {} }), { code: 'argument', message: /^generateAsync: there is no option "onprogress"/ });
  await assert.rejects(decoder.generateAsync({ prompts, onProgress: 1 }), { code: 'argument', message: 'generateAsync: onProgress is 1, expected a function' });
  await assert.rejects(decoder.generateAsync({ prompts, signal: {} }), { code: 'argument', message: 'generateAsync: signal is a Object, expected an AbortSignal' });
  await assert.rejects(decoder.prefillAsync({ prompts }), { code: 'argument', message: 'prefillAsync: cache is undefined, expected a cache of this library' });
  await assert.rejects(decoder.prefillAsync({ prompts, cache }), { code: 'argument', message: 'prefillAsync: the number of prompts is 2, expected 1 to 1' });
  refuses(() => decoder.generation({ prompts: [[50]] }), 'argument', 'generation: a token of prompt 0 is 50, expected 0 to 49');
  refuses(() => decoder.generate({ prompts, newTokens: 2 ** 31 }), 'argument', /^generate: newTokens is 2147483648/);
  // The most that there can be is not asked for in advance.
  assert.equal(decoder.generate({ prompts: [[1]], newTokens: 2147483647, stopTokens: Array.from({ length: 50 }, (_, i) => i) })[0].tokens.length, 1);
  cache.dispose();
  decoder.dispose();
});

test('decoder: factors so large that float32 would end are refused; at the limits every logit is a number', () => {
  refuses(() => make({ seed: 1, matrix: 1e300 }), 'argument', 'decoder: matrix is 1e+300, expected a number of 1e-6 .. 1e6');
  refuses(() => make({ seed: 1, queryKey: 1e7 }), 'argument', 'decoder: queryKey is 10000000, expected a number of 1e-6 .. 1e6');
  refuses(() => make({ seed: 1, embedding: 1e-300 }), 'argument', 'decoder: embedding is 1e-300, expected a number of 1e-6 .. 1e6');
  const decoder = make({ seed: 1, matrix: 1e6, queryKey: 1e6, embedding: 1e6 });
  const logits = decoder.forward({ tokens: [1, 2, 3], positions: locant.positions.range(3), wanted: 'valid' });
  assert.ok(logits.every(Number.isFinite));
  decoder.dispose();
});
