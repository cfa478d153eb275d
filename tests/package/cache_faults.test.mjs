// Reported faults of caches, padding, packing, windows and shifts, each by its record's id, through the package: what a
// user would call, and what would have shown the fault.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { close, locant, numbers, refuses } from './helpers.mjs';

const { positions } = locant;
const list = (array) => Array.from(array);
const heads = 2;
const headDim = 8;
const width = heads * headDim;
const plan = locant.rotaryPlan({ rule: 'default', headDim });
const data = (count, seed = 1) => Object.fromEntries(['q', 'k', 'v'].map((name) => [name, numbers(count * width, name, seed)]));
const cut = (x, first, count = 1) => Object.fromEntries(Object.entries(x).map(([name, y]) => [name, y.slice(first * width, (first + count) * width)]));
const rowsOf = (x, rows) => Object.fromEntries(Object.entries(x).map(([name, y]) => [name, Float32Array.from(rows.flatMap((row) => list(y.slice(row * width, (row + 1) * width))))]));
const joined = (...parts) => Object.fromEntries(['q', 'k', 'v'].map((name) => [name, Float32Array.from(parts.flatMap((part) => list(part[name])))]));
// float32 sums over a few dozen keys of size 1; a key that is turned twice is rounded twice.
const tolerance = 2e-6;

/** An attention and a cache for one test, disposed at its end. */
function rooms(t, { mask, rotation = plan, terms, ...cacheOptions } = {}) {
  const attention = locant.attention({ heads, headDim, rotation, terms, mask });
  const make = (more = {}) => {
    const cache = locant.cache({ kvHeads: heads, headDim, ...cacheOptions, ...more });
    t.after(() => cache.dispose());
    return cache;
  };
  t.after(() => attention.dispose());
  const step = (cache, x, where, options) => attention.attend({ ...x, cache, step: cache.begin(where, options) });
  const full = (x, where, more) => attention.attend({ ...x, positions: where, ...more });
  return { attention, make, step, full };
}

const near = (a, b, what) => assert.ok(locant.difference(a, b).largest < tolerance, `${what ?? ''} differs by ${locant.difference(a, b).largest}`);
const far = (a, b, what) => assert.ok(locant.difference(a, b).largest > 1e-3, `${what ?? ''} should differ`);
/** How many keys each query sees: values are ones and keys alike, so the sum of weights over marks says so. */
function seen(mask, queries, keys) {
  const attention = locant.attention({ heads: 1, headDim: 1, valueDim: 1, mask });
  const count = keys.tokens;
  const counts = [];
  const request = Array.from({ length: queries.tokens }, (_, query) => ({ head: 0, query }));
  const parts = attention.explain({ q: new Float32Array(queries.tokens), k: new Float32Array(count), positions: keys, queryPositions: queries, requests: request });
  for (const { weight } of parts) counts.push(list(weight).filter((w) => w > 0).length);
  attention.dispose();
  return counts;
}

// ---- a: offsets of a cache ----------------------------------------------------------------------------------------------

test('A01, A24: decode step k stands at T + k; a builder that starts anew is refused, and wrong where it is allowed', (t) => {
  const { make, step, full } = rooms(t);
  const x = data(8);
  const whole = full(x, positions.range(8));
  const cache = make();
  step(cache, cut(x, 0, 5), positions.range(5));
  refuses(() => cache.begin(positions.range(1)), 'order', /already reaches 4/);
  for (let k = 5; k < 8; ++k) {
    const next = cache.next([1]);
    assert.deepEqual(list(next.position[0]), [k]);
    near(step(cache, cut(x, k), next), whole.slice(k * width, (k + 1) * width));
  }
  // Without a cache the whole text is fed again, from 0.
  near(full(cut(x, 0, 7), positions.range(7)), whole.slice(0, 7 * width));
  const lax = make({ backward: 'allow' });
  step(lax, cut(x, 0, 5), positions.range(5));
  far(step(lax, cut(x, 5), positions.from({ rowLengths: [1], position: [[0]], order: [5] })), whole.slice(5 * width, 6 * width));
});

test('A04: every layer of a step has the offset of the step, in whatever order layers are called', (t) => {
  const { attention, make } = rooms(t, { layers: 3 });
  const x = data(8);
  const outs = [[0, 1, 2], [2, 0, 1]].map((order) => {
    const cache = make();
    const results = [];
    for (const [first, count] of [[0, 5], [5, 3]]) {
      const open = cache.begin(cache.next([count]));
      assert.deepEqual(list(open.positions.position[0]), Array.from({ length: count }, (_, i) => first + i));
      for (const layer of order) results[layer] = attention.attend({ ...cut(x, first, count), cache, step: open, layer });
    }
    return results;
  });
  for (const results of outs) for (const result of results) assert.deepEqual(result, outs[0][0]);
});

test('A07: after an interior eviction rows stand where they stood, or are all moved; a mix is another result', (t) => {
  const { make, step, full } = rooms(t);
  const x = data(8);
  const kept = [0, 1, 5, 6];
  const stay = make();
  step(stay, cut(x, 0, 7), positions.range(7));
  stay.evict([2, 3, 4]);
  assert.deepEqual(list(stay.positions().position[0]), kept);
  const here = positions.from({ rowLengths: [5], position: [[...kept, 7]], order: [...kept, 7] });
  const expected = full(rowsOf(x, [...kept, 7]), here).slice(4 * width);
  const move = make();
  step(move, cut(x, 0, 7), positions.range(7));
  move.evict([2, 3, 4]);
  move.shift({ first: 2, last: 4, delta: -3 });
  assert.deepEqual(list(move.positions().position[0]), [0, 1, 2, 3]);
  // The stored keys say the same of themselves: turned to where they claim to stand.
  const rotation = locant.rotation(plan, { headDim });
  for (const [cache, where] of [[stay, kept], [move, [0, 1, 2, 3]]]) {
    for (const [row, token] of kept.entries()) {
      const raw = cut(x, token).k;
      const turned = rotation.apply(raw, positions.range(1, { offset: where[row] }), { heads, role: 'key' });
      near(cache.read({ row, kvHead: 1 }).key, turned.slice(headDim));
    }
  }
  rotation.dispose();
  near(step(stay, cut(x, 7), stay.next([1])), expected);
  const moved = full(rowsOf(x, [...kept, 7]), positions.range(5)).slice(4 * width);
  assert.deepEqual(list(move.next([1]).position[0]), [4]);
  const mixed = step(move, cut(x, 7), positions.from({ rowLengths: [1], position: [[7]], order: [7] }));
  far(mixed, expected);
  move.truncate(4);
  near(step(move, cut(x, 7), move.next([1])), moved);
});

test('A08: a rewind takes exactly what it is told, and a negative or too large one is an error', (t) => {
  const { make, step } = rooms(t);
  const cache = make();
  step(cache, data(5), positions.range(5));
  refuses(() => cache.truncate(-2), 'argument', 'truncate: rows is -2, expected an integer of 0 .. 2147483647');
  refuses(() => cache.truncate(6), 'cache-state', /^truncate: cannot keep 6 rows of sequence 0, which holds 5$/);
  for (const rows of [4, 4, 1, 0]) {
    cache.truncate(rows);
    assert.equal(cache.rows(), rows);
  }
});

test('A09: behind a window that has wrapped a rewind takes exactly the newest rows, and is exact while the window is held', (t) => {
  const { make, step } = rooms(t, { mask: { window: { size: 6 } } });
  const x = data(21);
  const draft = data(4, 9);
  const straight = make();
  step(straight, cut(x, 0, 20), positions.range(20));
  const expected = step(straight, cut(x, 20), straight.next([1]));
  for (const kept of [9, 8]) {
    const cache = make();
    step(cache, cut(x, 0, 20), positions.range(20));
    step(cache, draft, cache.next([4]));
    cache.keepWindow({ sinks: 0, window: kept });
    cache.truncate(kept - 4);
    assert.equal(cache.rows(), kept - 4);
    assert.deepEqual(list(cache.next([1]).position[0]), [20]);
    (kept === 9 ? near : far)(step(cache, cut(x, 20), cache.next([1])), expected);
  }
});

test('A13: chunks of a prefill stand where the whole prefill stands', (t) => {
  const { make, step, full } = rooms(t);
  const x = data(21);
  const whole = full(x, positions.range(21));
  for (const size of [1, 7, 21]) {
    const cache = make();
    const seenAt = [];
    const out = [];
    for (let at = 0; at < 21; at += size) {
      const next = cache.next([size]);
      seenAt.push(...next.position[0]);
      out.push(...step(cache, cut(x, at, size), next));
    }
    assert.deepEqual(seenAt, Array.from({ length: 21 }, (_, i) => i));
    near(Float32Array.from(out), whole, `chunks of ${size}`);
  }
});

test('A14, A15: the row of a step is a rotation of its own position: norms stay, and positions are exact integers', () => {
  const rotation = locant.rotation(plan, { headDim });
  rotation.prepare(300);  // some from the table, some past it
  for (const at of [10, 257, 299, 301, 16777217]) {
    const x = numbers(headDim, 'pairs', at);
    const turned = rotation.apply(x, positions.range(1, { offset: at }), { heads: 1, role: 'query' });
    const half = headDim / 2;
    for (let pair = 0; pair < half; ++pair) {
      close([Math.hypot(turned[pair], turned[pair + half])], [Math.hypot(x[pair], x[pair + half])], 2e-7);
      const angle = at * plan.inverseFrequencies[pair];
      close([turned[pair]], [x[pair] * Math.cos(angle) - x[pair + half] * Math.sin(angle)], 4e-7, `position ${at}, pair ${pair}`);
    }
  }
  rotation.dispose();
});

test('A16, A17, A18: causal is aligned with the end: 2 queries on 5 keys see 4 and 5, 5 queries on 2 see 0 0 0 1 2', (t) => {
  assert.deepEqual(seen(undefined, positions.range(2, { offset: 3 }), positions.range(5)), [4, 5]);
  assert.deepEqual(seen(undefined, positions.range(5), positions.range(2, { offset: 3 })), [0, 0, 0, 1, 2]);
  const { full } = rooms(t, { rotation: null });
  const [q, kv] = [data(5), data(2, 3)];
  const out = full({ q: q.q, k: kv.k, v: kv.v }, positions.range(2, { offset: 3 }), { queryPositions: positions.range(5) });
  assert.deepEqual(list(out.slice(0, 3 * width)), Array(3 * width).fill(0), 'rows that see nothing are zeros');
  assert.ok(list(out.slice(3 * width)).every(Number.isFinite));
  // Rows of a batch whose valid lengths differ: each is aligned with its own end.
  const lengths = [5, 3];
  const keys = positions.ragged(lengths);
  const queries = positions.ragged([2, 2], { offsets: [3, 1] });
  assert.deepEqual(seen(undefined, queries.row(0), keys.row(0)), [4, 5]);
  assert.deepEqual(seen(undefined, queries.row(1), keys.row(1)), [2, 3]);
});

test('A21, A26, B01, B15: each row of a batch goes on at its own length, alone as together, whatever the padding', (t) => {
  const { make, step } = rooms(t, { sequences: 2 });
  const rows = [data(10, 3), data(7, 5)];
  const next = data(2, 7);
  for (const side of ['left', 'right']) {
    const cache = make();
    const blank = data(3, 99);
    const batch = side === 'left' ? joined(rows[0], blank, rows[1]) : joined(rows[0], rows[1], blank);
    step(cache, batch, positions.padded([10, 7], { columns: 10, side }));
    assert.deepEqual([cache.rows(0), cache.rows(1)], [10, 7]);
    const where = cache.next([1, 1]);
    assert.deepEqual(list(where.position[0]), [10, 7]);
    const together = step(cache, next, where);
    for (const row of [0, 1]) {
      const alone = make({ sequences: 1 });
      step(alone, rows[row], positions.range([10, 7][row]));
      assert.deepEqual(step(alone, cut(next, row), alone.next([1])), together.slice(row * width, (row + 1) * width));
    }
  }
});

test('A22, A23: xPos scales a cached step by the positions that it has, so cached equals full', (t) => {
  const xpos = locant.rotaryPlan({ rule: 'default', headDim, pairing: 'interleaved', xpos: { gamma: 0.4, scaleBase: 512, center: 0 } });
  const { make, step, full } = rooms(t, { rotation: xpos });
  const x = data(101);
  const whole = full(x, positions.range(101));
  const cache = make();
  step(cache, cut(x, 0, 100), positions.range(100));
  near(step(cache, cut(x, 100), cache.next([1])), whole.slice(100 * width));
});

// ---- b: padding -----------------------------------------------------------------------------------------------------------

test('B05: a packed layout is counted per document, and a negative position is refused', () => {
  assert.deepEqual(list(positions.packed([6, 4], { positions: 'restart' }).position[0]), [0, 1, 2, 3, 4, 5, 0, 1, 2, 3]);
  refuses(() => positions.from({ rowLengths: [6], position: [[-4, -3, -2, -1, 0, 1]] }), 'position-range', /-4/);
  refuses(() => positions.range(6, { offset: -4 }), 'position-range', /-4/);
});

test('B08: positions come from the padding mask, and a mask that is added twice hides without a NaN', (t) => {
  const padded = positions.fromPaddingMask([0, 0, 1, 1, 1], { rows: 1, columns: 5 });
  assert.deepEqual(list(padded.position[0].slice(2)), [0, 1, 2]);
  const lowest = -3.4028234663852886e38;
  const matrix = Float32Array.from({ length: 25 }, (_, i) => (i % 5 <= Math.floor(i / 5) ? 0 : lowest));
  const term = () => locant.matrixBias({ heads: 1, queries: 5, keys: 5, matrix });
  const x = data(5);
  const twice = rooms(t, { rotation: null, mask: { direction: 'bidirectional' }, terms: [term(), term()] });
  near(twice.full(x, positions.range(5)), rooms(t, { rotation: null }).full(x, positions.range(5)));
});

test('B09: a batch of unequal prompts has positions of its own for each row', (t) => {
  const { full } = rooms(t);
  const x = data(12);
  const batch = full(x, positions.fromPaddingMask([0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1], { rows: 2, columns: 6 }));
  near(full(cut(x, 3, 3), positions.range(3)), batch.slice(3 * width, 6 * width));
  near(full(cut(x, 6, 6), positions.range(6)), batch.slice(6 * width));
});

test('B10, B11, B12: a row that may see nothing is zeros, one filled with the smallest number finite, and no other row changes', (t) => {
  const x = data(4);
  const open = rooms(t, { rotation: null, mask: { direction: 'bidirectional' } });
  const expected = open.full(x, positions.range(4));
  const visible = Array.from({ length: 16 }, (_, i) => Math.floor(i / 4) !== 1);
  const hidden = open.full(x, positions.range(4), { mask: { visible } });
  const matrix = Float32Array.from(visible, (seenBit) => (seenBit ? 0 : -3.4028e38));
  const filled = rooms(t, { rotation: null, mask: { direction: 'bidirectional' }, terms: [locant.matrixBias({ heads: 1, queries: 4, keys: 4, matrix })] })
    .full(x, positions.range(4));
  for (const [row, out] of [0, 1, 2, 3].flatMap((row) => [[row, hidden], [row, filled]])) {
    const part = out.slice(row * width, (row + 1) * width);
    if (row !== 1) near(part, expected.slice(row * width, (row + 1) * width));
    else if (out === hidden) assert.deepEqual(list(part), Array(width).fill(0));
    else assert.ok(list(part).every(Number.isFinite));
  }
});

test('B14: in a batch with padding on both sides each row sees its own valid keys alone', (t) => {
  const mask = [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0];
  const mixed = positions.fromPaddingMask(mask, { rows: 2, columns: 6 });
  for (const [r, expected] of [[0, [0, 0, 1, 2, 3, 4]], [1, [1, 2, 3, 4, 0, 0]]]) {
    assert.deepEqual(seen(undefined, mixed.row(r), mixed.row(r)), expected);
  }
  const { full } = rooms(t);
  const x = data(12);
  const before = full(x, mixed);
  for (const [i, valid] of mask.entries()) if (!valid) for (const y of Object.values(x)) y.fill(NaN, i * width, (i + 1) * width);
  assert.deepEqual(full(x, mixed), before);
});

// ---- c: packing ------------------------------------------------------------------------------------------------------------

test('C01: a document of one token is a document: boundaries 0 3 4 7', () => {
  const packed = positions.fromCuSeqlens([0, 3, 4, 7], { positions: 'restart' });
  assert.deepEqual(list(packed.position[0]), [0, 1, 2, 0, 0, 1, 2]);
  assert.deepEqual(list(packed.segment), [0, 0, 0, 1, 2, 2, 2]);
  assert.deepEqual(list(packed.cuSeqlens(0)), [0, 3, 4, 7]);
  assert.deepEqual(seen(undefined, packed, packed), [1, 2, 3, 1, 1, 2, 3]);
});

test('C03: position ids of one, two or three dimensions are said by rows and axes, never guessed', () => {
  const ids = [0, 1, 2, 0, 1, 2];
  assert.deepEqual(list(positions.from({ rowLengths: [6], position: [ids], segment: [0, 0, 0, 1, 1, 1] }).order), [0, 1, 2, 0, 1, 2]);
  assert.deepEqual(list(positions.from({ rowLengths: [3, 3], position: [ids] }).order), [0, 1, 2, 0, 1, 2]);
  const three = positions.from({ rowLengths: [3, 3], position: [ids, ids, ids] });
  assert.deepEqual([three.axes, three.rows, three.tokens], [3, 2, 6]);
  refuses(() => positions.from({ rowLengths: [3], position: [ids] }), 'shape', /6/);
  refuses(() => positions.from({ rowLengths: [6], position: ids }), 'argument', /position\[0\]/);
});

test('C04, C07: a change in one document changes another by exactly 0; a restart of positions alone does not keep them apart', (t) => {
  const { full } = rooms(t);
  const x = data(9);
  const poked = { ...x, k: x.k.slice(), v: x.v.slice() };
  for (let i = 0; i < 4 * width; ++i) {
    poked.k[i] += 1;
    poked.v[i] -= 1;
  }
  const packed = positions.packed([4, 5], { positions: 'restart' });
  assert.deepEqual(full(poked, packed).slice(4 * width), full(x, packed).slice(4 * width));
  const onlyRestart = positions.from({ rowLengths: [9], position: [packed.position[0]], order: Int32Array.from({ length: 9 }, (_, i) => i) });
  far(full(poked, onlyRestart).slice(4 * width), full(x, onlyRestart).slice(4 * width), 'without a document mask it leaks');
});

test('C08: documents may run on in position and be kept apart all the same', (t) => {
  const running = positions.packed([4, 4, 4, 4], { positions: 'running' });
  assert.deepEqual(list(running.position[0]), Array.from({ length: 16 }, (_, i) => i));
  const { full } = rooms(t);
  const x = data(16);
  // Rotation sees displacements alone, so each document is what it is by itself.
  const out = full(x, running);
  for (const first of [0, 4, 8, 12]) near(full(cut(x, first, 4), positions.range(4)), out.slice(first * width, (first + 4) * width));
});

// ---- i: windows, sinks, shifts ----------------------------------------------------------------------------------------------

test('I02, I05: window 8 with 4 sinks: kept rows and the new one stand at 0 .. 8, for either way of storing keys', (t) => {
  const { make, step, full } = rooms(t);
  const x = data(13);
  const kept = [0, 1, 2, 3, 8, 9, 10, 11];
  const expected = full(rowsOf(x, [...kept, 12]), positions.range(9)).slice(8 * width);
  for (const keys of ['rotated', 'unrotated']) {
    const cache = make({ keys });
    step(cache, cut(x, 0, 12), positions.range(12));
    cache.keepWindow({ sinks: 4, window: 4 });
    cache.shift({ first: 4, last: 8, delta: -4 });
    assert.deepEqual(list(cache.positions().position[0]), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert.deepEqual(list(cache.next([1]).position[0]), [8]);
    near(step(cache, cut(x, 12), cache.next([1])), expected, keys);
  }
});

test('I06: what cannot be turned is refused; with biases alone a shift renumbers and touches no key', (t) => {
  const x = data(4);
  const xpos = rooms(t, { rotation: locant.rotaryPlan({ rule: 'default', headDim, pairing: 'interleaved', xpos: { gamma: 0.4, scaleBase: 512, center: 0 } }) });
  const cache = xpos.make();
  xpos.step(cache, x, positions.range(4));
  refuses(() => cache.shift({ first: 0, last: 4, delta: 1 }), 'unsupported', /xPos/);
  refuses(() => cache.divide({ first: 0, last: 4, divisor: 2 }), 'unsupported', /xPos/);
  const alibi = rooms(t, { rotation: null, terms: [locant.alibi({ heads })] });
  const plain = alibi.make();
  alibi.step(plain, x, positions.range(4));
  plain.shift({ first: 0, last: 4, delta: 5 });
  assert.deepEqual(list(plain.positions().position[0]), [5, 6, 7, 8]);
  for (const row of [0, 1, 2, 3]) assert.deepEqual(plain.read({ row, kvHead: 0 }).key, x.k.slice(row * width, row * width + headDim));
  refuses(() => plain.shift({ first: 0, last: 4, delta: 1, positionsIn: 'input' }), 'unsupported', /baked into keys and values/);
  assert.deepEqual(list(plain.positions().position[0]), [5, 6, 7, 8]);
});

test('I09: fragments put together are turned to where they come to stand, and then equal the whole', (t) => {
  const { make, step, full } = rooms(t);
  const x = data(17);
  const whole = full(x, positions.range(17));
  // The second fragment was made at 0 .. 5; told so, it is refused, and turned by 10 it is right.
  const second = make();
  step(second, cut(x, 10, 6), positions.range(6));
  second.shift({ first: 0, last: 6, delta: 10 });
  const first = make();
  step(first, cut(x, 0, 10), positions.range(10));
  refuses(() => first.begin(positions.range(6)), 'order', /already reaches 9/);
  step(first, cut(x, 10, 6), first.next([6]));
  for (let row = 0; row < 6; ++row) near(second.read({ row }).key, first.read({ row: row + 10 }).key, `row ${row}`);
  near(step(first, cut(x, 16), first.next([1])), whole.slice(16 * width));
});

test('I10, I12, I13, I14, I15: a window of W has W keys with the current one; the other convention has its own name', () => {
  const all = positions.range(8);
  assert.deepEqual(seen({ window: { size: 4 } }, all, all), [1, 2, 3, 4, 4, 4, 4, 4]);
  assert.deepEqual(seen({ window: { size: 3, convention: 'before-current' } }, all, all), [1, 2, 3, 4, 4, 4, 4, 4]);
  assert.deepEqual(seen({ window: { size: 8, convention: 'before-current' } }, positions.range(1, { offset: 20 }), positions.range(21)), [9]);
  assert.deepEqual(seen({ window: { size: 128 } }, positions.range(1, { offset: 500 }), positions.range(501)), [128]);
  assert.deepEqual(seen({ window: { size: 1024 } }, positions.range(1, { offset: 1500 }), positions.range(1501)), [1024]);
  // A query at 255 with 128 before it sees 127 .. 255: hiding the first 127 is right.
  assert.deepEqual(seen({ window: { size: 128, convention: 'before-current' } }, positions.range(1, { offset: 255 }), positions.range(256)), [129]);
});

test('I12, I16, I18: a ring that holds the window sees all of it, at any position and behind any chunk', (t) => {
  const { make, step, full } = rooms(t, { mask: { window: { size: 8 } }, capacity: { fixed: 28 } });
  const x = data(40);
  const expected = full(x, positions.range(40, { offset: 5000 }));
  const cache = make();
  let at = 0;
  for (const count of [8, 20, 1, 1, 7, 3]) {
    cache.keepWindow({ sinks: 0, window: 8 });
    near(step(cache, cut(x, at, count), positions.range(count, { offset: 5000 + at })), expected.slice(at * width, (at + count) * width));
    at += count;
  }
  assert.deepEqual(seen({ window: { size: 8 } }, positions.range(20, { offset: 10 }), positions.range(30)), Array(20).fill(8));
  assert.deepEqual(seen({ window: { size: 1024 } }, positions.range(1, { offset: 5000 }), positions.range(1024, { offset: 3977 })), [1024]);
});
