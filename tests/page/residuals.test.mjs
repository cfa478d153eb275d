// The calls that the page makes, made here: every identity holds by default, each wrong switch breaks its own, and the
// findings are what the texts say.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from 'locant';
import { pageCode } from './support.mjs';

const { models, initialState, within } = await pageCode();
const library = await load({ kernel: 'deterministic' });
const byId = Object.fromEntries(models.map((model) => [model.id, model]));

function measure(id, patch = {}) {
  const model = byId[id];
  let state = { ...initialState(model), ...patch };
  if (model.settle) ({ state } = model.settle(state));
  const result = model.compute(library, state);
  return { state, result, checks: Object.fromEntries(model.checks(result, state).map((check) => [check.id, check])) };
}

for (const model of models) {
  test(`${model.id}: every identity holds by default`, () => {
    const identities = Object.values(measure(model.id).checks).filter(({ kind }) => kind === 'identity');
    assert.ok(identities.length > 0);
    for (const check of identities) assert.ok(within(check), `${check.id}: ${check.residual} > ${check.tolerance}`);
  });

  for (const wrong of model.wrong.wrongs) {
    test(`${model.id}: the wrong switch “${wrong}” breaks the identity of the view and no other`, () => {
      const right = Object.values(measure(model.id).checks);
      const broken = Object.values(measure(model.id, { [model.wrong.field]: wrong }).checks);
      assert.ok(broken[0].residual > 100 * broken[0].tolerance, `${broken[0].id} is ${broken[0].residual}`);
      for (const [index, check] of right.entries()) if (index > 0 && check.kind === 'identity') assert.ok(within(broken[index]), check.id);
    });
  }

  test(`${model.id}: nothing that a computation made stays alive`, () => {
    const before = library.liveObjects();
    for (let round = 0; round < 20; round += 1) measure(model.id);
    assert.equal(library.liveObjects(), before);
  });

  test(`${model.id}: equal states give equal numbers`, () => {
    assert.deepEqual(measure(model.id).checks, measure(model.id).checks);
  });

  test(`${model.id}: table, sentence and calls are written for the default state and every wrong one`, () => {
    for (const patch of [{}, ...model.wrong.wrongs.map((wrong) => ({ [model.wrong.field]: wrong }))]) {
      const { state, result } = measure(model.id, patch);
      const table = model.table(result, state);
      assert.ok(table.rows.length > 0);
      for (const row of table.rows) assert.equal(row.length, table.columns.length);
      assert.doesNotMatch(JSON.stringify(table), /null|undefined/);
      assert.doesNotMatch(model.sentence(result, state), /undefined|NaN/);
      const { javascript, cpp } = model.call(state);
      assert.doesNotMatch(javascript + cpp, /undefined|\[object/);
    }
  });
}

const methods = ['none', 'sinusoidal', 'learned', 'rotary', 'alibi'];

test('shuffle: words that move alone are not noticed without a method, and are with any', () => {
  for (const method of methods) {
    const { checks } = measure('shuffle', { method });
    assert.ok(within(checks['alone-plain']));
    if (method !== 'none') assert.ok(checks['alone-placed'].residual > 0.01, `${method}: ${checks['alone-placed'].residual}`);
  }
});

test('shuffle: positions carried along give the old result back, under every method, mask and sentence', () => {
  const sentences = ['the dog bit the man .', 'a b', 'one two three four five six seven eight nine ten eleven twelve', 'same same same same'];
  for (const method of methods) {
    for (const mask of ['bidirectional', 'causal']) {
      for (const sentence of sentences) {
        const { checks } = measure('shuffle', { method, mask, sentence, order: [] });
        assert.ok(within(checks.carried), `${method}, ${mask}, ${sentence}: ${checks.carried.residual}`);
      }
    }
  }
});

test('shuffle: a causal mask alone breaks the symmetry and knows nothing of distance', () => {
  const { checks } = measure('shuffle', { method: 'none', mask: 'causal' });
  assert.ok(checks['alone-plain'].residual > 0.01);
  assert.equal(checks['stretched-plain'].residual, 0);
});

test('shuffle: every method tells a gap from one ten times as wide', () => {
  for (const mask of ['bidirectional', 'causal']) {
    for (const method of methods.slice(1)) assert.ok(measure('shuffle', { method, mask }).checks['stretched-placed'].residual > 0.01, method);
  }
});

test('shuffle: where no method reads positions, reading them off the slot does no harm', () => {
  assert.ok(within(measure('shuffle', { method: 'none', carried: 'slot' }).checks.carried));
});

test('shuffle: weights of every query sum to 1, and are 0 where the mask hides', () => {
  for (const mask of ['bidirectional', 'causal']) {
    const { result } = measure('shuffle', { method: 'rotary', mask });
    for (const [query, row] of result.placed.before.weights.entries()) {
      assert.ok(Math.abs(row.reduce((sum, weight) => sum + weight, 0) - 1) < 1e-6);
      if (mask === 'causal') assert.ok(row.subarray(query + 1).every((weight) => weight === 0));
    }
  }
});

test('shuffle: the copied JavaScript gives the residuals that the page prints', async () => {
  const { javascript } = byId.shuffle.call(measure('shuffle').state);
  assert.match(javascript, /^import \{ load \} from 'locant';/);
  for (const method of methods) {
    for (const carried of ['token', 'slot']) {
      const { state, result } = measure('shuffle', { method, carried });
      const body = byId.shuffle.call(state).javascript.replace(/^import .*$/m, '').replace(/^(locant\.difference.*?);/gm, 'found.push($1);');
      const AsyncFunction = (async () => {}).constructor;
      const found = await new AsyncFunction('load', `const found = [];\n${body}\nreturn found;`)(load);
      assert.deepEqual(found, [result.placed.alone, result.carried]);
    }
  }
});

test('rotation: the copied JavaScript gives the scores that the page prints', async () => {
  for (const patch of [{}, { keyPairing: 'other' }, { pairing: 'half-split', base: '500000', query: 20, key: 3 }]) {
    const { state, result } = measure('rotation', patch);
    const body = byId.rotation.call(state).javascript.replace(/^import .*$/m, '').replace(/^(score\(\d+, \d+\));/gm, 'found.push($1);');
    const AsyncFunction = (async () => {}).constructor;
    const found = await new AsyncFunction('load', `const found = [];\n${body}\nreturn found;`)(load);
    assert.deepEqual(found, [result.score, result.byShift[5]]);
  }
});

test('rotation: identities hold at every displacement, pairing and base', () => {
  for (const pairing of ['interleaved', 'half-split']) {
    for (const base of ['100', '10000', '1000000']) {
      for (const [query, key] of [[0, 0], [63, 0], [0, 63], [8, 10], [40, 41]]) {
        for (const check of Object.values(measure('rotation', { pairing, base, query, key }).checks)) {
          assert.ok(within(check), `${check.id} at ${query}, ${key}, ${pairing}, ${base}: ${check.residual}`);
        }
      }
    }
  }
});

test('rotation: the query at 3 meets the key at 5 as the query at 8 meets the key at 10', () => {
  const [near, far] = [measure('rotation', { query: 3, key: 5 }), measure('rotation', { query: 8, key: 10 })];
  assert.ok(Math.abs(near.result.score - far.result.score) < 1e-6);
  assert.ok(Math.abs(near.result.score - measure('rotation', { query: 3, key: 6 }).result.score) > 0.01);
});

test('rotation: the dials of all pairs add up to the score', () => {
  for (const keyPairing of ['same', 'other']) {
    for (const pairing of ['interleaved', 'half-split']) {
      const { result } = measure('rotation', { keyPairing, pairing, query: 11, key: 4 });
      assert.ok(Math.abs(result.dials.reduce((sum, { share }) => sum + share, 0) - result.score) < 1e-5);
    }
  }
});

const generating = ['sinusoidal', 'learned', 'rotary', 'alibi'];

test('cached generation: with the true offset the cache says what the whole sequence says, under every method and seed', () => {
  for (const method of generating) {
    for (const seed of [0, 1, 2, 50, 99]) {
      const { result, checks } = measure('cached-generation', { method, seed });
      assert.ok(within(checks['cached-vs-full']), `${method}, seed ${seed}: ${checks['cached-vs-full'].residual}`);
      assert.deepEqual([result.firstOver, result.firstOther], [null, null]);
      for (const step of result.steps) assert.deepEqual(step.storedPositions, step.truePositions);
    }
  }
});

test('cached generation: a wrong offset shows in the logits at the first new word, whatever the method', () => {
  for (const method of generating) {
    for (const offset of ['restarted', 'off-by-one']) {
      const { result, checks } = measure('cached-generation', { method, offset });
      assert.ok(checks['cached-vs-full'].residual > 100 * checks['cached-vs-full'].tolerance, `${method}, ${offset}`);
      assert.equal(result.firstOver, 1, `${method}, ${offset}`);
      assert.ok(result.steps[0].difference <= checks['cached-vs-full'].tolerance, 'the prompt itself stands right');
      if (result.firstOther !== null) assert.ok(result.firstOther >= result.firstOver);
      const [n, last] = [result.prompt.length, result.steps.at(-1)];
      const first = { restarted: 0, 'off-by-one': n + 1 }[offset];
      assert.deepEqual(last.storedPositions.slice(n), last.truePositions.slice(n).map((_, index) => first + index));
    }
  }
});

test('cached generation: the steps are consistent with each other', () => {
  const { result, state } = measure('cached-generation');
  assert.equal(result.steps.length, state.steps + 1);
  result.steps.forEach((step, index) => {
    assert.equal(step.words.length, result.prompt.length + index);
    assert.deepEqual(step.truePositions, step.words.map((_, position) => position));
    if (index > 0) assert.equal(step.words.at(-1), result.steps[index - 1].fullWord);
  });
  assert.equal(result.largest, Math.max(...result.steps.map(({ difference }) => difference)));
});

test('cached generation: past the learned table the library stops with its own error', () => {
  assert.doesNotThrow(() => measure('cached-generation', { method: 'learned', steps: 18 }));
  assert.throws(() => measure('cached-generation', { method: 'learned', steps: 19 }), { code: 'table-end', message: /24/ });
});

test('cached generation: the copied JavaScript gives the residual that the page prints', async () => {
  for (const method of generating) {
    for (const offset of ['true', 'restarted']) {
      const { state, result } = measure('cached-generation', { method, offset });
      const body = byId['cached-generation'].call(state).javascript.replace(/^import .*$/m, '');
      const AsyncFunction = (async () => {}).constructor;
      const [largest, logits] = await new AsyncFunction('load', `${body}\nreturn [lanes.largestDifference, cached];`)(load);
      assert.equal(largest, result.largest);
      assert.ok(logits.every(Number.isFinite) && logits.length > 0);
    }
  }
});

test('cached generation: words that the decoder has not met get numbers of their own', () => {
  const { result, checks } = measure('cached-generation', { sentence: 'Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich - hoppla' });
  assert.equal(result.prompt.length, 12);
  assert.ok(within(checks['cached-vs-full']));
});
