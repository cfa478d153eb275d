import assert from 'node:assert/strict';
import { test } from 'node:test';
import { locant, numbers, refuses } from './helpers.mjs';

const { positions } = locant;
const list = (array) => Array.from(array);
const heads = 2;
const headDim = 8;
const plan = locant.rotaryPlan({ rule: 'default', headDim });
const tokens = (x, first, count) => x.slice(first * heads * headDim, (first + count) * heads * headDim);
const data = (count) => ['q', 'k', 'v'].map((name) => numbers(count * heads * headDim, name));
const make = (more = {}) => locant.cache({ kvHeads: heads, headDim, ...more });

/** Feeds the chunks one after another and joins what comes out. */
function feed(attention, cache, [q, k, v], chunks, next = (count) => cache.next([count])) {
  const out = [];
  let first = 0;
  for (const count of chunks) {
    const step = cache.begin(next(count));
    out.push(...attention.attend({ q: tokens(q, first, count), k: tokens(k, first, count), v: tokens(v, first, count), cache, step }));
    first += count;
  }
  return Float32Array.from(out);
}

for (const keys of ['rotated', 'unrotated']) {
  test(`cache, ${keys} keys: cached = full, whatever the split; a restarted or late offset is not`, () => {
    const attention = locant.attention({ heads, headDim, rotation: plan });
    const x = data(9);
    const full = attention.attend({ q: x[0], k: x[1], v: x[2], positions: positions.range(9) });
    for (const chunks of [[9], [1, 1, 1, 1, 1, 1, 1, 1, 1], [5, 4], [3, 1, 5], [8, 1]]) {
      const cache = make({ keys });
      const cached = feed(attention, cache, x, chunks);
      assert.ok(locant.difference(cached, full).largest < 1e-6, `${chunks}`);
      assert.equal(cache.rows(), 9);
      assert.deepEqual(list(cache.positions().position[0]), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
      cache.dispose();
    }
    // The classic faults, which must show.
    for (const offset of [(seen) => 0, (seen) => seen + 1]) {
      const cache = make({ keys, backward: 'allow' });
      let seen = 0;
      const wrong = feed(attention, cache, x, [5, 1, 1, 1, 1], (count) => {
        const at = seen === 0 ? 0 : offset(seen);
        const order = Int32Array.from({ length: count }, (_, i) => seen + i);
        const given = positions.from({ rowLengths: [count], position: [order.map((_, i) => at + i)], order });
        seen += count;
        return given;
      });
      assert.ok(locant.difference(wrong, full).largest > 1e-3);
      cache.dispose();
    }
    attention.dispose();
  });
}

test('cache: sequences of unequal length continue at their own positions', () => {
  const attention = locant.attention({ heads, headDim, rotation: plan });
  const cache = make({ sequences: 2, capacity: { initial: 4 } });
  const batch = positions.padded([2, 4], { columns: 4, side: 'left' });
  const x = data(8);
  const step = cache.begin(batch);
  assert.deepEqual([...step.sequences], [0, 1]);
  assert.equal(step.positions, batch);
  attention.attend({ q: x[0], k: x[1], v: x[2], cache, step });
  assert.deepEqual([cache.rows(0), cache.rows(1)], [2, 4]);
  const next = cache.next([1, 1]);
  assert.deepEqual(list(next.position[0]), [2, 4]);
  assert.deepEqual(list(cache.next([2], { sequences: [1] }).position[0]), [4, 5]);
  assert.ok(cache.bytes() > 0);
  assert.ok(cache.capacity(1) >= 4);
  attention.dispose();
  cache.dispose();
});

test('cache: layers share one record of positions, and none can run ahead', () => {
  const attention = locant.attention({ heads, headDim, rotation: plan });
  const cache = make({ layers: 2 });
  const [q, k, v] = data(3);
  const step = cache.begin(cache.next([3]));
  attention.attend({ q, k, v, cache, step, layer: 1 });
  refuses(() => cache.begin(cache.next([1])), 'cache-state', /^begin: /);
  refuses(() => attention.attend({ q, k, v, cache, step, layer: 2 }), 'argument', 'attend: layer is 2, expected an integer of 0 .. 1');
  attention.attend({ q, k, v, cache, step, layer: 0 });
  assert.equal(cache.rows(), 3);
  attention.dispose();
  cache.dispose();
});

test('cache: a cancelled step leaves nothing behind', () => {
  const cache = make();
  const step = cache.begin(cache.next([3]));
  cache.cancel(step);
  assert.equal(cache.rows(), 0);
  assert.deepEqual(list(cache.next([1]).position[0]), [0]);
  refuses(() => cache.cancel(step), 'cache-state', /^cancel: /);
  cache.dispose();
});

test('cache: rows cut off, taken out and kept stand where they stood', () => {
  const attention = locant.attention({ heads, headDim, rotation: plan });
  const cache = make({ sequences: 2 });
  const x = data(6);
  feed(attention, cache, x, [6], (count) => positions.range(count));
  const held = () => list(cache.positions().position[0]);
  cache.fork(0, 1);
  cache.evict([1, 2]);
  assert.deepEqual(held(), [0, 3, 4, 5]);
  assert.deepEqual(list(cache.next([1, 1]).position[0]), [6, 6], 'rows retained are not a position');
  cache.truncate(3);
  assert.deepEqual(held(), [0, 3, 4]);
  cache.keepWindow({ sinks: 1, window: 1 });
  assert.deepEqual(held(), [0, 4]);
  assert.deepEqual(list(cache.positions(1).position[0]), [0, 1, 2, 3, 4, 5]);
  cache.clear(1);
  assert.equal(cache.rows(1), 0);
  cache.clear();
  assert.equal(cache.rows(), 0);
  attention.dispose();
  cache.dispose();
});

test('cache: shifting moves positions and turns keys with them', () => {
  const attention = locant.attention({ heads, headDim, rotation: plan });
  const rotation = locant.rotation(plan, { headDim });
  const cache = make();
  const x = data(4);
  feed(attention, cache, x, [4]);
  cache.shift({ first: 1, last: 4, delta: 10 });
  assert.deepEqual(list(cache.positions().position[0]), [0, 11, 12, 13]);
  const { key, value } = cache.read({ row: 2, kvHead: 1 });
  const expected = rotation.apply(tokens(x[1], 2, 1), positions.range(1, { offset: 12 }), { heads, role: 'key' });
  assert.ok(locant.difference(key, expected.slice(headDim)).largest < 1e-6);
  assert.deepEqual(value, tokens(x[2], 2, 1).slice(headDim));
  cache.divide({ first: 0, last: 4, divisor: 4 });
  assert.deepEqual(list(cache.positions().position[0]), [0, 2, 3, 3]);
  refuses(() => cache.shift({ first: 0, last: 4, delta: 1, positionsIn: 'input' }), 'unsupported', /^shift: /);
  refuses(() => cache.shift({ first: 0, last: 1, delta: -1 }), 'position-range', /^shift: /);
  for (const object of [attention, rotation, cache]) object.dispose();
});

test('cache: keys of one plan refuse queries of another', () => {
  const cache = make();
  const x = data(2);
  feed(locant.attention({ heads, headDim, rotation: plan }), cache, x, [1]);
  const other = locant.attention({ heads, headDim, rotation: locant.rotaryPlan({ rule: 'linear', headDim, factor: 2 }) });
  refuses(() => feed(other, cache, x, [1]), 'plan-mismatch', /^attend: /);
  cache.dispose();
});

test('cache: bad input is named, and the cache stays as it was', () => {
  refuses(() => make({ kvHeads: 0 }), 'argument', 'cache: kvHeads is 0, expected an integer of 1 .. 65536');
  refuses(() => make({ capacity: {} }), 'argument', 'cache: capacity is a Object, expected { fixed } or { initial }');
  refuses(() => make({ capacity: { fixed: 0 } }), 'argument', 'cache: capacity.fixed is 0, expected an integer of 1 .. 2147483647');
  refuses(() => make({ keys: 'turned' }), 'argument', 'cache: keys is "turned", expected "rotated" or "unrotated"');
  const attention = locant.attention({ heads, headDim });
  const cache = make({ capacity: { fixed: 3 } });
  const x = data(4);
  feed(attention, cache, x, [2]);
  refuses(() => cache.begin(cache.next([2])), 'cache-full', /^begin: .*3/);
  refuses(() => cache.begin(positions.range(1, { offset: 1 })), 'order', /^begin: /);
  refuses(() => cache.begin(positions.from({ rowLengths: [1], position: [[0]], order: [2] })), 'order', /^begin: /);
  refuses(() => cache.begin(positions.ragged([1, 1], { offsets: [2, 0] })), 'argument', /^begin: /);
  refuses(() => cache.begin(cache.next([1]), { sequences: [1] }), 'argument', 'begin: sequences[0] is 1, expected an integer of 0 .. 0');
  refuses(() => cache.rows(1), 'argument', 'rows: sequence is 1, expected an integer of 0 .. 0');
  refuses(() => cache.truncate(3), 'cache-state', /^truncate: .*3/);
  refuses(() => cache.evict([1, 0]), 'argument', 'evict: rows[1] is 0, and there is none to choose');
  refuses(() => cache.evict([2]), 'argument', 'evict: rows[0] is 2, expected an integer of 0 .. 1');
  refuses(() => cache.read({ row: 2 }), 'argument', 'read: row is 2, expected an integer of 0 .. 1');
  refuses(() => cache.divide({ first: 0, last: 1, divisor: 0 }), 'argument', 'divide: divisor is 0, expected an integer of 1 .. 2147483647');
  refuses(() => cache.shift({ first: 0, last: 3, delta: 1 }), 'argument', 'shift: last is 3, expected an integer of 0 .. 2');
  assert.equal(cache.rows(), 2);
  const step = cache.begin(cache.next([1]));
  const [q, k, v] = x.map((y) => tokens(y, 3, 1));
  const other = make();
  refuses(() => attention.attend({ q, k, v, cache: other, step }), 'cache-state', 'attend: the step belongs to another cache');
  refuses(() => attention.attend({ q, k, v, cache, step: {} }), 'argument', 'attend: step is a Object, expected what begin() gave');
  refuses(() => attention.attend({ q, k, v, cache: {}, step }), 'argument', 'attend: cache is a Object, expected a cache of this library');
  const narrow = locant.attention({ heads, headDim: 4 });
  refuses(() => narrow.attend({ q: q.slice(8), k: k.slice(8), v: v.slice(8), cache, step }), 'shape', /^attend: /);
  attention.attend({ q, k, v, cache, step });
  cache.truncate(1);
  refuses(() => attention.attend({ q, k, v, cache, step }), 'cache-state', /^attend: /);
  cache.dispose();
  refuses(() => cache.rows(), 'disposed', 'rows: the cache has been disposed');
  refuses(() => attention.attend({ q, k, v, cache, step }), 'disposed', 'attend: the cache has been disposed');
});
