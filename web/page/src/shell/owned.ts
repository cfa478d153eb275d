// Objects that own WebAssembly memory live as long as one computation.
import type { Owned } from 'locant';

/** Runs `work`; everything handed to `keep` is disposed afterwards, whether it returned or threw. */
export function owning<T>(work: (keep: <O extends Owned>(object: O) => O) => T): T {
  const objects: Owned[] = [];
  try {
    return work((object) => {
      objects.push(object);
      return object;
    });
  } finally {
    for (const object of objects.reverse()) object.dispose();
  }
}

/** Copies whole rows of `width` values: row i of the result is row `from[i]` of x. */
export function rowsOf(x: Float32Array, width: number, from: readonly number[]): Float32Array {
  const rows = new Float32Array(from.length * width);
  from.forEach((row, index) => rows.set(x.subarray(row * width, (row + 1) * width), index * width));
  return rows;
}
