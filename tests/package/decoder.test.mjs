import assert from 'node:assert/strict';
import { test } from 'node:test';
import { locant, refuses } from './helpers.mjs';

const { positions } = locant;
const shape = { vocabulary: 50, width: 32, heads: 4, kvHeads: 2, headDim: 8, feedForwardWidth: 64 };
const rotary = locant.rotaryPlan({ rule: 'default', headDim: 8 });
const layers = (layer) => [layer, layer];
const make = (more = {}, weights = { seed: 3 }) => locant.decoder({ ...shape, layers: layers({ rotation: rotary }), ...more }, weights);
const tokens = [7, 3, 49, 0, 12, 12, 31, 8, 26];

const methods = {
  'no position': { layers: layers({}) },
  sinusoids: { layers: layers({}), inputPosition: { sinusoidal: {} } },
  'a learned table': { layers: layers({}), inputPosition: { learnedTable: { rows: 64 } } },
  rotary: {},
  ALiBi: { layers: layers({ terms: [locant.alibi({ heads: 4 })] }) },
};
for (const [name, config] of Object.entries(methods)) {
  test(`decoder, ${name}: cached logits equal those of the full forward, whatever the split`, () => {
    const decoder = make(config);
    const full = decoder.forward({ tokens, positions: positions.range(9), wanted: 'valid' });
    assert.equal(full.length, 9 * 50);
    const largest = Math.max(...full.map(Math.abs));
    for (const chunks of [[9], [4, 5], [6, 1, 1, 1]]) {
      const cache = decoder.cache();
      const cached = [];
      let first = 0;
      for (const count of chunks) {
        cached.push(...decoder.forward({ tokens: tokens.slice(first, first + count), positions: cache.next([count]), cache, wanted: 'valid' }));
        first += count;
      }
      assert.ok(locant.difference(Float32Array.from(cached), full).largest < 2e-4 * largest);
      cache.dispose();
    }
    assert.ok(decoder.auditTests().passed, decoder.auditTests().text);
    decoder.dispose();
  });
}

test('decoder: the classic faults show, each in its test', () => {
  const decoder = make();
  const tests = { 'offset-restarted': 'cached-vs-full', 'off-by-one': 'cached-vs-full', 'upper-layers-ahead': 'cached-vs-full',
    'rows-taken-for-positions': 'after-eviction', 'padding-counted': 'padding', 'reset-without-document-mask': 'packed-documents' };
  for (const [fault, name] of Object.entries(tests)) {
    const report = decoder.auditTests({ fault });
    const failing = report.lines.filter(({ verdict }) => verdict === 'fail').map(({ test }) => test);
    assert.deepEqual(failing, [name], `${fault}\n${report.text}`);
  }
  const { lines, methods } = decoder.auditTests();
  assert.ok(lines.every(({ expectation, residual, tolerance }) => ['equal', 'different'].includes(expectation) && residual >= 0 && tolerance >= 0));
  assert.deepEqual(methods[0].layers, [0, 1]);
  assert.deepEqual(decoder.describe(), methods);
  decoder.dispose();
});

test('decoder: lanes agree at the true offset and part at a wrong one', () => {
  const decoder = make();
  const right = decoder.lanes({ prompt: [1, 2, 3, 4], steps: 8 });
  assert.equal(right.steps.length, 9);
  assert.equal(right.firstPastTolerance, null);
  assert.equal(right.firstOtherToken, null);
  assert.deepEqual(right.steps.map(({ cachedPosition }) => cachedPosition), right.steps.map(({ fullPosition }) => fullPosition));
  const wrong = decoder.lanes({ prompt: [1, 2, 3, 4], steps: 8, offset: 'restarted' });
  assert.equal(wrong.firstPastTolerance, 1);
  assert.ok(wrong.largestDifference > 1e-3);
  assert.deepEqual(wrong.steps.slice(0, 3).map(({ cachedPosition }) => cachedPosition), [3, 0, 1]);
  decoder.dispose();
});

test('decoder: generation is greedy by default, seeded otherwise, and the same row by row', () => {
  const decoder = make();
  const prompts = [[1, 2, 3], [4, 5, 6, 7, 8]];
  const greedy = decoder.generate({ prompts, newTokens: 6 });
  const lanes = decoder.lanes({ prompt: prompts[0], steps: 6 });
  assert.deepEqual(Array.from(greedy[0].tokens), lanes.steps.slice(0, 6).map(({ fullToken }) => fullToken));
  assert.equal(greedy[0].reason, 'length');
  assert.deepEqual(decoder.generate({ prompts: [prompts[1]], newTokens: 6 })[0].tokens, greedy[1].tokens);
  const stop = decoder.generate({ prompts: [prompts[0]], newTokens: 6, stopTokens: [greedy[0].tokens[1]] })[0];
  assert.equal(stop.reason, 'stop-token');
  assert.ok(stop.tokens.length <= 2);
  const sampled = (seed) => Array.from(decoder.generate({ prompts: [prompts[0]], newTokens: 16, temperature: 1.5, topK: 20, topP: 0.9, seed })[0].tokens);
  assert.deepEqual(sampled(1), sampled(1));
  assert.notDeepEqual(sampled(1), sampled(2));
  const cache = decoder.cache();
  decoder.generate({ prompts: [prompts[0]], newTokens: 3, cache });
  assert.equal(cache.rows(), 5, 'the last token was never an input');
  cache.dispose();
  decoder.dispose();
});

test('decoder: bad input is named, and the decoder goes on', () => {
  refuses(() => make({ vocabulary: 0 }), 'argument', 'decoder: vocabulary is 0, expected an integer of 1 .. 2147483647');
  refuses(() => make({ layers: [] }), 'argument', 'decoder: layers is a Array, expected an array of 1 or more');
  refuses(() => make({ layers: [{ rotations: 1 }] }), 'argument', /^decoder: layers\[0\]: there is no option "rotations"/);
  refuses(() => make({ kvHeads: 3 }), 'argument', 'decoder: kvHeads is 3, expected a divisor of heads, 4');
  refuses(() => make({ inputPosition: {} }), 'argument', 'decoder: inputPosition is a Object, expected { sinusoidal }, { learnedTable } or { gridSinusoidal }');
  refuses(() => make({}, { seed: 1.5 }), 'argument', 'decoder: seed is 1.5, expected an integer of 0 .. 2147483647');
  refuses(() => make({}, { seed: 1, safetensors: new Uint8Array(3) }), 'argument', 'decoder: seed is given beside safetensors, expected one of the two');
  refuses(() => make({}, { safetensors: [1] }), 'argument', 'decoder: safetensors is 1, expected a Uint8Array, or an array of them');
  const decoder = make();
  const here = positions.range(3);
  refuses(() => decoder.forward({ tokens: [1, 2], positions: here }), 'shape', 'forward: tokens holds 2 values, expected one per token of positions = 3');
  refuses(() => decoder.forward({ tokens: [1, 2, 50], positions: here }), 'argument', /^forward: .*50/);
  refuses(() => decoder.forward({ tokens: [1, 2, 3], positions: here, wanted: [3] }), 'argument', 'forward: wanted[0] is 3, expected an integer of 0 .. 2');
  refuses(() => decoder.forward({ tokens: [1, 2, 3], positions: here, sequences: [0] }), 'argument', 'forward: sequences is given, expected a cache beside it');
  refuses(() => decoder.generate({ prompts: [[]] }), 'argument', /^generate: /);
  refuses(() => decoder.generate({ prompts: [[1]], temperature: -1 }), 'argument', /^generate: .*-1/);
  refuses(() => decoder.generate({ prompts: [[1]], topP: 0 }), 'argument', /^generate: .*0/);
  refuses(() => decoder.auditTests({ length: 7 }), 'argument', 'auditTests: length is 7, expected an integer of 8 .. 4096');
  refuses(() => decoder.lanes({ prompt: [], steps: 2 }), 'argument', /^lanes: /);
  const other = locant.cache({ kvHeads: 1, headDim: 8 });
  refuses(() => decoder.forward({ tokens: [1, 2, 3], positions: here, cache: other }), 'shape', /^forward: /);
  assert.equal(decoder.forward({ tokens: [1, 2, 3], positions: here }).length, 50);
  const out = new Float32Array(50);
  assert.equal(decoder.forward({ tokens: [1, 2, 3], positions: here, out }), out);
  decoder.dispose();
  refuses(() => decoder.forward({ tokens: [1], positions: positions.range(1) }), 'disposed', 'forward: the decoder has been disposed');
});

test('decoder: scales and caps that attention refuses are refused in its layers, and the other way round', () => {
  for (const [change, good] of [[{ scale: 0 }, true], [{ scale: 2 }, true], [{ scale: -1 }, false], [{ scale: 1e300 }, false], [{ softCap: 3 }, true], [{ softCap: 1e300 }, false]]) {
    const attempts = [() => make({ layers: layers(change) }), () => locant.attention({ heads: 2, headDim: 8, ...change })];
    for (const attempt of attempts) {
      if (good) attempt().dispose();
      else refuses(attempt, 'argument', /(scale|soft.?[cC]ap).* is .*, expected/);
    }
  }
});
