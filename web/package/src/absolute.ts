// Door 1: encodings added to the input.
import type {
  DetrSinusoidal,
  DetrSinusoidalOptions,
  Flags,
  GridInterpolation,
  GridSinusoidal,
  GridSinusoidalOptions,
  LearnedTable,
  LearnedTableOptions,
  MethodDescription,
  Out,
  Positions,
  RowInterpolation,
  Sinusoidal,
  SinusoidalOptions,
} from '../types/locant.js';
import { argumentFault, choice, finite, flags, float32, float64, integer, maxPosition, options, positive, result } from './check.js';
import type { Context } from './context.js';
import { readDescription } from './describe.js';
import { makeError } from './errors.js';
import type { Memory } from './memory.js';
import { handleOf, isOwned, OwnedObject, refuseStrangers } from './owned.js';
import { positionsOf, readPositions, writePositions } from './positions.js';
import type { RawLearnedTable, RawSinusoidal } from './raw.js';

const layouts = ['interleaved', 'concatenated', 'tensor2tensor', 'mlx'] as const;
const orders = ['sine-first', 'cosine-first'] as const;
const ends = ['error', 'truncate', 'clamp', 'interpolate'] as const;
const gridOrders = ['row-first', 'column-first'] as const;
const gridSteps = ['quarter', 'ends-at-base'] as const;
const mostWidth = 1048576;
const mostSide = 32768;
// In the order of the C++ enum.
const normalizations = ['none', 'to-scale'] as const;

/** The options of a sinusoidal encoding, checked; `width` is given apart where a decoder sets it. */
export function sinusoidOf(call: string, given: Omit<SinusoidalOptions, 'width'>, width: unknown): object {
  const { layout = 'interleaved', order = 'sine-first', base = 10000, maxFrequency = 1, scale, positionOffset = 0 } = given;
  return {
    width: integer(call, 'width', width, 1, mostWidth),
    layout: choice(call, 'layout', layout, layouts),
    order: choice(call, 'order', order, orders),
    base: positive(call, 'base', base),
    maxFrequency: positive(call, 'maxFrequency', maxFrequency),
    scale: scale === undefined ? undefined : finite(call, 'scale', scale),
    positionOffset: finite(call, 'positionOffset', positionOffset),
  };
}

/** The same of a learned table. */
export function tableOf(call: string, given: Omit<LearnedTableOptions, 'table' | 'width'>, width: unknown): object {
  const { rows, firstRow = 0, paddingRow, pastEnd = 'error', length } = given;
  const checked = {
    rows: integer(call, 'rows', rows, 1, maxPosition),
    width: integer(call, 'width', width, 1, mostWidth),
    firstRow: integer(call, 'firstRow', firstRow, 0, rows - 1),
    paddingRow: paddingRow === undefined ? undefined : integer(call, 'paddingRow', paddingRow, 0, rows - 1),
    pastEnd: choice(call, 'pastEnd', pastEnd, ends),
    length: length === undefined ? 0 : integer(call, 'length', length, 1, maxPosition),
  };
  if ((length !== undefined) !== (pastEnd === 'interpolate')) {
    argumentFault(`${call}: length is ${length}, expected one exactly where pastEnd is "interpolate"`, length);
  }
  return checked;
}

export const sinusoidNames = ['layout', 'order', 'base', 'maxFrequency', 'scale', 'positionOffset'] as const;
export const tableNames = ['rows', 'firstRow', 'paddingRow', 'pastEnd', 'length'] as const;

type RawEncoding = Omit<RawSinusoidal, 'prepare'>;

/** What encodings without a table share. */
abstract class Encoding<H extends RawEncoding> extends OwnedObject<H> {
  protected readonly memory: Memory;
  readonly width: number;

  static {
    refuseStrangers('encoding', this, isOwned);
  }

  protected constructor({ memory, census }: Context, name: string, width: number, handle: H) {
    super(census, name, handle);
    this.memory = memory;
    this.width = width;
  }

  get frequencies(): Float64Array {
    return handleOf<RawEncoding>(this, 'frequencies').frequencies();
  }

  encode(positions: Positions, given?: Out): Float32Array {
    const call = 'encode';
    const handle = handleOf<RawEncoding>(this, call);
    const { out } = options(call, given, ['out']);
    const { tokens } = positionsOf(call, 'positions', positions);
    const count = tokens * this.width;
    const into = result(call, out, count, `${tokens} tokens x ${this.width}`);
    return this.memory.call(call, (frame) => {
      const block = writePositions(frame, this.memory, call, 'positions', positions);
      const at = frame.reserve(count * 4);
      this.memory.done(handle.encode(block, at, count));
      return frame.copyTo(into, at);
    });
  }

  add(x: Float32Array, positions: Positions, given?: Out): Float32Array {
    const call = 'add';
    const handle = handleOf<RawEncoding>(this, call);
    const { out } = options(call, given, ['out']);
    const { tokens } = positionsOf(call, 'positions', positions);
    const count = tokens * this.width;
    const shape = `${tokens} tokens x ${this.width}`;
    float32(call, 'x', x, count, shape);
    const into = result(call, out, count, shape);
    return this.memory.call(call, (frame) => {
      const block = writePositions(frame, this.memory, call, 'positions', positions);
      const at = frame.float32(x);
      this.memory.done(handle.add(at, block, count));
      return frame.copyTo(into, at);
    });
  }

  describe(): MethodDescription {
    return readDescription(handleOf<RawEncoding>(this, 'describe').describe());
  }
}

export class SinusoidalEncoding extends Encoding<RawSinusoidal> implements Sinusoidal {
  static {
    refuseStrangers('Sinusoidal', this, isOwned);
  }

  constructor(context: Context, given: SinusoidalOptions) {
    const call = 'sinusoidal';
    const { memory } = context;
    const { width, ...rest } = options(call, given, ['width', ...sinusoidNames]);
    const checked = sinusoidOf(call, rest, width);
    super(context, 'sinusoidal encoding', width, memory.call(call, () => memory.done(memory.raw.makeSinusoidal(checked))));
  }

  prepare(count: number): void {
    const handle = handleOf(this, 'prepare');
    integer('prepare', 'count', count, 0, maxPosition + 1);
    this.memory.call('prepare', () => this.memory.done(handle.prepare(count)));
  }
}

/** The same of a grid's sinusoids. */
export function gridOf(call: string, given: Omit<GridSinusoidalOptions, 'features'>, features: unknown): object {
  const { order = 'row-first', steps = 'quarter', base = 10000 } = given;
  return {
    features: integer(call, 'features', features, 4, mostWidth),
    order: choice(call, 'order', order, gridOrders),
    steps: choice(call, 'steps', steps, gridSteps),
    base: positive(call, 'base', base),
  };
}

export const gridNames = ['order', 'steps', 'base'] as const;

export class GridEncoding extends Encoding<RawEncoding> implements GridSinusoidal {
  constructor(context: Context, given: GridSinusoidalOptions) {
    const call = 'gridSinusoidal';
    const { memory } = context;
    const { features, ...rest } = options(call, given, ['features', ...gridNames]);
    const checked = gridOf(call, rest, features);
    super(context, 'grid encoding', features, memory.call(call, () => memory.done(memory.raw.makeGridSinusoidal(checked))));
  }
}

export class TableEncoding extends OwnedObject<RawLearnedTable> implements LearnedTable {
  readonly #memory;
  readonly width: number;
  readonly rows: number;
  readonly length: number;
  readonly parameterCount: number;
  // Whether fit() may drop tokens, so that only the library can say how many results there are.
  readonly #truncates: boolean;

  static {
    refuseStrangers('LearnedTable', this, (value) => #memory in value);
  }

  constructor({ memory, census }: Context, given: LearnedTableOptions) {
    const call = 'learnedTable';
    const { table, width, ...rest } = options(call, given, ['table', 'width', ...tableNames]);
    const checked = tableOf(call, rest, width);
    const { rows, firstRow = 0, pastEnd } = rest;
    float32(call, 'table', table, rows * width, `${rows} rows x ${width}`);
    super(census, 'learned table', memory.call(call, (frame) =>
      memory.done(memory.raw.makeLearnedTable(checked, frame.float32(table), table.length))));
    this.#memory = memory;
    this.width = width;
    this.rows = handleOf<RawLearnedTable>(this, call).rows();
    this.length = this.rows - firstRow;
    this.parameterCount = rows * width;
    this.#truncates = pastEnd === 'truncate';
  }

  get values(): Float32Array {
    return handleOf<RawLearnedTable>(this, 'values').values();
  }

  count(positions: Positions, given?: { readonly into?: Float64Array }): Float64Array {
    const call = 'count';
    const handle = handleOf<RawLearnedTable>(this, call);
    const { into } = options(call, given, ['into']);
    if (into !== undefined) {
      if (!(into instanceof Float64Array)) argumentFault(`${call}: into is not a Float64Array, expected one of ${this.rows} counts`);
      if (float64(call, 'into', into).length !== this.rows) {
        throw makeError('shape', `${call}: into holds ${into.length} values, expected one per row = ${this.rows}`, into.length, this.rows);
      }
    }
    const counts = this.#memory.call(call, (frame) =>
      this.#memory.done(handle.count(writePositions(frame, this.#memory, call, 'positions', positions))));
    if (into === undefined) return counts;
    for (let row = 0; row < counts.length; ++row) into[row]! += counts[row]!;
    return into;
  }

  fit(positions: Positions): Positions {
    const handle = handleOf(this, 'fit');
    return this.#memory.call('fit', (frame) =>
      readPositions(this.#memory, handle.fit(writePositions(frame, this.#memory, 'fit', 'positions', positions))));
  }

  rowsOf(positions: Positions): Int32Array {
    const handle = handleOf(this, 'rowsOf');
    return this.#memory.call('rowsOf', (frame) =>
      this.#memory.done(handle.rowsOf(writePositions(frame, this.#memory, 'rowsOf', 'positions', positions))));
  }

  requireLength(length: number): void {
    const handle = handleOf(this, 'requireLength');
    integer('requireLength', 'length', length, 0, maxPosition);
    this.#memory.call('requireLength', () => this.#memory.done(handle.requireLength(length)));
  }

  encode(positions: Positions, given?: Out): Float32Array {
    const call = 'encode';
    const handle = handleOf(this, call);
    const { out } = options(call, given, ['out']);
    positionsOf(call, 'positions', positions);
    const { tokens } = this.#truncates ? this.fit(positions) : positions;
    const count = tokens * this.width;
    const into = result(call, out, count, `${tokens} tokens x ${this.width}`);
    return this.#memory.call(call, (frame) => {
      const block = writePositions(frame, this.#memory, call, 'positions', positions);
      const at = frame.reserve(count * 4);
      this.#memory.done(handle.encode(block, at, count));
      return frame.copyTo(into, at);
    });
  }

  add(x: Float32Array, positions: Positions, given?: Out): Float32Array {
    const call = 'add';
    const handle = handleOf(this, call);
    const { out } = options(call, given, ['out']);
    const { tokens } = positionsOf(call, 'positions', positions);
    float32(call, 'x', x, tokens * this.width, `${tokens} tokens x ${this.width}`);
    const fitted = this.#truncates ? this.fit(positions).tokens : tokens;
    const count = fitted * this.width;
    const into = result(call, out, count, `${fitted} tokens x ${this.width}`);
    return this.#memory.call(call, (frame) => {
      const block = writePositions(frame, this.#memory, call, 'positions', positions);
      const at = frame.float32(x);
      this.#memory.done(handle.add(at, x.length, block, at, count));
      return frame.copyTo(into, at);
    });
  }

  describe(): MethodDescription {
    return readDescription(handleOf(this, 'describe').describe());
  }
}

/** DETR's, which counts the cells of an image by its mask; no memory of its own. */
export class DetrEncoding implements DetrSinusoidal {
  readonly #context: Context;
  readonly #checked: object;
  readonly width: number;

  constructor(context: Context, given: DetrSinusoidalOptions) {
    const call = 'detrSinusoidal';
    const { featuresPerAxis, base = 10000, normalize = 'to-scale', scale = 2 * Math.PI, epsilon = 1e-6 } =
      options(call, given, ['featuresPerAxis', 'base', 'normalize', 'scale', 'epsilon']);
    this.#context = context;
    this.#checked = {
      featuresPerAxis: integer(call, 'featuresPerAxis', featuresPerAxis, 1, mostWidth),
      base: positive(call, 'base', base),
      normalize: choice(call, 'normalize', normalize, normalizations),
      scale: finite(call, 'scale', scale),
      epsilon: positive(call, 'epsilon', epsilon),
    };
    this.width = 2 * featuresPerAxis;
    const { memory } = context;
    memory.call(call, () => memory.done(memory.raw.describeDetr(this.#checked)));  // refuses what could not be encoded
  }

  encode(mask: Flags, given: Out & { readonly height: number; readonly width: number }): Float32Array {
    const call = 'encode';
    const { memory } = this.#context;
    const { height, width, out } = options(call, given, ['height', 'width', 'out']);
    integer(call, 'height', height, 1, mostSide);
    integer(call, 'width', width, 1, mostSide);
    const cells = flags(call, 'the mask', mask);
    if (cells.length !== height * width) {
      throw makeError('shape', `${call}: the mask holds ${cells.length} values, expected ${height} x ${width} = ${height * width}`, cells.length, height * width);
    }
    const count = cells.length * this.width;
    const into = result(call, out, count, `${height} x ${width} x ${this.width}`);
    return memory.call(call, (frame) => {
      const at = frame.reserve(count * 4);
      memory.done(memory.raw.detrSinusoids({ ...this.#checked, height, width }, frame.bytes(cells), cells.length, at, count));
      return frame.copyTo(into, at);
    });
  }

  describe(): MethodDescription {
    const { memory } = this.#context;
    return readDescription(memory.call('describe', () => memory.done(memory.raw.describeDetr(this.#checked))));
  }
}

const centersOf = ['half-pixel', 'align-corners'] as const;
const filters = ['bilinear', 'bicubic'] as const;
const smoothings = ['none', 'antialias'] as const;

export function interpolateRows({ memory }: Context, values: Float32Array, given: RowInterpolation): Float32Array {
  const call = 'interpolateRows';
  const { rows, width, newRows, centers = 'half-pixel' } = options(call, given, ['rows', 'width', 'newRows', 'centers']);
  const checked = {
    rows: integer(call, 'rows', rows, 1, maxPosition),
    width: integer(call, 'width', width, 1, mostWidth),
    newRows: integer(call, 'newRows', newRows, 1, maxPosition),
    centers: choice(call, 'centers', centers, centersOf),
  };
  float32(call, 'values', values, rows * width, `${rows} rows x ${width}`);
  return memory.call(call, (frame) => memory.done(memory.raw.interpolateRows(checked, frame.float32(values), values.length)));
}

function resamplingOf(call: string, given: GridInterpolation): object {
  const { from, to, channels, prefixRows = 1, filter = 'bicubic', smoothing = 'none', centers = 'half-pixel' } =
    options(call, given, ['from', 'to', 'channels', 'prefixRows', 'filter', 'smoothing', 'centers']);
  const grid = (name: string, size: unknown): object => {
    const { height, width } = options(`${call}: ${name}`, size as GridInterpolation['from'], ['height', 'width']);
    return { height: integer(call, `${name}.height`, height, 1, mostSide), width: integer(call, `${name}.width`, width, 1, mostSide) };
  };
  return {
    from: grid('from', from),
    to: grid('to', to),
    channels: integer(call, 'channels', channels, 1, mostWidth),
    prefixRows: integer(call, 'prefixRows', prefixRows, 0, mostWidth),
    filter: choice(call, 'filter', filter, filters),
    smoothing: choice(call, 'smoothing', smoothing, smoothings),
    centers: choice(call, 'centers', centers, centersOf),
  };
}

export function interpolateGrid({ memory }: Context, values: Float32Array, given: GridInterpolation): Float32Array {
  const call = 'interpolateGrid';
  const checked = resamplingOf(call, given);
  const { from, channels, prefixRows = 1 } = given;
  float32(call, 'values', values, (prefixRows + from.height * from.width) * channels, `(${prefixRows} + ${from.height} x ${from.width}) x ${channels}`);
  return memory.call(call, (frame) => memory.done(memory.raw.interpolateGrid(checked, frame.float32(values), values.length)));
}

export function describeInterpolation({ memory }: Context, given: GridInterpolation): MethodDescription {
  const call = 'describeInterpolation';
  const checked = resamplingOf(call, given);
  return readDescription(memory.call(call, () => memory.done(memory.raw.describeInterpolation(checked))));
}
