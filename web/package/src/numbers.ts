// Numbers for examples and tests: seeded ones, and how far two results lie apart.
import { float32, integer, maxPosition, options, result, text } from './check.js';
import type { Context } from './context.js';
import { makeError } from './errors.js';

const mostNumbers = 1073741823;

export function random({ memory }: Context, given: { readonly seed: number; readonly stream: string; readonly count: number }): Float32Array {
  const call = 'random';
  const { seed, stream, count } = options(call, given, ['seed', 'stream', 'count']);
  integer(call, 'seed', seed, 0, maxPosition);
  text(call, 'stream', stream);
  integer(call, 'count', count, 0, mostNumbers);
  return memory.call(call, (frame) => {
    const at = frame.reserve(count * 4);
    memory.done(memory.raw.random(seed, stream, at, count));
    return frame.copyTo(result(call, undefined, count, 'count'), at);
  });
}

export function difference(a: Float32Array, b: Float32Array): { readonly largest: number; readonly index: number } {
  float32('difference', 'a', a);
  float32('difference', 'b', b);
  if (a.length !== b.length) {
    throw makeError('shape', `difference: b holds ${b.length} values, expected as many as a = ${a.length}`, b.length, a.length);
  }
  let largest = 0;
  let index = -1;
  for (let i = 0; i < a.length; ++i) {
    const apart = a[i] === b[i] ? 0 : Math.abs(a[i]! - b[i]!);
    if (index < 0 || apart > largest) {
      largest = apart;
      index = i;
    }
    if (Number.isNaN(apart)) return { largest: NaN, index: i };
  }
  return { largest, index };
}
