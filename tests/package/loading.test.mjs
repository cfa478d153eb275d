import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import * as entry from 'locant';
import * as external from 'locant/external';
import { deterministic, refuses } from './helpers.mjs';

const { ArgumentError, load, LoadError, LocantError } = entry;
const fileOf = (name) => readFileSync(createRequire(import.meta.url).resolve(`locant/${name}`));
// Relaxed SIMD validates from Node 22.
const relaxed = Number(process.versions.node.split('.')[0]) >= 22;

/** Asserts that loading fails with an error of this sentence and class. */
const rejects = (promise, sentence, type = LoadError) => assert.rejects(promise, (error) => {
  assert.ok(error instanceof type, error?.stack);
  assert.match(error.message, sentence);
  return true;
});

test('loading: once per kernel, whoever asks', async () => {
  assert.equal(await load(), await load());
  assert.equal(await load({ kernel: 'deterministic' }), deterministic);
  const auto = await load();
  assert.equal(auto.kernel, relaxed ? 'relaxed' : 'deterministic');
  assert.equal(external.supportsRelaxed(), relaxed);
  if (relaxed) assert.equal(await load({ kernel: 'relaxed' }), auto);
  else await rejects(load({ kernel: 'relaxed' }), /^load: this engine has no relaxed SIMD/);
});

test('loading: bad options are named', async () => {
  await rejects(load({ kernel: 'fast' }), /^load: kernel is "fast", expected "auto" or "relaxed" or "deterministic"$/, ArgumentError);
  await rejects(load({ kernels: 'auto' }), /^load: there is no option "kernels"; there are kernel$/, ArgumentError);
  await rejects(external.load({}), /^load: wasm is undefined, expected an address/, ArgumentError);
  await rejects(external.load({ wasm: 5 }), /^load: wasm is 5, expected an address/, ArgumentError);
});

test('loading: the build says what it is', () => {
  const { version, kernel, simd, compiler, eigen, memory } = deterministic.buildInfo();
  assert.match(version, /^\d+\.\d+\.\d+$/);
  assert.equal(kernel, 'deterministic');
  assert.equal(simd, 'WebAssembly SIMD128');
  assert.match(compiler, /^clang \d+.*Emscripten \d+/);
  assert.match(eigen, /^3\.\d+\.\d+, SIMD of its own: /);
  assert.ok(memory >= 65536 && memory % 65536 === 0);
});

test('loading: the kernels are the files beside them, to the byte', async () => {
  // The relaxed kernel is inlined as a difference: opened, it must be the file.
  const modules = [];
  const compile = WebAssembly.compile;
  WebAssembly.compile = (bytes) => {
    modules.push(Buffer.from(bytes));
    return compile(bytes);
  };
  try {
    const fresh = await import(`../../web/package/dist/index.js?again=${Date.now()}`);
    await fresh.load({ kernel: 'deterministic' });
    if (relaxed) await fresh.load({ kernel: 'relaxed' });
  } finally {
    WebAssembly.compile = compile;
  }
  assert.ok(modules[0].equals(fileOf('deterministic.wasm')));
  if (relaxed) assert.ok(modules[1].equals(fileOf('relaxed.wasm')));
});

test('loading: from bytes, a compiled module, a response and an address', async () => {
  const bytes = fileOf('deterministic.wasm');
  const module = await WebAssembly.compile(bytes);
  const type = { 'content-type': 'application/wasm' };
  const server = createServer((request, response) => {
    if (request.url === '/good.wasm') response.writeHead(200, type).end(bytes);
    else if (request.url === '/untyped.wasm') response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(bytes);
    else if (request.url === '/page') response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html>');
    else response.writeHead(404, { 'content-type': 'text/plain' }).end('no');
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address();
  const at = (path) => `http://127.0.0.1:${port}${path}`;
  try {
    const loaded = [];
    for (const wasm of [bytes, bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length), module, Promise.resolve(module),
      new Response(bytes, { headers: type }), fetch(at('/good.wasm')), at('/good.wasm'), new URL(at('/untyped.wasm'))]) {
      loaded.push(await external.load({ wasm }));
    }
    for (const locant of loaded) {
      assert.deepEqual(Array.from(locant.positions.range(2, { offset: 3 }).position[0]), [3, 4]);
      assert.equal(locant.kernel, 'deterministic');
    }
    assert.equal(new Set(loaded).size, loaded.length, 'each is an instance of its own');
    await rejects(external.load({ wasm: at('/none') }), /none \(status 404, content type text\/plain\) is no module$/);
    await rejects(external.load({ wasm: at('/page') }), /page \(status 200, content type text\/html\) could not be compiled: /);
    await rejects(external.load({ wasm: Uint8Array.of(1, 2, 3) }), /^load: 3 bytes could not be compiled: /);
  } finally {
    server.closeAllConnections();
    server.close();
  }
  await rejects(external.load({ wasm: at('/good.wasm') }), /could not be fetched: /);
  const empty = new WebAssembly.Module(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0));
  await rejects(external.load({ wasm: empty }), /^load: the module could not be started: /);
});

test('loading: both entries have one set of error classes', () => {
  for (const name of Object.keys(entry).filter((name) => name.endsWith('Error'))) assert.equal(external[name], entry[name], name);
  assert.deepEqual(Object.keys(entry).sort(), ['ArgumentError', 'CacheError', 'DisposedError', 'FormatError', 'LoadError', 'LocantError',
    'OrderError', 'OutOfMemoryError', 'PlanMismatchError', 'PositionRangeError', 'ShapeError', 'TableEndError', 'UnsupportedError', 'load']);
});

test('errors: carry code, value and limit as data', () => {
  assert.throws(() => deterministic.positions.range(-1), (error) => {
    assert.ok(error instanceof entry.ArgumentError && error instanceof LocantError && error instanceof Error);
    assert.deepEqual([error.code, error.value, error.limit, error.name], ['argument', -1, 0, 'ArgumentError']);
    return true;
  });
  assert.throws(() => deterministic.positions.range(2, { offset: 2147483647 }), (error) => {
    assert.equal(error.code, 'position-range');
    assert.equal(error.limit, 2147483647);
    return true;
  });
  refuses(() => { throw new entry.ShapeError('shape', 'own'); }, 'shape', 'own');
});

test('loading: in a worker', async () => {
  const worker = new Worker(`
    const { parentPort } = require('node:worker_threads');
    import('locant').then(async ({ load }) => {
      const locant = await load();
      parentPort.postMessage(locant.positions.range(3, { offset: 4 }).next([1]).position[0][0]);
    });
  `, { eval: true });
  const answer = await new Promise((resolve, reject) => worker.on('message', resolve).on('error', reject));
  assert.equal(answer, 7);
  await worker.terminate();
});

test('loading: importing has no side effect and reads no global', async () => {
  // Node's own globals are taken away while the modules are evaluated: none may be missed.
  const names = ['WebAssembly', 'fetch', 'Response', 'Blob', 'DecompressionStream', 'atob', 'process', 'navigator'];
  const kept = names.map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)]).filter(([, found]) => found);
  const url = new URL('../../web/package/dist/external.js', import.meta.url);
  for (const [name] of kept) delete globalThis[name];
  try {
    const module = await import(`${url}?bare`);
    assert.equal(typeof module.load, 'function');
  } finally {
    for (const [name, found] of kept) Object.defineProperty(globalThis, name, found);
  }
});
