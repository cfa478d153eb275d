// Checks of what callers hand over, made before anything crosses the boundary. A fault is a sentence that names the call,
// the value and the limit.
import { makeError } from './errors.js';

export const maxPosition = 2147483647;
/** The largest number of heads, and the largest width of one. */
export const mostHeads = 65536;

/** A value as it is shown in a sentence. */
export function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);
  if (value === null || typeof value !== 'object') return String(value);
  return `a ${value.constructor?.name ?? 'value'}`;
}

export function argumentFault(message: string, value?: unknown, limit?: number): never {
  throw makeError('argument', message, typeof value === 'number' ? value : undefined, limit);
}

/** The options object of a call: an object, with no option that the call does not know (a typo is never ignored). */
export function options<T extends object>(call: string, given: T | undefined, known: readonly (keyof T & string)[]): T {
  if (given === undefined) return {} as T;
  if (given === null || typeof given !== 'object' || ArrayBuffer.isView(given) || Array.isArray(given)) {
    argumentFault(`${call}: the options are ${show(given)}, expected an object`);
  }
  for (const name of Object.keys(given)) {
    if (!(known as readonly string[]).includes(name)) {
      argumentFault(`${call}: there is no option ${show(name)}; there are ${known.join(', ')}`);
    }
  }
  return given;
}

/** An integer of low .. high. */
export function integer(call: string, name: string, value: unknown, low: number, high: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < low || value > high) {
    if (high < low) argumentFault(`${call}: ${name} is ${show(value)}, and there is none to choose`, value);
    argumentFault(`${call}: ${name} is ${show(value)}, expected an integer of ${low} .. ${high}`, value,
      typeof value !== 'number' ? undefined : value > high ? high : value < low ? low : undefined);
  }
  return value;
}

export const finite = (call: string, name: string, value: unknown): number =>
  typeof value === 'number' && Number.isFinite(value)
    ? value
    : argumentFault(`${call}: ${name} is ${show(value)}, expected a finite number`, value);

export const positive = (call: string, name: string, value: unknown): number =>
  typeof value === 'number' && Number.isFinite(value) && value > 0
    ? value
    : argumentFault(`${call}: ${name} is ${show(value)}, expected a finite number above 0`, value, 0);

export const flag = (call: string, name: string, value: unknown): boolean =>
  typeof value === 'boolean' ? value : argumentFault(`${call}: ${name} is ${show(value)}, expected true or false`);

export const text = (call: string, name: string, value: unknown): string =>
  typeof value === 'string' ? value : argumentFault(`${call}: ${name} is ${show(value)}, expected a string`);

/** The index of a word in the list of those that the option takes; lists have the order of the C++ enum. */
export function choice<T extends string>(call: string, name: string, value: unknown, words: readonly T[]): number {
  const index = words.indexOf(value as T);
  if (index < 0) {
    argumentFault(`${call}: ${name} is ${show(value)}, expected ${words.map((word) => `"${word}"`).join(' or ')}`);
  }
  return index;
}

// Read from the array itself, whatever a subclass says of it: these numbers become addresses.
const ofTypedArray = (name: 'length' | 'byteLength'): ((array: ArrayBufferView) => number) => {
  const { get } = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Float32Array.prototype), name)!;
  return (array) => get!.call(array) as number;
};
const trueLength = ofTypedArray('length');
const trueBytes = ofTypedArray('byteLength');

/** Refuses an array that does not have the length that it says, or whose buffer was transferred to somebody else. */
export function honest<T extends Float32Array | Float64Array | Int32Array | Uint8Array>(call: string, name: string, array: T): T {
  if (trueLength(array) !== array.length || trueBytes(array) !== array.byteLength) {
    argumentFault(`${call}: ${name} says it holds ${array.length} values, expected the ${trueLength(array)} that it has`, array.length, trueLength(array));
  }
  if (array.length === 0) {
    try {
      new Uint8Array(array.buffer, 0, 0);
    } catch (cause) {
      throw makeError('argument', `${call}: ${name} has been transferred away and holds nothing any more`, undefined, undefined, { cause });
    }
  }
  return array;
}

/** A Float32Array, of `expected` values if that is given; `shape` says in words where that number comes from. */
export function float32(call: string, name: string, value: unknown, expected?: number, shape?: string): Float32Array {
  if (!(value instanceof Float32Array)) argumentFault(`${call}: ${name} is ${show(value)}, expected a Float32Array`);
  honest(call, name, value);
  if (expected !== undefined && value.length !== expected) {
    throw makeError('shape', `${call}: ${name} holds ${value.length} values, expected ${shape} = ${expected}`,
      value.length, expected);
  }
  return value;
}

/** Finite numbers, as a Float64Array. */
export function float64(call: string, name: string, value: unknown): Float64Array {
  const list = value instanceof Float64Array ? Array.from(honest(call, name, value)) : value;
  if (!Array.isArray(list)) argumentFault(`${call}: ${name} is ${show(value)}, expected a Float64Array or an array of numbers`);
  return Float64Array.from(list, (entry: unknown, i) => finite(call, `${name}[${i}]`, entry));
}

/** Integers that fit int32, as an Int32Array. `what` says whether a number outside is a position or another argument. */
export function int32s(call: string, name: string, value: unknown, code: 'argument' | 'position-range' = 'argument'): Int32Array {
  if (value instanceof Int32Array) return honest(call, name, value);
  if (!Array.isArray(value)) {
    argumentFault(`${call}: ${name} is ${show(value)}, expected an Int32Array or an array of integers`);
  }
  const numbers: readonly unknown[] = value;
  for (let i = 0; i < numbers.length; ++i) {
    const number = numbers[i];
    if (typeof number !== 'number' || !Number.isInteger(number)) {
      argumentFault(`${call}: ${name}[${i}] is ${show(number)}, expected an integer`, number);
    }
    if (number > maxPosition || number < -maxPosition - 1) {
      const limit = number > 0 ? maxPosition : -maxPosition - 1;
      throw makeError(code, `${call}: ${name}[${i}] is ${number}, expected an integer up to ${limit}`, number, limit);
    }
  }
  return Int32Array.from(numbers as number[]);
}

/** Ones and zeros, as a Uint8Array. */
export function flags(call: string, name: string, value: unknown): Uint8Array {
  if (value instanceof Uint8Array) {
    const other = honest(call, name, value).findIndex((entry) => entry > 1);
    if (other >= 0) argumentFault(`${call}: ${name}[${other}] is ${value[other]}, expected 1 or 0`, value[other]);
    return value;
  }
  if (!Array.isArray(value)) {
    argumentFault(`${call}: ${name} is ${show(value)}, expected a Uint8Array or an array of booleans`);
  }
  return Uint8Array.from(value, (entry: unknown, i) =>
    entry === true || entry === 1 ? 1
      : entry === false || entry === 0 ? 0
        : argumentFault(`${call}: ${name}[${i}] is ${show(entry)}, expected true, false, 1 or 0`, entry));
}

/** The caller's array for a result, or a new one. */
export function result(call: string, out: unknown, length: number, shape: string): Float32Array {
  if (out === undefined) {
    try {
      return new Float32Array(length);
    } catch (cause) {
      throw makeError('out-of-memory', `${call}: no memory for a result of ${length} values`, length * 4, undefined, { cause });
    }
  }
  return float32(call, 'out', out, length, shape);
}
