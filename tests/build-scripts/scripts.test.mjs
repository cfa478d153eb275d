// The scripts as they are called: what they refuse, what they leave out, what the server gives away.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { root } from '../../build-scripts/lib/command.mjs';
import { serve } from '../../build-scripts/lib/serve.mjs';
import { step } from '../../build-scripts/lib/stamp.mjs';

const place = join(root, 'build', 'script-tests');
const write = (path, text) => writeFileSync(join(place, path), text);
const script = (name, ...options) =>
  spawnSync(process.execPath, [join(root, 'build-scripts', `${name}.mjs`), ...options], { encoding: 'utf8' });

before(() => {
  rmSync(place, { recursive: true, force: true });
  rmSync(join(root, 'build/stamps/script-tests'), { force: true });
  mkdirSync(join(place, 'site/folder'), { recursive: true });
  mkdirSync(join(place, 'in'));
  write('secret.txt', 'not served');
  write('site/index.html', 'front');
  write('site/folder/index.html', 'inner');
  write('site/module.wasm', 'module');
});
after(() => rmSync(place, { recursive: true, force: true }));

for (const name of ['build', 'demo', 'test', 'toolchain']) {
  test(`${name}: --help explains, and an unknown option is refused in one sentence`, () => {
    const help = script(name, '--help');
    assert.equal(help.status, 0);
    assert.match(help.stdout, /^Usage: /);
    const unknown = script(name, '--no-such-option');
    assert.equal(unknown.status, 1);
    assert.equal(unknown.stderr.trim().split('\n').length, 1);
    assert.match(unknown.stderr, new RegExp(`^${name}: .*--no-such-option`));
  });
}

test('names and values that are not there are refused by name', () => {
  assert.match(script('build', 'no-such-build').stderr, /no build "no-such-build"; there are native, /);
  assert.match(script('test', 'no-such-suite').stderr, /no suite "no-such-suite"; there are native, /);
  for (const port of ['x', '-1', '1.5', '65536', '']) assert.match(script('demo', `--port=${port}`).stderr, /--port .* 0 to 65535/);
});

test('a step runs again when an input changed, an output is gone or it failed, and only then', async () => {
  let runs = 0;
  const about = { inputs: ['build/script-tests/in'], outputs: ['build/script-tests/out'] };
  const make = () => step('script-tests', about, async () => { runs += 1; write('out', ''); });
  await make();
  await make();
  assert.equal(runs, 1);
  write('in/file', 'one');
  await make();
  await make();
  assert.equal(runs, 2);
  rmSync(join(place, 'out'));
  await make();
  assert.equal(runs, 3);
  write('in/file', 'two');
  await assert.rejects(step('script-tests', about, () => Promise.reject(new Error('broken'))), /broken/);
  write('in/file', 'one');
  await make();
  assert.equal(runs, 4);
});

test('files are served with their types, below the base, under the strict policy', async () => {
  const server = await serve(join(place, 'site'), { base: '/deep/' });
  try {
    for (const [path, type, text] of [['', /^text\/html/, 'front'], ['module.wasm', /^application\/wasm$/, 'module'], ['folder/', /^text\/html/, 'inner']]) {
      const response = await fetch(server.url + path);
      assert.equal(response.status, 200, path);
      assert.match(response.headers.get('content-type'), type);
      assert.match(response.headers.get('content-security-policy'), /script-src 'self' 'wasm-unsafe-eval';/);
      assert.equal(await response.text(), text);
    }
    assert.equal((await fetch(new URL('/', server.url))).status, 404);
    assert.equal((await fetch(server.url, { method: 'POST' })).status, 405);
  } finally {
    await server.close();
  }
});

/** The status of a request whose path is sent as it is (fetch would tidy it). */
const rawStatus = (port, path) => new Promise((resolve, reject) => {
  const socket = createConnection(port, '127.0.0.1', () => socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`));
  let text = '';
  socket.on('data', (chunk) => { text += chunk; }).on('end', () => resolve(Number(text.split(' ')[1]))).on('error', reject);
});

test('nothing outside the served folder is given away, and a bad path is no crash', async () => {
  const server = await serve(join(place, 'site'));
  try {
    for (const path of ['/../secret.txt', '/..%2fsecret.txt', '/folder/..%2f..%2fsecret.txt', '//../secret.txt', '/%2e%2e/secret.txt', '/%00', '/%zz']) {
      assert.equal(await rawStatus(server.port, path), 404, path);
    }
    assert.equal(await rawStatus(server.port, '/'), 200);
  } finally {
    await server.close();
  }
});

test('a busy port is answered by the next free one where that is asked for, and refused otherwise', async () => {
  const first = await serve(join(place, 'site'));
  const second = await serve(join(place, 'site'), { port: first.port, nextFree: true });
  try {
    assert.ok(second.port > first.port);
    await assert.rejects(serve(join(place, 'site'), { port: first.port }), { code: 'EADDRINUSE' });
  } finally {
    await first.close();
    await second.close();
  }
});
