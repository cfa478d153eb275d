// Every option of every method, replaced by values that nobody should pass: either a LocantError whose sentence is in this
// package's words, or an object whose results are finite up to the last position.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LocantError } from 'locant';
import { locant, numbers } from './helpers.mjs';

const { positions } = locant;
const ends = positions.from({ rowLengths: [3], position: [[0, 1000, 2147483647]], order: [0, 1, 2] });
const gridEnds = positions.from({ rowLengths: [2], position: [[0, 2147483647], [2147483647, 3]], order: [0, 1] });
const f = (count) => numbers(count, 'sentences');

const encode = (encoding, where = ends) => encoding.encode(where);
const bias = (heads) => (term) => term.bias({ heads, positions: ends });
const turn = (rotary) => {
  const headDim = rotary.start + 2 * rotary.inverseFrequencies.length;
  const rotation = locant.rotation(rotary, { headDim });
  const where = rotary.axisOfPair ? gridEnds : rotary.xpos ? positions.range(2, { offset: 40 }) : ends;
  const out = rotation.apply(f(where.tokens * headDim), where, { heads: 1, role: 'key' });
  rotation.dispose();
  return [...out, rotary.softmaxScaleFactor, rotary.attentionFactor];
};
const attend = (attention) => {
  const { heads, kvHeads, headDim, valueDim } = attention;
  return attention.attend({ q: f(3 * heads * headDim), k: f(3 * kvHeads * headDim), v: f(3 * kvHeads * valueDim), positions: ends });
};
const base = { headDim: 8, base: 10000, start: 0, rotatedWidth: 8 };
const rule = (name, more) => [`rotaryPlan ${name}`, (options) => locant.rotaryPlan(options), { rule: name, ...base, ...more }, turn];

/** Name, maker, good options, and what the object gives. */
const makers = [
  ['sinusoidal', (o) => locant.sinusoidal(o), { width: 8, layout: 'interleaved', order: 'sine-first', base: 10000, maxFrequency: 1, scale: 1, positionOffset: 0 }, encode],
  ['sinusoidal mlx', (o) => locant.sinusoidal(o), { width: 8, layout: 'mlx', base: 10000 }, encode],
  ['gridSinusoidal', (o) => locant.gridSinusoidal(o), { features: 8, order: 'row-first', steps: 'quarter', base: 10000 }, (grid) => encode(grid, gridEnds)],
  ['detrSinusoidal', (o) => locant.detrSinusoidal(o), { featuresPerAxis: 4, base: 10000, normalize: 'to-scale', scale: 6, epsilon: 1e-6 }, (detr) => detr.encode([1, 0], { height: 1, width: 2 })],
  ['learnedTable', (o) => locant.learnedTable(o), { table: f(12), rows: 6, width: 2, firstRow: 2, paddingRow: 1, pastEnd: 'clamp' }, encode],
  ['interpolateRows', (o) => locant.interpolateRows(f(12), o), { rows: 6, width: 2, newRows: 9, centers: 'half-pixel' }, (x) => x],
  ['interpolateGrid', (o) => locant.interpolateGrid(f(14), o), { from: { height: 2, width: 3 }, to: { height: 4, width: 4 }, channels: 2, prefixRows: 1, filter: 'bicubic', smoothing: 'none', centers: 'half-pixel' }, (x) => x],
  rule('default', { pairing: 'half-split', length: 64 }),
  rule('linear', { factor: 2 }), rule('ntk', { factor: 2 }), rule('vllm-ntk', { factor: 2 }), rule('vllm-ntk-mixed', { factor: 2, b: 1 }),
  rule('dynamic-ntk', { factor: 2, trainedLength: 64, length: 128 }),
  rule('yarn', { factor: 4, originalLength: 64, betaFast: 32, betaSlow: 1, rampEnds: 'exact', mscale: 1, mscaleAllDim: 1, softmaxScale: 'deepseek' }),
  rule('yarn', { factor: 4, originalLength: 64, attentionFactor: 1.1 }),
  rule('longrope', { shortFactors: [1, 1, 1, 1], longFactors: [1, 2, 3, 4], originalLength: 64, length: 128, factor: 4 }),
  rule('longrope', { shortFactors: [1, 1, 1, 1], longFactors: [1, 2, 3, 4], originalLength: 64, length: 128, maximumLength: 512, shortAttentionFactor: 1, longAttentionFactor: 1.2 }),
  rule('llama3', { factor: 8, lowFrequencyFactor: 1, highFrequencyFactor: 4, originalLength: 64 }),
  rule('proportional', { fraction: 0.5, factor: 1 }),
  rule('default', { sections: [2, 2], sectionOrder: 'chunked' }),
  ['rotaryPlan custom', (o) => locant.rotaryPlan(o), { rule: 'custom', headDim: 8, inverseFrequencies: [1, 0.5, 0.25, 0] }, turn],
  ['rotaryPlan xPos', (xpos) => locant.rotaryPlan({ rule: 'default', headDim: 8, xpos }), { gamma: 0.4, scaleBase: 512, center: 41 }, turn],
  ['rotation', (o) => locant.rotation({ ...locant.rotaryPlan({ rule: 'default', headDim: 8 }), ...o }, { headDim: 8 }),
    { attentionFactor: 1, softmaxScaleFactor: 1, start: 0, inverseFrequencies: Float64Array.of(1, 0.5, 0.1, 0), axisOffsets: [0] },
    (rotation) => rotation.apply(f(24), ends, { heads: 1, role: 'query' })],
  ['axialPlan', (o) => locant.axialPlan(o), { convention: 'rows', headDim: 8, base: 100 }, turn],
  ['pixelPlan', (o) => locant.pixelPlan(o), { featuresPerAxis: 4, maxFrequency: 10, height: 3, width: 3, bands: 'powers' }, turn],
  ['decoupledRotation', (o) => locant.decoupledRotation(locant.rotaryPlan({ rule: 'default', headDim: 4 }), o), { plainDim: 2, rotaryDim: 4 }, (r) => r.applyQuery(f(3 * r.headDim), ends, { heads: 1 })],
  ['layerPlans', (o) => locant.layerPlans(o), { layers: 4, interval: 2, which: 'last-of-group', special: null, other: null }, (plans) => plans.kindOfLayer],
  ['convertPairing', (o) => locant.convertPairing(f(16), o), { from: 'interleaved', to: 'half-split', heads: 2, headDim: 8, start: 2, rotatedWidth: 4, columns: 1 }, (x) => x],
  ['alibi', (o) => locant.alibi(o), { heads: 2, form: 'causal', biasMax: 8 }, bias(2)],
  ['alibi key-only', (o) => locant.alibi(o), { heads: 2, form: 'key-only', slopes: [0.5, 0.25], origin: 3 }, bias(2)],
  ['t5Bias', (o) => locant.t5Bias(o), { heads: 2, table: f(64), direction: 'bidirectional', buckets: 32, maxDistance: 128 }, bias(2)],
  ['displacementBias', (o) => locant.displacementBias(o), { heads: 1, first: -1, last: 1, table: f(3), beyond: 'zero' }, bias(1)],
  ['matrixBias', (o) => locant.matrixBias(o), { heads: 1, queries: 2, keys: 2, matrix: f(4), firstQuery: 0, firstKey: 0 }, (term) => term.bias({ heads: 1, positions: positions.range(2) })],
  ['shawKeys', (o) => locant.shawKeys(o), { maxDistance: 2, heads: 1, sides: 'both', table: f(20), headDim: 4, content: 'both' }, (term) => [term.runs().length]],
  ['shawValues', (o) => locant.shawValues(o), { maxDistance: 2, heads: 1, sides: 'past-only', table: f(12), valueDim: 4 }, (term) => [term.runs().length]],
  ['transformerXl', (o) => locant.transformerXl(o), { heads: 1, headDim: 2, modelWidth: 4, projection: f(8), contentBias: f(2), positionBias: f(2), base: 10000, clamp: 5, keptBefore: 2, keptAfter: 1 },
    (term) => attend(locant.attention({ heads: 1, headDim: 2, terms: [term] }))],
  ['deberta', (o) => locant.deberta(o), { heads: 1, headDim: 2, buckets: 4, maxPosition: 8, contentToPosition: f(16), positionToContent: f(16), far: 'microsoft', convention: 'code' },
    (term) => attend(locant.attention({ heads: 1, headDim: 2, terms: [term] }))],
  ['kerple', (o) => locant.kerple(o), { kernel: 'power', r1: [1, 2], r2: [1, 0.5] }, bias(2)],
  ['sandwich', (o) => locant.sandwich(o), { heads: 2, width: 8, base: 10000 }, bias(2)],
  ['fire', (o) => locant.fire(o), { c: 0.1, threshold: 512, epsilon: 1e-6, w1: [1, -1], b1: [0, 1], w2: [1, 2], b2: [0.5] }, bias(1)],
  ['cope', (o) => locant.cope(o), { heads: 2, kvHeads: 1, headDim: 2, maxPositions: 3, table: f(6), scale: 1 },
    (cope) => cope.bias({ q: f(8), k: f(4), queries: 2, keys: 2, visible: [1, 0, 1, 1] })],
  ['relativeShift', (o) => locant.relativeShift(f(8), o), { rows: 2, columns: 4, keys: 2 }, (x) => x],
  ['attention', (o) => locant.attention(o), { heads: 2, kvHeads: 1, headDim: 4, valueDim: 4, scale: 0.5, softCap: 30, sinkLogits: f(2) }, attend],
  ['attention temperature', (temperature) => locant.attention({ heads: 1, headDim: 4, temperature }), { slope: 0.1, period: 64, shift: 1 }, attend],
  ['attention window', (window) => locant.attention({ heads: 1, headDim: 4, mask: { window } }), { size: 2, convention: 'counts-current', sinks: 1 }, attend],
  ['cache', (o) => locant.cache(o), { kvHeads: 1, headDim: 4, valueDim: 4, layers: 1, sequences: 1, capacity: { fixed: 4 }, keys: 'rotated', backward: 'refuse' }, (cache) => [cache.rows()]],
];
const hostile = [NaN, Infinity, -Infinity, 0, -1, 0.5, 3, 7, 5e-324, 1e-310, 1e39, 1e300, Number.MAX_VALUE, 2 ** 31, 2 ** 53, '8', null, true, {}, [], [NaN], [1e300], [5e-324, 1], new Float32Array(1), new Float64Array(0)];

/** Whether a sentence is one for the users of this package. */
function check(sentence, context) {
  const plain = sentence.replace(/"[^"]*"/g, '""');
  assert.match(sentence, /^[a-zA-Z0-9.]+: /, `${context}: begins with its call: ${sentence}`);
  assert.doesNotMatch(plain, /[a-z0-9]_[a-z0-9]/i, `${context}: a C++ name: ${sentence}`);
  assert.doesNotMatch(plain, /::/, `${context}: a C++ scope: ${sentence}`);
  assert.doesNotMatch(plain, /^\w+: [A-Z]\w*[a-z]\w*: /, `${context}: a C++ class: ${sentence}`);
  assert.doesNotMatch(plain, /expected (an integer of )?(\d+) (\.\.|to) -/, `${context}: a range without a member: ${sentence}`);
  const range = /(-?\d+) (?:\.\.|to) (-?\d+)/.exec(plain);
  if (range) assert.ok(Number(range[1]) <= Number(range[2]), `${context}: a range without a member: ${sentence}`);
  assert.doesNotMatch(plain, /gave up|could not be taken over|\[object|null pointer|unreachable/, `${context}: no sentence: ${sentence}`);
}

for (const [name, make, good, use] of makers) {
  test(`sentences: ${name}: every option, replaced by what nobody should pass`, () => {
    for (const result of use(make(good))) assert.ok(Number.isFinite(result), name);
    let refused = 0;
    for (const option of Object.keys(good)) for (const value of hostile) {
      const context = `${name}: ${option} = ${typeof value === 'object' && value ? `${value.constructor.name} ${JSON.stringify(value)}` : String(value)}`;
      let made;
      try {
        made = make({ ...good, [option]: value });
        for (const result of use(made)) assert.ok(Number.isFinite(result), `${context} gives ${result}`);
      } catch (error) {
        if (!(error instanceof LocantError)) throw new Error(`${context}: ${error.stack}`);
        check(error.message, context);
        ++refused;
      }
      made?.dispose?.();
    }
    assert.ok(refused > 5, `${refused} refused`);
  });
}

test('sentences: an unknown option is named beside those that there are', () => {
  for (const [name, make, good] of makers) {
    assert.throws(() => make({ ...good, head_dim: 4 }), (error) => {
      assert.equal(error.code, 'argument', name);
      assert.match(error.message, /there is no option "head_dim"/, name);
      return true;
    });
  }
});

test('sentences: positions, caches and attention speak of what the package calls its parts', () => {
  const cache = locant.cache({ kvHeads: 1, headDim: 4, capacity: { fixed: 2 } });
  const attention = locant.attention({ heads: 2, kvHeads: 2, headDim: 4 });
  const x = f(8);
  const faults = [
    () => attention.attend({ q: x, k: x, v: x, cache, step: cache.begin(positions.range(1)) }),
    () => cache.begin(positions.range(5)), () => cache.evict([3]), () => cache.truncate(9), () => cache.read({ row: 3 }),
    () => cache.shift({ first: 0, last: 9, delta: 1 }), () => cache.divide({ first: 0, last: 1, divisor: 0 }),
    () => cache.keepWindow({ sinks: -1, window: 1 }), () => cache.fork(0, 1),
    () => positions.fromSegmentIds([0, 1, 0], { rows: 1, columns: 3, positions: 'restart' }), () => positions.fromCuSeqlens([1, 2], { positions: 'restart' }),
    () => positions.fromCuSeqlens([0, 2, 1], { positions: 'restart' }), () => positions.from({ rowLengths: [1], position: [[-1]] }),
    () => positions.padded([3], { columns: 2, side: 'left' }), () => positions.range(2, { offset: 2147483647 }), () => positions.range(3).slice(2, 2),
    () => positions.padded([1], { columns: 2, side: 'left' }).cuSeqlens(0), () => positions.multimodal([[{ height: 0, width: 1 }]], { side: 'left' }),
    () => positions.grid({ height: 3, width: 2, merge: 2 }), () => positions.interpret({ shape: [2], positionIds: [1] }),
    () => attention.explain({ q: x, k: x, positions: positions.range(1), requests: [{ head: 2, query: 0 }] }),
    () => locant.attention({ heads: 4, headDim: 4, terms: [locant.alibi({ heads: 2 })] }),
    () => locant.attention({ heads: 2, headDim: 4, rotation: locant.rotaryPlan({ rule: 'default', headDim: 8 }) }),
    () => locant.attention({ heads: 2, headDim: 4, valueTerm: locant.shawValues({ maxDistance: 1, valueDim: 2, table: f(6) }) }),
    () => locant.attention({ heads: 2, headDim: 4, terms: [locant.shawKeys({ maxDistance: 1, headDim: 2, table: f(6) })] }),
  ];
  for (const [i, fault] of faults.entries()) {
    assert.throws(fault, (error) => {
      assert.ok(error instanceof LocantError, `${i}: ${error.stack}`);
      check(error.message, String(i));
      return true;
    }, `fault ${i}: ${fault}`);
  }
  cache.dispose();
  attention.dispose();
});
