import assert from 'node:assert/strict';
import { test } from 'node:test';
import { close, locant, numbers, refuses } from './helpers.mjs';

const { positions } = locant;
const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);

test('rotary plan: the default rule is base^(-2i/w)', () => {
  const plan = locant.rotaryPlan({ rule: 'default', headDim: 8, base: 10000 });
  assert.ok(plan.inverseFrequencies instanceof Float64Array);
  close(Array.from(plan.inverseFrequencies), [1, 0.1, 0.01, 0.001], 1e-16);
  assert.equal(plan.pairing, 'half-split');
  assert.equal(plan.start, 0);
  assert.equal(plan.attentionFactor, 1);
  assert.equal(plan.softmaxScaleFactor, 1);
  assert.equal(plan.axisOfPair, null);
  assert.equal(plan.axisOffsets, null);
  assert.equal(plan.xpos, null);
  assert.equal(plan.rule, 'default');
  assert.equal(plan.base, 10000);
  assert.equal(plan.length, null);
  assert.deepEqual(structuredClone(plan), plan, 'a plan is plain data');
});

test('rotary plan: factor 1 is the identity of every rule that scales', () => {
  const shape = { headDim: 16, base: 500000 };
  const expected = locant.rotaryPlan({ rule: 'default', ...shape }).inverseFrequencies;
  for (const rule of [
    { rule: 'linear', factor: 1 }, { rule: 'ntk', factor: 1 }, { rule: 'vllm-ntk', factor: 1 }, { rule: 'vllm-ntk-mixed', factor: 1 },
    { rule: 'dynamic-ntk', factor: 1, trainedLength: 64, length: 64 }, { rule: 'yarn', factor: 1, originalLength: 64 },
    { rule: 'llama3', factor: 1, originalLength: 64 }, { rule: 'proportional', fraction: 1 },
    { rule: 'longrope', shortFactors: Array(8).fill(1), longFactors: Array(8).fill(4), originalLength: 64, length: 64, factor: 1 },
    { rule: 'custom', inverseFrequencies: expected },
  ]) {
    const { base: _, ...withoutBase } = shape;
    const plan = locant.rotaryPlan({ ...(rule.rule === 'custom' ? withoutBase : shape), ...rule });
    assert.deepEqual(plan.inverseFrequencies, expected, rule.rule);
    assert.equal(plan.rule, rule.rule);
  }
});

test('rotary plan: LongRoPE takes its short factors up to and including the original length', () => {
  const at = (length) => locant.rotaryPlan({ rule: 'longrope', headDim: 4, shortFactors: [1, 1], longFactors: [2, 4], originalLength: 64, length, factor: 4 });
  assert.equal(at(64).inverseFrequencies[0], 1);
  assert.equal(at(65).inverseFrequencies[0], 0.5);
  assert.equal(at(65).length, 65);
});

test("rotary plan: DeepSeek's factor of the softmax scale is its own number", () => {
  const rule = { rule: 'yarn', headDim: 64, factor: 40, originalLength: 4096, mscale: 1, mscaleAllDim: 1 };
  const plan = locant.rotaryPlan({ ...rule, softmaxScale: 'deepseek' });
  const g = 0.1 * Math.log(40) + 1;
  close([plan.softmaxScaleFactor, plan.attentionFactor], [g * g, 1], 1e-12);
  assert.equal(locant.rotaryPlan(rule).softmaxScaleFactor, 1);
});

test('rotary plan: it describes itself', () => {
  const plan = locant.rotaryPlan({ rule: 'yarn', headDim: 64, factor: 4, originalLength: 32768 });
  const { door, reference, parameters } = locant.describePlan(plan);
  assert.equal(door, 'rotation');
  assert.equal(reference, 'relative');
  assert.ok(parameters.length > 0);
  assert.ok(plan.parameters.some(({ value }) => value === '32768'));
});

for (const pairing of ['half-split', 'interleaved']) {
  test(`rotation, ${pairing}: a score depends on the displacement alone: q at 3, k at 5 = q at 8, k at 10`, () => {
    const plan = locant.rotaryPlan({ rule: 'default', headDim: 8, pairing });
    const rotation = locant.rotation(plan, { headDim: 8 });
    const [q, k] = [numbers(8, 'q'), numbers(8, 'k')];
    const at = (x, position, role) => rotation.apply(x, positions.range(1, { offset: position }), { heads: 1, role });
    const near = dot(at(q, 3, 'query'), at(k, 5, 'key'));
    const far = dot(at(q, 8, 'query'), at(k, 10, 'key'));
    assert.ok(Math.abs(near - far) < 2e-6, `${near} and ${far}`);
    assert.ok(Math.abs(near - dot(q, k)) > 1e-2, 'and it does depend on it');
    rotation.dispose();
  });

  test(`rotation, ${pairing}: norms stay, the inverse undoes`, () => {
    const rotation = locant.rotation(locant.rotaryPlan({ rule: 'default', headDim: 6, pairing }), { headDim: 6 });
    const x = numbers(5 * 2 * 6);
    const here = positions.range(5, { offset: 1000 });
    const turned = rotation.apply(x, here, { heads: 2, role: 'query' });
    assert.ok(Math.abs(dot(turned, turned) - dot(x, x)) < 1e-5);
    assert.ok(locant.difference(rotation.applyInverse(turned, here, { heads: 2, role: 'query' }), x).largest < 5e-7);
    rotation.dispose();
  });
}

test('rotation: what lies outside the rotated slice passes, padding passes, and out may be x', () => {
  const plan = locant.rotaryPlan({ rule: 'default', headDim: 8, rotatedWidth: 4, start: 2 });
  const rotation = locant.rotation(plan, { headDim: 8 });
  const x = numbers(3 * 8);
  const padded = positions.padded([2], { columns: 3, side: 'left', offsets: [9] });
  const turned = rotation.apply(x, padded, { heads: 1, role: 'key' });
  assert.deepEqual(turned.subarray(0, 8), x.subarray(0, 8));
  for (const t of [1, 2]) for (const c of [0, 1, 6, 7]) assert.equal(turned[t * 8 + c], x[t * 8 + c]);
  assert.notEqual(turned[8 + 2], x[8 + 2]);
  assert.equal(rotation.apply(x, padded, { heads: 1, role: 'key', out: x }), x);
  assert.deepEqual(x, turned);
  rotation.dispose();
});

test('rotation: a prepared table gives the same bits, up to the last position', () => {
  const plan = locant.rotaryPlan({ rule: 'default', headDim: 4 });
  const [fresh, prepared] = [locant.rotation(plan, { headDim: 4 }), locant.rotation(plan, { headDim: 4 })];
  prepared.prepare(10);
  const where = positions.from({ rowLengths: [4], position: [[0, 9, 10, 2147483647]] });
  const x = numbers(16);
  const role = { heads: 1, role: 'query' };
  assert.deepEqual(prepared.apply(x, where, role), fresh.apply(x, where, role));
  fresh.dispose();
  prepared.dispose();
});

test('rotation: xPos turns queries and keys by inverse scales', () => {
  const plan = { ...locant.rotaryPlan({ rule: 'default', headDim: 4 }), xpos: { gamma: 0.4, scaleBase: 512, center: 0 } };
  const rotation = locant.rotation(plan, { headDim: 4 });
  const [q, k] = [numbers(4, 'q'), numbers(4, 'k')];
  const at = (x, position, role) => rotation.apply(x, positions.range(1, { offset: position }), { heads: 1, role });
  const score = (i, j) => dot(at(q, i, 'query'), at(k, j, 'key'));
  assert.ok(Math.abs(score(100, 90) - score(400, 390)) < 1e-5);
  assert.notDeepEqual(at(q, 100, 'query'), at(q, 100, 'key'));
  refuses(() => at(q, 1000000, 'query'), 'position-range', /^apply: .*1000000/);
  rotation.dispose();
});

test('rotary: bad input is named', () => {
  const plan = (more) => locant.rotaryPlan({ rule: 'default', headDim: 8, ...more });
  refuses(() => plan({ rotatedWidth: 5 }), 'argument', /^rotaryPlan: .*5.*even/);
  refuses(() => plan({ headDim: 7 }), 'argument', /^rotaryPlan: .*7.*even/);
  refuses(() => plan({ headDim: 0 }), 'argument', 'rotaryPlan: headDim is 0, expected an integer of 1 .. 65536');
  refuses(() => plan({ rotatedWidth: 10 }), 'argument', 'rotaryPlan: rotatedWidth is 10, expected an integer of 1 .. 8');
  refuses(() => plan({ base: 0 }), 'argument', 'rotaryPlan: base is 0, expected a finite number above 0');
  refuses(() => plan({ base: Infinity }), 'argument', 'rotaryPlan: base is Infinity, expected a finite number above 0');
  refuses(() => plan({ rule: 'ntk-aware' }), 'argument', /^rotaryPlan: rule is "ntk-aware", expected "default" or "linear"/);
  refuses(() => plan({ rule: 'linear' }), 'argument', 'rotaryPlan: factor is undefined, expected a finite number above 0');
  refuses(() => plan({ factor: 2 }), 'argument', /^rotaryPlan: there is no option "factor"; there are rule, headDim/);
  refuses(() => plan({ rule: 'dynamic-ntk', factor: 2, trainedLength: 64 }), 'argument', /^rotaryPlan: .*length/);
  refuses(() => plan({ rule: 'yarn', factor: 4, originalLength: 64, rampEnds: 'round' }), 'argument', /^rotaryPlan: rampEnds is "round"/);
  refuses(() => plan({ rule: 'longrope', shortFactors: [1], longFactors: [1, 1, 1, 1], originalLength: 64, length: 1, factor: 2 }), 'argument', /^rotaryPlan: .*short/);
  refuses(() => plan({ rule: 'custom', inverseFrequencies: [1, NaN] }), 'argument', 'rotaryPlan: inverseFrequencies[1] is NaN, expected a finite number');
  refuses(() => locant.rotation(plan({}), { headDim: 6 }), 'argument', /^rotation: .*6/);
  refuses(() => locant.rotation({ ...plan({}), attentionFactor: NaN }, { headDim: 8 }), 'argument', 'rotation: the plan.attentionFactor is NaN, expected a finite number above 0');
  refuses(() => locant.rotation(null, { headDim: 8 }), 'argument', 'rotation: the plan is null, expected a plan of rotaryPlan');
  refuses(() => locant.rotation({ ...plan({}), axisOfPair: Uint8Array.of(0, 1) }, { headDim: 8 }), 'shape', /^rotation: axes of pairs hold 2 values, expected .* = 4/);
  const rotation = locant.rotation(plan({}), { headDim: 8 });
  const here = positions.range(2);
  refuses(() => rotation.apply(new Float32Array(16), here, { heads: 2, role: 'key' }), 'shape', 'apply: x holds 16 values, expected 2 tokens x 2 heads x 8 = 32');
  refuses(() => rotation.apply(new Float32Array(16), here, { heads: 0, role: 'key' }), 'argument', 'apply: heads is 0, expected an integer of 1 .. 65536');
  refuses(() => rotation.apply(new Float32Array(16), here, { heads: 1 }), 'argument', 'apply: role is undefined, expected "query" or "key"');
  rotation.dispose();
  refuses(() => rotation.apply(new Float32Array(16), here, { heads: 1, role: 'key' }), 'disposed', 'apply: the rotation has been disposed');
});

test('rotary: sections give pairs to axes; text is turned as by one axis', () => {
  const plain = locant.rotaryPlan({ rule: 'default', headDim: 8 });
  const plan = locant.rotaryPlan({ rule: 'default', headDim: 8, sections: [2, 1, 1] });
  assert.deepEqual(Array.from(plan.axisOfPair), [0, 0, 1, 2]);
  assert.deepEqual(Array.from(locant.rotaryPlan({ rule: 'default', headDim: 12, sections: [2, 2, 2], sectionOrder: 'interleaved' }).axisOfPair), [0, 1, 2, 0, 1, 2]);
  const text = positions.multimodal([[{ tokens: 3 }]], { side: 'left' });
  const x = numbers(24);
  const turn = (plan, where) => {
    const rotation = locant.rotation(plan, { headDim: 8 });
    const out = rotation.apply(x, where, { heads: 1, role: 'key' });
    rotation.dispose();
    return out;
  };
  assert.deepEqual(turn(plan, text), turn(plain, positions.range(3)));
  refuses(() => turn(plan, positions.range(3)), 'argument', /^apply: .*ax/);
  refuses(() => locant.rotaryPlan({ rule: 'default', headDim: 8, sections: [1, 1] }), 'argument', /^rotaryPlan: /);
  refuses(() => locant.rotaryPlan({ rule: 'default', headDim: 8, sections: [2, 2], sectionOrder: 'interleaved' }), 'argument', 'rotaryPlan: sections holds 2 values, expected 3 where they are interleaved');
});

test('rotary: plans of images', () => {
  const plan = locant.axialPlan({ convention: 'rows', headDim: 8 });
  assert.equal(plan.pairing, 'interleaved');
  assert.deepEqual(Array.from(plan.axisOfPair), [0, 0, 1, 1]);
  close(Array.from(plan.inverseFrequencies), [1, 0.01, 1, 0.01], 1e-15);
  const pixel = locant.pixelPlan({ featuresPerAxis: 4, height: 3, width: 3 });
  assert.equal(pixel.inverseFrequencies.length, 4);
  refuses(() => locant.axialPlan({ convention: 'rows', headDim: 6 }), 'argument', /^axialPlan: .*6/);
  refuses(() => locant.axialPlan({ convention: 'columns', headDim: 8 }), 'argument', /^axialPlan: convention is "columns"/);
});

test('rotary: xPos is an option of the plan', () => {
  const xpos = { gamma: 0.4, scaleBase: 512, center: 0 };
  assert.deepEqual(locant.rotaryPlan({ rule: 'default', headDim: 4, xpos }).xpos, xpos);
  refuses(() => locant.rotaryPlan({ rule: 'default', headDim: 4, xpos: { ...xpos, gamma: -1 } }), 'argument', 'rotaryPlan: xpos.gamma is -1, expected a finite number above 0');
});

test('rotary: conversion between pairings changes no score', () => {
  const shape = { heads: 2, headDim: 6, rotatedWidth: 4 };
  const there = { from: 'interleaved', to: 'half-split', ...shape };
  const x = numbers(3 * 12);
  const converted = locant.convertPairing(x, there);
  assert.deepEqual(Array.from(converted.subarray(0, 6)), [x[0], x[2], x[1], x[3], x[4], x[5]]);
  assert.deepEqual(locant.convertPairing(converted, { from: 'half-split', to: 'interleaved', ...shape }), x);
  const turn = (pairing, y) => locant.rotation(locant.rotaryPlan({ rule: 'default', headDim: 6, rotatedWidth: 4, pairing }), { headDim: 6 }).apply(y, positions.range(3), { heads: 2, role: 'query' });
  assert.deepEqual(locant.convertPairing(turn('interleaved', x), there), turn('half-split', converted));
  const weight = numbers(12 * 5);
  const moved = locant.convertPairing(weight, { ...there, columns: 5 });
  assert.deepEqual(moved.subarray(5, 10), weight.subarray(10, 15));
  refuses(() => locant.convertPairing(new Float32Array(13), there), 'shape', /^convertPairing: x holds 13 values/);
  refuses(() => locant.convertPairing(x, { ...there, rotatedWidth: 3 }), 'argument', /^convertPairing: .*3/);
});
