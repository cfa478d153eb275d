import assert from 'node:assert/strict';
import { test } from 'node:test';
import { locant, refuses } from './helpers.mjs';

const { positions } = locant;
const list = (array) => Array.from(array);
const most = 2147483647;

test('positions: a range stands at its offset and continues a sequence of that many tokens', () => {
  const range = positions.range(5, { offset: 4 });
  assert.equal(range.rows, 1);
  assert.equal(range.axes, 1);
  assert.equal(range.tokens, 5);
  assert.deepEqual(list(range.rowLengths), [5]);
  assert.deepEqual(list(range.position[0]), [4, 5, 6, 7, 8]);
  assert.deepEqual(list(range.order), [4, 5, 6, 7, 8]);
  assert.deepEqual(list(range.segment), [0, 0, 0, 0, 0]);
  assert.deepEqual(list(range.valid), [1, 1, 1, 1, 1]);
  assert.equal(positions.range(0).tokens, 0);
  assert.deepEqual(list(positions.range(1, { offset: most }).position[0]), [most]);
});

test('positions: rows of unequal length each stand at their own offset', () => {
  const ragged = positions.ragged([2, 0, 3], { offsets: [7, 1, 0] });
  assert.deepEqual(list(ragged.rowLengths), [2, 0, 3]);
  assert.deepEqual(list(ragged.position[0]), [7, 8, 0, 1, 2]);
});

test('positions: padding stands nowhere, on either side', () => {
  const left = positions.padded([2, 3], { columns: 3, side: 'left', offsets: [10, 0] });
  assert.deepEqual(list(left.position[0]), [0, 10, 11, 0, 1, 2]);
  assert.deepEqual(list(left.order), [-1, 10, 11, 0, 1, 2]);
  assert.deepEqual(list(left.segment), [-1, 0, 0, 0, 0, 0]);
  assert.deepEqual(list(left.valid), [0, 1, 1, 1, 1, 1]);
  const right = positions.padded(Int32Array.of(2, 3), { columns: 3, side: 'right' });
  assert.deepEqual(list(right.position[0]), [0, 1, 0, 0, 1, 2]);
});

test('positions: a padding mask counts valid tokens alone, wherever padding lies', () => {
  const masked = positions.fromPaddingMask([false, true, false, true, 1, 0, 0, 0], { rows: 2, columns: 4, offsets: [5, 0] });
  assert.deepEqual(list(masked.position[0]), [0, 5, 0, 6, 0, 0, 0, 0]);
  assert.deepEqual(list(masked.valid), [0, 1, 0, 1, 1, 0, 0, 0]);
});

test('positions: packed documents restart or run on, and their orders restart', () => {
  const restart = positions.packed([2, 3], { positions: 'restart' });
  assert.deepEqual(list(restart.position[0]), [0, 1, 0, 1, 2]);
  assert.deepEqual(list(restart.segment), [0, 0, 1, 1, 1]);
  const running = positions.packed([2, 3], { positions: 'running' });
  assert.deepEqual(list(running.position[0]), [0, 1, 2, 3, 4]);
  assert.deepEqual(list(running.order), [0, 1, 0, 1, 2]);
});

test('positions: given arrays come back, orders default to arrival', () => {
  const given = positions.from({ rowLengths: [3], position: [[5, 5, 6], [0, 1, 0], [0, 0, 0]], segment: [0, 0, 1] });
  assert.equal(given.axes, 3);
  assert.deepEqual(given.position.map(list), [[5, 5, 6], [0, 1, 0], [0, 0, 0]]);
  assert.deepEqual(list(given.order), [0, 1, 0]);
});

test('positions: what came through a message becomes whole again', () => {
  const sent = structuredClone({ ...positions.packed([2, 1], { positions: 'running' }) });
  assert.deepEqual(list(positions.from(sent).next([1]).position[0]), [3]);
});

test('positions: rows, chunks and continuations stand where they should', () => {
  const batch = positions.ragged([4, 4], { offsets: [0, 10] });
  assert.deepEqual(list(batch.row(1).position[0]), [10, 11, 12, 13]);
  assert.deepEqual(list(batch.slice(1, 2).position[0]), [1, 2, 11, 12]);
  const next = batch.next([2, 1]);
  assert.deepEqual(list(next.position[0]), [4, 5, 14]);
  assert.deepEqual(list(next.order), [4, 5, 14]);
});

test('positions: results are copies of their own', () => {
  const a = positions.range(3);
  const b = positions.range(3, { offset: 7 });
  a.position[0][0] = 99;
  assert.deepEqual(list(b.position[0]), [7, 8, 9]);
  assert.ok(Object.isFrozen(a));
});

test('positions: bad input is named, and nothing is broken by it', () => {
  refuses(() => positions.range(-1), 'argument', 'positions.range: count is -1, expected an integer of 0 .. 2147483647');
  refuses(() => positions.range(1.5), 'argument', 'positions.range: count is 1.5, expected an integer of 0 .. 2147483647');
  refuses(() => positions.range(NaN), 'argument', 'positions.range: count is NaN, expected an integer of 0 .. 2147483647');
  refuses(() => positions.range('3'), 'argument', 'positions.range: count is "3", expected an integer of 0 .. 2147483647');
  refuses(() => positions.range(2, { offset: most }), 'position-range', /^positions\.range: .*2147483647/);
  refuses(() => positions.range(2, { offset: -1 }), 'position-range', 'positions.range: offset is -1, expected a position of 0 .. 2147483647');
  refuses(() => positions.range(2, { ofset: 1 }), 'argument', 'positions.range: there is no option "ofset"; there are offset');
  refuses(() => positions.range(2, 1), 'argument', 'positions.range: the options are 1, expected an object');
  refuses(() => positions.ragged([1, 2], { offsets: [0] }), 'shape', 'positions.ragged: offsets holds 1 values, expected one per row = 2');
  refuses(() => positions.ragged([1, -2]), 'argument', /^positions\.ragged: .*-2/);
  refuses(() => positions.ragged([2], { offsets: [most] }), 'position-range', /^positions\.ragged: /);
  refuses(() => positions.ragged([1, 2 ** 31]), 'argument', 'positions.ragged: lengths[1] is 2147483648, expected an integer up to 2147483647');
  refuses(() => positions.ragged('12'), 'argument', 'positions.ragged: lengths is "12", expected an Int32Array or an array of integers');
  refuses(() => positions.padded([4], { columns: 3, side: 'left' }), 'argument', /^positions\.padded: .*4.*3/);
  refuses(() => positions.padded([1], { columns: 3, side: 'top' }), 'argument', 'positions.padded: side is "top", expected "left" or "right"');
  refuses(() => positions.fromPaddingMask([1, 1, 1], { rows: 2, columns: 2 }), 'shape', 'positions.fromPaddingMask: the mask holds 3 values, expected 2 rows x 2 columns = 4');
  refuses(() => positions.packed([1], {}), 'argument', 'positions.packed: positions is undefined, expected "restart" or "running"');
  refuses(() => positions.from({ rowLengths: [2], position: [[0, 1, 2]] }), 'shape', /^positions\.from: .*3.*2/);
  refuses(() => positions.from({ rowLengths: [2], position: [[0, -1]] }), 'position-range', /^positions\.from: .*-1/);
  refuses(() => positions.from({ rowLengths: [2], position: [] }), 'argument', /^positions\.from: position is /);
  refuses(() => positions.from({ rowLengths: [2], position: [[0, 1]], valid: [1] }), 'shape', 'positions.from: valid holds 1 values, expected one per token = 2');
  refuses(() => positions.from({ rowLengths: [1], position: [[2 ** 31]] }), 'position-range', /^positions\.from: position\[0\]\[0\] is 2147483648/);
  const range = positions.range(3);
  refuses(() => range.row(1), 'argument', 'row: the row is 1, expected an integer of 0 .. 0');
  refuses(() => range.slice(2, 2), 'argument', /^slice: /);
  refuses(() => range.next([1, 1]), 'shape', /^next: /);
  refuses(() => positions.range(1, { offset: most }).next([1]), 'position-range', /^next: .*2147483647/);
  range.position[0][1] = -5;
  refuses(() => range.next([1]), 'position-range', /^next: .*-5/);
  assert.deepEqual(list(positions.range(2).position[0]), [0, 1]);
});

test('positions: an impossible number of tokens is told as memory, and work goes on', () => {
  refuses(() => positions.range(most), 'out-of-memory', /^positions\.range: /);
  assert.deepEqual(list(positions.range(2).position[0]), [0, 1]);
});

test('positions: documents from cu_seqlens and segment ids, and back', () => {
  const packed = positions.fromCuSeqlens([0, 3, 4], { positions: 'restart' });
  assert.deepEqual(list(packed.position[0]), [0, 1, 2, 0]);
  assert.deepEqual(list(packed.segment), [0, 0, 0, 1]);
  assert.deepEqual(list(packed.cuSeqlens(0)), [0, 3, 4]);
  const ids = positions.fromSegmentIds([5, 5, 7, -1], { rows: 1, columns: 4, paddingId: -1, positions: 'running' });
  assert.deepEqual(list(ids.position[0]), [0, 1, 2, 0]);
  assert.deepEqual(list(ids.valid), [1, 1, 1, 0]);
  refuses(() => positions.fromCuSeqlens([1, 2], { positions: 'restart' }), 'argument', /^positions\.fromCuSeqlens: /);
  refuses(() => positions.fromSegmentIds([1, 2, 1], { rows: 1, columns: 3, positions: 'restart' }), 'argument', /^positions\.fromSegmentIds: /);
  refuses(() => positions.fromSegmentIds([1], { rows: 1, columns: 3, positions: 'restart' }), 'shape', 'positions.fromSegmentIds: ids holds 1 values, expected 1 rows x 3 columns = 3');
  refuses(() => ids.cuSeqlens(0), 'unsupported', /^cuSeqlens: /);
});

test('positions: grids of patches, and text around them', () => {
  const grid = positions.grid({ height: 2, width: 2, first: 1, classToken: 'first' });
  assert.deepEqual(grid.position.map(list), [[0, 1, 1, 2, 2], [0, 1, 2, 1, 2]]);
  const text = positions.multimodal([[{ tokens: 2 }, { height: 2, width: 3 }, { tokens: 1 }]], { side: 'right' });
  assert.deepEqual(text.position.map(list), [
    [0, 1, 2, 2, 2, 2, 2, 2, 5], [0, 1, 2, 2, 2, 3, 3, 3, 5], [0, 1, 2, 3, 4, 2, 3, 4, 5],
  ]);
  assert.deepEqual(list(text.order), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
  assert.deepEqual(text.next([1]).position.map(list), [[6], [6], [6]]);
  refuses(() => positions.grid({ height: 3, width: 2, merge: 2 }), 'argument', /^positions\.grid: .*3|2/);
  refuses(() => positions.multimodal([[{ tokens: 1, height: 2 }]], { side: 'left' }), 'argument', /^positions\.multimodal: rows\[0\]\[0\] has tokens beside/);
  refuses(() => positions.multimodal([[{ height: 0, width: 1 }]], { side: 'left' }), 'argument', 'positions.multimodal: rows[0][0].height is 0, expected an integer of 1 .. 2147483647');
});
