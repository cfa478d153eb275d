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

// A sine rounded once to float32; DETR's source computes its angles in float32, so the exact values are compared.
cases('sinusoidal_2d', (one, p, expected) => {
  const table = array(expected.table);
  if (p.features_per_axis !== undefined) {
    const detr = locant.detrSinusoidal({ featuresPerAxis: p.features_per_axis, base: p.base, normalize: p.normalize ? 'to-scale' : 'none', scale: p.scale, epsilon: p.epsilon });
    const mask = one.inputs.mask ? array(one.inputs.mask) : Array(p.height * p.width).fill(1);
    close(detr.encode(mask, { height: p.height, width: p.width }), table, 2e-7, one.name);
    assert.equal(detr.width, 2 * p.features_per_axis);
    return;
  }
  const grid = locant.gridSinusoidal({ features: p.features, base: p.base, order: p.layout.startsWith('sin row') ? 'row-first' : 'column-first' });
  const cells = positions.grid({ height: p.height, width: p.width });
  const columnMajor = p.order === 'column-major';
  const where = columnMajor ? positions.from({ rowLengths: [cells.tokens], position: [0, 1].map((axis) =>
    Array.from({ length: cells.tokens }, (_, i) => (axis === 0 ? i % p.height : Math.floor(i / p.height)))) }) : cells;
  const encoded = Array.from(grid.encode(where));
  close(p.class_token ? [...Array(p.features).fill(0), ...encoded] : encoded, table, 6.1e-8, one.name);
  grid.dispose();
});

// Sums in double, rounded once; the recorded exact values are double.
cases('table_interpolation_linear', (one, p, expected) => {
  const [rows, width] = one.inputs.table.shape;
  close(locant.interpolateRows(float(one.inputs.table), { rows, width, newRows: p.rows, centers: p.align_corners ? 'align-corners' : 'half-pixel' }),
    array(expected.table), 3e-7, one.name);
});
cases('table_interpolation_grid', (one, p, expected) => {
  if (p.merge === 2) return;  // the same rows in another order, which is not the table's
  const [height, width] = p.from;
  const channels = one.inputs.table.shape[1];
  const out = locant.interpolateGrid(float(one.inputs.table), {
    from: { height, width }, to: { height: p.to[0], width: p.to[1] }, channels, prefixRows: p.prefix_rows, filter: p.mode,
    smoothing: p.antialias ? 'antialias' : 'none', centers: p.align_corners ? 'align-corners' : 'half-pixel',
  });
  close(out, array(expected.table), 3e-7, one.name);
});

// Latent attention: the source writes all first members of the pairs before all second ones; `in place` is where they were.
cases('rotary_mla', (one, p, expected) => {
  const plan = locant.rotaryPlan({ rule: 'default', headDim: p.rope_dim, base: p.base, pairing: p.pairing });
  const rotation = locant.decoupledRotation(plan, { plainDim: p.nope_dim, rotaryDim: p.rope_dim });
  const where = at(array(one.inputs.positions));
  const q = rotation.applyQuery(float(one.inputs.q), where, { heads: p.heads });
  const k = rotation.joinKey(float(one.inputs.k_nope), float(one.inputs.k_rope), where, { heads: p.heads });
  close(q, array(expected.q_in_place), 1e-6, `${one.name}: q`);
  close(k, array(expected.k_in_place), 1e-6, `${one.name}: k`);
  const order = { from: 'interleaved', to: 'half-split', heads: p.heads, headDim: rotation.headDim, start: p.nope_dim, rotatedWidth: p.rope_dim };
  close(locant.convertPairing(q, order), array(expected.q), 1e-6, `${one.name}: q in the source's order`);
  close(locant.convertPairing(k, order), array(expected.k), 1e-6, `${one.name}: k in the source's order`);
  rotation.dispose();
});

cases('layers_without_position', (one, p, expected) => {
  const plan = locant.rotaryPlan({ rule: 'default', headDim: 8 });
  const layers = p.num_hidden_layers;
  const listed = p.no_rope_layers?.length > 0 ? p.no_rope_layers : undefined;
  const plans = listed ? locant.layerPlans({ kindOfLayer: listed, kinds: [null, plan] })
    : locant.layerPlans({ layers, interval: p.no_rope_layer_interval ?? 4, which: 'last-of-group', special: null, other: plan });
  assert.deepEqual(Array.from(plans.layersWithoutPosition), expected.layers_without_position, one.name);
  assert.deepEqual(plans.plans.map((one) => one !== null), expected.uses_rotation.data.map(Boolean), one.name);
});

// The recorded frequencies of each layer type are those of the plan that its layers have.
cases('rotary_layer_types', (one, p, expected) => {
  const full = p.layer_type === 'full_attention';
  const headDim = full && p.global_head_dim ? p.global_head_dim : p.head_dim;
  const { rope_type: type, rope_theta: base, factor, partial_rotary_factor: fraction } = p.rope_parameters;
  const rule = type === 'linear' ? { rule: 'linear', factor } : type === 'proportional' ? { rule: 'proportional', fraction } : { rule: 'default' };
  const plan = locant.rotaryPlan({ ...rule, headDim, base });
  const plans = locant.layerPlans({ kindOfLayer: Array.from({ length: p.num_layers }, (_, l) => Number(p.layers_of_this_type.includes(l))), kinds: [null, plan] });
  for (const l of p.layers_of_this_type) close(Array.from(plans.plans[l].inverseFrequencies), array(expected.inv_freq), 1e-12, one.name);
});

// CoPE's source sums in float32; ours in double, so the exact values are compared.
cases('bias_cope', (one, p, expected) => {
  const [queries, heads, headDim] = one.inputs.q.shape;
  const cope = locant.cope({ heads, headDim, maxPositions: p.max_pos, table: float(one.inputs.table), scale: p.scale });
  const visible = Array.from({ length: queries * queries }, (_, i) => (i % queries <= Math.floor(i / queries) ? 1 : 0));
  const bias = cope.bias({ q: float(one.inputs.q), k: float(one.inputs.k), queries, keys: queries, visible });
  const seen = (list) => Array.from(list, (value, i) => (visible[i % (queries * queries)] ? value : 0));
  close(bias, seen(array(expected.bias)), 1e-6, one.name);
});

cases('bias_transformer_xl', (one, p, expected) => {
  if (!expected.shifted) return;
  const [rows, columns] = one.inputs.x.shape;
  const keys = one.name.startsWith('XLNet') ? expected.shifted.shape[1] : undefined;
  assert.deepEqual(Array.from(locant.relativeShift(float(one.inputs.x), { rows, columns, keys })), array(expected.shifted), one.name);
});

// Two published readers of packed positions, as their code reads them.
cases('positions_detect', (one, p, expected) => {
  const [rows, columns] = one.inputs.positions.shape;
  const { row } = positions.interpret({ shape: [rows, columns], positionIds: array(one.inputs.positions) });
  if (rows === 1) assert.deepEqual([...row[0].byDifference, columns], expected.mask_boundaries, one.name);
});

cases('attention_temperature', (one, p, expected) => {
  const where = at(array(one.inputs.positions));
  const shift = p.rule === 'llama4' ? p.position_offset : 0;
  const temperature = { slope: p.attn_scale ?? p.beta, period: p.floor_scale ?? p.original_max_position_embeddings ?? p.length, shift };
  const plain = locant.attention({ heads: 1, headDim: 1, scale: 1 });
  const warm = locant.attention({ heads: 1, headDim: 1, scale: 1, temperature });
  const ones = new Float32Array(where.tokens).fill(1);
  const requests = Array.from({ length: where.tokens }, (_, query) => ({ head: 0, query }));
  const content = (attention) => attention.explain({ q: ones, k: ones, positions: where, requests }).map((parts) => parts.content[0]);
  const [before, after] = [content(plain), content(warm)];
  close(after.map((value, i) => value / before[i]), array(expected.temperature), 2e-7, one.name);
  plain.dispose();
  warm.dispose();
});

// Images and videos among text: kinds of tokens and grids to runs, runs to positions, as both generations of transformers.
cases('positions_mrope', (one, p, expected) => {
  const [rows, columns] = one.inputs.token_types.shape;
  if (rows > 1) return;  // padding belongs to batches; the C++ tests have them
  const kinds = array(one.inputs.token_types).map((kind) => ['text', 'image', 'video'][kind]);
  const grids = ({ data, shape }, timeStep) => Array.from({ length: shape[0] }, (_, i) => ({
    frames: data[3 * i], height: data[3 * i + 1], width: data[3 * i + 2], timeStep }));
  const seconds = p.second_per_grid === undefined ? 1 : p.tokens_per_second * (Array.isArray(p.second_per_grid) ? p.second_per_grid[0] : p.second_per_grid);
  const runs = positions.runsOfTokens(kinds, {
    images: grids(one.inputs.image_grid_thw, 1), videos: grids(one.inputs.video_grid_thw, seconds), merge: p.spatial_merge_size,
    videoFrames: p.builder.startsWith('Qwen3') ? 'each' : 'whole',
  });
  const built = positions.multimodal([runs], { after: p.builder.endsWith('5.x') ? 'start-plus-side' : 'largest-plus-one', side: 'left' });
  assert.deepEqual(built.position.flatMap((axis) => Array.from(axis)), array(expected.positions), one.name);
  assert.equal(built.tokens, columns);
  // transformers 5.x says its delta by its own rule of what follows; ours is the largest position + 1 - tokens.
  if (p.builder.endsWith('4.x')) assert.equal(built.delta(0), array(expected.deltas)[0], one.name);
});
