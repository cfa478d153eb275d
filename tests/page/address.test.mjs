// The state in the address: what is written is read back, and what cannot be had is brought in and said.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pageCode } from './support.mjs';

const { models, readAddress, writeAddress, initialState } = await pageCode();
const read = (hash) => readAddress(hash, models);
const write = (address) => writeAddress(address, models);

/** Repeatable whole numbers below a limit: a multiplicative generator modulo 2^31 - 1. */
function random(seed) {
  let state = seed;
  return (below) => (state = (state * 48271) % 2147483647) % below;
}

test('the default address of every view names version and view and nothing else', () => {
  for (const model of models) {
    const state = initialState(model);
    assert.equal(write({ view: model.id, state, hide: [], embed: false, ignored: [] }), `#v=1&view=${model.id}`);
    const address = read(`#v=1&view=${model.id}`);
    assert.deepEqual(address.state, state);
    assert.deepEqual(address.notes, []);
  }
});

test('an empty address is the first view at its defaults, without a note', () => {
  for (const hash of ['', '#']) {
    const { view, state, notes } = read(hash);
    assert.equal(view, models[0].id);
    assert.deepEqual(state, initialState(models[0]));
    assert.deepEqual(notes, []);
  }
});

test('any state of any view is read back as it was written', () => {
  const below = random(7);
  const words = ['the', 'dog', 'bit', 'a', 'man', 'and', 'ran', 'away', 'ünïcode', "it's", 'x=1&y', '#', '%41', '.'];
  for (const model of models) {
    for (let round = 0; round < 200; round += 1) {
      let state = {};
      for (const [key, field] of Object.entries(model.fields)) {
        if (field.values) state[key] = field.values[below(field.values.length)];
        else if (field.maximum !== undefined) state[key] = field.minimum + below(field.maximum - field.minimum + 1);
        else if (typeof field.initial === 'string') state[key] = field.read(Array.from({ length: 2 + below(9) }, () => words[below(words.length)]).join(' ')).value;
        else state[key] = field.initial;
      }
      if (model.settle) ({ state } = model.settle(state));
      if ('order' in state) {
        const order = [...state.order];
        for (let at = order.length - 1; at > 0; at -= 1) {
          const other = below(at + 1);
          [order[at], order[other]] = [order[other], order[at]];
        }
        state = { ...state, order };
      }
      const hash = write({ view: model.id, state, hide: ['table'], embed: true, ignored: [['later', 'é & =']] });
      const address = read(hash);
      assert.deepEqual(address.notes, [], hash);
      assert.deepEqual({ ...address.state }, { ...state }, hash);
      assert.deepEqual([address.view, address.hide, address.embed, address.ignored], [model.id, ['table'], true, [['later', 'é & =']]]);
      assert.equal(write(address), hash);
    }
  }
});

test('values out of range are brought in, and a note names key, value and limit', () => {
  const { state, notes } = read('#v=1&view=rotation&query=-5&key=64&base=77');
  assert.deepEqual([state.query, state.key, state.base], [0, 63, '10000']);
  assert.deepEqual(notes, [
    'query: -5 is below 0; 0 is used.',
    'key: 64 is above 63; 63 is used.',
    'base: “77” is none of 100, 1000, 10000, 500000, 1000000; 10000 is used.',
  ]);
});

test('garbage gives values in range and never an error', () => {
  const below = random(11);
  const characters = [...'0123456789-.eE+%&=# \u0000\u{1F600}<>"\'\u202ENaNInfinity'];
  const garbage = () => Array.from({ length: below(24) }, () => characters[below(characters.length)]).join('');
  for (const model of models) {
    for (let round = 0; round < 300; round += 1) {
      const parameters = new URLSearchParams({ v: garbage(), view: model.id, hide: garbage(), embed: garbage() });
      for (const key of Object.keys(model.fields)) parameters.set(key, garbage());
      const address = read(`#${parameters}`);
      for (const [key, field] of Object.entries(model.fields)) {
        const value = address.state[key];
        if (field.maximum !== undefined) assert.ok(Number.isInteger(value) && value >= field.minimum && value <= field.maximum);
        if (field.values) assert.ok(field.values.includes(value));
      }
      const again = read(write(address));
      assert.deepEqual({ ...again.state }, { ...address.state });
      assert.deepEqual(again.notes, []);
    }
    for (let round = 0; round < 300; round += 1) read(`#${garbage()}`);
  }
});

test('unknown keys are kept in the address and named', () => {
  const address = read('#v=1&view=rotation&colour=red&query=9');
  assert.deepEqual(address.ignored, [['colour', 'red']]);
  assert.equal(write(address), '#v=1&view=rotation&query=9&colour=red');
});

test('an unknown view, another version, a key given twice and a part that cannot be hidden are said aloud', () => {
  const { view, notes } = read('#v=9&view=nothing&hide=figure&embed=yes&query=1&query=2');
  assert.equal(view, models[0].id);
  assert.equal(notes.length, 5);
  for (const word of ['version', 'view', 'hide', 'embed', 'twice']) assert.ok(notes.some((note) => note.includes(word)), word);
});

test('an order of another sentence is replaced aloud, an order in pieces is refused', () => {
  const { state, notes } = read('#v=1&view=shuffle&sentence=one+two+three&order=1.0');
  assert.deepEqual(state.order, [2, 1, 0]);
  assert.match(notes.join(), /names 2 tokens and the sentence has 3/);
  for (const order of ['0.0.1', '5.4.3.2.1.9', 'x', '1..0']) assert.equal(read(`#view=shuffle&order=${order}`).notes.length, 1, order);
});

test('long sentences and long words are cut aloud', () => {
  const many = read(`#view=shuffle&sentence=${Array(40).fill('word').join('+')}`);
  assert.equal(many.state.sentence.split(' ').length, 12);
  assert.match(many.notes.join(), /40 words; the first 12 are used/);
  const long = read(`#view=shuffle&sentence=a+${'b'.repeat(5000)}`);
  assert.equal(long.state.sentence, `a ${'b'.repeat(16)}`);
  assert.equal(long.notes.length, 1);
});
