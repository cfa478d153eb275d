// The methods of issue 3's second group through the package: what they do, and what they refuse.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { close, locant, numbers, refuses } from './helpers.mjs';

const { positions } = locant;
const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);

test('scaled axes: positions of one axis count more, the others stay', () => {
  const plan = locant.axialPlan({ convention: 'rows', headDim: 8 });
  const scaled = locant.scaleAxes(plan, [1, 0.5]);
  close(Array.from(scaled.inverseFrequencies), [1, 0.01, 0.5, 0.005], 1e-15);
  assert.ok(locant.describePlan(scaled).parameters.some(({ name, value }) => name === 'factor of axis 1' && value === '0.5'));
  refuses(() => locant.scaleAxes(plan, [1]), 'argument', 'scaleAxes: there are 1 factors, the plan has 2 axes');
  refuses(() => locant.scaleAxes(plan, [1, 0]), 'argument', /^scaleAxes: the factor of axis 1 is 0/);
  refuses(() => locant.scaleAxes(plan, [1, 1e308]), 'argument', /^scaleAxes: the inverse frequency of pair 2 is 1e\+308/);
});

test('plans: what keeps two apart is named; where they came from is not compared', () => {
  const plan = locant.rotaryPlan({ rule: 'default', headDim: 8 });
  assert.equal(locant.planDifference(plan, { ...plan, rule: 'mine', base: null }), null);
  assert.equal(locant.planDifference(plan, locant.rotaryPlan({ rule: 'linear', factor: 1, headDim: 8 })), null);
  assert.equal(locant.planDifference(plan, locant.rotaryPlan({ rule: 'linear', factor: 2, headDim: 8 })), 'the frequency of pair 0 is 1 in one and 0.5 in the other');
  assert.equal(locant.planDifference(plan, { ...plan, pairing: 'interleaved' }), 'the pairing is half-split in one and interleaved in the other');
  refuses(() => locant.planDifference(plan, null), 'argument', 'planDifference: the second plan is null, expected a plan of rotaryPlan');
  const [one, two] = [plan, locant.rotaryPlan({ rule: 'linear', factor: 2, headDim: 8 })];
  const cache = locant.cache({ kvHeads: 1, headDim: 8 });
  const x = numbers(8);
  const attend = (rotation) => locant.attention({ heads: 1, headDim: 8, rotation }).attend({ q: x, k: x, v: x, cache, step: cache.begin(cache.next([1])) });
  attend(one);
  refuses(() => attend(two), 'plan-mismatch',
    'attend: the keys of layer 0 are turned under the plan "default" and would meet queries under the plan "linear": the frequency of pair 0 is 1 in one and 0.5 in the other; keep one plan for the whole generation, or keep the keys unrotated');
  cache.dispose();
});

test('layer plans: all alike, one in every so many, or a kind for each', () => {
  const [full, local] = [1e6, 1e4].map((base) => locant.rotaryPlan({ rule: 'default', headDim: 4, base }));
  const gemma = locant.layerPlans({ layers: 13, interval: 6, which: 'last-of-group', special: full, other: local });
  assert.deepEqual(gemma.plans.map((plan) => plan.base), [1e4, 1e4, 1e4, 1e4, 1e4, 1e6, 1e4, 1e4, 1e4, 1e4, 1e4, 1e6, 1e4]);
  assert.equal(gemma.layersWithoutPosition.length, 0);
  const modern = locant.layerPlans({ layers: 4, interval: 3, which: 'first-of-group', special: full, other: local });
  assert.deepEqual(Array.from(modern.kindOfLayer), [0, 1, 1, 0]);
  const none = locant.layerPlans({ layers: 2, plan: null });
  assert.deepEqual([none.plans, Array.from(none.layersWithoutPosition)], [[null, null], [0, 1]]);
  const own = locant.layerPlans({ kindOfLayer: [1, 0, 1], kinds: [null, full] });
  assert.deepEqual(own.descriptions.map(({ name, parameters }) => [name, parameters.at(-1).value]),
    [['layers without position', '1'], ['rotary, half-split, default', '0, 2']]);
  // What a layer is given as its rotation.
  locant.attention({ heads: 1, headDim: 4, rotation: own.plans[0] }).dispose();
  refuses(() => locant.layerPlans({ layers: 0, plan: full }), 'argument', 'layerPlans: layers is 0, expected an integer of 1 .. 65536');
  refuses(() => locant.layerPlans({ kindOfLayer: [2], kinds: [full] }), 'argument', /^layerPlans: the kind of layer 0 is 2, expected 0 to 0/);
  refuses(() => locant.layerPlans({ kindOfLayer: [0], kinds: [] }), 'argument', 'layerPlans: the kind of layer 0 is 0, and there is none to choose');
  refuses(() => locant.layerPlans({ layers: 3, interval: 2, which: 'last-of-group', special: null }), 'argument', /^layerPlans: other is undefined, expected a plan/);
  refuses(() => locant.layerPlans({ layers: 3, plan: null, interval: 2, which: 'last-of-group', special: null, other: null }), 'argument', /^layerPlans: there is no option "plan"/);
});

test('pairing comparison: the data show which pairing turned them', () => {
  for (const pairing of ['interleaved', 'half-split']) {
    const plan = locant.rotaryPlan({ rule: 'default', headDim: 8, pairing });
    const here = positions.range(5, { offset: 3 });
    const x = numbers(5 * 2 * 8);
    const rotation = locant.rotation(plan, { headDim: 8 });
    const rotated = rotation.apply(x, here, { heads: 2, role: 'key' });
    const residual = locant.comparePairings({ plan, headDim: 8, heads: 2, x, rotated, positions: here });
    const [right, wrong] = pairing === 'interleaved' ? [residual.interleaved, residual.halfSplit] : [residual.halfSplit, residual.interleaved];
    assert.equal(right, 0);
    assert.ok(wrong > 0.1, `${wrong}`);
    rotation.dispose();
    refuses(() => locant.comparePairings({ plan, headDim: 8, heads: 2, x, rotated: x.slice(1), positions: here }), 'shape', /^comparePairings: rotated holds 79 values/);
  }
});

test('pairing conversion: no tokens are an honest tensor, a weight of nothing is not', () => {
  const there = { from: 'interleaved', to: 'half-split', heads: 2, headDim: 4 };
  assert.equal(locant.convertPairing(new Float32Array(0), there).length, 0);
  refuses(() => locant.convertPairing(new Float32Array(0), { ...there, columns: 5 }), 'shape', 'convertPairing: x holds 0 values, expected 1 x 2 heads x 4 x 5 = 40');
});

test('decoupled rotation: scores know the displacement of the rotary parts, the plain parts know nothing', () => {
  const plan = locant.rotaryPlan({ rule: 'default', headDim: 4 });
  const rotation = locant.decoupledRotation(plan, { plainDim: 2, rotaryDim: 4 });
  assert.deepEqual([rotation.headDim, rotation.plainDim, rotation.rotaryDim], [6, 2, 4]);
  const [q, plain, shared] = [numbers(2 * 6, 'q'), numbers(2 * 2, 'plain'), numbers(4, 'shared')];
  const score = (t, j, head) => dot(
    rotation.applyQuery(q, positions.range(1, { offset: t }), { heads: 2 }).slice(head * 6, head * 6 + 6),
    rotation.joinKey(plain, shared, positions.range(1, { offset: j }), { heads: 2 }).slice(head * 6, head * 6 + 6));
  for (const head of [0, 1]) {
    assert.ok(Math.abs(score(3, 5, head) - score(103, 105, head)) < 2e-6);
    assert.ok(Math.abs(score(3, 5, head) - score(3, 9, head)) > 1e-2);
  }
  const joined = rotation.joinKey(plain, shared, positions.range(1, { offset: 7 }), { heads: 2 });
  assert.deepEqual([...joined.slice(0, 2), ...joined.slice(6, 8)], Array.from(plain));
  assert.deepEqual(joined.slice(2, 6), joined.slice(8, 12), 'one rotary part for all heads');
  rotation.prepare(8);
  assert.deepEqual(rotation.joinKey(plain, shared, positions.range(1, { offset: 7 }), { heads: 2 }), joined);
  assert.match(rotation.describe().name, /^decoupled rotary \(MLA\)/);
  refuses(() => rotation.joinKey(plain, shared.slice(1), positions.range(1), { heads: 2 }), 'shape', 'joinKey: shared holds 3 values, expected 1 tokens x 4 = 4');
  refuses(() => locant.decoupledRotation(plan, { plainDim: 2, rotaryDim: 2 }), 'argument', /^decoupledRotation: the plan rotates coordinates 0 to 3, a head has 2/);
  rotation.dispose();
  refuses(() => rotation.prepare(1), 'disposed', 'prepare: the decoupled rotation has been disposed');
});

test('rotation: a turned key is turned on, and xPos says how far it reaches', () => {
  const plan = { ...locant.rotaryPlan({ rule: 'default', headDim: 4 }), attentionFactor: 1.5 };
  const rotation = locant.rotation(plan, { headDim: 4 });
  const x = numbers(4);
  const at = (p) => rotation.apply(x, positions.range(1, { offset: p }), { heads: 1, role: 'key' });
  close(rotation.advance(at(10), -7), at(3), 5e-7);
  assert.equal(rotation.reach, Infinity);
  refuses(() => rotation.advance(x.slice(1), 1), 'shape', 'advance: key holds 3 values, expected headDim = 4');
  const far = locant.rotation({ ...plan, xpos: { gamma: 0.4, scaleBase: 512, center: 0 } }, { headDim: 4 });
  assert.ok(far.reach > 10000 && far.reach < 100000);
  refuses(() => far.advance(x, 1), 'unsupported', /^advance: a key scaled by xPos cannot be moved/);
  far.dispose();
  rotation.dispose();
});

test('a learned table counts which rows a corpus reads', () => {
  const table = locant.learnedTable({ table: numbers(12), rows: 6, width: 2, firstRow: 2, paddingRow: 1 });
  const counts = table.count(positions.padded([3, 1], { columns: 3, side: 'left' }));
  assert.deepEqual(Array.from(counts), [0, 0, 2, 1, 1, 0]);
  assert.equal(table.count(positions.range(4), { into: counts }), counts);
  assert.deepEqual(Array.from(counts), [0, 0, 3, 2, 2, 1]);
  refuses(() => table.count(positions.range(5), { into: counts }), 'table-end', /^count: /);
  assert.deepEqual(Array.from(counts), [0, 0, 3, 2, 2, 1], 'a fault counts nothing');
  refuses(() => table.count(positions.range(1), { into: new Float64Array(5) }), 'shape', 'count: into holds 5 values, expected one per row = 6');
  assert.deepEqual(table.values, numbers(12));
  table.dispose();
});

test('stretched tables: constants stay constant, a kept size keeps every bit, the prefix is copied', () => {
  const values = numbers(21);
  const grid = { from: { height: 2, width: 3 }, to: { height: 2, width: 3 }, channels: 3 };
  assert.deepEqual(locant.interpolateGrid(values, grid), values);
  assert.deepEqual(locant.interpolateRows(values, { rows: 7, width: 3, newRows: 7 }), values);
  const larger = locant.interpolateGrid(values, { ...grid, to: { height: 5, width: 4 } });
  assert.equal(larger.length, 21 * 3);
  assert.deepEqual(larger.slice(0, 3), values.slice(0, 3));
  const said = locant.describeInterpolation({ ...grid, to: { height: 5, width: 4 } });
  assert.equal(said.name, 'learned table of a grid, stretched');
  refuses(() => locant.interpolateGrid(values, { ...grid, to: { height: 0, width: 3 } }), 'argument', 'interpolateGrid: to.height is 0, expected an integer of 1 .. 32768');
  refuses(() => locant.interpolateGrid(values.slice(1), grid), 'shape', 'interpolateGrid: values holds 20 values, expected (1 + 2 x 3) x 3 = 21');
  refuses(() => locant.interpolateGrid(values, { ...grid, smoothing: 'antialias', centers: 'align-corners' }), 'argument', 'interpolateGrid: smoothing is not defined with aligned corners');
  refuses(() => locant.interpolateRows(values, { rows: 7, width: 3, newRows: 0 }), 'argument', 'interpolateRows: newRows is 0, expected an integer of 1 .. 2147483647');
});

test('CoPE: a bias of one call, read by matrixBias', () => {
  const cope = locant.cope({ heads: 1, headDim: 2, maxPositions: 2, table: Float32Array.of(0, 0, 1, 0) });
  // Queries of (4, 0): a gate of sigmoid(4 * 4 / sqrt 2) is nearly 1 a key, so the own key is at 1, the last row: 4.
  const q = Float32Array.of(4, 0, 4, 0);
  const bias = cope.bias({ q, k: q, queries: 2, keys: 2, visible: [1, 0, 1, 1] });
  close(bias, [4, 0, 4, 4], 1e-3);
  assert.equal(bias[1], 0, 'hidden');
  const term = locant.matrixBias({ heads: 1, queries: 2, keys: 2, matrix: bias });
  assert.deepEqual(term.bias({ heads: 1, positions: positions.range(2) }), bias);
  assert.equal(cope.describe().name, 'CoPE');
  refuses(() => cope.bias({ q, k: q, queries: 2, keys: 2, visible: [1] }), 'shape', 'bias: visible holds 1 values, expected 2 queries x 2 keys = 4');
  refuses(() => locant.cope({ heads: 3, kvHeads: 2, headDim: 2, maxPositions: 1, table: new Float32Array(2) }), 'argument', 'cope: kvHeads is 2, expected a divisor of heads, 3');
  term.dispose();
});

test('Shaw: the table may meet the key as well as the query', () => {
  const table = numbers(3 * 2, 'table');
  const [q, k] = [numbers(4, 'q'), numbers(4, 'k')];
  const parts = (content) => {
    const attention = locant.attention({ heads: 1, headDim: 2, scale: 1, terms: [locant.shawKeys({ maxDistance: 1, headDim: 2, table, content })] });
    const [{ position }] = attention.explain({ q, k, positions: positions.range(2), requests: [{ head: 0, query: 1 }] });
    attention.dispose();
    return Array.from(position);
  };
  const row = (x, i) => x.slice(2 * i, 2 * i + 2);
  const [byQuery, byKey] = [[0, 1].map((j) => dot(row(q, 1), row(table, j))), [0, 1].map((j) => dot(row(k, j), row(table, j)))];
  close(parts(undefined), byQuery, 1e-6);
  close(parts('key'), byKey, 1e-6);
  close(parts('both'), byQuery.map((value, j) => value + byKey[j]), 1e-6);
});

test('Transformer-XL: what its clamp merges can be asked for', () => {
  const make = (clamp) => locant.transformerXl({ heads: 1, headDim: 1, modelWidth: 2, projection: new Float32Array(2), contentBias: new Float32Array(1), positionBias: new Float32Array(1), clamp });
  assert.deepEqual(make(3).runs(), [{ entry: 3, first: -2147483647, last: -3 }, { entry: -3, first: 3, last: 2147483647 }]);
  assert.deepEqual(make(undefined).runs(), []);
});

test('LongRoPE: one attention factor, or a short and a long one', () => {
  const rule = { rule: 'longrope', headDim: 4, shortFactors: [1, 1], longFactors: [2, 4], originalLength: 64 };
  const at = (length) => locant.rotaryPlan({ ...rule, length, shortAttentionFactor: 1.1, longAttentionFactor: 1.3 }).attentionFactor;
  assert.deepEqual([at(64), at(65)], [1.1, 1.3]);
  refuses(() => locant.rotaryPlan({ ...rule, length: 1, longAttentionFactor: 1 }), 'argument', /^rotaryPlan: LongRoPE takes one attention factor, or a short and a long one/);
});

test('interpretation: what position ids, masks and cu_seqlens mean, and where they contradict each other', () => {
  const { interpret } = positions;
  const read = (evidence) => positions.interpret(evidence);
  const packed = read({ shape: [1, 7], positionIds: [0, 1, 2, 0, 0, 1, 2], cuSeqlens: [0, 3, 4, 7] });
  assert.equal(packed.contradicts, false);
  assert.deepEqual(Array.from(packed.row[0].documents), [0, 3, 4]);
  assert.deepEqual(Array.from(packed.positions.segment), [0, 0, 0, 1, 2, 2, 2]);
  assert.equal(packed.row[0].nextPosition, 3);
  const padded = read({ shape: [1, 4], positionIds: [0, 1, 2, 3], paddingMask: [0, 0, 1, 1] });
  assert.ok(padded.findings.some(({ code, grade }) => code === 'padding-counted' && grade === 'contradiction'));
  assert.equal(padded.contradicts, true);
  assert.equal(padded.positions, null);
  const repeated = read({ shape: [1, 1], positionIds: [0], cached: [5] });
  const [finding] = repeated.findings;
  assert.deepEqual([finding.code, finding.found, finding.expected], ['before-cached-end', 0, 5]);
  const malformed = read({ shape: [3], positionIds: [0, 1, 2], cuSeqlens: [1, 3] });
  const said = malformed.findings.find(({ code }) => code === 'cu-seqlens-malformed');
  assert.match(said.sentence, /^cuSeqlens begins with 1/, 'in the names of this package');
  refuses(() => read({ shape: [2, 2], positionIds: [0, 1, 2] }), 'shape', /^positions\.interpret: .*3.*4/);
  refuses(() => read({ shape: [], positionIds: [] }), 'argument', /^positions\.interpret: /);
  assert.equal(typeof interpret, 'function');
});

test('runs of tokens: kinds and grids become runs, runs become positions', () => {
  const image = ['image', 'image', 'image', 'image'];
  const kinds = ['text', ...image, ...image, 'text'];
  const runs = positions.runsOfTokens(kinds, { images: [{ height: 4, width: 4 }, { height: 4, width: 4 }], merge: 2 });
  assert.deepEqual(runs, [{ tokens: 1 }, { frames: 1, height: 2, width: 2, timeStep: 1 }, { frames: 1, height: 2, width: 2, timeStep: 1 }, { tokens: 1 }]);
  const built = positions.multimodal([runs], { side: 'left' });
  assert.deepEqual(Array.from(built.position[2]), [0, 1, 2, 1, 2, 3, 4, 3, 4, 5]);
  assert.equal(built.delta(0), -4);
  refuses(() => positions.runsOfTokens(kinds, { images: [], merge: 2 }), 'argument', /^positions\.runsOfTokens: token 1 is of an image/);
  refuses(() => positions.runsOfTokens(['sound'], { merge: 2 }), 'argument', 'positions.runsOfTokens: tokens[0] is "sound", expected "text" or "image" or "video"');
  refuses(() => positions.range(1).delta(1), 'argument', 'delta: the row is 1, expected an integer of 0 .. 0');
  refuses(() => positions.from({ rowLengths: [], position: [[]] }).delta(0), 'argument', 'delta: the row is 0, and there is none to choose');
});

test('prepare: a table that memory cannot hold is refused with its bytes, and everything is as it was', () => {
  const plan = locant.rotaryPlan({ rule: 'default', headDim: 65536 });
  const rotation = locant.rotation(plan, { headDim: 65536 });
  const attention = locant.attention({ heads: 1, headDim: 65536, rotation: plan });
  const latent = locant.decoupledRotation(plan, { plainDim: 0, rotaryDim: 65536 });
  const encoding = locant.sinusoidal({ width: 1048576 });
  const x = numbers(65536);
  const turn = () => rotation.apply(x, positions.range(1, { offset: 3 }), { heads: 1, role: 'key' });
  const before = turn();
  for (const [object, count, bytes] of [[rotation, 16380, 4293918720], [attention, 16380, 4293918720], [latent, 16380, 4293918720], [encoding, 1023, 4290772992]]) {
    refuses(() => object.prepare(count), 'out-of-memory', new RegExp(`^prepare: .*(${bytes}|4\\.29077299e\\+09)`));
  }
  assert.deepEqual(turn(), before);
  rotation.prepare(4);
  assert.deepEqual(turn(), before);
  for (const object of [rotation, attention, latent, encoding]) object.dispose();
});
