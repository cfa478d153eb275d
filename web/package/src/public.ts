// The values that both entries export beside load.
export {
  ArgumentError,
  CacheError,
  DisposedError,
  FormatError,
  LoadError,
  LocantError,
  OrderError,
  OutOfMemoryError,
  PlanMismatchError,
  PositionRangeError,
  ShapeError,
  TableEndError,
  UnsupportedError,
} from './errors.js';
