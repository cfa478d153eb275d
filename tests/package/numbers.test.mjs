import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deterministic, locant, refuses } from './helpers.mjs';

test('random: a function of seed, stream and index alone', () => {
  const a = locant.random({ seed: 7, stream: 'x', count: 100 });
  assert.deepEqual(deterministic.random({ seed: 7, stream: 'x', count: 100 }), a);
  assert.deepEqual(locant.random({ seed: 7, stream: 'x', count: 10 }), a.subarray(0, 10));
  assert.notDeepEqual(locant.random({ seed: 8, stream: 'x', count: 100 }), a);
  assert.notDeepEqual(locant.random({ seed: 7, stream: 'y', count: 100 }), a);
  assert.ok(a.every((value) => value >= -1 && value < 1 && Number.isInteger(value * 2 ** 23)));
  assert.ok(Math.abs(a.reduce((x, y) => x + y) / 100) < 0.3);
  assert.equal(locant.random({ seed: 0, stream: '', count: 0 }).length, 0);
});

test('difference: the largest, where it is, and what NaN and infinity mean', () => {
  const f = (a, b) => locant.difference(Float32Array.from(a), Float32Array.from(b));
  assert.deepEqual(f([1, 2, 3], [1, 4, 1]), { largest: 2, index: 1 });
  assert.deepEqual(f([1], [1]), { largest: 0, index: 0 });
  assert.deepEqual(f([], []), { largest: 0, index: -1 });
  assert.deepEqual(f([1, NaN, 5], [1, NaN, 0]), { largest: NaN, index: 1 });
  assert.deepEqual(f([Infinity, 2], [Infinity, 2.5]), { largest: 0.5, index: 1 });
  assert.deepEqual(f([Infinity], [-Infinity]), { largest: Infinity, index: 0 });
});

test('random, difference: bad input is named', () => {
  refuses(() => locant.random({ seed: -1, stream: 'x', count: 1 }), 'argument', 'random: seed is -1, expected an integer of 0 .. 2147483647');
  refuses(() => locant.random({ seed: 1, stream: 5, count: 1 }), 'argument', 'random: stream is 5, expected a string');
  refuses(() => locant.random({ seed: 1, stream: 'x', count: 1.5 }), 'argument', 'random: count is 1.5, expected an integer of 0 .. 1073741823');
  refuses(() => locant.difference(new Float32Array(2), new Float32Array(3)), 'shape', 'difference: b holds 3 values, expected as many as a = 2');
  refuses(() => locant.difference([1], new Float32Array(1)), 'argument', 'difference: a is a Array, expected a Float32Array');
});
