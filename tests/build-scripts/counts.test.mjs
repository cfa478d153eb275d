// How npm test judges what it ran. Each case is a small program that prints what a runner would.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { closingLine, doctest, runTests as runShown } from '../../build-scripts/lib/count.mjs';

// Their closing lines would be taken for ours.
const runTests = (tests) => runShown(tests, { quiet: true });
const program = (text, code = 0) => [process.execPath, '-e', `console.log(${JSON.stringify(text)}); process.exitCode = ${code};`, '--'];
const doctestLine = (passed, failed, skipped = 0) =>
  `[doctest] test cases:  ${passed + failed} |  ${passed} passed | ${failed} failed | ${skipped} skipped`;

test("doctest's closing line is read", async () => {
  assert.deepEqual(await runTests(doctest(program(doctestLine(12, 0, 3)))), { passed: 12, failed: 0, skipped: 3 });
  assert.deepEqual(await runTests(doctest(program(doctestLine(12, 2), 1))), { passed: 12, failed: 2, skipped: 0 });
});

test('a run that counts no test has failed', async () => {
  assert.equal((await runTests(doctest(program(doctestLine(0, 0))))).failed, 1);
  assert.equal((await runTests(closingLine(program('')))).failed, 1);
});

test('a run that ends badly has failed, whatever it counted', async () => {
  assert.deepEqual(await runTests(closingLine(program('7 passed, 0 failed', 3))), { passed: 7, failed: 1, skipped: 0 });
  const killed = [process.execPath, '-e', 'process.kill(process.pid, "SIGKILL")'];
  assert.deepEqual(await runTests(closingLine(killed)), { passed: 0, failed: 1, skipped: 0 });
});

test('of several closing lines the last one counts', async () => {
  assert.deepEqual(await runTests(closingLine(program('2 passed, 1 failed\n5 passed, 0 failed'))), { passed: 5, failed: 0, skipped: 0 });
});
