import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import * as external from 'locant/external';
import { numbers, refuses } from './helpers.mjs';

// Libraries of their own: these tests make the memory grow, and it never shrinks.
const wasm = readFileSync(createRequire(import.meta.url).resolve('locant/deterministic.wasm'));
const fresh = () => external.load({ wasm });

test('memory: results are right when it grows between two calls and within one', async () => {
  const locant = await fresh();
  const small = locant.sinusoidal({ width: 8 });
  const here = locant.positions.range(3, { offset: 5 });
  const before = small.encode(here);
  const first = locant.buildInfo().memory;
  const wide = locant.sinusoidal({ width: 4096 });
  const long = wide.encode(locant.positions.range(4096));
  assert.ok(locant.buildInfo().memory > first);
  assert.equal(long.length, 4096 * 4096);
  assert.equal(long[4096], Math.fround(Math.sin(1)));
  assert.deepEqual(small.encode(here), before);
  assert.deepEqual(here.next([1]).position[0], Int32Array.of(8));
});

test('memory: asking for too much is an OutOfMemoryError, and work goes on', async () => {
  const locant = await fresh();
  const encoding = locant.sinusoidal({ width: 1048576 });
  const held = locant.cache({ kvHeads: 1, headDim: 64, capacity: { fixed: 524288 } });
  const attention = locant.attention({ heads: 1, headDim: 4 });
  const [q, k, v] = ['q', 'k', 'v'].map((name) => numbers(12, name));
  const here = locant.positions.range(3);
  const expected = attention.attend({ q, k, v, positions: here });
  refuses(() => encoding.prepare(1000), 'out-of-memory', /^prepare: /);
  refuses(() => locant.cache({ kvHeads: 64, headDim: 128, capacity: { fixed: 2_000_000 } }), 'out-of-memory', /^cache: .*\d{6}/);
  refuses(() => locant.random({ seed: 1, stream: 'x', count: 1073741823 }), 'out-of-memory', /^random: 4294967292 bytes could not be had; \d+ are in use of at most 4294967296$/);
  assert.deepEqual(attention.attend({ q, k, v, positions: here }), expected);
  assert.equal(held.rows(), 0);
  assert.equal(encoding.encode(locant.positions.range(1)).length, 1048576);
});

test('memory: addresses above 2 GB work like any other', async () => {
  const locant = await fresh();
  const here = locant.positions.range(5, { offset: 7 });
  const make = () => [locant.sinusoidal({ width: 64 }), locant.attention({ heads: 1, headDim: 64, rotation: locant.rotaryPlan({ rule: 'default', headDim: 64 }) })];
  const [q, k, v] = ['q', 'k', 'v'].map((name) => numbers(5 * 64, name));
  const run = ([encoding, attention]) => [encoding.encode(here), attention.attend({ q, k, v, positions: here })];
  const expected = run(make());
  // Caches of 256 MB fill the lower half; what is made after them lies above.
  const fillers = [];
  while (locant.buildInfo().memory < 2.3e9) fillers.push(locant.cache({ kvHeads: 1, headDim: 64, capacity: { fixed: 524288 } }));
  const above = make();
  assert.deepEqual(run(above), expected);
  const big = numbers(64 * 20000, 'big');
  const positions = locant.positions.range(20000);
  const [high] = above;
  const sum = high.add(big, positions);
  assert.deepEqual(sum.subarray(64 * 19999), high.add(big.slice(64 * 19999), locant.positions.range(1, { offset: 19999 })));
  assert.equal(sum[64 * 19999], Math.fround(big[64 * 19999] + Math.fround(Math.sin(19999))));
  for (const filler of fillers) filler.dispose();
});

test('memory: no view of it is handed out', async () => {
  const locant = await fresh();
  const attention = locant.attention({ heads: 1, headDim: 4 });
  const x = numbers(12);
  const positions = locant.positions.range(3);
  const encoding = locant.sinusoidal({ width: 4 });
  const [parts] = attention.explain({ q: x, k: x, positions, requests: [{ head: 0, query: 0 }] });
  const plan = locant.rotaryPlan({ rule: 'yarn', headDim: 8, factor: 2, originalLength: 16 });
  const table = locant.learnedTable({ table: new Float32Array(8), rows: 2, width: 4 });
  const results = [
    encoding.encode(positions), encoding.frequencies, attention.attend({ q: x, k: x, v: x, positions }), ...Object.values(parts), plan.inverseFrequencies,
    positions.order, positions.segment, positions.valid, positions.rowLengths, positions.position[0], locant.random({ seed: 1, stream: 'x', count: 4 }),
    locant.alibi({ heads: 1 }).bias({ heads: 1, positions }), table.rowsOf(locant.positions.range(2)),
  ];
  const memory = locant.buildInfo().memory;
  for (const array of results) {
    assert.ok(ArrayBuffer.isView(array));
    assert.notEqual(array.buffer.byteLength, memory);
  }
});
