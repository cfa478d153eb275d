// Arguments that are no honest arrays: holes, transferred buffers, classes that lie, objects of another instance. Each is
// refused by a sentence, and the library goes on.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { load as loadExternal } from 'locant/external';
import { locant, refuses } from './helpers.mjs';

const floats = (count) => new Float32Array(count).fill(0.5);
const one = locant.positions.range(1);
const transferred = (array) => {
  structuredClone(array.buffer, { transfer: [array.buffer] });
  return array;
};
const plan = locant.rotaryPlan({ rule: 'default', headDim: 4 });
const goesOn = () => {
  const attention = locant.attention({ heads: 1, headDim: 2 });
  assert.deepEqual(Array.from(attention.attend({ q: floats(2), k: floats(2), v: floats(2), positions: one })), [0.5, 0.5]);
  attention.dispose();
};

test('hostile: holes in arrays are missing values, not values that nobody checks', () => {
  const attention = locant.attention({ heads: 1, headDim: 2 });
  refuses(() => attention.explain({ q: floats(2), k: floats(2), positions: one, requests: new Array(1) }), 'argument', /^explain: requests\[0\]/);
  attention.dispose();
  refuses(() => locant.attention({ heads: 1, headDim: 2, terms: new Array(1) }), 'argument', /^attention: terms\[0\] is undefined/);
  refuses(() => locant.positions.from({ rowLengths: [1], position: new Array(1) }), 'argument', /position\[0\] is undefined/);
  refuses(() => locant.positions.multimodal(new Array(1), { side: 'left' }), 'argument', /rows\[0\]/);
  refuses(() => locant.decoder({ vocabulary: 8, width: 8, heads: 2, headDim: 4, feedForwardWidth: 8, layers: new Array(1) }, { seed: 1 }),
    'argument', /^decoder: layers\[0\]/);
  goesOn();
});

test('hostile: arrays whose buffers were transferred away are refused by name', () => {
  const attention = locant.attention({ heads: 1, headDim: 2 });
  const none = locant.positions.range(0);
  refuses(() => attention.attend({ q: transferred(floats(0)), k: floats(0), v: floats(0), positions: none }), 'argument', /^attend: q has been transferred away/);
  attention.dispose();
  refuses(() => locant.positions.ragged(transferred(Int32Array.of(1))), 'argument', /has been transferred away/);
  refuses(() => locant.rotation({ ...plan, axisOfPair: transferred(Uint8Array.of(0, 0)) }, { headDim: 4 }), 'argument', /axisOfPair has been transferred away/);
  refuses(() => locant.alibi({ heads: 1, slopes: transferred(Float64Array.of(1)) }), 'argument', /has been transferred away/);
  const moved = locant.positions.range(2);
  transferred(moved.order);
  assert.throws(() => moved.next([1]), (error) => error.code === 'argument' || error.code === 'shape');
  goesOn();
});

test('hostile: a class that lies about its length is not believed', () => {
  class Liar extends Float32Array {
    get length() { return 1 << 20; }
    get byteLength() { return 4; }
  }
  const attention = locant.attention({ heads: 1, headDim: 1 << 16 });
  refuses(() => attention.attend({ q: new Liar(1), k: floats(1 << 20), v: floats(1 << 20), positions: locant.positions.range(16) }),
    'argument', 'attend: q says it holds 1048576 values, expected the 1 that it has');
  attention.dispose();
  goesOn();
});

test('hostile: terms and caches of another instance are refused', async () => {
  const bytes = readFileSync(new URL(import.meta.resolve('locant/deterministic.wasm')));
  const other = await loadExternal({ wasm: bytes });
  const term = other.alibi({ heads: 1 });
  refuses(() => locant.attention({ heads: 1, headDim: 2, terms: [term] }), 'argument',
    'attention: terms[0] belongs to another instance of the library, expected one of the same load()');
  const cache = other.cache({ kvHeads: 1, headDim: 2 });
  const step = cache.begin(other.positions.range(1));
  const attention = locant.attention({ heads: 1, headDim: 2 });
  refuses(() => attention.attend({ q: floats(2), k: floats(2), v: floats(2), cache, step }), 'argument', /^attend: cache belongs to another instance/);
  for (const object of [term, cache, attention]) object.dispose();
  goesOn();
});

test('hostile: a method without its object, or on a Proxy of it, says so', () => {
  const attention = locant.attention({ heads: 1, headDim: 2 });
  const cache = locant.cache({ kvHeads: 1, headDim: 2 });
  const rotation = locant.rotation(plan, { headDim: 4 });
  const term = locant.alibi({ heads: 1 });
  const encoding = locant.sinusoidal({ width: 2 });
  const table = locant.learnedTable({ table: floats(4), rows: 2, width: 2 });
  const { attend, explain, prepare } = attention;
  refuses(() => attend({}), 'argument', 'attend was called on something that is no Attention of this library');
  refuses(() => explain.call({}, {}), 'argument', 'explain was called on something that is no Attention of this library');
  refuses(() => prepare.call(cache, 1), 'argument', 'prepare was called on something that is no Attention of this library');
  refuses(() => new Proxy(attention, {}).attend({}), 'argument', 'attend was called on something that is no Attention of this library');
  refuses(() => new Proxy(cache, {}).begin(one), 'argument', 'begin was called on something that is no Cache of this library');
  refuses(() => new Proxy(cache, {}).dispose(), 'argument', 'dispose was called on something that is no object of this library');
  refuses(() => new Proxy(cache, {}).disposed, 'argument', 'disposed was called on something that is no object of this library');
  refuses(() => new Proxy(rotation, {}).apply(floats(4), one, { role: 'key' }), 'argument', /^apply was called on something that is no Rotation/);
  refuses(() => new Proxy(term, {}).describe(), 'argument', /^describe was called on something that is no term/);
  refuses(() => new Proxy(encoding, {}).encode(one), 'argument', /^encode was called on something that is no encoding/);
  refuses(() => new Proxy(table, {}).encode(one), 'argument', /^encode was called on something that is no LearnedTable/);
  refuses(() => new Proxy(one, {}).next([1]), 'argument', 'next was called on something that is no Positions of this library');
  const { range } = locant.positions;
  refuses(() => range(3), 'argument', 'range was called on something that is no PositionBuilders of this library');
  const { cache: make } = locant;
  refuses(() => make({ kvHeads: 1, headDim: 2 }), 'argument', 'cache was called on something that is no Locant of this library');
  assert.equal(cache.disposed, false);
  for (const object of [attention, cache, rotation, term, encoding, table]) object.dispose();
  goesOn();
});

test('hostile: an object that is disposed by a getter of its own call is a disposed object', () => {
  const attention = locant.attention({ heads: 1, headDim: 2 });
  refuses(() => attention.attend({ get q() { attention.dispose(); return floats(2); }, k: floats(2), v: floats(2), positions: one }), 'disposed', /^attend: /);
  const cache = locant.cache({ kvHeads: 1, headDim: 2 });
  refuses(() => cache.begin(one, { get sequences() { cache.dispose(); return [0]; } }), 'disposed', /^begin: /);
  const other = locant.attention({ heads: 1, headDim: 2 });
  const held = locant.cache({ kvHeads: 1, headDim: 2 });
  const step = held.begin(one);
  refuses(() => other.attend({ q: floats(2), k: floats(2), v: floats(2), step, cache: held, mask: { get visible() { held.dispose(); return [1]; } } }), 'disposed', /^attend: /);
  const term = locant.alibi({ heads: 1 });
  assert.throws(() => locant.attention({ heads: 1, headDim: 2, terms: [term], mask: { get chunk() { term.dispose(); return null; } } }), (error) => error.code === 'disposed');
  other.dispose();
  goesOn();
});

test('hostile: a call made by a getter of a call spoils neither', () => {
  const attention = locant.attention({ heads: 1, headDim: 2 });
  const two = locant.positions.range(2);
  const [q, k, v] = [Float32Array.of(1, 2, 3, 4), Float32Array.of(1, 0, 0, 1), Float32Array.of(5, 6, 7, 8)];
  const expected = attention.attend({ q, k, v, positions: two });
  const inner = [];
  const out = attention.attend({ q, k, v, positions: two, mask: { get visible() { inner.push(attention.attend({ q, k, v, positions: two })); return [1, 1, 1, 1]; } } });
  assert.deepEqual(out, expected);
  assert.deepEqual(inner[0], expected);
  attention.dispose();
});

test('hostile: marks are 1 or 0 in a Uint8Array as in an array', () => {
  const attention = locant.attention({ heads: 1, headDim: 2 });
  const call = (visible) => attention.attend({ q: floats(2), k: floats(2), v: floats(2), positions: one, mask: { visible } });
  refuses(() => call([2]), 'argument', 'attend: mask.visible[0] is 2, expected true, false, 1 or 0');
  refuses(() => call(Uint8Array.of(7)), 'argument', 'attend: mask.visible[0] is 7, expected 1 or 0');
  assert.equal(call(Uint8Array.of(1))[0], 0.5);
  assert.equal(call(Uint8Array.of(0))[0], 0);
  refuses(() => locant.positions.fromPaddingMask(Uint8Array.of(1, 0, 255), { rows: 1, columns: 3 }), 'argument', /the mask\[2\] is 255, expected 1 or 0$/);
  refuses(() => locant.positions.from({ rowLengths: [1], position: [[0]], valid: Uint8Array.of(3) }), 'argument', /valid\[0\] is 3, expected 1 or 0$/);
  attention.dispose();
});

test('hostile: a disposed object says that it is disposed, whatever it is asked', () => {
  const cache = locant.cache({ kvHeads: 1, headDim: 2 });
  cache.dispose();
  for (const call of [
    () => cache.rows(9), () => cache.truncate('x'), () => cache.keepWindow({ sinks: -1 }), () => cache.fork(7, 'y'), () => cache.shift(5), () => cache.divide({}),
    () => cache.read({ line: 1 }), () => cache.evict('all'), () => cache.next(null), () => cache.begin(null), () => cache.clear(-1), () => cache.cancel(1),
    () => cache.positions('x'), () => cache.capacity(NaN), () => cache.bytes(),
  ]) refuses(call, 'disposed', /: the cache has been disposed$/);
  const attention = locant.attention({ heads: 1, headDim: 2 });
  attention.dispose();
  for (const call of [() => attention.attend(7), () => attention.explain({ x: 1 }), () => attention.prepare(-1)]) {
    refuses(call, 'disposed', /: the attention has been disposed$/);
  }
});

test('hostile: positions whose arrays were transferred away are refused wherever they are used', () => {
  const attention = locant.attention({ heads: 1, headDim: 2 });
  const cache = locant.cache({ kvHeads: 1, headDim: 2 });
  const encoding = locant.sinusoidal({ width: 2 });
  for (const take of [(p) => p.order, (p) => p.position[0], (p) => p.segment, (p) => p.valid, (p) => p.rowLengths]) {
    const moved = locant.positions.range(2);
    transferred(take(moved));
    const sentence = (call, name) => `${call}: an array of ${name} has been transferred away, expected Positions with all of theirs`;
    refuses(() => moved.next([1]), 'argument', sentence('next', 'these positions'));
    refuses(() => moved.slice(0, 1), 'argument', sentence('slice', 'these positions'));
    refuses(() => attention.attend({ q: floats(4), k: floats(4), v: floats(4), positions: moved }), 'argument', sentence('attend', 'positions'));
    refuses(() => cache.begin(moved), 'argument', sentence('begin', 'positions'));
    refuses(() => encoding.encode(moved), 'argument', sentence('encode', 'positions'));
  }
  assert.equal(cache.rows(), 0);
  for (const object of [attention, cache, encoding]) object.dispose();
  goesOn();
});

test('hostile: differences of arrays that were transferred away are no difference of 0', () => {
  refuses(() => locant.difference(transferred(floats(2)), transferred(floats(2))), 'argument', 'difference: a has been transferred away and holds nothing any more');
  refuses(() => locant.difference(floats(0), transferred(floats(2))), 'argument', 'difference: b has been transferred away and holds nothing any more');
  assert.deepEqual(locant.difference(floats(0), floats(0)), { largest: 0, index: -1 });
});

test('hostile: numbers past the end of float32 are refused where they would end in a NaN', () => {
  const make = (more) => locant.attention({ heads: 1, headDim: 2, ...more });
  for (const scale of [1e300, -1e39, -1, 1e7]) refuses(() => make({ scale }), 'argument', /^attention: scale is /);
  refuses(() => make({ rotation: { ...locant.rotaryPlan({ rule: 'default', headDim: 2 }), softmaxScaleFactor: 1e308 } }), 'argument', /softmax scale factor is 1e\+308/);
  refuses(() => make({ temperature: { slope: 1e300, period: 1, shift: 0 } }), 'argument', /^attention: .*slope is 1e\+300/);
  for (const softCap of [1e300, 1e-300, 5e-324]) refuses(() => make({ softCap }), 'argument', /^attention: the soft cap is /);
  for (const more of [{ scale: 1e6 }, { scale: 0 }, { softCap: 1e6 }, { softCap: 1e-6 }]) {
    const attention = make(more);
    const out = attention.attend({ q: floats(2), k: floats(2), v: floats(2), positions: one });
    assert.ok(Array.from(out).every((y) => y === 0.5), `${JSON.stringify(more)} gives ${out}`);
    attention.dispose();
  }
});
