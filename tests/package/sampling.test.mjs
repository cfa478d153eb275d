// Sampling through the package: the candidates of running code, draws by seed, and what is refused.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deterministic, locant, refuses, vectors } from './helpers.mjs';

test("sample: cuts and shares are those of Hugging Face's warpers", () => {
  let exact = 0;
  for (const { name, parameters, inputs, expected } of vectors('sampling').cases) {
    const logits = Float32Array.from(inputs.logits.data);
    const { temperature = 1, top_k: topK = 0, top_p: topP = 1 } = parameters;
    const { token, tokens, shares } = locant.sample(logits, { temperature: temperature ?? 1, topK: topK ?? 0, topP: topP ?? 1, seed: 3 });
    const kept = expected.kept.data, count = kept.reduce((a, b) => a + b, 0);
    assert.ok(tokens.includes(token), name);
    for (const id of tokens) assert.equal(kept[id], 1, name);
    if (topK > 0 && count > topK) {  // all of those equal the k-th; ours keeps the lower ids
      assert.equal(tokens.length, topK, name);
      continue;
    }
    assert.equal(tokens.length, count, name);
    // The exponent is rounded to float32 before exp.
    tokens.forEach((id, i) => assert.ok(Math.abs(shares[i] - expected.probabilities.data[id]) < 1e-6, name));
    exact += 1;
  }
  assert.ok(exact >= 40);
});

test('sample: a draw is a function of logits, seed, row and index, the same in both kernels, and it is what generate draws', () => {
  const logits = locant.random({ seed: 1, stream: 'logits', count: 50 });
  const draws = (library, more) => Array.from({ length: 64 }, (_, index) => library.sample(logits, { temperature: 1, index, ...more }).token);
  assert.deepEqual(draws(locant), draws(deterministic));
  assert.notDeepEqual(draws(locant), draws(locant, { seed: 1 }));
  assert.notDeepEqual(draws(locant), draws(locant, { row: 1 }));
  const counts = new Map();
  for (let index = 0; index < 4000; ++index) {
    const { token } = locant.sample(Float32Array.of(0, Math.log(3)), { temperature: 1, seed: 2, index });
    counts.set(token, (counts.get(token) ?? 0) + 1);
  }
  assert.ok(Math.abs(counts.get(1) / 4000 - 0.75) < 0.03, `${counts.get(1)} of 4000`);  // four standard deviations

  const decoder = locant.decoder({ vocabulary: 50, width: 16, heads: 2, headDim: 8, feedForwardWidth: 16, layers: [{}] }, { seed: 1 });
  const how = { temperature: 0.9, topK: 30, topP: 0.95, seed: 11 };
  const [{ tokens }] = decoder.generate({ prompts: [[4, 5]], newTokens: 6, ...how });
  const cache = decoder.cache();
  let next = [4, 5];
  tokens.forEach((token, index) => {
    const step = decoder.forward({ tokens: next, positions: cache.next([next.length]), cache });
    assert.equal(locant.sample(step, { ...how, index }).token, token);
    next = [token];
  });
  decoder.dispose();
});

test('sample: greedy takes the lowest id of the largest; logits that are none are refused', () => {
  assert.equal(locant.sample(Float32Array.of(1, 3, 3, -Infinity)).token, 1);
  assert.deepEqual(Array.from(locant.sample(Float32Array.of(1, -Infinity, 1), { temperature: 1 }).tokens), [0, 2]);
  for (const bad of [[NaN, 1], [1, Infinity], [-Infinity, -Infinity], []]) refuses(() => locant.sample(Float32Array.from(bad)), 'argument', /^sample: /);
  refuses(() => locant.sample([1, 2]), 'argument', 'sample: logits is a Array, expected a Float32Array');
  refuses(() => locant.sample(Float32Array.of(1), { temperature: -1 }), 'argument', /^sample: .*-1/);
  refuses(() => locant.sample(Float32Array.of(1), { temperature: NaN }), 'argument', 'sample: temperature is NaN, expected a finite number');
  refuses(() => locant.sample(Float32Array.of(1), { topK: -1 }), 'argument', /^sample: topK is -1/);
  // A number within the limits that is no integer passes neither of them.
  for (const [topK, limit] of [[1.5, undefined], [-1, 0], [2 ** 31, 2147483647]]) {
    assert.throws(() => locant.sample(Float32Array.of(1), { topK }),
      { code: 'argument', message: `sample: topK is ${topK}, expected an integer of 0 .. 2147483647`, value: topK, limit });
  }
  refuses(() => locant.sample(Float32Array.of(1), { topP: 1.5 }), 'argument', /^sample: .*1\.5/);
  assert.equal(locant.sample(Float32Array.of(1, 2), { temperature: 1e-300 }).token, 1);
  assert.ok([0, 1].includes(locant.sample(Float32Array.of(1, 2), { temperature: 1e300 }).token));
});
