// The reference vectors of tests/vectors (computed by code that this project did not write) through the package.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { close, locant, vectors } from './helpers.mjs';

const { positions } = locant;
const at = (list) => positions.from({ rowLengths: [list.length], position: [list], order: list.map((_, i) => i) });
const array = ({ data }) => data.map(Number);
const float = (tensor) => Float32Array.from(array(tensor));

/** Runs every case of a file. */
const cases = (name, run) => test(`vectors: ${name}`, () => {
  const file = vectors(name);
  assert.ok(file.cases.length > 0);
  for (const one of file.cases) run(one, one.parameters, { ...one.expected, ...one.exact });
});

// Frequencies are doubles from the same formula; one power and one division each.
const rule = (name, make) => cases(name, (one, p, expected) => {
  const made = make(p);
  if (made === undefined) return;
  const headDim = p.rotary_dim ?? p.head_dim;
  const plan = locant.rotaryPlan({ headDim, base: p.base, ...made });
  const frequencies = array(expected.inv_freq);
  assert.equal(plan.inverseFrequencies.length, frequencies.length, one.name);
  for (const [i, frequency] of frequencies.entries()) {
    assert.ok(Math.abs(plan.inverseFrequencies[i] - frequency) <= 1e-12 * frequency, `${one.name}: pair ${i} is ${plan.inverseFrequencies[i]}, expected ${frequency}`);
  }
  if (expected.attention_factor !== undefined) close([plan.attentionFactor], [expected.attention_factor], 1e-12, one.name);
});

rule('rules_default', () => ({ rule: 'default' }));
rule('rules_linear', (p) => ({ rule: 'linear', factor: p.factor }));
rule('rules_ntk_static', (p) => ({ rule: 'ntk', factor: p.factor }));
rule('rules_dynamic_ntk', (p) => ({ rule: 'dynamic-ntk', factor: p.factor, trainedLength: p.max_position_embeddings, length: p.length ?? 1 }));
rule('rules_yarn', (p) => ({
  rule: 'yarn', factor: p.resolved_factor, originalLength: p.original_max_position_embeddings,
  betaFast: p.beta_fast || undefined, betaSlow: p.beta_slow || undefined, rampEnds: p.truncate === false ? 'exact' : 'whole-pairs',
  mscale: p.mscale, mscaleAllDim: p.mscale_all_dim, attentionFactor: p.attention_factor,
}));
rule('rules_longrope', (p) => ({
  rule: 'longrope', shortFactors: p.short_factor, longFactors: p.long_factor, originalLength: p.original_max_position_embeddings,
  length: p.length ?? 1, factor: p.factor, maximumLength: p.factor === undefined ? p.max_position_embeddings : undefined, attentionFactor: p.attention_factor,
}));
rule('rules_llama3', (p) => ({
  rule: 'llama3', factor: p.factor, lowFrequencyFactor: p.low_freq_factor, highFrequencyFactor: p.high_freq_factor, originalLength: p.original_max_position_embeddings,
}));
rule('rules_proportional', (p) => ({ rule: 'proportional', fraction: p.partial_rotary_factor, factor: p.factor }));

// Sines are rounded once, each product and sum once more: three half steps of the largest value, below 4.
for (const name of ['rotary_half_split', 'rotary_interleaved', 'rotary_partial']) {
  cases(name, (one, p, expected) => {
    const [, heads, headDim] = one.inputs.q.shape;
    const plan = {
      ...locant.rotaryPlan({ rule: 'default', headDim, base: p.base, rotatedWidth: p.rotary_dim, start: p.rotary_start ?? 0, pairing: p.pairing }),
      attentionFactor: p.attention_factor ?? 1,
    };
    const rotation = locant.rotation(plan, { headDim });
    const where = at(array(one.inputs.positions));
    for (const [tensor, role, count] of [['q', 'query', heads], ['k', 'key', one.inputs.k.shape[1]]]) {
      close(rotation.apply(float(one.inputs[tensor]), where, { heads: count, role }), array(expected[tensor]), 1e-6, `${one.name}: ${tensor}`);
    }
    rotation.dispose();
  });
}

// A sine rounded once to float32: half a step next to 1.
const sinusoids = (name, options) => cases(name, (one, p, expected) => {
  const encoding = locant.sinusoidal({ width: p.width, ...options(p) });
  const factor = Math.max(1, p.scale ?? 1);
  close(encoding.encode(at(array(one.inputs.positions))), array(expected.table), 6.1e-8 * factor, one.name);
  encoding.dispose();
});
sinusoids('sinusoidal_interleaved', (p) => ({ base: p.base }));
sinusoids('sinusoidal_concatenated', (p) => ({ layout: 'concatenated', base: p.base }));
// The source multiplies by its smallest time scale.
sinusoids('sinusoidal_t2t', (p) => ({ layout: 'tensor2tensor', base: p.max_timescale / p.min_timescale, maxFrequency: p.min_timescale }));
sinusoids('sinusoidal_mlx', (p) => ({
  layout: 'mlx', order: p.cos_first ? 'cosine-first' : 'sine-first', base: p.max_freq / p.min_freq,
  maxFrequency: p.max_freq * (p.full_turns ? 2 * Math.PI : 1), scale: p.scale ?? undefined,
}));

cases('bias_t5', (one, p, expected) => {
  if (!expected.bucket || !one.inputs.displacement) return;
  // A table that holds the bucket's own number shows which one a displacement reads.
  const term = locant.t5Bias({ heads: 1, table: Float32Array.from({ length: p.buckets }, (_, i) => i), direction: p.bidirectional ? 'bidirectional' : 'unidirectional', buckets: p.buckets, maxDistance: p.max_distance });
  const displacements = array(one.inputs.displacement);
  const buckets = array(expected.bucket);
  for (const [i, displacement] of displacements.entries()) {
    const origin = displacement < 0 ? 2147483647 : 0;
    const [bucket] = term.bias({ heads: 1, positions: at([origin + displacement]), queryPositions: at([origin]) });
    assert.equal(bucket, buckets[i], `${one.name}: ${displacement}`);
  }
  term.dispose();
});

// Biases are computed in double and rounded once: half a step of values up to a few dozen.
const bias = (name, make, heads, inputs) => cases(name, (one, p, expected) => {
  const term = make(p, one.inputs);
  close(term.bias({ heads: heads(p, one.inputs), ...inputs(p, one) }), array(expected.bias), 4e-6, one.name);
  term.dispose();
});
const square = (p) => ({ positions: positions.range(p.length) });
bias('bias_kerple', (p) => locant.kerple({ kernel: p.kind, r1: [p.r1], r2: [p.r2] }), () => 1,
  (p, one) => ({ positions: at(array(one.inputs.distance)), queryPositions: positions.range(1) }));
bias('bias_sandwich', (p) => locant.sandwich({ heads: p.heads, width: p.width, base: p.base }), (p) => p.heads, square);
// The source is causal: what lies above the diagonal is not read.
cases('bias_fire', (one, p, expected) => {
  const [w1, b1, w2, b2] = ['w1', 'b1', 'w2', 'b2'].map((name) => array(one.inputs[name]));
  const term = locant.fire({ c: p.c, threshold: p.threshold, epsilon: p.epsilon, w1, b1, w2, b2 });
  const below = (list) => Array.from(list).filter((_, i) => i % p.length <= Math.floor(i / p.length) % p.length);
  close(below(term.bias({ heads: b2.length, positions: positions.range(p.length) })), below(array(expected.bias)), 4e-6, one.name);
  term.dispose();
});

cases('rotary_weight_permutation', (one, p, expected) => {
  const half = locant.convertPairing(float(one.inputs.interleaved_weight), { from: 'interleaved', to: 'half-split', heads: p.heads, headDim: p.head_dim, columns: p.columns });
  assert.deepEqual(half, float(expected.half_split_weight), one.name);
});

// Softmax and mixture in float32: a few dozen roundings of values up to about 4; scores of 1e4 lose four digits more.
for (const name of ['attention_sdpa', 'attention_softcap', 'attention_sinks']) cases(name, (one, p, expected) => {
  const [queries, heads, headDim] = one.inputs.q.shape;
  const [keys, kvHeads, valueDim] = one.inputs.v.shape;
  const terms = one.inputs.bias ? [locant.matrixBias({ heads, queries, keys, matrix: float(one.inputs.bias) })] : [];
  const attention = locant.attention({ heads, kvHeads, headDim, valueDim, mask: { direction: 'bidirectional' }, scale: p.scale, terms,
    softCap: p.softcap, sinkLogits: one.inputs.sinks && float(one.inputs.sinks) });
  const out = attention.attend({
    q: float(one.inputs.q), k: float(one.inputs.k), v: float(one.inputs.v), positions: positions.range(keys), queryPositions: positions.range(queries),
    mask: { visible: array(one.inputs.visible) },
  });
  close(out, array(expected.output), /1e4/.test(one.name) ? 4e-3 : 4e-6, one.name);
  attention.dispose();
});
