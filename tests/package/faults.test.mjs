// Reported faults of positional methods, by their ids, through the package: pairing and conversion (D), rules (E, K),
// precision (G), score terms (H), images (J), widths (L). The C++ tests name the same ids. Keys of configuration files are
// the audit's: here the rules take what the keys say.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { close, locant, numbers, refuses } from './helpers.mjs';

const { positions } = locant;
const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
const near = (actual, expected, tolerance) => assert.ok(Math.abs(actual - expected) <= tolerance, `${actual}, expected ${expected} within ${tolerance}`);
const one = (position) => positions.range(1, { offset: position });
const at = (list) => positions.from({ rowLengths: [list.length], position: [list], order: list.map((_, i) => i) });
const plan = (more) => locant.rotaryPlan({ rule: 'default', headDim: 128, ...more });
const f = (more) => plan(more).inverseFrequencies;
const said = (method, name) => method.parameters.find((parameter) => parameter.name === name)?.value;
/** x of `heads` heads turned by a plan. */
const turn = (rotary, x, where, { heads = 1, role = 'query', headDim = rotary.start + 2 * rotary.inverseFrequencies.length } = {}) => {
  const rotation = locant.rotation(rotary, { headDim });
  const out = rotation.apply(x, where, { heads, role });
  rotation.dispose();
  return out;
};
const attend = (options, { q, k, v, ...rest }) => {
  const attention = locant.attention(options);
  const out = attention.attend({ q, k, v, ...rest });
  attention.dispose();
  return out;
};
const bias = (term, t, j) => term.bias({ heads: 1, positions: one(j), queryPositions: one(t) })[0];

// ---- D: pairing and conversion -----------------------------------------------------------------------------------------

test('D02: keys are permuted by the number of key heads: 64 query heads and 8 key heads of 128 give the same scores', () => {
  const [q, k] = [numbers(64 * 128, 'q'), numbers(8 * 128, 'k')];
  const there = { from: 'interleaved', to: 'half-split', headDim: 128 };
  const [qHalf, kHalf] = [locant.convertPairing(q, { ...there, heads: 64 }), locant.convertPairing(k, { ...there, heads: 8 })];
  const score = (pairing, x, y, head) => dot(
    turn(plan({ pairing }), x, one(9), { heads: 64 }).slice(head * 128, (head + 1) * 128),
    turn(plan({ pairing }), y, one(4), { heads: 8, role: 'key' }).slice((head >> 3) * 128, ((head >> 3) + 1) * 128));
  for (const head of [0, 7, 8, 63]) near(score('half-split', qHalf, kHalf, head), score('interleaved', q, k, head), 2e-5);
  // The fault: permuted as if there were 64 key heads of 16.
  const wrong = locant.convertPairing(k, { ...there, heads: 64, headDim: 16 });
  const off = Array.from({ length: 64 }, (_, head) => Math.abs(score('half-split', qHalf, wrong, head) - score('interleaved', q, k, head)));
  assert.ok(Math.max(...off) > 0.1, `${Math.max(...off)}`);
});

test('D04: interleaved rows 2i and 2i+1 become half-split rows i and i + d/2: no bug, a permutation', () => {
  const rows = Float32Array.from({ length: 128 }, (_, i) => i);
  const moved = locant.convertPairing(rows, { from: 'interleaved', to: 'half-split', heads: 1, headDim: 128 });
  for (let i = 0; i < 64; ++i) assert.deepEqual([moved[i], moved[i + 64]], [2 * i, 2 * i + 1]);
});

test('D07: an interleaved rotation against a half-split one: the data say which is which', () => {
  const x = numbers(1088 * 64);
  const here = positions.range(1088);
  const rotary = plan({ headDim: 64, pairing: 'interleaved' });
  const { interleaved, halfSplit } = locant.comparePairings({ plan: rotary, headDim: 64, heads: 1, x, rotated: turn(rotary, x, here), positions: here });
  assert.equal(interleaved, 0);
  assert.ok(halfSplit > 1);
});

test('D08: on a layer that does not rotate, permuted q and k give the same scores, so it proves nothing', () => {
  const [q, k, v] = ['q', 'k', 'v'].map((name) => numbers(5 * 8, name));
  const moved = (x) => locant.convertPairing(x, { from: 'interleaved', to: 'half-split', heads: 1, headDim: 8 });
  const run = (rotation, ...[a, b]) => attend({ heads: 1, headDim: 8, rotation }, { q: a, k: b, v, positions: positions.range(5) });
  assert.ok(locant.difference(run(null, q, k), run(null, moved(q), moved(k))).largest < 1e-6);
  const rotary = plan({ headDim: 8, pairing: 'interleaved' });
  assert.ok(locant.difference(run(rotary, q, k), run(rotary, moved(q), moved(k))).largest > 1e-2);
});

test('D09: the order of axes and the pairing of coordinates are two switches, and the plan prints both', () => {
  const both = ['half-split', 'interleaved'].flatMap((pairing) => ['chunked', 'interleaved'].map((sectionOrder) =>
    locant.describePlan(plan({ headDim: 12, sections: [2, 2, 2], sectionOrder, pairing }))));
  assert.deepEqual(both.map((method) => `${said(method, 'pairing')} ${said(method, 'axis of pair')}`),
    ['half-split 001122', 'half-split 012012', 'interleaved 001122', 'interleaved 012012']);
});

test('D11: positions run along the tokens, not along the heads', () => {
  const head = numbers(8, 'head');
  const x = Float32Array.from({ length: 6 * 4 * 8 }, (_, i) => head[i % 8]);
  const out = turn(plan({ headDim: 8 }), x, positions.range(6), { heads: 4 });
  const vector = (t, h) => Array.from(out.slice((t * 4 + h) * 8, (t * 4 + h + 1) * 8));
  for (let t = 0; t < 6; ++t) for (let h = 1; h < 4; ++h) assert.deepEqual(vector(t, h), vector(t, 0));
  assert.notDeepEqual(vector(1, 0), vector(0, 0));
});

test('D12: [c1 c2 c1 c2] goes with half-split pairs, [c1 c1 c2 c2] with interleaved ones', () => {
  const x = [0.5, -1, 2, 0.25];
  const angles = Array.from(f({ headDim: 4 }), (frequency) => 3 * frequency);
  const [c, s] = [angles.map(Math.cos), angles.map(Math.sin)];
  const by = { 'half-split': [[0, 2], [1, 3]], interleaved: [[0, 1], [2, 3]] };
  for (const [pairing, pairs] of Object.entries(by)) {
    const expected = [];
    for (const [i, [a, b]] of pairs.entries()) {
      expected[a] = x[a] * c[i] - x[b] * s[i];
      expected[b] = x[a] * s[i] + x[b] * c[i];
    }
    close(turn(plan({ headDim: 4, pairing }), Float32Array.from(x), one(3)), expected, 5e-7, pairing);
  }
});

// ---- E and K: rules ----------------------------------------------------------------------------------------------------

test('E02, E03, E04: the Llama 3 rule takes its parameters, refuses to do without its length, and keeps its name', () => {
  const block = { rule: 'llama3', base: 500000, factor: 8, lowFrequencyFactor: 1, highFrequencyFactor: 4, originalLength: 8192 };
  assert.equal(plan(block).rule, 'llama3');
  assert.notEqual(locant.planDifference(plan(block), plan({ rule: 'linear', base: 500000, factor: 8 })), null);
  refuses(() => plan({ ...block, originalLength: undefined }), 'argument', 'rotaryPlan: originalLength is undefined, expected a finite number above 0');
});

test('E06, E35: no scaling is LongRoPE with factors of 1; a LongRoPE plan says that it is one', () => {
  const ones = Array(32).fill(1);
  const long = { rule: 'longrope', headDim: 64, originalLength: 4096, shortFactors: ones, factor: 1 };
  assert.equal(locant.planDifference(plan({ ...long, longFactors: ones, length: 100000 }), plan({ headDim: 64 })), null);
  const kept = plan({ ...long, longFactors: Array(32).fill(4), factor: 32, length: 8192 });
  assert.equal(kept.rule, 'longrope');
  assert.equal(said(locant.describePlan(kept), 'factors'), 'long');
  near(kept.attentionFactor, Math.sqrt(1 + Math.log(32) / Math.log(4096)), 1e-12);
});

test('E08, E09: the base is the one given, and the plan prints it, the default too', () => {
  near(f({ base: 1e6 })[1], 0.805842, 5e-7);
  near(f({ base: 10000 })[1], 0.865964, 5e-7);
  assert.equal(plan({}).base, 10000);
  assert.equal(said(locant.describePlan(plan({ base: 1e6 })), 'base'), '1000000');
});

test('E11: a YaRN ramp uses the original length: 23 to 40 for Qwen2.5, whatever the configured maximum', () => {
  const yarn = locant.describePlan(plan({ rule: 'yarn', base: 1e6, factor: 4, originalLength: 32768 }));
  assert.deepEqual([said(yarn, 'ramp low'), said(yarn, 'ramp high')], ['23', '40']);
  const raw = locant.describePlan(plan({ rule: 'yarn', base: 1e6, factor: 4, originalLength: 32768, rampEnds: 'exact' }));
  close([Number(said(raw, 'ramp low')), Number(said(raw, 'ramp high'))], [23.596, 39.651], 5e-4);
});

test('E12, E13: an explicit attention factor replaces the computed one verbatim', () => {
  const yarn = (more) => plan({ rule: 'yarn', factor: 4, originalLength: 32768, ...more }).attentionFactor;
  near(yarn({}), 1.13863, 5e-6);
  assert.equal(yarn({ attentionFactor: 0.8782488562869419 }), 0.8782488562869419);
  near(yarn({}) * 0.8782488562869419, 1, 1e-12);
  near(yarn({ factor: 8 }), 1.207944, 5e-7);
  assert.equal(yarn({ factor: 8, attentionFactor: 1 }), 1);
});

test('E16, E18, E19, E20: the rotary factor and the softmax factor are two numbers, each from its own mscale', () => {
  const yarn = (mscale, mscaleAllDim, softmaxScale = 'deepseek') => {
    const { attentionFactor, softmaxScaleFactor } = plan({ rule: 'yarn', factor: 40, originalLength: 4096, mscale, mscaleAllDim, softmaxScale });
    return [attentionFactor, softmaxScaleFactor];
  };
  close(yarn(1, 1), [1, 1.873854], 5e-7);                  // E16
  assert.equal(yarn(0.707, 0.707)[0], 1);                  // E18: not 1.2608
  near(yarn(0.707, 1)[1], 1.873854, 5e-7);                 // E19: mscaleAllDim, not mscale
  near(yarn(0.707, 1)[0], (0.0707 * Math.log(40) + 1) / (0.1 * Math.log(40) + 1), 1e-12);
  assert.equal(yarn(1, 1, 'unchanged')[1], 1);             // E20: whether the model has it is said
  const rotated = turn(plan({ rule: 'yarn', headDim: 2, factor: 40, originalLength: 4096, mscale: 0.707, mscaleAllDim: 0.707 }), Float32Array.of(1, 0), one(77));
  near(dot(rotated, rotated), 1, 1e-6);                    // E18: cos^2 + sin^2, not 1.5896
});

test('E23, E24: swapped betas are refused; an unrounded ramp is another plan', () => {
  const gptOss = { rule: 'yarn', headDim: 64, base: 150000, factor: 32, originalLength: 4096, rampEnds: 'exact' };
  refuses(() => plan({ ...gptOss, betaFast: 1, betaSlow: 32 }), 'argument', 'rotaryPlan: betaFast (against betaSlow) is 1, expected 32 or more');
  const exact = plan(gptOss);
  const ramp = locant.describePlan(exact);
  close([Number(said(ramp, 'ramp low')), Number(said(ramp, 'ramp high'))], [8.092779, 17.398025], 5e-6);
  near(exact.inverseFrequencies[12], 0.0067950, 5e-8);
  near(f({ ...gptOss, rampEnds: 'whole-pairs' })[12], 0.0070157, 5e-8);
});

test('E25, E34: a factor divides the frequency, not the base of the power', () => {
  near(f({ rule: 'linear', headDim: 64, base: 150000, factor: 32 })[16], 8.0687e-5, 5e-10);
  const [plain, linear] = [f({ base: 100000 }), f({ rule: 'linear', base: 100000, factor: 4 })];
  for (const [i, frequency] of plain.entries()) assert.equal(linear[i] * 4, frequency);
});

test('E28, E29, E48: Llama 3 divisors rise from 1 to the factor, and the factor is the one given', () => {
  const plain = f({ base: 500000 });
  const divisors = (factor) => Array.from(f({ rule: 'llama3', base: 500000, factor, originalLength: 8192 }), (frequency, i) => plain[i] / frequency);
  const eight = divisors(8);
  assert.deepEqual(eight.slice(0, 29), Array(29).fill(1));
  close(eight.slice(29, 35), [1.2075, 1.5534, 2.0263, 2.6945, 3.6843, 5.2573], 5e-5);
  close(eight.slice(35), Array(29).fill(8), 1e-12);
  assert.deepEqual([...eight].sort((a, b) => a - b), eight);
  near(divisors(32)[63], 32, 1e-12);
});

test('E32: a Llama 3 block that is parsed and never used is right at position 0 and wrong from there on', () => {
  const [plain, scaled] = [f({ base: 500000 }), f({ rule: 'llama3', base: 500000, factor: 8, originalLength: 8192 })];
  const mean = (position) => plain.reduce((sum, frequency, i) => sum + Math.cos(position * (frequency - scaled[i])), 0) / 64;
  close([0, 1000, 8192, 20000, 60000].map(mean), [1, 0.963, 0.769, 0.627, 0.539], 5e-4);
});

test('E36, E37: dynamic NTK follows the length, and is the plain base up to the trained one', () => {
  const dynamic = (more) => plan({ rule: 'dynamic-ntk', factor: 2, trainedLength: 2048, ...more });
  near(Number(said(locant.describePlan(dynamic({ length: 4096 })), 'scaled base')), 30527.74, 5e-3);
  near(Number(said(locant.describePlan(dynamic({ length: 2048 })), 'scaled base')), 10000, 1e-8);
  const short = dynamic({ headDim: 64, base: 1000, length: 512 });  // an inner of -0.5 in the fault
  assert.equal(locant.planDifference(short, plan({ headDim: 64, base: 1000 })), null);
});

test('E38: the table reaches as far as positions may: all 8192 rows of a factor of 4 over 2048', () => {
  for (const rule of [{ rule: 'ntk', factor: 4 }, { rule: 'dynamic-ntk', factor: 4, trainedLength: 2048, length: 8192 }]) {
    const rotation = locant.rotation(plan({ headDim: 8, ...rule }), { headDim: 8 });
    const x = numbers(8);
    const turned = [2048, 8191].map((position) => rotation.apply(x, one(position), { heads: 1, role: 'key' }));
    rotation.prepare(8192);
    assert.deepEqual([2048, 8191].map((position) => rotation.apply(x, one(position), { heads: 1, role: 'key' })), turned);
    rotation.dispose();
  }
});

test('E39, E40: a long text leaves nothing behind for a short one', () => {
  const dynamic = (length) => plan({ rule: 'dynamic-ntk', headDim: 8, factor: 2, trainedLength: 2048, length });
  const first = dynamic(100);
  assert.notEqual(locant.planDifference(first, dynamic(4096)), null);
  assert.equal(locant.planDifference(first, dynamic(100)), null);
  const [q, k, v] = ['q', 'k', 'v'].map((name) => numbers(4 * 8, name));
  const answer = (length) => attend({ heads: 1, headDim: 8, rotation: dynamic(length) }, { q, k, v, positions: positions.range(4) });
  const [before, between, after] = [answer(100), answer(4096), answer(100)];
  assert.deepEqual(after, before);
  assert.notDeepEqual(between, before);
});

test('E41, E43: keys of one length never meet queries of another: the cache refuses, or holds them unrotated', () => {
  const rules = {
    E41: (length) => plan({ rule: 'dynamic-ntk', headDim: 8, factor: 2, trainedLength: 2048, length }),
    E43: (length) => plan({ rule: 'longrope', headDim: 8, shortFactors: [1, 1, 1, 1], longFactors: [2, 3, 4, 5], originalLength: 4096, maximumLength: 131072, length }),
  };
  for (const [id, rule] of Object.entries(rules)) {
    const [short, long] = id === 'E41' ? [rule(2048), rule(2049)] : [rule(4096), rule(4097)];
    assert.notEqual(locant.planDifference(short, long), null, id);
    const [q, k, v] = ['q', 'k', 'v'].map((name) => numbers(2 * 8, name));
    const token = (x, t) => x.slice(t * 8, (t + 1) * 8);
    for (const keys of ['rotated', 'unrotated']) {
      const cache = locant.cache({ kvHeads: 1, headDim: 8, keys });
      const step = (rotation, t) => attend({ heads: 1, headDim: 8, rotation }, { q: token(q, t), k: token(k, t), v: token(v, t), cache, step: cache.begin(cache.next([1])) });
      step(short, 0);
      if (keys === 'rotated') {
        refuses(() => step(long, 1), 'plan-mismatch', /would meet queries under the plan .*: the frequency of pair \d is/);
      } else {
        const full = attend({ heads: 1, headDim: 8, rotation: long }, { q, k, v, positions: positions.range(2) });
        assert.ok(locant.difference(step(long, 1), full.slice(8)).largest < 1e-6, id);
      }
      cache.dispose();
    }
  }
  near(rules.E43(4097).attentionFactor, 1.190238, 5e-7);
});

test('K02, K03, K05: a scaling factor belongs to the kinds of layer it is given for, and a missing one is 1', () => {
  const gemma = (factor) => locant.layerPlans({
    layers: 12, interval: 6, which: 'last-of-group',
    special: plan({ ...(factor === undefined ? {} : { rule: 'linear', factor }), headDim: 8, base: 1e6 }), other: plan({ headDim: 8, base: 1e4 }),
  });
  const { plans } = gemma(8);
  near(plans[5].inverseFrequencies[1], 1e6 ** -0.25 / 8, 1e-15);
  near(plans[4].inverseFrequencies[1], 0.1, 1e-15);
  assert.equal(plans[5].inverseFrequencies[0], 1 / 8);
  assert.equal(plans[0].inverseFrequencies[0], 1);
  // K05: the 1B's files carry no factor.
  assert.equal(locant.planDifference(gemma(undefined).plans[5], gemma(1).plans[5]), null);
});

test('K06: the base that is given is used, on every kind of layer', () => {
  const { plans } = locant.layerPlans({ layers: 4, interval: 2, which: 'first-of-group', special: plan({ base: 5e6 }), other: plan({ base: 1e4 }) });
  assert.deepEqual(plans.map(({ base }) => base), [5e6, 1e4, 5e6, 1e4]);
  near(plans[0].inverseFrequencies[63], 5e6 ** (-126 / 128), 1e-18);
});

test('K08, K11: partial rotary and proportional rotary have two exponents and two partners', () => {
  const partial = plan({ headDim: 256, rotatedWidth: 64, base: 1e7 });
  near(partial.inverseFrequencies[1], 0.6043, 5e-5);
  const unit = (i) => Float32Array.from({ length: 256 }, (_, c) => Number(c === i));
  const moved = (rotary, i) => Array.from(turn(rotary, unit(i), one(1), { headDim: 256 })).flatMap((value, c) => (value !== 0 ? [c] : []));
  assert.deepEqual(moved(partial, 1), [1, 33]);
  const proportional = plan({ rule: 'proportional', headDim: 256, fraction: 0.25, base: 1e6 });
  near(proportional.inverseFrequencies[1], 1e6 ** (-2 / 256), 1e-15);
  assert.deepEqual(Array.from(proportional.inverseFrequencies.slice(32)), Array(96).fill(0));
  assert.ok(proportional.inverseFrequencies[31] > 0);
  assert.deepEqual(moved(proportional, 1), [1, 129]);
  assert.deepEqual(moved(proportional, 40), [40]);
});

test('K12, K14, K15, K16: 36 layers with every 4th unturned: 9 of them, where a token reads alike at any position', () => {
  const rotary = plan({ headDim: 8 });
  const { plans, layersWithoutPosition } = locant.layerPlans({ layers: 36, interval: 4, which: 'last-of-group', special: null, other: rotary });
  assert.deepEqual(Array.from(layersWithoutPosition), [3, 7, 11, 15, 19, 23, 27, 31, 35]);
  // K12: models' lists have 1 for a layer that rotates; K16: an empty list is no list, and says so.
  const listed = locant.layerPlans({ kindOfLayer: [1, 1, 1, 0], kinds: [null, rotary] });
  assert.deepEqual(Array.from(listed.layersWithoutPosition), [3]);
  refuses(() => locant.layerPlans({ kindOfLayer: [], kinds: [null, rotary] }), 'argument', 'layerPlans: layers is 0, expected 1 to 65536');
  // K15: the probe. The same content at other positions: equal on layers without position, other on the rest.
  const [q, k, v] = ['q', 'k', 'v'].map((name) => numbers(3 * 8, name));
  const read = (layer, spread) => attend({ heads: 1, headDim: 8, rotation: plans[layer] }, { q, k, v, positions: at([0, spread, 2 * spread]) });
  assert.deepEqual(read(3, 1), read(3, 50));
  assert.notDeepEqual(read(2, 1), read(2, 50));
});

// ---- G: precision ------------------------------------------------------------------------------------------------------

test('G02, G03, G12: positions that half precision merges stay apart', () => {
  const encoding = locant.sinusoidal({ width: 2 });
  const cosine = (position) => encoding.encode(one(position))[1];
  near(cosine(15962), -0.90802, 5e-6);
  near(cosine(15936), -0.26795, 5e-6);
  const here = Array.from(encoding.encode(positions.range(1024))).filter((_, i) => i % 2 === 0);
  assert.equal(new Set(here).size, 1024);
  for (const position of [256, 257, 258, 259, 260, 261, 262]) assert.equal(cosine(position), Math.fround(Math.cos(position)));
  const rotated = turn(plan({ headDim: 2 }), Float32Array.from({ length: 8192 * 2 }, (_, i) => Number(i % 2 === 0)), positions.range(8192));
  assert.equal(new Set(Array.from({ length: 8192 }, (_, t) => `${rotated[2 * t]} ${rotated[2 * t + 1]}`)).size, 8192);
  encoding.dispose();
});

test('G04, G05: the phase at the end of a long context is exact, in M-RoPE and YaRN too', () => {
  const variants = [plan({}), plan({ sections: [16, 24, 24] }), plan({ rule: 'yarn', factor: 4, originalLength: 32768, attentionFactor: 1 })];
  for (const rotary of variants) for (const position of [511, 2047, 4095]) {
    const x = Float32Array.from({ length: 128 }, (_, c) => Number(c < 64));  // every pair is (1, 0)
    const where = rotary.axisOfPair ? positions.from({ rowLengths: [1], position: [[position], [position], [position]] }) : one(position);
    const out = turn(rotary, x, where);
    for (const [i, frequency] of rotary.inverseFrequencies.entries()) {
      near(out[i], Math.cos(position * frequency), 6e-8);
      near(out[i + 64], Math.sin(position * frequency), 6e-8);
    }
  }
});

test('G08: the cached path and the full one agree past 256 tokens', () => {
  const [q, k, v] = ['q', 'k', 'v'].map((name) => numbers(300 * 8, name));
  const attention = locant.attention({ heads: 1, headDim: 8, rotation: plan({ headDim: 8 }) });
  const full = attention.attend({ q, k, v, positions: positions.range(300) });
  const cache = locant.cache({ kvHeads: 1, headDim: 8 });
  for (const [from, to] of [[0, 40], [40, 257], ...Array.from({ length: 43 }, (_, i) => [257 + i, 258 + i])]) {
    const rows = (x) => x.slice(from * 8, to * 8);
    const step = cache.begin(cache.next([to - from]));
    assert.ok(locant.difference(attention.attend({ q: rows(q), k: rows(k), v: rows(v), cache, step }), full.slice(from * 8, to * 8)).largest < 1e-6);
  }
  cache.dispose();
  attention.dispose();
});

test('G10: sines and cosines of large angles stay within 1 and are right', () => {
  const encoding = locant.sinusoidal({ width: 2 });
  for (const position of [51981, 51982, 103963, 103964, 1000000, 16793388, 2147483647]) {
    const [sine, cosine] = encoding.encode(one(position));
    assert.ok(Math.abs(sine) <= 1 && Math.abs(cosine) <= 1);
    assert.deepEqual([sine, cosine], [Math.fround(Math.sin(position)), Math.fround(Math.cos(position))]);
  }
  encoding.dispose();
});

// ---- H: score terms ----------------------------------------------------------------------------------------------------

const slopesOf = (heads, more) => said(locant.alibi({ heads, ...more }).describe(), 'slopes').split(', ').map(Number);

test('H01, H02, H10: slopes of head counts that are no power of two keep the reference rule; padded heads keep the true count', () => {
  close(slopesOf(12), [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625, 0.707107, 0.353553, 0.176777, 0.088388], 5e-7);
  assert.deepEqual(slopesOf(6), [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]);
  const padded = slopesOf(72, { slopes: [...slopesOf(66), 0, 0, 0, 0, 0, 0] });
  assert.deepEqual(padded.slice(0, 66), slopesOf(66));
  assert.notDeepEqual(slopesOf(16).slice(0, 12), slopesOf(12), 'those of the padded count are others');
  // Two terms are two objects: nothing is shared between models.
  assert.notDeepEqual(slopesOf(8), slopesOf(8, { biasMax: 4 }));
});

test('H06, H07: ALiBi forms that differ by a number of the row give the same attention; the last key gets 0', () => {
  const [q, k, v] = ['q', 'k', 'v'].map((name) => numbers(10 * 2 * 4, name));
  const run = (options) => attend({ heads: 2, headDim: 4, terms: [locant.alibi({ heads: 2, ...options })] }, { q, k, v, positions: positions.range(10) });
  const causal = run({ form: 'causal' });
  for (const origin of [0, 9]) assert.ok(locant.difference(run({ form: 'key-only', origin }), causal).largest < 2e-6);
  assert.equal(bias(locant.alibi({ heads: 1, form: 'key-only', origin: 9, slopes: [0.5] }), 9, 9), 0);
});

test('H08: the past is penalised: query 5, key 0, slope 0.5 gives -2.5', () => {
  const term = locant.alibi({ heads: 1, slopes: [0.5] });
  assert.equal(bias(term, 5, 0), -2.5);
  for (let j = 0; j <= 5; ++j) assert.ok(bias(term, 5, j) <= 0);
});

test('H09: one term serves lengths 512, 513, 511, one after another', () => {
  const term = locant.alibi({ heads: 1 });
  for (const length of [512, 513, 511]) {
    const out = term.bias({ heads: 1, positions: positions.range(length) });
    assert.equal(out.length, length * length);
    assert.equal(out[(length - 1) * length], Math.fround(-(length - 1) * 2 ** -8));
  }
});

// A table that holds the bucket's own number shows which one a displacement reads.
const bucket = (direction, displacement) =>
  bias(locant.t5Bias({ heads: 1, table: Float32Array.from({ length: 32 }, (_, i) => i), direction }), 1000, 1000 + displacement);

test('H11: the last T5 bucket is not passed, at any distance', () => {
  assert.deepEqual([bucket('bidirectional', 200), bucket('bidirectional', -200), bucket('unidirectional', -200)], [31, 15, 31]);
  for (let d = -300; d <= 300; ++d) assert.ok(bucket('bidirectional', d) <= (d > 0 ? 31 : 15));
});

test('H15: a key 8 to the right of its query reads bucket 24, one 8 to the left bucket 8', () => {
  assert.deepEqual([bucket('bidirectional', 8), bucket('bidirectional', -8)], [24, 8]);
});

test('H14: a relative bias is not dropped once there is a cache', () => {
  const terms = {
    ALiBi: locant.alibi({ heads: 2 }),
    T5: locant.t5Bias({ heads: 2, table: numbers(64, 'table'), direction: 'unidirectional' }),
    Shaw: locant.shawKeys({ maxDistance: 2, headDim: 4, table: numbers(20, 'shaw') }),
    KERPLE: locant.kerple({ kernel: 'logarithmic', r1: [1, 2], r2: [1, 1] }),
  };
  const [q, k, v] = ['q', 'k', 'v'].map((name) => numbers(6 * 8, name));
  for (const [name, term] of Object.entries(terms)) {
    const attention = locant.attention({ heads: 2, headDim: 4, terms: [term] });
    const full = attention.attend({ q, k, v, positions: positions.range(6) });
    const cache = locant.cache({ kvHeads: 2, headDim: 4 });
    for (const [from, to] of [[0, 4], [4, 5], [5, 6]]) {
      const rows = (x) => x.slice(from * 8, to * 8);
      const out = attention.attend({ q: rows(q), k: rows(k), v: rows(v), cache, step: cache.begin(cache.next([to - from])) });
      assert.ok(locant.difference(out, full.slice(from * 8, to * 8)).largest < 1e-6, name);
    }
    const without = attend({ heads: 2, headDim: 4 }, { q, k, v, positions: positions.range(6) });
    assert.ok(locant.difference(without, full).largest > 1e-3, `${name} matters`);
    cache.dispose();
    attention.dispose();
  }
});

test('H18: the shift of a 3 x 3 counter drops the first row, not the last', () => {
  const shifted = locant.relativeShift(Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9), { rows: 3, columns: 3 });
  assert.deepEqual(Array.from(shifted), [3, 0, 4, 5, 6, 0, 7, 8, 9]);
});

test('H20: a relative sinusoid has rows for negative distances: sines negated, cosines kept', () => {
  // Width 2 and the identity as projection: with q = (1, 0) the part of position is the sine, with (0, 1) the cosine.
  const xl = locant.transformerXl({ heads: 1, headDim: 2, modelWidth: 2, projection: Float32Array.of(1, 0, 0, 1), contentBias: new Float32Array(2), positionBias: new Float32Array(2) });
  const attention = locant.attention({ heads: 1, headDim: 2, scale: 1, mask: { direction: 'bidirectional' }, terms: [xl] });
  const part = (query) => attention.explain({ q: Float32Array.from(query), k: new Float32Array(6), positions: at([2, 5, 8]), queryPositions: one(5), requests: [{ head: 0, query: 0 }] })[0].position;
  const [sine, cosine] = [part([1, 0]), part([0, 1])];
  near(sine[0], Math.sin(3), 1e-6);
  assert.equal(sine[2], -sine[0]);
  assert.equal(cosine[2], cosine[0]);
  near(cosine[0], Math.cos(3), 1e-6);
  attention.dispose();
});

test('H21: relative keys past the trained length are clipped to +-127, a table of 255 rows', () => {
  const table = Float32Array.from({ length: 255 }, (_, i) => i);
  const term = locant.shawKeys({ maxDistance: 127, headDim: 1, table });
  const attention = locant.attention({ heads: 1, headDim: 1, scale: 1, mask: { direction: 'bidirectional' }, terms: [term] });
  const length = 200;
  const explain = (query) => attention.explain({ q: new Float32Array(length).fill(1), k: new Float32Array(length), positions: positions.range(length), requests: [{ head: 0, query }] })[0].position;
  assert.deepEqual([0, 72, 73, 199].map((j) => explain(199)[j]), [0, 0, 1, 127]);
  assert.deepEqual([0, 126, 127, 199].map((j) => explain(0)[j]), [127, 253, 254, 254]);
  assert.deepEqual(term.runs().at(-1), { entry: 254, first: 127, last: 2147483647 });
  attention.dispose();
});

// ---- J: images and several axes ----------------------------------------------------------------------------------------

const axes = (built) => built.position.map((axis) => Array.from(axis));

test('J01: images one after another start where the text before them ends', () => {
  const image = { height: 2, width: 2 };
  const built = positions.multimodal([[{ tokens: 3 }, image, { tokens: 2 }, image, { tokens: 1 }]], { side: 'left' });
  assert.deepEqual(axes(built), [
    [0, 1, 2, 3, 3, 3, 3, 5, 6, 7, 7, 7, 7, 9],
    [0, 1, 2, 3, 3, 4, 4, 5, 6, 7, 7, 8, 8, 9],
    [0, 1, 2, 3, 4, 3, 4, 5, 6, 7, 8, 7, 8, 9],
  ]);
  assert.equal(built.delta(0), -4);
  for (const count of [1, 2, 3]) {
    const many = positions.multimodal([[{ tokens: 1 }, ...Array.from({ length: count }, () => image)]], { side: 'left' });
    assert.equal(many.position[0].at(-1), 1 + 2 * (count - 1));
  }
});

test('J02: marks around an image are text, counted once: the image is not shifted', () => {
  const kinds = ['text', 'text', 'image', 'image', 'image', 'image', 'text', 'text'];
  const runs = positions.runsOfTokens(kinds, { images: [{ height: 4, width: 4 }], merge: 2 });
  const [time] = axes(positions.multimodal([runs], { side: 'left' }));
  assert.deepEqual(time, [0, 1, 2, 2, 2, 2, 4, 5]);
});

test('J03: the delta belongs to the whole row; a chunk of it says something else', () => {
  const built = positions.multimodal([[{ tokens: 2 }, { height: 4, width: 4 }, { tokens: 3 }]], { side: 'left' });
  assert.equal(built.delta(0), 9 - 21);
  assert.notEqual(built.slice(0, 10).delta(0), built.delta(0));
  assert.deepEqual(built.slice(10, 11).position[1], built.position[1].slice(10));
  assert.deepEqual(built.next([1]).position.map((axis) => axis[0]), [9, 9, 9]);
});

test('J05: on a grid that is not square, a step along a row changes the pairs of its own axis alone', () => {
  const grid = positions.grid({ height: 2, width: 3 });
  assert.deepEqual(axes(grid), [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]]);
  const rotary = locant.axialPlan({ convention: 'rows', headDim: 8 });
  const x = Float32Array.from({ length: 6 * 8 }, (_, i) => i % 8 + 1);
  const out = turn(rotary, x, grid);
  const cell = (row, column) => Array.from(out.slice((row * 3 + column) * 8, (row * 3 + column + 1) * 8));
  assert.deepEqual(cell(0, 1).slice(0, 4), cell(0, 0).slice(0, 4), 'the pairs of the rows stay');
  assert.notDeepEqual(cell(0, 1).slice(4), cell(0, 0).slice(4));
  assert.deepEqual(cell(1, 0).slice(4), cell(0, 0).slice(4));
  // Column first is a choice, and turns it about.
  assert.deepEqual(axes(positions.grid({ height: 2, width: 3, axes: 'column-row' })), [[0, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 1]]);
});

test("J06: Qwen3-VL's [24, 20, 20] gives time the pairs 0, 3, .. 57 and 60 to 63", () => {
  const of = (axis) => Array.from(plan({ sections: [24, 20, 20], sectionOrder: 'interleaved' }).axisOfPair).flatMap((a, i) => (a === axis ? [i] : []));
  const every = (first, last) => Array.from({ length: (last - first) / 3 + 1 }, (_, i) => first + 3 * i);
  assert.deepEqual(of(0), [...every(0, 57), 60, 61, 62, 63]);
  assert.deepEqual(of(1), every(1, 58));
  assert.deepEqual(of(2), every(2, 59));
  // The fault: block sections look the same for text and differ for images.
  const block = plan({ sections: [24, 20, 20] });
  const x = numbers(128);
  const text = positions.multimodal([[{ tokens: 1 }]], { side: 'left' });
  assert.deepEqual(turn(block, x, text), turn(plan({ sections: [24, 20, 20], sectionOrder: 'interleaved' }), x, text));
});

test('J09: flat positions on three axes are told from a grid', () => {
  const codes = (position) => positions.interpret({ shape: [3, 1, 5], positionIds: position.flat() }).findings.map(({ code }) => code);
  assert.ok(codes([[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]).includes('axes-equal'));
  assert.ok(!codes(axes(positions.multimodal([[{ tokens: 1 }, { height: 2, width: 2 }]], { side: 'left' }))).includes('axes-equal'));
});

test('J11: a plan with sections says its axes, and refuses flat positions', () => {
  const rotary = plan({ base: 1e6, sections: [16, 24, 24] });
  assert.equal(said(locant.describePlan(rotary), 'axes'), '3');
  assert.equal(locant.planDifference(rotary, plan({ base: 1e6 })), 'the axis of pair 16 is 1 in one and 0 in the other');
  refuses(() => turn(rotary, numbers(128), one(3)), 'argument', 'apply: the positions have 1 axes, the plan reads 3');
});

test('A01: a token after a prompt stands behind it, on all three axes', () => {
  const prompt = positions.multimodal([[{ tokens: 5 }]], { side: 'left' });
  for (let step = 0; step < 3; ++step) assert.deepEqual(prompt.next([step + 1]).position.map((axis) => axis[step]), [5 + step, 5 + step, 5 + step]);
});

test('F09: a grid larger than the table: an error by name, or a stretched table; nothing goes below 0', () => {
  const grid = positions.grid({ height: 100, width: 80 });
  assert.equal(Math.min(...grid.position[0]), 0);
  const table = locant.learnedTable({ table: new Float32Array(96), rows: 96, width: 1 });
  refuses(() => table.encode(at([96])), 'table-end', /^encode: /);
  const stretched = locant.interpolateGrid(new Float32Array(6 * 6).fill(2), { from: { height: 6, width: 6 }, to: { height: 7, width: 5 }, channels: 1, prefixRows: 0 });
  close(stretched, Array(35).fill(2), 1e-6);
  table.dispose();
});

// ---- L: widths ---------------------------------------------------------------------------------------------------------

test('L01: an odd head size is refused when the plan is made, not at the first forward', () => {
  refuses(() => plan({ headDim: 65 }), 'argument', 'rotaryPlan: the rotated width is 65, expected an even number');
  refuses(() => plan({ headDim: 65, rotatedWidth: 33 }), 'argument', /^rotaryPlan: the rotated width is 33/);
  assert.equal(f({ headDim: 65, rotatedWidth: 64 }).length, 32, 'an even slice of an odd head is fine');
});

test('L04: width 29 is defined in the published layouts, and refused where no published code defines it', () => {
  const here = one(3);
  const interleaved = locant.sinusoidal({ width: 29 }).encode(here);
  assert.equal(interleaved.length, 29);
  near(interleaved[28], Math.sin(3 * 10000 ** (-28 / 29)), 6e-8);
  assert.equal(locant.sinusoidal({ width: 29, layout: 'tensor2tensor' }).encode(here)[28], 0);
  refuses(() => locant.sinusoidal({ width: 29, layout: 'mlx' }), 'argument', /^sinusoidal: width is 29, expected an even number/);
});

test('L05: both halves of a pair share one frequency, so a dot product depends on the distance alone', () => {
  for (const layout of ['interleaved', 'concatenated', 'tensor2tensor', 'mlx']) {
    const encoding = locant.sinusoidal({ width: 32, layout, scale: 1 });
    const product = (a, b) => dot(encoding.encode(one(a)), encoding.encode(one(b)));
    for (const distance of [1, 7, 100]) near(product(5, 5 + distance), product(5000, 5000 + distance), 5e-6);
    encoding.dispose();
  }
});

test('L08, L09, L10: the head size is a number of its own, never the width divided by the heads', () => {
  // Mistral Nemo: 32 heads of 128 in 5120; Gemma 7B: 16 of 256 in 3072; Minitron 8B: 48 of 128 in 4096.
  for (const [heads, kvHeads, headDim] of [[32, 8, 128], [16, 16, 256], [48, 8, 128]]) {
    const rotary = plan({ headDim });
    const [q, k, v] = [numbers(2 * heads * headDim, 'q'), numbers(2 * kvHeads * headDim, 'k'), numbers(2 * kvHeads * headDim, 'v')];
    assert.equal(attend({ heads, kvHeads, headDim, rotation: rotary }, { q, k, v, positions: positions.range(2) }).length, q.length);
    const rows = Float32Array.from({ length: heads * headDim }, (_, i) => i);
    const moved = locant.convertPairing(rows, { from: 'interleaved', to: 'half-split', heads, headDim });
    for (const h of [0, 1, heads - 1]) assert.deepEqual([moved[h * headDim + 1], moved[h * headDim + headDim / 2]], [h * headDim + 2, h * headDim + 1]);
  }
});
