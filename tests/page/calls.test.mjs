// The C++ that the page shows beside its figures is C++ against the headers of this repository.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { join } from 'node:path';
import { pageCode, root } from './support.mjs';

const { models, initialState } = await pageCode();

const prelude = `
#include <memory>
#include <numeric>
#include <span>
#include <vector>
#include "locant/absolute/learned_table.hpp"
#include "locant/absolute/sinusoidal.hpp"
#include "locant/attention/attention.hpp"
#include "locant/bias/alibi.hpp"
#include "locant/decoder/decoder.hpp"
#include "locant/decoder/lanes.hpp"
#include "locant/rotary/rotation.hpp"
#include "locant/rotary/rules.hpp"
extern std::vector<float> x, moved_x, table;
`;

const compiler = spawnSync('g++', ['--version']).status === 0;

test('the C++ of every view, method and fault compiles', { skip: compiler ? false : 'g++ is not installed' }, () => {
  const snippets = models.flatMap((model) => {
    const choices = Object.entries(model.fields).filter(([, field]) => field.values);
    const states = choices.flatMap(([key, field]) => field.values.map((value) => ({ [key]: value })));
    return [{}, ...states].map((patch) => model.call({ ...initialState(model), ...patch }).cpp);
  });
  const source = prelude + [...new Set(snippets)].map((code, index) => `void call_${index}() {\n${code}\n}\n`).join('');
  const { status, stderr } = spawnSync('g++', ['-std=c++20', '-fsyntax-only', '-Wall', '-Wextra', '-Wno-unused-variable', '-Wno-unused-but-set-variable',
    '-Wno-missing-field-initializers', '-I', join(root, 'cpp'), '-isystem', '/usr/include/eigen3', '-x', 'c++', '-'], { input: source, encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  assert.equal(stderr, '');
});
