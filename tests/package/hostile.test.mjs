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
