// The typed errors, and how a fault of the module becomes one.
import type { ErrorCode } from '../types/locant.js';

export class LocantError extends Error {
  readonly code: ErrorCode;
  readonly value: number | undefined;
  readonly limit: number | undefined;
  constructor(code: ErrorCode, message: string, value?: number, limit?: number, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
    this.value = value;
    this.limit = limit;
  }
}

export class ShapeError extends LocantError {}
export class ArgumentError extends LocantError {}
export class PositionRangeError extends LocantError {}
export class TableEndError extends LocantError {}
export class OrderError extends LocantError {}
export class CacheError extends LocantError {}
export class PlanMismatchError extends LocantError {}
export class UnsupportedError extends LocantError {}
export class FormatError extends LocantError {}
export class OutOfMemoryError extends LocantError {}
export class DisposedError extends LocantError {}
export class LoadError extends LocantError {}

// As names written out: a bundler that shortens class names must not change what users read.
const classes: Record<ErrorCode, readonly [string, typeof LocantError]> = {
  shape: ['ShapeError', ShapeError],
  argument: ['ArgumentError', ArgumentError],
  'position-range': ['PositionRangeError', PositionRangeError],
  'table-end': ['TableEndError', TableEndError],
  order: ['OrderError', OrderError],
  'cache-full': ['CacheError', CacheError],
  'cache-state': ['CacheError', CacheError],
  'plan-mismatch': ['PlanMismatchError', PlanMismatchError],
  unsupported: ['UnsupportedError', UnsupportedError],
  format: ['FormatError', FormatError],
  'out-of-memory': ['OutOfMemoryError', OutOfMemoryError],
  disposed: ['DisposedError', DisposedError],
  load: ['LoadError', LoadError],
  internal: ['LocantError', LocantError],
};
for (const [name, type] of Object.values(classes)) {
  Object.defineProperty(type.prototype, 'name', { value: name, configurable: true, writable: true });
}

/** The error of a code, of its class. */
export function makeError(
  code: ErrorCode,
  message: string,
  value?: number,
  limit?: number,
  options?: { cause?: unknown },
): LocantError {
  return new classes[code][1](code, message, value, limit, options);
}
