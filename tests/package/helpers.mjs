// What the package's tests share.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { load } from 'locant';

export const locant = await load();
export const deterministic = await load({ kernel: 'deterministic' });

/** Asserts that a call answers with a LocantError of this code, class and sentence (a string, or a pattern). */
export function refuses(call, code, sentence) {
  assert.throws(call, (error) => {
    assert.equal(error?.code, code, `${error?.stack ?? error}`);
    const name = {
      'cache-full': 'CacheError', 'cache-state': 'CacheError', 'position-range': 'PositionRangeError', 'table-end': 'TableEndError',
      'plan-mismatch': 'PlanMismatchError', 'out-of-memory': 'OutOfMemoryError',
    }[code] ?? `${code[0].toUpperCase()}${code.slice(1)}Error`;
    assert.equal(error.name, name);
    if (sentence instanceof RegExp) assert.match(error.message, sentence);
    else assert.equal(error.message, sentence);
    return true;
  });
}

/** Numbers in [-1, 1), the same in every run. */
export const numbers = (count, stream = 'test', seed = 1) => locant.random({ seed, stream, count });

/** The golden vectors of one file. */
export const vectors = (name) => JSON.parse(readFileSync(new URL(`../vectors/${name}.json`, import.meta.url)));

/** Asserts that no value lies further from its expectation than the tolerance. */
export function close(actual, expected, tolerance, what = '') {
  assert.equal(actual.length, expected.length, what);
  for (let i = 0; i < actual.length; ++i) {
    assert.ok(Math.abs(actual[i] - expected[i]) <= tolerance, `${what}[${i}] is ${actual[i]}, expected ${expected[i]} within ${tolerance}`);
  }
}
