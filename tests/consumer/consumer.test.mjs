// The CMake package as a C++ developer meets it: installed, found, compiled against, run.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { cmakeBuild } from '../../build-scripts/build.mjs';
import { root } from '../../build-scripts/lib/command.mjs';

const place = join(root, 'build', 'consumer');
const prefix = join(place, 'prefix');

function run(...argv) {
  const { status, stdout, stderr } = spawnSync(argv[0], argv.slice(1), { encoding: 'utf8' });
  return { status, stdout, stderr };
}

function succeeds(...argv) {
  const result = run(...argv);
  assert.equal(result.status, 0, `${argv.join(' ')}\n${result.stdout}${result.stderr}`);
  return result;
}

before(async () => {
  rmSync(place, { recursive: true, force: true });
  const build = await cmakeBuild('native', { target: 'locant', quiet: true });
  succeeds('cmake', '--install', build, '--prefix', prefix);
});

test('an installed Locant is found, compiled against and gives the next position', () => {
  const build = join(place, 'build');
  succeeds('cmake', '-G', 'Ninja', '-S', join(root, 'tests/consumer'), '-B', build, `-DCMAKE_PREFIX_PATH=${prefix}`);
  succeeds('cmake', '--build', build);
  assert.equal(succeeds(join(build, 'consumer')).stdout, 'the next token stands at 4\n');
});

test("the README's C++ generates the tokens that it says", () => {
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  const [, code] = readme.match(/<!-- example: cpp -->\s*```cpp\n([\s\S]*?)```/);
  const source = join(place, 'readme'), build = join(source, 'build');
  mkdirSync(source);
  writeFileSync(join(source, 'main.cpp'), code);
  writeFileSync(join(source, 'CMakeLists.txt'), 'cmake_minimum_required(VERSION 3.25)\nproject(readme LANGUAGES CXX)\nfind_package(Locant REQUIRED)\n'
    + 'add_executable(mine main.cpp)\ntarget_link_libraries(mine PRIVATE Locant::locant)\n');
  succeeds('cmake', '-G', 'Ninja', '-S', source, '-B', build, `-DCMAKE_PREFIX_PATH=${prefix}`);
  succeeds('cmake', '--build', build);
  assert.equal(succeeds(join(build, 'mine')).stdout.trim(), code.match(/\/\/ => (.*)$/m)[1]);
});

test('a version that is not there is refused', () => {
  const source = join(place, 'too-new');
  mkdirSync(source);
  writeFileSync(join(source, 'CMakeLists.txt'),
    'cmake_minimum_required(VERSION 3.25)\nproject(too_new LANGUAGES CXX)\nfind_package(Locant 99 REQUIRED)\n');
  const { status, stderr } = run('cmake', '-G', 'Ninja', '-S', source, '-B', join(source, 'build'), `-DCMAKE_PREFIX_PATH=${prefix}`);
  assert.notEqual(status, 0);
  assert.match(stderr, /requested version "99"/);
});

test('every installed header compiles on its own, without a warning', () => {
  const include = join(prefix, 'include');
  const headers = readdirSync(include, { recursive: true }).filter((name) => name.endsWith('.hpp')).sort();
  assert.ok(headers.length > 0);
  for (const header of headers) {
    const file = join(place, 'alone.cpp');
    writeFileSync(file, `#include <${header}>\n`);
    succeeds('g++', '-std=c++20', '-Wall', '-Wextra', '-Werror', '-fsyntax-only', '-isystem/usr/include/eigen3', `-I${include}`, file);
  }
});
