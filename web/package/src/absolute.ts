// Door 1: encodings added to the input.
import type {
  GridSinusoidal,
  GridSinusoidalOptions,
  LearnedTable,
  LearnedTableOptions,
  MethodDescription,
  Out,
  Positions,
  Sinusoidal,
  SinusoidalOptions,
} from '../types/locant.js';
import { argumentFault, choice, finite, float32, integer, maxPosition, options, positive, result } from './check.js';
import type { Context } from './context.js';
import { readDescription } from './describe.js';
import type { Memory } from './memory.js';
import { handleOf, OwnedObject } from './owned.js';
import { positionsOf, readPositions, writePositions } from './positions.js';
import type { RawLearnedTable, RawSinusoidal } from './raw.js';

const layouts = ['interleaved', 'concatenated', 'tensor2tensor', 'mlx'] as const;
const orders = ['sine-first', 'cosine-first'] as const;
const ends = ['error', 'truncate', 'clamp', 'interpolate'] as const;
const gridOrders = ['row-first', 'column-first'] as const;
const gridSteps = ['quarter', 'ends-at-base'] as const;
const mostWidth = 1048576;

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
