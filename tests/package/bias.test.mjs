import assert from 'node:assert/strict';
import { test } from 'node:test';
import { close, locant, numbers, refuses } from './helpers.mjs';

const { positions } = locant;
const four = positions.range(4);

test('ALiBi: a line over displacement, key - query', () => {
  const term = locant.alibi({ heads: 2 });
  const bias = term.bias({ heads: 2, positions: four });
  for (let h = 0; h < 2; ++h) {
    const slope = 2 ** (-8 * (h + 1) / 2);
    for (let t = 0; t < 4; ++t) for (let j = 0; j < 4; ++j) assert.equal(bias[h * 16 + t * 4 + j], slope * (j - t));
  }
  assert.equal(term.needsContent, false);
  assert.equal(term.shiftInvariant, true);
  assert.deepEqual(term.runs(), []);
  term.dispose();
});

test('ALiBi: forms, slopes of the caller, queries of their own', () => {
  const bias = (options, more = {}) => Array.from(locant.alibi({ heads: 1, slopes: [0.5], ...options }).bias({ heads: 1, positions: four, ...more }));
  assert.deepEqual(bias({ form: 'symmetric' }).slice(4, 8), [-0.5, 0, -0.5, -1].map((v) => v + 0));
  assert.deepEqual(bias({ form: 'key-only', origin: 3 }).slice(4, 8), [-1.5, -1, -0.5, 0]);
  assert.deepEqual(bias({}, { queryPositions: positions.range(1, { offset: 10 }) }), [-5, -4.5, -4, -3.5]);
});

test('T5: buckets read the table, and say what they merge', () => {
  const table = Float32Array.from({ length: 32 * 2 }, (_, i) => i);
  const term = locant.t5Bias({ heads: 2, table, direction: 'unidirectional' });
  const bias = term.bias({ heads: 2, positions: positions.range(1), queryPositions: positions.range(1, { offset: 19 }) });
  assert.deepEqual(Array.from(bias), [17 * 2, 17 * 2 + 1], 'distance 19 is the first of bucket 17');
  const runs = term.runs();
  assert.ok(runs.some(({ entry, first, last }) => entry === 17 && first === -20 && last === -19));
  assert.match(term.describe().name, /T5/);
  term.dispose();
});

test("a caller's own: a table over displacements, clamped, zero or refused beyond it; a matrix by position", () => {
  const make = (beyond) => locant.displacementBias({ heads: 1, first: -1, last: 0, table: Float32Array.of(7, 8), beyond });
  assert.deepEqual(Array.from(make('clamp').bias({ heads: 1, positions: positions.range(3) })), [8, 8, 8, 7, 8, 8, 7, 7, 8]);
  assert.deepEqual(Array.from(make('zero').bias({ heads: 1, positions: positions.range(3) })), [8, 0, 0, 7, 8, 0, 0, 7, 8]);
  refuses(() => make('error').bias({ heads: 1, positions: positions.range(3) }), 'position-range', /^bias: /);
  const matrix = locant.matrixBias({ heads: 1, queries: 2, keys: 2, matrix: Float32Array.of(1, 2, 3, 4), firstQuery: 5 });
  assert.deepEqual(Array.from(matrix.bias({ heads: 1, positions: positions.range(2), queryPositions: positions.range(1, { offset: 6 }) })), [3, 4]);
  assert.equal(matrix.shiftInvariant, false);
  refuses(() => matrix.bias({ heads: 1, positions: positions.range(3), queryPositions: positions.range(1, { offset: 5 }) }), 'position-range', /^bias: /);
});

test('Shaw: keys and values by clipped displacement, as attention computes them', () => {
  const [heads, d, clip, tokens] = [2, 3, 1, 4];
  const keyTable = numbers(3 * d, 'shaw keys');
  const valueTable = numbers(3 * d, 'shaw values');
  const keys = locant.shawKeys({ maxDistance: clip, headDim: d, table: keyTable });
  const values = locant.shawValues({ maxDistance: clip, valueDim: d, table: valueTable });
  assert.equal(keys.needsContent, true);
  assert.deepEqual(keys.runs().map(({ entry }) => entry), [0, 1, 2]);
  assert.deepEqual(values.runs(), keys.runs());
  const attention = locant.attention({ heads, headDim: d, mask: { direction: 'bidirectional' }, terms: [keys], valueTerm: values });
  keys.dispose();
  values.dispose();
  const [q, k, v] = ['q', 'k', 'v'].map((name) => numbers(tokens * heads * d, name));
  const out = attention.attend({ q, k, v, positions: positions.range(tokens) });
  const expected = [];
  for (let t = 0; t < tokens; ++t) for (let h = 0; h < heads; ++h) {
    const row = (j) => Math.max(-clip, Math.min(clip, j - t)) + clip;
    const at = (x, token, c) => x[(token * heads + h) * d + c];
    const scores = Array.from({ length: tokens }, (_, j) => {
      let sum = 0;
      for (let c = 0; c < d; ++c) sum += at(q, t, c) * (at(k, j, c) + keyTable[row(j) * d + c]);
      return Math.exp(sum / Math.sqrt(d));
    });
    const total = scores.reduce((a, b) => a + b);
    for (let c = 0; c < d; ++c) expected.push(scores.reduce((sum, w, j) => sum + w / total * (at(v, j, c) + valueTable[row(j) * d + c]), 0));
  }
  close(out, expected, 2e-6, 'out');
  refuses(() => locant.shawKeys({ maxDistance: 1, headDim: 3, table: keyTable }).bias({ heads: 1, positions: four }), 'unsupported', /^bias: this term reads contents/);
  attention.dispose();
});

test('door 3: bad input is named', () => {
  refuses(() => locant.alibi({ heads: 0 }), 'argument', 'alibi: heads is 0, expected an integer of 1 .. 65536');
  refuses(() => locant.alibi({ heads: 2, slopes: [1] }), 'argument', 'alibi: slopes holds 1 values, expected one per head = 2');
  refuses(() => locant.alibi({ heads: 1, slopes: [NaN] }), 'argument', 'alibi: slopes[0] is NaN, expected a finite number');
  refuses(() => locant.alibi({ heads: 1, form: 'two-sided' }), 'argument', /^alibi: form is "two-sided", expected "causal" or/);
  refuses(() => locant.alibi({ heads: 2 }).bias({ heads: 3, positions: four }), 'shape', /^bias: .*3/);
  refuses(() => locant.alibi({ heads: 2 }).bias({ heads: 2, positions: positions.ragged([1, 1]) }), 'argument', 'bias: the positions have 2 rows, expected 1');
  refuses(() => locant.t5Bias({ heads: 2, table: new Float32Array(63), direction: 'bidirectional' }), 'shape', 't5Bias: table holds 63 values, expected 32 buckets x 2 heads = 64');
  refuses(() => locant.t5Bias({ heads: 1, table: new Float32Array(3), direction: 'bidirectional', buckets: 3 }), 'argument', /^t5Bias: .*3/);
  refuses(() => locant.displacementBias({ heads: 1, first: 2, last: 1, table: new Float32Array(0) }), 'argument', 'displacementBias: last is 1, expected an integer of 2 .. 2147483647');
  refuses(() => locant.matrixBias({ heads: 1, queries: 2, keys: 2, matrix: new Float32Array(3) }), 'shape', 'matrixBias: matrix holds 3 values, expected 1 heads x 2 queries x 2 keys = 4');
  refuses(() => locant.shawKeys({ maxDistance: 1, headDim: 2, table: new Float32Array(5) }), 'shape', 'shawKeys: table holds 5 values, expected 1 tables x 3 rows x 2 = 6');
  refuses(() => locant.attention({ heads: 4, headDim: 2, terms: [locant.alibi({ heads: 2 })] }), 'shape', /^attention: .*/);
  refuses(() => locant.attention({ heads: 2, headDim: 2, terms: [{}] }), 'argument', 'attention: terms[0] is a Object, expected a score term of this library');
  const gone = locant.alibi({ heads: 2 });
  gone.dispose();
  refuses(() => locant.attention({ heads: 2, headDim: 2, terms: [gone] }), 'disposed', 'attention: the term has been disposed');
});

test('KERPLE, Sandwich and FIRE are their formulas', () => {
  const at = (term, t, j) => term.bias({ heads: 1, positions: positions.range(1, { offset: j }), queryPositions: positions.range(1, { offset: t }) })[0];
  const kerple = (kernel) => locant.kerple({ kernel, r1: [0.5], r2: [1.5] });
  close([at(kerple('logarithmic'), 9, 2), at(kerple('power'), 9, 2)], [-0.5 * Math.log(1 + 1.5 * 7), -0.5 * 7 ** 1.5], 1e-6);
  const sandwich = locant.sandwich({ heads: 1, width: 4 });
  close([at(sandwich, 9, 2)], [(Math.cos(7) + Math.cos(0.07)) / 8], 1e-7);
  const fire = locant.fire({ c: 1, threshold: 4, epsilon: 0, w1: [2, -1], b1: [0, 0.5], w2: [1, 3], b2: [0.25] });
  const x = Math.log(8) / Math.log(10);
  close([at(fire, 9, 2)], [2 * x + 3 * Math.max(0, 0.5 - x) + 0.25], 1e-6);
  assert.equal(fire.shiftInvariant, false);
  refuses(() => locant.kerple({ kernel: 'power', r1: [1], r2: [3] }), 'argument', /^kerple: .*3/);
  refuses(() => locant.kerple({ kernel: 'power', r1: [1], r2: [1, 1] }), 'shape', /^kerple: /);
  refuses(() => locant.sandwich({ heads: 1, width: 5 }), 'argument', /^sandwich: .*5/);
  refuses(() => locant.fire({ w1: [1], b1: [1, 2], w2: [1], b2: [1] }), 'shape', /^fire: /);
});

test('Transformer-XL and DeBERTa: their parts, as attention adds them', () => {
  const here = positions.range(3);
  const d = 2;
  const [q, k] = ['q', 'k'].map((name) => numbers(3 * d, name));
  const score = (terms, scale) => {
    const attention = locant.attention({ heads: 1, headDim: d, terms, scale });
    const [parts] = attention.explain({ q, k, positions: here, requests: [{ head: 0, query: 2 }] });
    attention.dispose();
    return parts.position;
  };
  const row = (x, t) => [x[t * d], x[t * d + 1]];
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1];
  const u = Float32Array.of(0.5, -1);
  const v = Float32Array.of(2, 0.25);
  // Width 2 and the identity as projection: r is (sin, cos) of the distance.
  const xl = locant.transformerXl({ heads: 1, headDim: d, modelWidth: 2, projection: Float32Array.of(1, 0, 0, 1), contentBias: u, positionBias: v });
  const expected = [2, 1, 0].map((distance, j) => {
    const r = [Math.sin(distance), Math.cos(distance)];
    const [a, b] = row(q, 2);
    return 0.5 * (dot(u, row(k, j)) + dot([a + v[0], b + v[1]], r));
  });
  close(score([xl], 0.5), expected, 2e-6, 'Transformer-XL');
  const table = numbers(2 * 4 * d, 'table');
  const deberta = locant.deberta({ heads: 1, headDim: d, buckets: 0, maxPosition: 4, contentToPosition: table });
  close(score([deberta], 0.5), [2, 1, 0].map((distance) => 0.5 * dot(row(q, 2), row(table, distance + 4))), 2e-6, 'DeBERTa');
  assert.ok(deberta.runs().length > 0);
  refuses(() => locant.deberta({ heads: 1, headDim: 2 }), 'argument', /^deberta: /);
  refuses(() => locant.deberta({ heads: 1, headDim: 2, buckets: 4, maxPosition: 8, contentToPosition: new Float32Array(3) }), 'shape', 'deberta: contentToPosition holds 3 values, expected 1 heads x 8 rows x 2 = 16');
  refuses(() => locant.transformerXl({ heads: 1, headDim: 2, modelWidth: 2, projection: new Float32Array(3), contentBias: u, positionBias: v }), 'shape', 'transformerXl: projection holds 3 values, expected 1 heads x 2 x 2 = 4');
});
