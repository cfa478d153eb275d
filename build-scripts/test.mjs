// Runs the tests, suite by suite, and closes with how many passed and failed.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { buildPackage, buildPage, cmakeBuild } from './build.mjs';
import { main, output, readOptions, Refusal, root, which } from './lib/command.mjs';
import { closingLine, doctest, nodeTest, runTests } from './lib/count.mjs';
import { ensureNodeModules, newestNode } from './lib/npm.mjs';
import { ensurePackages } from './lib/packages.mjs';
import { findToolchain } from './lib/toolchain.mjs';

const help = `
Usage: npm test [-- SUITE... ] [-- --full] [-- --list]

Installs what is missing, builds what has changed, runs the suites (all, or those named) and closes with
"N passed, N failed". The exit code is 0 only when every suite ran at least one test and none failed.
  --full   also what takes too long for every change (npm run test:full)
  --list   name the suites and what they test
`;

const has = (path) => existsSync(join(root, path));
// C++ tests that take long are skipped but where everything is to be run.
const long = (full) => (full ? ['--no-skip'] : []);

/** Each suite: what it tests, what it prepares, and the runs that count. A suite whose files are not there is not listed. */
const suites = {
  native: {
    about: 'the C++ tests under the address and undefined-behaviour sanitizers',
    isThere: () => has('tests/cpp'),
    async run(count, { full }) {
      const out = await cmakeBuild('sanitized', { target: 'locant_tests', quiet: true });
      await count('g++, sanitizers', doctest([join(out, 'locant_tests'), ...long(full)]));
    },
  },
  wasm: {
    about: 'the same C++ tests as WebAssembly under Node',
    isThere: () => has('tests/cpp'),
    async run(count, { full }) {
      const newest = await newestNode();
      const program = async (variant) => join(await cmakeBuild(variant, { target: 'locant_tests', quiet: true }), 'locant_tests.cjs');
      await count(`simd, Node ${process.versions.node}`, doctest([process.execPath, await program('simd'), ...long(full)]));
      // Relaxed SIMD validates from Node 22.
      const relaxedNode = Number(process.versions.node.split('.')[0]) >= 22 ? process.execPath : newest;
      if (relaxedNode) await count(`relaxed, Node ${versionOf(relaxedNode)}`, doctest([relaxedNode, await program('relaxed'), ...long(full)]));
      if (full) await count(`scalar, Node ${process.versions.node}`, doctest([process.execPath, await program('scalar')]));
    },
  },
  scripts: {
    about: 'the scripts of this folder: what they refuse, how tests are counted, what the server gives away',
    isThere: () => testFiles('tests/build-scripts').length > 0,
    run: (count) => count(`Node ${process.versions.node}`, nodeTest([process.execPath], testFiles('tests/build-scripts'))),
  },
  consumer: {
    about: 'a C++ program that finds the installed library with find_package',
    isThere: () => testFiles('tests/consumer').length > 0,
    run: (count) => count('CMake package', nodeTest([process.execPath], testFiles('tests/consumer'))),
  },
  package: {
    about: 'the npm package: in this Node, without code generation from strings, and in the newest Node',
    isThere: () => testFiles('tests/package').length > 0,
    async run(count, { full }) {
      await buildPackage({ quiet: true });
      if (full) process.env.LOCANT_TEST_FULL = '1';
      const files = testFiles('tests/package');
      await count(`Node ${process.versions.node}`, nodeTest([process.execPath], files));
      await count('no code generation from strings', nodeTest([process.execPath, '--disallow-code-generation-from-strings'], files));
      const newest = await newestNode();
      if (newest && versionOf(newest) !== process.versions.node) await count(`Node ${versionOf(newest)}`, nodeTest([newest], files));
    },
  },
  gate: {
    about: 'the packed package as a user installs it: examples, bundlers, types, contents, sizes',
    isThere: () => has('build-scripts/package-gate.mjs'),
    async run(count) {
      await ensurePackages('chromium');
      await buildPackage({ quiet: true });
      await count('package gate', closingLine([process.execPath, join(root, 'build-scripts/package-gate.mjs')]));
    },
  },
  page: {
    about: "the page in Debian's Chromium",
    isThere: () => testFiles('tests/page').length > 0,
    async run(count) {
      await ensurePackages('chromium');
      await buildPage({ quiet: true });
      await count(output([which('chromium'), '--version']) ?? 'Chromium', nodeTest([process.execPath], testFiles('tests/page')));
    },
  },
};

const versionOf = (node) => output([node, '-p', 'process.versions.node']);

const testFiles = (folder) =>
  has(folder) ? readdirSync(join(root, folder), { recursive: true }).filter((name) => /\.test\.m?[jt]s$/.test(name)).sort().map((name) => join(folder, name)) : [];

const seconds = (since) => `${((Date.now() - since) / 1000).toFixed(0)} s`;

async function runSuite(name, options) {
  const total = { passed: 0, failed: 0, skipped: 0 };
  const lines = [];
  const started = Date.now();
  const count = async (label, tests) => {
    console.log(`\n== ${name}: ${label}`);
    const since = Date.now();
    const result = await runTests(tests);
    for (const key of Object.keys(total)) total[key] += result[key];
    lines.push(`    ${label}: ${result.passed} passed, ${result.failed} failed${result.skipped ? `, ${result.skipped} skipped` : ''} (${seconds(since)})`);
  };
  try {
    await suites[name].run(count, options);
  } catch (error) {
    console.error(error instanceof Refusal ? error.message : error);
    total.failed += 1;
    lines.push(`    could not be run: ${error.message.split('\n')[0]}`);
  }
  return { name, ...total, text: [`${name}: ${total.passed} passed, ${total.failed} failed (${seconds(started)}, builds included)`, ...lines].join('\n') };
}

main(async () => {
  const { values, positionals } = readOptions('test', help, { full: { type: 'boolean' }, list: { type: 'boolean' } }, true);
  const there = Object.keys(suites).filter((name) => suites[name].isThere());
  const unknown = positionals.find((name) => !there.includes(name));
  if (unknown) throw new Refusal(`test: there is no suite "${unknown}"; there are ${there.join(', ')}.`);
  if (values.list) {
    for (const name of there) console.log(`${name.padEnd(10)}${suites[name].about}`);
    return 0;
  }
  const started = Date.now();
  await ensureNodeModules();
  console.log(`npm packages are there (${seconds(started)})`);
  const since = Date.now();
  const { version, why } = await findToolchain();
  console.log(`Emscripten ${version}: ${why} (${seconds(since)})`);

  const results = [];
  for (const name of positionals.length > 0 ? positionals : there) results.push(await runSuite(name, values));

  console.log(`\n${results.map(({ text }) => text).join('\n')}\nall of it took ${seconds(started)}`);
  const sum = (key) => results.reduce((total, result) => total + result[key], 0);
  console.log(`${sum('passed')} passed, ${sum('failed')} failed`);
  return sum('failed') === 0 ? 0 : 1;
});
