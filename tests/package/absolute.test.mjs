import assert from 'node:assert/strict';
import { test } from 'node:test';
import { close, locant, numbers, refuses } from './helpers.mjs';

const { positions } = locant;

test('sinusoidal: the width-6 module of the chapter', () => {
  const encoding = locant.sinusoidal({ width: 6 });
  const table = encoding.encode(positions.ragged([4, 4]));
  assert.equal(table.length, 2 * 4 * 6);
  const row = (t) => Array.from(table.subarray(t * 6, t * 6 + 6));
  assert.deepEqual(row(0), [0, 1, 0, 1, 0, 1]);
  assert.notDeepEqual(row(0), row(1));
  for (let t = 0; t < 4; ++t) assert.deepEqual(row(t), row(4 + t), 'the same position is the same vector in every row');
  close(row(1), [Math.sin(1), Math.cos(1), Math.sin(10000 ** (-2 / 6)), Math.cos(10000 ** (-2 / 6)), Math.sin(10000 ** (-4 / 6)), Math.cos(10000 ** (-4 / 6))], 6e-8);
  encoding.dispose();
});

test('sinusoidal: offset 4 continues a full table, offset 0 does not', () => {
  const encoding = locant.sinusoidal({ width: 8 });
  const full = encoding.encode(positions.range(7)).subarray(4 * 8);
  assert.deepEqual(encoding.encode(positions.range(3, { offset: 4 })), full);
  assert.ok(locant.difference(encoding.encode(positions.range(3)), full).largest > 0.5);
  encoding.dispose();
});

test('sinusoidal: adding is x plus the encoding, padding is left as it is', () => {
  const encoding = locant.sinusoidal({ width: 4, layout: 'concatenated' });
  const padded = positions.padded([1, 2], { columns: 2, side: 'left', offsets: [3, 0] });
  const x = numbers(4 * 4);
  const code = encoding.encode(padded);
  assert.deepEqual(Array.from(code.subarray(0, 4)), [0, 0, 0, 0]);
  const sum = encoding.add(x, padded);
  for (let i = 0; i < 16; ++i) assert.equal(sum[i], Math.fround(x[i] + code[i]));
  encoding.dispose();
});

test('sinusoidal: a prepared table gives the same bits', () => {
  const fresh = locant.sinusoidal({ width: 10 });
  const prepared = locant.sinusoidal({ width: 10 });
  prepared.prepare(50);
  const where = positions.from({ rowLengths: [4], position: [[0, 49, 50, 2147483647]], order: [0, 1, 2, 3] });
  assert.deepEqual(prepared.encode(where), fresh.encode(where));
  fresh.dispose();
  prepared.dispose();
});

test('sinusoidal: layouts are permutations of each other, frequencies are told', () => {
  const at = positions.range(1, { offset: 5 });
  const make = (options) => locant.sinusoidal({ width: 6, ...options }).encode(at);
  const [a, b] = [make({}), make({ layout: 'concatenated' })];
  assert.deepEqual([b[0], b[3], b[1], b[4], b[2], b[5]], Array.from(a));
  const cosine = make({ order: 'cosine-first' });
  assert.deepEqual([cosine[1], cosine[0]], [a[0], a[1]]);
  close(Array.from(locant.sinusoidal({ width: 4, base: 100 }).frequencies), [1, 0.1], 1e-15);
});

test('sinusoidal: it describes itself', () => {
  const { name, door, reference, parameters, source } = locant.sinusoidal({ width: 6 }).describe();
  assert.match(name, /sinusoidal/i);
  assert.equal(door, 'input');
  assert.equal(reference, 'absolute');
  assert.ok(source.includes('Vaswani'));
  assert.ok(parameters.some(({ name, value }) => name === 'base' && value === '10000'));
});

test('sinusoidal: an out array is filled and given back; x may be it', () => {
  const encoding = locant.sinusoidal({ width: 4 });
  const here = positions.range(3);
  const out = new Float32Array(12);
  assert.equal(encoding.encode(here, { out }), out);
  const x = numbers(12);
  const expected = encoding.add(x, here);
  assert.equal(encoding.add(x, here, { out: x }), x);
  assert.deepEqual(x, expected);
  encoding.dispose();
});

test('sinusoidal: bad input is named', () => {
  refuses(() => locant.sinusoidal({ width: 0 }), 'argument', 'sinusoidal: width is 0, expected an integer of 1 .. 1048576');
  refuses(() => locant.sinusoidal({ width: 4, base: NaN }), 'argument', 'sinusoidal: base is NaN, expected a finite number above 0');
  refuses(() => locant.sinusoidal({ width: 4, base: -1 }), 'argument', 'sinusoidal: base is -1, expected a finite number above 0');
  refuses(() => locant.sinusoidal({ width: 4, layout: 'spiral' }), 'argument', /^sinusoidal: layout is "spiral", expected "interleaved" or/);
  refuses(() => locant.sinusoidal({ width: 5, layout: 'mlx' }), 'argument', /^sinusoidal: .*5/);
  refuses(() => locant.sinusoidal({ width: 4, with: 1 }), 'argument', /^sinusoidal: there is no option "with"; there are width, layout/);
  refuses(() => locant.sinusoidal(), 'argument', /^sinusoidal: width is undefined/);
  const encoding = locant.sinusoidal({ width: 4 });
  const here = positions.range(3);
  refuses(() => encoding.add(new Float32Array(11), here), 'shape', 'add: x holds 11 values, expected 3 tokens x 4 = 12');
  refuses(() => encoding.add([1, 2], here), 'argument', 'add: x is a Array, expected a Float32Array');
  refuses(() => encoding.add(new Float64Array(12), here), 'argument', 'add: x is a Float64Array, expected a Float32Array');
  refuses(() => encoding.encode(here, { out: new Float32Array(13) }), 'shape', 'encode: out holds 13 values, expected 3 tokens x 4 = 12');
  refuses(() => encoding.encode({ tokens: 3 }), 'argument', /^encode: positions is a Object, expected Positions/);
  refuses(() => encoding.prepare(-1), 'argument', /^prepare: count is -1/);
  encoding.dispose();
  refuses(() => encoding.encode(here), 'disposed', 'encode: the sinusoidal encoding has been disposed');
});

test('learned table: rows are read by position', () => {
  const table = Float32Array.from({ length: 12 }, (_, i) => i);
  const learned = locant.learnedTable({ table, rows: 4, width: 3 });
  assert.deepEqual(Array.from(learned.encode(positions.range(2, { offset: 2 }))), [6, 7, 8, 9, 10, 11]);
  assert.equal(learned.rows, 4);
  assert.equal(learned.length, 4);
  assert.equal(learned.parameterCount, 12);
  assert.deepEqual(Array.from(learned.rowsOf(positions.range(2, { offset: 1 }))), [1, 2]);
  table.fill(0);
  assert.deepEqual(Array.from(learned.encode(positions.range(1, { offset: 1 }))), [3, 4, 5], 'the table was copied');
  learned.dispose();
});

test('learned table: the first row and the padding row are the convention of the model', () => {
  const table = Float32Array.from({ length: 12 }, (_, i) => i);
  const opt = locant.learnedTable({ table, rows: 6, width: 2, firstRow: 2, paddingRow: 1 });
  const padded = positions.padded([2], { columns: 3, side: 'left' });
  assert.deepEqual(Array.from(opt.rowsOf(padded)), [1, 2, 3]);
  assert.deepEqual(Array.from(opt.encode(padded)), [2, 3, 4, 5, 6, 7]);
  opt.dispose();
});

test('learned table: what lies past its end is an explicit choice', () => {
  const table = Float32Array.of(1, 2, 3);
  const past = positions.range(3, { offset: 1 });
  const make = (pastEnd, more = {}) => locant.learnedTable({ table, rows: 3, width: 1, pastEnd, ...more });
  refuses(() => make('error').encode(past), 'table-end', /^encode: .*3/);
  refuses(() => make('error').add(new Float32Array(3), past), 'table-end', /^add: .*3/);
  assert.deepEqual(Array.from(make('clamp').encode(past)), [2, 3, 3]);
  const truncate = make('truncate');
  assert.equal(truncate.fit(past).tokens, 2);
  assert.deepEqual(Array.from(truncate.encode(past)), [2, 3]);
  assert.deepEqual(Array.from(truncate.add(Float32Array.of(10, 20, 30), past)), [12, 23]);
  const stretched = make('interpolate', { length: 6 });
  assert.equal(stretched.length, 6);
  assert.equal(stretched.encode(positions.range(6)).length, 6);
  refuses(() => stretched.encode(positions.range(1, { offset: 6 })), 'table-end', /^encode: /);
  refuses(() => make('error').requireLength(4), 'table-end', /^requireLength: .*4/);
  assert.match(make('clamp').describe().pastEnd, /last row/);
});

test('learned table: bad input is named', () => {
  const table = new Float32Array(6);
  refuses(() => locant.learnedTable({ table, rows: 4, width: 2 }), 'shape', 'learnedTable: table holds 6 values, expected 4 rows x 2 = 8');
  refuses(() => locant.learnedTable({ table, rows: 3, width: 2, firstRow: 3 }), 'argument', 'learnedTable: firstRow is 3, expected an integer of 0 .. 2');
  refuses(() => locant.learnedTable({ table, rows: 3, width: 2, pastEnd: 'wrap' }), 'argument', /^learnedTable: pastEnd is "wrap"/);
  refuses(() => locant.learnedTable({ table, rows: 3, width: 2, length: 9 }), 'argument', 'learnedTable: length is 9, expected one exactly where pastEnd is "interpolate"');
  refuses(() => locant.learnedTable({ table, rows: 3, width: 2, pastEnd: 'interpolate' }), 'argument', /^learnedTable: length is undefined/);
});

test('grid sinusoids: rows and columns each have a half', () => {
  const encoding = locant.gridSinusoidal({ features: 8 });
  const grid = positions.grid({ height: 2, width: 2 });
  const table = encoding.encode(grid);
  close(table.subarray(8, 16), [0, 0, 1, 1, Math.sin(1), Math.sin(0.01), Math.cos(1), Math.cos(0.01)], 6e-8, 'row 0, column 1');
  assert.deepEqual(encoding.add(new Float32Array(32), grid), table);
  assert.equal(encoding.width, 8);
  assert.match(encoding.describe().name, /sin/);
  refuses(() => encoding.encode(positions.range(4)), 'argument', /^encode: /);
  refuses(() => locant.gridSinusoidal({ features: 6 }), 'argument', /^gridSinusoidal: .*6/);
  encoding.dispose();
});
