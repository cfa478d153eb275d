import assert from 'node:assert/strict';
import { test } from 'node:test';
import { close, locant, numbers, refuses } from './helpers.mjs';

const { positions } = locant;

/** The definition in doubles: softmax over the keys that a query may see. */
function reference({ heads, kvHeads = heads, headDim, valueDim = headDim, sees, scale = 1 / Math.sqrt(headDim), bias = () => 0 }, q, k, v, tokens) {
  const out = [];
  for (let t = 0; t < tokens; ++t) for (let h = 0; h < heads; ++h) {
    const g = Math.floor(h / (heads / kvHeads));
    const weights = Array.from({ length: tokens }, (_, j) => {
      if (!sees(t, j)) return 0;
      let sum = 0;
      for (let c = 0; c < headDim; ++c) sum += q[(t * heads + h) * headDim + c] * k[(j * kvHeads + g) * headDim + c];
      return Math.exp(sum * scale + bias(h, j - t));
    });
    const total = weights.reduce((a, b) => a + b);
    for (let c = 0; c < valueDim; ++c) {
      out.push(total === 0 ? 0 : weights.reduce((sum, w, j) => sum + (w / total) * v[(j * kvHeads + g) * valueDim + c], 0));
    }
  }
  return out;
}

test("attention: the chapter's five vectors: moving contents moves outputs, until position enters", () => {
  const attention = locant.attention({ heads: 1, headDim: 2, mask: { direction: 'bidirectional' } });
  const x = Float32Array.of(1, 0, 0, 1, 1, 1);
  const moved = Float32Array.of(1, 1, 1, 0, 0, 1);
  const here = positions.range(3);
  const f = (y) => attention.attend({ q: y, k: y, v: y, positions: here });
  const [a, b] = [f(x), f(moved)];
  assert.ok(locant.difference(Float32Array.of(a[4], a[5], a[0], a[1], a[2], a[3]), b).largest < 1e-6);
  attention.dispose();
});

test('attention: causal, grouped heads, other value width: the definition within float32', () => {
  const shape = { heads: 4, kvHeads: 2, headDim: 16, valueDim: 5 };
  const attention = locant.attention(shape);
  const tokens = 37;
  const q = numbers(tokens * 4 * 16, 'q');
  const k = numbers(tokens * 2 * 16, 'k');
  const v = numbers(tokens * 2 * 5, 'v');
  const out = attention.attend({ q, k, v, positions: positions.range(tokens) });
  // 16 products of values up to 1 and 37 weights: a few dozen roundings of 6e-8.
  close(out, reference({ ...shape, sees: (t, j) => j <= t }, q, k, v, tokens), 2e-6, 'out');
  assert.deepEqual([attention.heads, attention.kvHeads, attention.headDim, attention.valueDim], [4, 2, 16, 5]);
  attention.dispose();
});

test('attention: windows by both conventions, sinks, chunks', () => {
  const tokens = 12;
  const [q, k, v] = ['q', 'k', 'v'].map((name) => numbers(tokens * 4, name));
  const run = (mask, sees) => {
    const attention = locant.attention({ heads: 1, headDim: 4, mask });
    close(attention.attend({ q, k, v, positions: positions.range(tokens) }), reference({ heads: 1, headDim: 4, sees }, q, k, v, tokens), 2e-6, JSON.stringify(mask));
    attention.dispose();
  };
  run({ window: { size: 3 } }, (t, j) => j <= t && t - j < 3);
  run({ window: { size: 3, convention: 'before-current' } }, (t, j) => j <= t && t - j <= 3);
  run({ window: { size: 0, convention: 'before-current' } }, (t, j) => j === t);
  run({ window: { size: 2, sinks: 1 } }, (t, j) => j <= t && (t - j < 2 || j < 1));
  run({ chunk: 5 }, (t, j) => j <= t && Math.floor(j / 5) === Math.floor(t / 5));
  run({ direction: 'bidirectional', window: { size: 2 } }, (t, j) => Math.abs(t - j) < 2);
});

test('attention: a prefix sees itself both ways; an own mask hides what it says', () => {
  const tokens = 6;
  const [q, k, v] = ['q', 'k', 'v'].map((name) => numbers(tokens * 4, name));
  const attention = locant.attention({ heads: 1, headDim: 4 });
  const here = positions.range(tokens);
  close(attention.attend({ q, k, v, positions: here, mask: { prefix: [3] } }), reference({ heads: 1, headDim: 4, sees: (t, j) => j <= t || j < 3 }, q, k, v, tokens), 2e-6);
  const visible = Array.from({ length: 36 }, (_, i) => Math.floor(i / 6) !== 2 && i % 6 !== 1);
  const out = attention.attend({ q, k, v, positions: here, mask: { visible } });
  close(out, reference({ heads: 1, headDim: 4, sees: (t, j) => j <= t && visible[t * 6 + j] }, q, k, v, tokens), 2e-6);
  assert.deepEqual(Array.from(out.subarray(8, 12)), [0, 0, 0, 0], 'a query that sees nothing gives zeros');
  attention.dispose();
});

test('attention: packed documents and padding neither receive nor influence', () => {
  const attention = locant.attention({ heads: 1, headDim: 4 });
  const [q, k, v] = ['q', 'k', 'v'].map((name) => numbers(5 * 4, name));
  const packed = attention.attend({ q, k, v, positions: positions.packed([2, 3], { positions: 'restart' }) });
  const second = [q, k, v].map((x) => x.subarray(8));
  const alone = attention.attend({ q: second[0], k: second[1], v: second[2], positions: positions.range(3) });
  assert.ok(locant.difference(packed.slice(8), alone).largest < 1e-6);
  const padded = positions.padded([3], { columns: 5, side: 'left' });
  const before = attention.attend({ q, k, v, positions: padded });
  assert.deepEqual(Array.from(before.subarray(0, 8)), Array(8).fill(0));
  for (const what of [3, NaN, Infinity]) {
    for (const x of [q, k, v]) x.fill(what, 0, 8);
    assert.deepEqual(attention.attend({ q, k, v, positions: padded }), before);
  }
  attention.dispose();
});

test('attention: rotation inside equals rotation before', () => {
  const plan = locant.rotaryPlan({ rule: 'default', headDim: 8 });
  const here = positions.range(6, { offset: 3 });
  const [q, k, v] = ['q', 'k', 'v'].map((name) => numbers(6 * 2 * 8, name));
  const inside = locant.attention({ heads: 2, headDim: 8, rotation: plan });
  const plain = locant.attention({ heads: 2, headDim: 8 });
  const rotation = locant.rotation(plan, { headDim: 8 });
  const turn = (x, role) => rotation.apply(x, here, { heads: 2, role });
  const expected = plain.attend({ q: turn(q, 'query'), k: turn(k, 'key'), v, positions: here });
  assert.ok(locant.difference(inside.attend({ q, k, v, positions: here }), expected).largest < 1e-6);
  const before = inside.attend({ q, k, v, positions: here });
  inside.prepare(100);
  assert.deepEqual(inside.attend({ q, k, v, positions: here }), before, 'a prepared table changes no bit');
  for (const object of [inside, plain, rotation]) object.dispose();
});

test('attention: scale, soft cap, sink logits and temperature are those of their definitions', () => {
  const here = positions.range(2);
  const one = Float32Array.of(1, 1);
  const v = Float32Array.of(0, 1);
  const weight = (options, scores) => {
    const attention = locant.attention({ heads: 1, headDim: 1, ...options });
    const out = attention.attend({ q: one, k: Float32Array.of(scores[0], scores[1]), v, positions: here });
    attention.dispose();
    return out[1];
  };
  const soft = (a, b, sink = -Infinity) => Math.exp(b) / (Math.exp(a) + Math.exp(b) + Math.exp(sink));
  close([weight({}, [1, 2])], [soft(1, 2)], 1e-6);
  close([weight({ scale: 3 }, [1, 2])], [soft(3, 6)], 1e-6);
  close([weight({ softCap: 2 }, [1, 5])], [soft(2 * Math.tanh(0.5), 2 * Math.tanh(2.5))], 1e-6);
  close([weight({ sinkLogits: Float32Array.of(1.5) }, [1, 2])], [soft(1, 2, 1.5)], 1e-6);
  const a = 1 + 0.5 * Math.log(1 + Math.floor((1 + 1) / 2));
  close([weight({ temperature: { slope: 0.5, period: 2, shift: 1 } }, [1, 2])], [soft(a, 2 * a)], 1e-6);
});

test('attention: explain takes a score apart into content and position', () => {
  const attention = locant.attention({ heads: 2, headDim: 4, terms: [locant.alibi({ heads: 2 })] });
  const here = positions.range(3);
  const [q, k] = ['q', 'k'].map((name) => numbers(3 * 2 * 4, name));
  const [parts] = attention.explain({ q, k, positions: here, requests: [{ head: 1, query: 1 }] });
  const slope = 2 ** -8;
  close(parts.position.subarray(0, 2), [-slope, 0], 1e-7, 'position');
  assert.equal(parts.score[2], -Infinity);
  assert.equal(parts.weight[2], 0);
  close([parts.weight[0] + parts.weight[1]], [1], 1e-6);
  close([parts.score[0]], [parts.content[0] + parts.position[0]], 1e-6);
  attention.dispose();
});

test('attention: queries of their own give the tail of the whole', () => {
  const attention = locant.attention({ heads: 1, headDim: 4 });
  const [q, k, v] = ['q', 'k', 'v'].map((name) => numbers(5 * 4, name));
  const whole = attention.attend({ q, k, v, positions: positions.range(5) });
  const tail = attention.attend({ q: q.slice(12), k, v, positions: positions.range(5), queryPositions: positions.range(2, { offset: 3 }) });
  assert.ok(locant.difference(tail, whole.slice(12)).largest < 1e-6);
  attention.dispose();
});

test('attention: an out array is filled and given back, also where it is an input', () => {
  const attention = locant.attention({ heads: 1, headDim: 4 });
  const [q, k, v] = ['q', 'k', 'v'].map((name) => numbers(3 * 4, name));
  const here = positions.range(3);
  const expected = attention.attend({ q, k, v, positions: here });
  const out = new Float32Array(12);
  assert.equal(attention.attend({ q, k, v, positions: here, out }), out);
  assert.deepEqual(out, expected);
  assert.equal(attention.attend({ q, k, v, positions: here, out: v }), v);
  assert.deepEqual(v, expected);
  attention.dispose();
});

test('attention: bad input is named, and the object goes on', () => {
  const make = (more) => locant.attention({ heads: 4, headDim: 8, ...more });
  refuses(() => make({ heads: 0 }), 'argument', 'attention: heads is 0, expected an integer of 1 .. 65536');
  refuses(() => make({ kvHeads: 3 }), 'argument', 'attention: kvHeads is 3, expected a divisor of heads, 4');
  refuses(() => make({ headDim: NaN }), 'argument', 'attention: headDim is NaN, expected an integer of 1 .. 65536');
  refuses(() => make({ scale: NaN }), 'argument', 'attention: scale is NaN, expected a finite number');
  refuses(() => make({ softCap: 0 }), 'argument', 'attention: softCap is 0, expected a finite number above 0');
  refuses(() => make({ sinkLogits: new Float32Array(3) }), 'shape', 'attention: sinkLogits holds 3 values, expected 4 heads = 4');
  refuses(() => make({ mask: { direction: 'left' } }), 'argument', 'attention: mask.direction is "left", expected "causal" or "bidirectional"');
  refuses(() => make({ mask: { window: { size: 0 } } }), 'argument', 'attention: mask.window.size is 0, expected an integer of 1 .. 2147483647');
  refuses(() => make({ mask: { chunk: 0 } }), 'argument', 'attention: mask.chunk is 0, expected an integer of 1 .. 2147483647');
  refuses(() => make({ mask: { windows: 4 } }), 'argument', 'attention: mask: there is no option "windows"; there are direction, window, chunk');
  refuses(() => make({ rotation: locant.rotaryPlan({ rule: 'default', headDim: 16 }) }), 'argument', 'attention: the plan rotates coordinates 0 to 15, a head has 8');
  refuses(() => make({ temperature: { slope: 1, period: 0, shift: 0 } }), 'argument', 'attention: temperature.period is 0, expected a finite number above 0');
  const attention = make({});
  const here = positions.range(2);
  const [q, k, v] = ['q', 'k', 'v'].map((name) => numbers(64, name));
  const call = (more) => attention.attend({ q, k, v, positions: here, ...more });
  refuses(() => call({ k: new Float32Array(63) }), 'shape', 'attend: k holds 63 values, expected 2 tokens x 4 heads x 8 = 64');
  refuses(() => call({ q: undefined }), 'argument', 'attend: q is undefined, expected a Float32Array');
  refuses(() => call({ out: new Float32Array(1) }), 'shape', 'attend: out holds 1 values, expected 2 tokens x 4 heads x 8 = 64');
  refuses(() => call({ position: here }), 'argument', /^attend: there is no option "position"; there are q, k, v, positions/);
  refuses(() => call({ mask: { visible: [1] } }), 'shape', /^attend: .*1/);
  refuses(() => call({ mask: { prefix: [-1] } }), 'argument', /^attend: .*-1/);
  refuses(() => call({ queryPositions: positions.ragged([1, 1]) }), 'argument', /^attend: .*rows/);
  refuses(() => attention.explain({ q, k, positions: here, requests: [{ head: 4, query: 0 }] }), 'argument', 'explain: requests[0].head is 4, expected an integer of 0 .. 3');
  refuses(() => attention.attend(null), 'argument', 'attend: the options are null, expected an object');
  assert.equal(call({}).length, 64);
  attention.dispose();
  refuses(() => call({}), 'disposed', 'attend: the attention has been disposed');
});
