// Every method describes itself as data; the C++ test of the same name (methods_describe_test.cpp) has the same list.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { locant } from './helpers.mjs';

const f = (count) => new Float32Array(count);
const plan = (more) => locant.rotaryPlan({ rule: 'default', headDim: 8, ...more });
const describePlan = (more) => locant.describePlan(plan(more));
const attention = locant.attention({ heads: 1, headDim: 4, temperature: { slope: 0.1, period: 8192, shift: 1 } });

/** Door, reference and makers of descriptions. */
const methods = {
  input: {
    absolute: [
      ...['interleaved', 'concatenated', 'tensor2tensor', 'mlx'].map((layout) => locant.sinusoidal({ width: 8, layout })),
      ...['row-first', 'column-first'].map((order) => locant.gridSinusoidal({ features: 8, order })),
      locant.detrSinusoidal({ featuresPerAxis: 4 }),
      ...['error', 'truncate', 'clamp', 'interpolate'].map((pastEnd) =>
        locant.learnedTable({ table: f(12), rows: 6, width: 2, firstRow: 2, pastEnd, length: pastEnd === 'interpolate' ? 8 : undefined })),
      { describe: () => locant.describeInterpolation({ from: { height: 2, width: 2 }, to: { height: 3, width: 3 }, channels: 4 }) },
    ],
  },
  rotation: {
    relative: [
      { rule: 'default' }, { rule: 'linear', factor: 2 }, { rule: 'ntk', factor: 2 }, { rule: 'vllm-ntk', factor: 2 },
      { rule: 'vllm-ntk-mixed', factor: 2 }, { rule: 'dynamic-ntk', factor: 2, trainedLength: 64, length: 128 },
      { rule: 'yarn', factor: 2, originalLength: 64 }, { rule: 'llama3', factor: 2, originalLength: 64 },
      { rule: 'longrope', shortFactors: [1, 1, 1, 1], longFactors: [2, 2, 2, 2], originalLength: 64, length: 128, factor: 2 },
      { rule: 'proportional', fraction: 0.5 }, { rule: 'custom', inverseFrequencies: [1, 2, 3, 4] }, { pairing: 'interleaved' },
      { xpos: { gamma: 0.4, scaleBase: 512, center: 0 } }, { sections: [2, 1, 1] },
    ].map((rule) => ({ describe: () => describePlan(rule) })).concat(
      ['qwen2-vl', 'pixtral', 'llama4', 'rows'].map((convention) => ({ describe: () => locant.describePlan(locant.axialPlan({ convention, headDim: 8 })) })),
      { describe: () => locant.describePlan(locant.pixelPlan({ featuresPerAxis: 4, height: 3, width: 3 })) },
      locant.decoupledRotation(plan(), { plainDim: 16, rotaryDim: 8 }),
      locant.layerPlans({ layers: 8, interval: 4, which: 'last-of-group', special: null, other: plan({ headDim: 6 }) }).descriptions.map((said) => ({ describe: () => said })),
    ),
  },
  score: {
    relative: [
      ...['causal', 'symmetric'].map((form) => locant.alibi({ heads: 4, form })),
      ...['unidirectional', 'bidirectional'].map((direction) => locant.t5Bias({ heads: 2, table: f(64), direction })),
      locant.shawKeys({ maxDistance: 2, headDim: 4, table: f(20) }), locant.shawValues({ maxDistance: 2, valueDim: 4, table: f(20) }),
      locant.transformerXl({ heads: 1, headDim: 2, modelWidth: 2, projection: f(4), contentBias: f(2), positionBias: f(2) }),
      locant.deberta({ heads: 1, headDim: 2, buckets: 4, maxPosition: 8, contentToPosition: f(16) }),
      ...['logarithmic', 'power'].map((kernel) => locant.kerple({ kernel, r1: [1], r2: [1] })),
      locant.sandwich({ heads: 2 }), locant.fire({ w1: [1], b1: [0], w2: [1], b2: [0] }),
      locant.cope({ heads: 1, headDim: 4, maxPositions: 8, table: f(32) }),
      locant.displacementBias({ heads: 1, first: -1, last: 1, table: f(3) }),
    ],
    absolute: [
      locant.alibi({ heads: 4, form: 'key-only' }),
      locant.matrixBias({ heads: 1, queries: 2, keys: 2, matrix: f(4) }),
      { describe: () => attention.describe()[0] },
    ],
  },
};

test('every method describes itself as data, in words', () => {
  const names = [];
  for (const [door, references] of Object.entries(methods)) for (const [reference, list] of Object.entries(references)) for (const method of list) {
    const said = method.describe();
    names.push(said.name);
    assert.equal(said.door, door, said.name);
    assert.equal(said.reference, reference, said.name);
    for (const member of ['name', 'formula', 'source', 'origin', 'direction', 'pastEnd']) {
      assert.equal(typeof said[member], 'string');
      assert.ok(said[member].length > 0, `${said.name}: ${member}`);
    }
    assert.ok(said.parameters.length > 0, said.name);
    for (const { name, value } of said.parameters) {
      assert.ok(value.length > 0, `${said.name}: ${name}`);
      assert.doesNotMatch(name, /_/, `${said.name}: parameters are named in words`);
    }
    if (door === 'input') assert.equal(said.direction, 'none');
    if (door === 'score' && reference === 'relative') assert.match(said.direction, /key - query|query - key|back from the query/, said.name);
  }
  // The C++ list has one more: a function of displacement, which is C++'s own.
  assert.equal(names.length, 51);
  assert.equal(new Set(names).size, names.length - 4, 'policies of one table share its name, and a layer that rotates has its plan\'s');
});

test('an attention says what it was made of, door by door', () => {
  const made = locant.attention({ heads: 2, headDim: 4, rotation: plan({ headDim: 4 }), terms: [locant.alibi({ heads: 2 })],
    valueTerm: locant.shawValues({ maxDistance: 1, valueDim: 4, table: f(12) }), temperature: { slope: 0.1, period: 64, shift: 0 } });
  assert.deepEqual(made.describe().map(({ name }) => name), ['rotary, half-split, default', 'ALiBi, causal', 'Shaw, values', 'attention temperature']);
  const { parameters } = made.describe()[3];
  assert.deepEqual(parameters.map(({ name, value }) => [name, value]), [['slope', '0.1'], ['period', '64'], ['shift', '0']]);
  made.dispose();
});
