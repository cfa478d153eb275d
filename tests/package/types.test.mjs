import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc');
const check = (project) => {
  const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', fileURLToPath(new URL(project, import.meta.url))], { encoding: 'utf8' });
  assert.equal(status, 0, stdout);
};

test('types: the facade and the public types agree, and misuse is refused', () => check('types/tsconfig.json'));
test('types: the facade compiles against them', () => check('../../web/package/tsconfig.json'));
