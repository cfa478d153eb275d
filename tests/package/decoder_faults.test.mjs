// Faults that users have met (kinds a and b: caches and batches), by id, through the package, on a decoder of several layers.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { locant, refuses } from './helpers.mjs';

const { positions } = locant;
const shape = { vocabulary: 61, width: 32, heads: 4, kvHeads: 2, headDim: 8, feedForwardWidth: 48 };
const plan = (rule = {}) => locant.rotaryPlan({ rule: 'default', headDim: 8, base: 1000, ...rule });
const make = (layer = { rotation: plan() }, more = {}) => locant.decoder({ ...shape, layers: [layer, layer, layer], ...more }, { seed: 5 });
const text = (count, seed = 1) => Array.from({ length: count }, (_, i) => (i * 37 + seed * 101 + (i * i) % 17) % 61);
const tolerance = 1e-4;
const off = (a, b) => locant.difference(a, b).largest;
const near = (a, b, what = '') => assert.ok(off(a, b) < tolerance, `${what} ${off(a, b)}`);
const far = (a, b, what = '') => assert.ok(off(a, b) > 100 * tolerance, `${what} ${off(a, b)}`);
const full = (decoder, tokens, wanted = 'valid') => decoder.forward({ tokens, positions: positions.range(tokens.length), wanted });
const step = (decoder, cache, tokens, here = cache.next([tokens.length])) => decoder.forward({ tokens, positions: here, cache, wanted: 'valid' });
const last = (logits, tokens) => logits.slice(logits.length - tokens * 61);

test('decode steps go on where the prefill ended, in every layer and chunk (A01, A04, A13, A24)', () => {
  const decoder = make();
  const tokens = text(15);
  const expected = full(decoder, tokens);
  for (const chunk of [1, 5, 7, 15]) {
    const cache = decoder.cache();
    const got = [], seen = [];
    for (let at = 0; at < 15; at += chunk) {
      const here = cache.next([Math.min(chunk, 15 - at)]);
      seen.push(...here.position[0]);
      got.push(...step(decoder, cache, tokens.slice(at, at + chunk), here));
    }
    assert.deepEqual(seen, Array.from({ length: 15 }, (_, i) => i));
    near(Float32Array.from(got), expected, `chunk ${chunk}`);
    cache.dispose();
  }
  // The whole text fed again stands at 0, whatever was fed before (A24).
  assert.deepEqual(full(decoder, tokens), expected);
  for (const fault of ['offset-restarted', 'off-by-one', 'upper-layers-ahead']) assert.equal(decoder.auditTests({ fault }).passed, false);
  decoder.dispose();
});

test('three axes of text go on together (A01)', () => {
  const decoder = make({ rotation: plan({ sections: [2, 1, 1] }) });
  const tokens = text(9);
  const three = (first, count) => {
    const axis = Int32Array.from({ length: count }, (_, i) => first + i);
    return positions.from({ rowLengths: [count], position: [axis, axis, axis], order: axis });
  };
  const expected = decoder.forward({ tokens, positions: three(0, 9), wanted: 'valid' });
  const cache = decoder.cache();
  step(decoder, cache, tokens.slice(0, 6), three(0, 6));
  const next = cache.next([3]);
  assert.deepEqual(next.position.map((axis) => Array.from(axis)), [[6, 7, 8], [6, 7, 8], [6, 7, 8]]);
  near(step(decoder, cache, tokens.slice(6), next), last(expected, 3));
  decoder.dispose();
});

test('rows kept after an interior eviction stand where they stood, or are moved with their keys (A07, I09)', () => {
  const decoder = make();
  assert.equal(decoder.auditTests({ fault: 'rows-taken-for-positions' }).passed, false);
  const tokens = text(7);
  const cache = decoder.cache();
  step(decoder, cache, tokens);
  cache.evict([2, 3, 4]);
  assert.deepEqual(Array.from(cache.positions().position[0]), [0, 1, 5, 6]);
  assert.deepEqual(Array.from(cache.next([1]).position[0]), [7]);
  // A fragment with phases of its own is refused.
  refuses(() => step(decoder, cache, [1, 2], positions.range(2)), 'order', /^forward: /);
  cache.shift({ first: 2, last: 4, delta: -3 });
  assert.deepEqual(Array.from(cache.next([1]).position[0]), [4]);
  decoder.dispose();
});

test('rejected draft tokens leave no trace, and a rewind never adds (A08, A09)', () => {
  const decoder = make();
  const tokens = text(12), draft = text(4, 3);
  const cache = decoder.cache();
  step(decoder, cache, tokens.slice(0, 8));
  step(decoder, cache, draft);
  cache.truncate(8);
  near(step(decoder, cache, tokens.slice(8)), last(full(decoder, tokens), 4));
  refuses(() => cache.truncate(13), 'cache-state', /12/);
  refuses(() => cache.truncate(-2), 'argument', /^truncate: rows is -2/);
  assert.equal(cache.rows(), 12);
  decoder.dispose();
});

test('prepared tables hold decode steps too, past 256 as well (A14, A15, G08)', () => {
  const decoder = make();
  const tokens = text(300);
  const expected = full(decoder, tokens);
  decoder.prepare(280);  // the last steps lie past the table
  const cache = decoder.cache();
  step(decoder, cache, tokens.slice(0, 255));
  for (let t = 255; t < 300; ++t) near(step(decoder, cache, [tokens[t]]), expected.slice(t * 61, (t + 1) * 61), `token ${t}`);
  decoder.dispose();
});

test('queries see the cached keys and their own, no more and no fewer (A16, A17, A18)', () => {
  const decoder = make();
  const tokens = text(5), other = [...tokens.slice(0, 4), (tokens[4] + 1) % 61];
  const run = (ids) => {
    const cache = decoder.cache();
    step(decoder, cache, ids.slice(0, 3));
    const got = step(decoder, cache, ids.slice(3));
    cache.dispose();
    return got;
  };
  near(run(tokens), last(full(decoder, tokens), 2));
  assert.deepEqual(run(tokens).slice(0, 61), run(other).slice(0, 61));
  decoder.dispose();
});

test('caches filled row by row decode together, each at its own length (A21, A26, B01, B15)', () => {
  const decoder = make();
  const rows = [text(10, 1), text(7, 2)];
  const cache = decoder.cache({ sequences: 2 });
  rows.forEach((tokens, r) => decoder.forward({ tokens, positions: positions.range(tokens.length), cache, sequences: [r] }));
  const next = cache.next([1, 1]);
  assert.deepEqual(Array.from(next.position[0]), [10, 7]);
  const got = decoder.forward({ tokens: [3, 4], positions: next, cache });
  near(got.slice(0, 61), full(decoder, [...rows[0], 3], 'last'));
  near(got.slice(61), full(decoder, [...rows[1], 4], 'last'));
  decoder.dispose();
});

test('xPos: steps carry the scale of their position (A22, A23)', () => {
  const decoder = make({ rotation: plan({ xpos: { gamma: 0.4, scaleBase: 64, center: 0 } }) });
  const tokens = text(30);
  const cache = decoder.cache();
  step(decoder, cache, tokens.slice(0, 20));
  near(step(decoder, cache, tokens.slice(20)), last(full(decoder, tokens), 10));
  decoder.dispose();
});

for (const [name, layer, more] of [
  ['rotary', undefined, {}],
  ['ALiBi, key only', { terms: [locant.alibi({ heads: 4, form: 'key-only' })] }, {}],
  ['learned table with a padding row', {}, { inputPosition: { learnedTable: { rows: 64, firstRow: 2, paddingRow: 1 } } }],
]) {
  test(`${name}: padded batches speak as each row alone (B01, B05, B08, B09, B14, B15, F11)`, () => {
    const decoder = make(layer, more);
    const rows = [text(4, 1), text(4, 2)];
    const alone = Float32Array.from(rows.flatMap((row) => Array.from(full(decoder, row))));
    // One row padded left, one right, ids of padding never read.
    const here = positions.fromPaddingMask([0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0], { rows: 2, columns: 6 });
    near(decoder.forward({ tokens: [-1, -1, ...rows[0], ...rows[1], -1, -1], positions: here, wanted: 'valid' }), alone);
    assert.deepEqual([0, 1].map((r) => Array.from(here.position[0].slice(r * 6, r * 6 + 6)).filter((_, i) => here.valid[r * 6 + i])), [[0, 1, 2, 3], [0, 1, 2, 3]]);
    const prompts = [text(9, 3), text(2, 4), text(5, 5)];
    const batch = decoder.generate({ prompts, newTokens: 6 });
    prompts.forEach((prompt, r) => assert.deepEqual(batch[r], decoder.generate({ prompts: [prompt], newTokens: 6 })[0]));
    // Positions below 0 there are none.
    refuses(() => positions.from({ rowLengths: [1], position: [[-4]] }), 'position-range', /-4/);
    assert.equal(decoder.auditTests({ fault: 'padding-counted' }).passed, false);
    decoder.dispose();
  });
}

test('rows that see nothing, and scores at the lowest number, are finite in every layer (B10, B11, B12, A17)', () => {
  const decoder = make();
  const tokens = text(4);
  const visible = Uint8Array.from({ length: 16 }, (_, i) => (Math.floor(i / 4) === 1 ? 0 : 1));
  const logits = decoder.forward({ tokens, positions: positions.range(4), wanted: 'valid', mask: { visible } });
  assert.ok(logits.every(Number.isFinite));
  near(logits.slice(0, 61), full(decoder, tokens).slice(0, 61));
  decoder.dispose();
  const lowest = new Float32Array(4).fill(-3.4028234663852886e38);
  const term = locant.displacementBias({ heads: 4, first: 0, last: 0, table: lowest });
  for (const terms of [[term], [term, term]]) {
    const low = make({ terms });
    assert.ok(full(low, tokens).every(Number.isFinite));
    low.dispose();
  }
});

test('plans that differ by length: one for the whole generation, or unrotated keys, or an error (E41, E43)', () => {
  const dynamic = (length) => plan({ rule: 'dynamic-ntk', factor: 2, trainedLength: 16, length });
  const long = (length) => plan({ rule: 'longrope', shortFactors: [1, 1.1, 1.3, 2], longFactors: [1, 2, 4, 8], originalLength: 16, factor: 4, length });
  for (const resolved of [dynamic, long]) {
    const early = make({ rotation: resolved(16) }), late = make({ rotation: resolved(17) });
    const tokens = text(17);
    const expected = last(full(late, tokens), 1);
    const right = late.cache(), wrong = early.cache(), unrotated = early.cache({ keys: 'unrotated' });
    step(late, right, tokens.slice(0, 16));
    step(early, wrong, tokens.slice(0, 16));
    step(early, unrotated, tokens.slice(0, 16));
    near(step(late, right, tokens.slice(16)), expected);
    refuses(() => step(late, wrong, tokens.slice(16)), 'plan-mismatch', /^forward: /);
    assert.equal(wrong.rows(), 16);
    // Unrotated keys take the new plan; hidden states of upper layers still carry the old one.
    assert.ok(step(late, unrotated, tokens.slice(16)).every(Number.isFinite));
    early.dispose();
    late.dispose();
  }
});

test('score terms stay when a cache is there (H14)', () => {
  const table = Float32Array.from({ length: 32 }, (_, i) => Math.sin(i));
  const decoder = make({ terms: [locant.t5Bias({ heads: 4, direction: 'unidirectional', buckets: 8, maxDistance: 20, table })], scale: 1 });
  const without = make({ scale: 1 });
  const tokens = text(12);
  const cache = decoder.cache();
  step(decoder, cache, tokens.slice(0, 8));
  const got = step(decoder, cache, tokens.slice(8));
  near(got, last(full(decoder, tokens), 4));
  far(got, last(full(without, tokens), 4));
  decoder.dispose();
});

test('a window counts from where rows stand, however few are kept (I16, A09)', () => {
  const decoder = make({ rotation: plan(), mask: { window: { size: 6 } } });
  const tokens = text(30);
  const expected = full(decoder, tokens);
  const cache = decoder.cache({ capacity: { fixed: 8 } });
  tokens.forEach((token, t) => {
    near(step(decoder, cache, [token], positions.range(1, { offset: 5000 + t })), expected.slice(t * 61, (t + 1) * 61), `token ${t}`);
    cache.keepWindow({ sinks: 0, window: 5 });
  });
  assert.equal(cache.rows(), 5);
  decoder.dispose();
});
