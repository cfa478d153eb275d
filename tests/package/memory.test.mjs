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

const limit = 4294967296;
/** Asserts that a call asks for these many bytes in vain, and that memory has not grown but for its arguments. */
function cannotHave(locant, call, bytes, arguments_ = 0) {
  const before = locant.buildInfo().memory;
  assert.throws(call, (error) => {
    assert.equal(error.code, 'out-of-memory', error.stack);
    assert.equal(error.name, 'OutOfMemoryError');
    if (bytes === undefined) assert.ok(error.value > 0, error.message);
    else assert.equal(error.value, bytes, error.message);
    assert.ok(error.limit > 0 && error.limit <= limit, `${error.message}: limit ${error.limit}`);
    assert.ok(error.message.split(' ').some((word) => Number(word) === error.value), error.message);
    return true;
  });
  const grown = locant.buildInfo().memory - before;
  assert.ok(grown <= arguments_, `memory that was asked for in vain has grown by ${grown}`);
}

test('memory: positions that cannot be had are refused with their bytes, before memory grows', async () => {
  const locant = await fresh();
  const { positions } = locant;
  const most = 2147483647;
  // 13 bytes a token on one axis, 8 a row.
  cannotHave(locant, () => positions.range(most), most * 13 + 8);
  cannotHave(locant, () => positions.ragged([most, most]), 2 * most * 13 + 16);
  cannotHave(locant, () => positions.padded([1, 2], { columns: most, side: 'left' }), 2 * most * 13 + 16);
  cannotHave(locant, () => positions.range(3).next([most - 3]), (most - 3) * 13 + 8);
  cannotHave(locant, () => positions.packed([most - 1, 1], { positions: 'running' }), most * 13 + 8);
  cannotHave(locant, () => positions.fromCuSeqlens([0, most], { positions: 'restart' }), most * 13 + 8);
  cannotHave(locant, () => positions.grid({ height: 20000, width: 20000 }));
  cannotHave(locant, () => positions.grid({ height: 65536, width: 65536 }));
  cannotHave(locant, () => positions.multimodal([[{ tokens: 500_000_000 }]], { side: 'left' }));
  const cache = locant.cache({ kvHeads: 1, headDim: 4 });
  cannotHave(locant, () => cache.next([most - 1]), (most - 1) * 13 + 8);
  assert.equal(positions.range(3).next([2]).tokens, 2);
});

test('memory: tables and caches that cannot be had are refused with their bytes, before memory grows', async () => {
  const locant = await fresh();
  const encoding = locant.sinusoidal({ width: 32 });
  cannotHave(locant, () => encoding.prepare(134217728), 134217728 * 32 * 4);
  cannotHave(locant, () => encoding.prepare(2147483648), 2147483648 * 32 * 4);
  cannotHave(locant, () => encoding.prepare(33_554_000), 33_554_000 * 32 * 4);
  const plan = locant.rotaryPlan({ rule: 'default', headDim: 64 });
  const rotation = locant.rotation(plan, { headDim: 64 });
  const attention = locant.attention({ heads: 1, headDim: 64, rotation: plan });
  for (const each of [rotation, attention]) {
    cannotHave(locant, () => each.prepare(2147483648), 2147483648 * 64 * 4);
    cannotHave(locant, () => each.prepare(17_000_000), 17_000_000 * 64 * 4);
  }
  cannotHave(locant, () => locant.cache({ kvHeads: 8, headDim: 128, layers: 32, capacity: { fixed: 32768 } }));
  cannotHave(locant, () => locant.cache({ kvHeads: 8, headDim: 128, layers: 32, capacity: { initial: 2147483647 } }));
  cannotHave(locant, () => locant.cache({ kvHeads: 65536, headDim: 65536, sequences: 65536, capacity: { fixed: 1 } }));
  refuses(() => locant.cache({ kvHeads: 1, headDim: 1, layers: 65536, sequences: 65536 }), 'argument', /^cache: layers x sequences is 4294967296, expected 1 to 16777216$/);
  assert.equal(encoding.encode(locant.positions.range(1))[1], 1);
  for (const object of [encoding, rotation, attention]) object.dispose();
  assert.equal(locant.liveObjects(), 0);
});

test('memory: a step or a fork that cannot be had leaves the cache as it was, and what is disposed of makes room', async () => {
  const locant = await fresh();
  const shape = { kvHeads: 16, headDim: 128, sequences: 2 };
  const cache = locant.cache({ ...shape, capacity: { initial: 4 } });
  const attention = locant.attention({ heads: 16, headDim: 128 });
  const x = numbers(2 * 2048);
  const write = (step) => attention.attend({ q: x, k: x, v: x, cache, step });
  write(cache.begin(cache.next([2], { sequences: [0] }), { sequences: [0] }));
  const held = cache.positions().position[0];
  // 16 KB a row: 300,000 rows are past 4 GB.
  const many = cache.next([300_000], { sequences: [1] });
  // What is copied in, 13 bytes a token, twice, and what Emscripten grows by at least.
  cannotHave(locant, () => cache.begin(many, { sequences: [1] }), undefined, 30e6);
  assert.deepEqual(cache.positions().position[0], held);
  assert.equal(cache.rows(1), 0);
  const filler = locant.cache({ ...shape, sequences: 1, capacity: { fixed: 170_000 } });
  assert.ok(filler.bytes() > 3e9);
  const big = { initial: 120_000 };
  cannotHave(locant, () => locant.cache({ ...shape, sequences: 1, capacity: big }));
  filler.dispose();
  locant.cache({ ...shape, sequences: 1, capacity: big }).dispose();
  cache.fork(0, 1);
  const expected = write(cache.begin(cache.next([2], { sequences: [0] }), { sequences: [0] }));
  assert.deepEqual(write(cache.begin(cache.next([2], { sequences: [1] }), { sequences: [1] })), expected);
});

test('memory: attention over 8192 tokens takes memory by the token, not by the pair', async () => {
  const locant = await fresh();
  const attention = locant.attention({ heads: 1, headDim: 8, mask: { window: { size: 16 } } });
  const grown = [4096, 8192].map((tokens) => {
    const x = numbers(tokens * 8);
    attention.attend({ q: x, k: x, v: x, positions: locant.positions.range(tokens) });
    return locant.buildInfo().memory;
  });
  // A matrix of scores for 8192 tokens would be 256 MB.
  assert.ok(grown[1] < 40e6, `${grown}`);
});
