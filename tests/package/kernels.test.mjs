import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deterministic, locant, numbers } from './helpers.mjs';

/** One call of every hot kernel, by a library of its own. */
function run(library) {
  const here = library.positions.range(70, { offset: 3 });
  const plan = library.rotaryPlan({ rule: 'default', headDim: 24 });
  const attention = library.attention({ heads: 4, kvHeads: 2, headDim: 24, rotation: plan, terms: [library.alibi({ heads: 4 })] });
  const rotation = library.rotation(plan, { headDim: 24 });
  const decoder = library.decoder({ vocabulary: 40, width: 24, heads: 3, headDim: 8, feedForwardWidth: 40, layers: [{ rotation: library.rotaryPlan({ rule: 'default', headDim: 8 }) }] }, { seed: 5 });
  const [q, k, v] = [numbers(70 * 96, 'q'), numbers(70 * 48, 'k'), numbers(70 * 48, 'v')];
  return {
    sinusoids: library.sinusoidal({ width: 96 }).encode(here),
    rotation: rotation.apply(q, here, { heads: 4, role: 'query' }),
    attention: attention.attend({ q, k, v, positions: here }),
    logits: decoder.forward({ tokens: Array.from({ length: 20 }, (_, i) => i), positions: library.positions.range(20), wanted: 'valid' }),
    tokens: Float32Array.from(decoder.generate({ prompts: [[1, 2, 3]], newTokens: 12 })[0].tokens),
  };
}

test('kernels: the same call gives the same bits', () => {
  assert.deepEqual(run(deterministic), run(deterministic));
});

test('kernels: relaxed and deterministic agree within the roundings that a fused multiply-add saves', { skip: locant.kernel !== 'relaxed' && 'this engine has no relaxed SIMD' }, () => {
  const [fast, exact] = [run(locant), run(deterministic)];
  assert.deepEqual(fast.sinusoids, exact.sinusoids);
  assert.deepEqual(fast.rotation, exact.rotation, 'rotations have no fused multiply-add');
  assert.ok(locant.difference(fast.attention, exact.attention).largest < 2e-6);
  assert.ok(locant.difference(fast.logits, exact.logits).largest < 2e-5);
});
