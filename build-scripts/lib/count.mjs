// Runs programs of tests and reads from their own closing lines how many passed and failed.
import { run } from './command.mjs';

// How each kind of run is started, and where its output says what it counted. The last match is the one that closes it.
export const doctest = (argv) => ({
  argv: [...argv, '--no-colors=true'],
  counts: [/test cases: +\d+ \| +(\d+) passed/g, /test cases: .*?\| +(\d+) failed/g, /test cases: .*?\| +(\d+) skipped/g],
});
export const nodeTest = (node, files) => ({
  argv: [...node, '--test', '--test-reporter=spec', ...files],
  counts: [/^ℹ pass (\d+)/gm, /^ℹ fail (\d+)/gm, /^ℹ skipped (\d+)/gm, /^ℹ cancelled (\d+)/gm],
});
export const closingLine = (argv) => ({ argv, counts: [/^(\d+) passed, \d+ failed/gm, /^\d+ passed, (\d+) failed/gm] });

/** Runs one program of tests and reads its counts; one that dies, counts nothing or contradicts itself has failed. */
export async function runTests({ argv, counts }, options = {}) {
  const { code, signal, text } = await run(argv, options);
  const [passed, failed, skipped = 0, cancelled = 0] = counts.map((pattern) => Number([...text.matchAll(pattern)].at(-1)?.[1] ?? 0));
  const result = { passed, failed: failed + cancelled, skipped };
  if (code !== 0 && result.failed === 0) {
    console.log(`ended with ${signal ?? `exit code ${code}`} and counted no failure: taken as one`);
    result.failed = 1;
  }
  if (passed + result.failed === 0) {
    console.log('ran no test: taken as a failure');
    result.failed = 1;
  }
  return result;
}
