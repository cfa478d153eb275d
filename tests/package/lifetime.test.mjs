import assert from 'node:assert/strict';
import { test } from 'node:test';
import v8 from 'node:v8';
import vm from 'node:vm';
import * as external from 'locant/external';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { numbers, refuses } from './helpers.mjs';

// A library of its own, so that other tests' objects do not count.
const wasm = readFileSync(createRequire(import.meta.url).resolve('locant/deterministic.wasm'));
const locant = await external.load({ wasm });
const { positions } = locant;
const plan = locant.rotaryPlan({ rule: 'default', headDim: 8 });

const kinds = {
  sinusoidal: () => locant.sinusoidal({ width: 64 }),
  learnedTable: () => locant.learnedTable({ table: new Float32Array(1000), rows: 100, width: 10 }),
  rotation: () => locant.rotation(plan, { headDim: 8 }),
  term: () => locant.t5Bias({ heads: 2, table: new Float32Array(64), direction: 'bidirectional' }),
  attention: () => locant.attention({ heads: 2, headDim: 8, rotation: plan }),
  cache: () => locant.cache({ kvHeads: 2, headDim: 8, capacity: { fixed: 64 } }),
};

for (const [name, make] of Object.entries(kinds)) {
  test(`lifetime: 10,000 of ${name} made and disposed in one loop leave the memory as it was`, () => {
    for (let i = 0; i < 10; ++i) make().dispose();
    const before = locant.buildInfo().memory;
    for (let i = 0; i < 10_000; ++i) {
      const object = make();
      assert.equal(locant.liveObjects(), 1);
      object.dispose();
    }
    assert.equal(locant.liveObjects(), 0);
    assert.equal(locant.buildInfo().memory, before);
  });

  test(`lifetime: ${name} disposed twice is disposed once, and calls on it are refused`, () => {
    const object = make();
    assert.equal(object.disposed, false);
    object.dispose();
    object.dispose();
    assert.equal(object.disposed, true);
    assert.equal(locant.liveObjects(), 0);
    const call = { cache: 'rows', attention: 'attend', rotation: 'apply' }[name] ?? 'describe';
    refuses(() => object[call](), 'disposed', /has been disposed$/);
  });

  test(`lifetime: ${name} is disposed at the end of a using block`, { skip: typeof Symbol.dispose !== 'symbol' }, () => {
    const object = make();
    object[Symbol.dispose]();
    assert.equal(object.disposed, true);
    assert.equal(locant.liveObjects(), 0);
  });
}

test('lifetime: a constructor that fails leaves nothing alive', () => {
  for (let i = 0; i < 1000; ++i) {
    refuses(() => locant.sinusoidal({ width: 5, layout: 'mlx' }), 'argument', /^sinusoidal: /);
    refuses(() => locant.attention({ heads: 2, headDim: 2, rotation: plan }), 'argument', /^attention: /);
  }
  assert.equal(locant.liveObjects(), 0);
});

test('lifetime: 2,000 calls, failed ones among them, leave the memory as it was', () => {
  const attention = kinds.attention();
  const here = positions.range(64);
  const [q, k, v] = ['q', 'k', 'v'].map((name) => numbers(64 * 16, name));
  const round = () => {
    attention.attend({ q, k, v, positions: here });
    refuses(() => attention.attend({ q, k, v, positions: here, mask: { visible: [1] } }), 'shape', /^attend: /);
  };
  for (let i = 0; i < 20; ++i) round();
  const before = locant.buildInfo().memory;
  for (let i = 0; i < 1000; ++i) round();
  assert.equal(locant.buildInfo().memory, before);
  attention.dispose();
});

test('lifetime: what is forgotten is freed by the finalizer', async () => {
  v8.setFlagsFromString('--expose_gc');
  const gc = vm.runInNewContext('gc');
  for (let i = 0; i < 100; ++i) kinds.sinusoidal();
  for (let i = 0; i < 50 && locant.liveObjects() > 0; ++i) {
    gc();
    await new Promise((done) => setTimeout(done, 5));
  }
  assert.equal(locant.liveObjects(), 0);
});

const steps = process.env.LOCANT_TEST_FULL ? 1_000_000 : 20_000;
test(`lifetime: ${steps} decode steps at a fixed capacity leave the memory as it was, and nothing alive`, () => {
  const attention = locant.attention({ heads: 2, kvHeads: 1, headDim: 8, rotation: plan, mask: { window: { size: 30, sinks: 2 } } });
  const cache = locant.cache({ kvHeads: 1, headDim: 8, capacity: { fixed: 40 } });
  const [q, k, v] = [numbers(16, 'q'), numbers(8, 'k'), numbers(8, 'v')];
  const out = new Float32Array(16);
  const run = (count) => {
    for (let i = 0; i < count; ++i) {
      if (cache.rows() === 40) cache.keepWindow({ sinks: 2, window: 30 });
      attention.attend({ q, k, v, cache, step: cache.begin(cache.next([1])), out });
    }
  };
  run(200);
  const [memory, bytes] = [locant.buildInfo().memory, cache.bytes()];
  run(steps - 200);
  assert.equal(locant.buildInfo().memory, memory);
  assert.ok(cache.bytes() <= bytes + 30 * 13, 'what slots say of themselves aside, a cache of fixed capacity has a fixed size');
  assert.equal(cache.positions().position[0].at(-1), steps - 1);
  assert.ok(locant.difference(out, new Float32Array(16)).largest > 0);
  attention.dispose();
  cache.dispose();
  assert.equal(locant.liveObjects(), 0);
});
