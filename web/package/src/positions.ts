// Positions: what stands where. Plain arrays on this side, checked and counted by the library on the other.
import type {
  Flags,
  GridOptions,
  Integers,
  Interpretation,
  PatchGrid,
  PositionArrays,
  PositionBuilders,
  PositionEvidence,
  PositionRun,
  Positions,
  TokenKind,
} from '../types/locant.js';
import { argumentFault, choice, finite, flags, int32s, integer, maxPosition, options, show } from './check.js';
import { makeError } from './errors.js';
import { inPackageNames, type Frame, type Memory } from './memory.js';
import { refuseStrangers } from './owned.js';
import type { Address } from './raw.js';

const sides = ['left', 'right'] as const;
const packings = ['restart', 'running'] as const;
const gridAxes = ['row-column', 'column-row'] as const;
const classTokens = ['none', 'first', 'last'] as const;
const afters = ['largest-plus-one', 'start-plus-side'] as const;
const tokenKinds = ['text', 'image', 'video'] as const;
const frameRuns = ['whole', 'each'] as const;
const mostTokens = maxPosition;

class PositionRows implements Positions {
  readonly #memory: Memory;
  readonly #sizes: readonly [rows: number, axes: number, tokens: number];
  readonly rowLengths: Int32Array;
  readonly position: readonly Int32Array[];
  readonly order: Int32Array;
  readonly segment: Int32Array;
  readonly valid: Uint8Array;

  static {
    refuseStrangers('Positions', this, (value) => #memory in value);
  }

  /** ArgumentError unless every array is still what it was: they are the caller's, who may have transferred one away. */
  static requireWhole(call: string, name: string, positions: PositionRows): void {
    const [rows, axes, tokens] = positions.#sizes;
    const { rowLengths, position, order, segment, valid } = positions;
    if (rowLengths.length !== rows || position.length !== axes || [...position, order, segment, valid].some((array) => array.length !== tokens)) {
      argumentFault(`${call}: an array of ${name} has been transferred away, expected Positions with all of theirs`);
    }
  }

  /** Copies what a call replied with (cpp/wasm/boundary.hpp says where things are). */
  constructor(memory: Memory, reply: Address) {
    this.#memory = memory;
    const [rows, axes, tokens] = new Int32Array(memory.buffer, reply, 3) as unknown as [number, number, number];
    this.#sizes = [rows, axes, tokens];
    const at = new Uint32Array(memory.buffer, reply, 6 + axes);
    const array = (address: number): Int32Array => new Int32Array(memory.buffer, address, tokens).slice();
    this.rowLengths = new Int32Array(memory.buffer, reply + (6 + axes) * 4, rows).slice();
    this.position = Object.freeze(Array.from({ length: axes }, (_, axis) => array(at[6 + axis]!)));
    this.order = array(at[3]!);
    this.segment = array(at[4]!);
    this.valid = new Uint8Array(memory.buffer, at[5]!, tokens).slice();
    Object.freeze(this);
  }

  get rows(): number {
    return this.rowLengths.length;
  }
  get axes(): number {
    return this.position.length;
  }
  get tokens(): number {
    return this.order.length;
  }

  row(r: number): Positions {
    integer('row', 'the row', r, 0, this.rows - 1);
    return this.#memory.call('row', (frame) => {
      const block = writePositions(frame, this.#memory, 'row', 'these positions', this);
      return readPositions(this.#memory, this.#memory.raw.positionsRow(block, r));
    });
  }

  slice(first: number, count: number): Positions {
    integer('slice', 'first', first, 0, maxPosition);
    integer('slice', 'count', count, 0, maxPosition);
    return this.#memory.call('slice', (frame) => {
      const block = writePositions(frame, this.#memory, 'slice', 'these positions', this);
      return readPositions(this.#memory, this.#memory.raw.positionsSlice(block, first, count));
    });
  }

  next(counts: Integers): Positions {
    const numbers = int32s('next', 'counts', counts);
    return this.#memory.call('next', (frame) => {
      const block = writePositions(frame, this.#memory, 'next', 'these positions', this);
      return readPositions(this.#memory, this.#memory.raw.positionsNext(block, frame.int32(numbers), numbers.length));
    });
  }

  delta(r: number): number {
    integer('delta', 'the row', r, 0, this.rows - 1);
    return this.#memory.call('delta', (frame) => {
      const block = writePositions(frame, this.#memory, 'delta', 'this', this);
      return this.#memory.done(this.#memory.raw.positionsDelta(block, r));
    });
  }

  cuSeqlens(r: number): Int32Array {
    integer('cuSeqlens', 'the row', r, 0, this.rows - 1);
    return this.#memory.call('cuSeqlens', (frame) => {
      const block = writePositions(frame, this.#memory, 'cuSeqlens', 'these positions', this);
      return this.#memory.done(this.#memory.raw.positionsCuSeqlens(block, r));
    });
  }
}

// Replies larger than this are given back at once, smaller ones when the next one comes.
const keptTokens = 1 << 16;

/** The positions of a reply, copied out. */
export function readPositions(memory: Memory, reply: Address): Positions {
  memory.done(reply);
  try {
    const positions = new PositionRows(memory, reply >>> 0);
    if (positions.tokens > keptTokens) memory.raw.positionsForget();
    return positions;
  } catch (fault) {
    memory.raw.positionsForget();
    throw fault;
  }
}

/** Checks that an argument is positions made by a library of this package. */
export function positionsOf(call: string, name: string, value: unknown): Positions {
  if (!(value instanceof PositionRows)) {
    argumentFault(`${call}: ${name} is ${show(value)}, expected Positions (positions.from makes them of arrays)`);
  }
  PositionRows.requireWhole(call, name, value);
  return value;
}

/** Copies positions in, as one block. The library checks the numbers: arrays can be written to, even if nobody should. */
export function writePositions(frame: Frame, memory: Memory, call: string, name: string, value: unknown): Address {
  const positions = positionsOf(call, name, value);
  const { rows, axes, tokens } = positions;
  const words = 3 + rows + (axes + 2) * tokens;
  const at = frame.reserve(words * 4 + tokens);
  const block = new Int32Array(memory.buffer, at, words);
  block[0] = rows;
  block[1] = axes;
  block[2] = tokens;
  let next = 3;
  for (const array of [positions.rowLengths, ...positions.position, positions.order, positions.segment]) {
    block.set(array, next);
    next += array.length;
  }
  new Uint8Array(memory.buffer, at + words * 4, tokens).set(positions.valid);
  return at;
}

export class Builders implements PositionBuilders {
  readonly #memory: Memory;

  static {
    refuseStrangers('PositionBuilders', this, (value) => #memory in value);
  }

  constructor(memory: Memory) {
    this.#memory = memory;
  }

  range(count: number, given?: { readonly offset?: number }): Positions {
    const call = 'positions.range';
    const { offset = 0 } = options(call, given, ['offset']);
    integer(call, 'count', count, 0, mostTokens);
    position(call, 'offset', offset);
    return this.#memory.call(call, () => readPositions(this.#memory, this.#memory.raw.positionsRange(count, offset)));
  }

  ragged(lengths: Integers, given?: { readonly offsets?: Integers }): Positions {
    const call = 'positions.ragged';
    const { offsets } = options(call, given, ['offsets']);
    const rows = int32s(call, 'lengths', lengths);
    const starts = offsetsOf(call, offsets, rows.length);
    return this.#memory.call(call, (frame) => readPositions(this.#memory,
      this.#memory.raw.positionsRagged(frame.int32(rows), rows.length, frame.int32(starts), starts.length)));
  }

  padded(
    lengths: Integers,
    given: { readonly columns: number; readonly side: 'left' | 'right'; readonly offsets?: Integers },
  ): Positions {
    const call = 'positions.padded';
    const { columns, side, offsets } = options(call, given, ['columns', 'side', 'offsets']);
    const rows = int32s(call, 'lengths', lengths);
    integer(call, 'columns', columns, 0, mostTokens);
    const sideIndex = choice(call, 'side', side, sides);
    const starts = offsetsOf(call, offsets, rows.length);
    return this.#memory.call(call, (frame) => readPositions(this.#memory,
      this.#memory.raw.positionsPadded(frame.int32(rows), rows.length, columns, sideIndex, frame.int32(starts), starts.length)));
  }

  fromPaddingMask(
    mask: Flags,
    given: { readonly rows: number; readonly columns: number; readonly offsets?: Integers },
  ): Positions {
    const call = 'positions.fromPaddingMask';
    const { rows, columns, offsets } = options(call, given, ['rows', 'columns', 'offsets']);
    const marks = flags(call, 'the mask', mask);
    integer(call, 'rows', rows, 0, mostTokens);
    integer(call, 'columns', columns, 0, mostTokens);
    if (marks.length !== rows * columns) {
      throw makeError('shape', `${call}: the mask holds ${marks.length} values, expected ${rows} rows x ${columns} columns = ${rows * columns}`,
        marks.length, rows * columns);
    }
    const starts = offsetsOf(call, offsets, rows);
    return this.#memory.call(call, (frame) => readPositions(this.#memory,
      this.#memory.raw.positionsFromPaddingMask(rows, columns, frame.bytes(marks), marks.length, frame.int32(starts), starts.length)));
  }

  packed(lengths: Integers, given: { readonly positions: 'restart' | 'running' }): Positions {
    const call = 'positions.packed';
    const { positions } = options(call, given, ['positions']);
    const segments = int32s(call, 'lengths', lengths);
    const packing = choice(call, 'positions', positions, packings);
    return this.#memory.call(call, (frame) => readPositions(this.#memory,
      this.#memory.raw.positionsPacked(frame.int32(segments), segments.length, packing)));
  }

  fromCuSeqlens(cuSeqlens: Integers, given: { readonly positions: 'restart' | 'running' }): Positions {
    const call = 'positions.fromCuSeqlens';
    const { positions } = options(call, given, ['positions']);
    const borders = int32s(call, 'cuSeqlens', cuSeqlens);
    const packing = choice(call, 'positions', positions, packings);
    return this.#memory.call(call, (frame) => readPositions(this.#memory,
      this.#memory.raw.positionsFromCuSeqlens(frame.int32(borders), borders.length, packing)));
  }

  fromSegmentIds(
    ids: Integers,
    given: { readonly rows: number; readonly columns: number; readonly paddingId?: number; readonly positions: 'restart' | 'running' },
  ): Positions {
    const call = 'positions.fromSegmentIds';
    const { rows, columns, paddingId, positions } = options(call, given, ['rows', 'columns', 'paddingId', 'positions']);
    const list = int32s(call, 'ids', ids);
    integer(call, 'rows', rows, 0, mostTokens);
    integer(call, 'columns', columns, 0, mostTokens);
    if (paddingId !== undefined) integer(call, 'paddingId', paddingId, -maxPosition - 1, maxPosition);
    const packing = choice(call, 'positions', positions, packings);
    if (list.length !== rows * columns) {
      throw makeError('shape', `${call}: ids holds ${list.length} values, expected ${rows} rows x ${columns} columns = ${rows * columns}`,
        list.length, rows * columns);
    }
    return this.#memory.call(call, (frame) => readPositions(this.#memory,
      this.#memory.raw.positionsFromSegmentIds(rows, columns, frame.int32(list), list.length, paddingId, packing)));
  }

  grid(given: GridOptions): Positions {
    const call = 'positions.grid';
    const { height, width, frames = 1, merge = 1, first = 0, axes = 'row-column', classToken = 'none' } =
      options(call, given, ['height', 'width', 'frames', 'merge', 'first', 'axes', 'classToken']);
    const checked = {
      height: integer(call, 'height', height, 1, mostTokens),
      width: integer(call, 'width', width, 1, mostTokens),
      frames: integer(call, 'frames', frames, 1, mostTokens),
      merge: integer(call, 'merge', merge, 1, mostTokens),
      first: position(call, 'first', first),
      axes: choice(call, 'axes', axes, gridAxes),
      classToken: choice(call, 'classToken', classToken, classTokens),
    };
    return this.#memory.call(call, () => readPositions(this.#memory, this.#memory.raw.positionsGrid(checked)));
  }

  multimodal(
    rows: readonly (readonly PositionRun[])[],
    given: { readonly after?: 'largest-plus-one' | 'start-plus-side'; readonly side: 'left' | 'right' },
  ): Positions {
    const call = 'positions.multimodal';
    const { after = 'largest-plus-one', side } = options(call, given, ['after', 'side']);
    const afterIndex = choice(call, 'after', after, afters);
    const sideIndex = choice(call, 'side', side, sides);
    if (!Array.isArray(rows)) argumentFault(`${call}: rows is ${show(rows)}, expected an array of runs per row`);
    const checked = Array.from(rows as readonly unknown[], (runs, r) => {
      if (!Array.isArray(runs)) argumentFault(`${call}: rows[${r}] is ${show(runs)}, expected an array of runs`);
      return Array.from(runs as readonly unknown[], (run, i) => runOf(call, `rows[${r}][${i}]`, run));
    });
    return this.#memory.call(call, () => readPositions(this.#memory, this.#memory.raw.positionsMultimodal(checked, afterIndex, sideIndex)));
  }

  runsOfTokens(
    tokens: readonly TokenKind[],
    given: {
      readonly images?: readonly PatchGrid[];
      readonly videos?: readonly PatchGrid[];
      readonly merge: number;
      readonly videoFrames?: 'whole' | 'each';
    },
  ): PositionRun[] {
    const call = 'positions.runsOfTokens';
    const { images = [], videos = [], merge, videoFrames = 'whole' } = options(call, given, ['images', 'videos', 'merge', 'videoFrames']);
    if (!Array.isArray(tokens)) argumentFault(`${call}: tokens is ${show(tokens)}, expected an array of kinds`);
    const grids = (name: string, list: unknown): object[] => {
      if (!Array.isArray(list)) argumentFault(`${call}: ${name} is ${show(list)}, expected an array of grids`);
      return Array.from(list as readonly PatchGrid[], (grid, i) => {
        const at = `${name}[${i}]`;
        const { frames = 1, height, width, timeStep = 1 } = options(`${call}: ${at}`, grid ?? (null as never), ['frames', 'height', 'width', 'timeStep']);
        return {
          frames: integer(call, `${at}.frames`, frames, 1, mostTokens),
          height: integer(call, `${at}.height`, height, 1, mostTokens),
          width: integer(call, `${at}.width`, width, 1, mostTokens),
          timeStep: finite(call, `${at}.timeStep`, timeStep),
        };
      });
    };
    const checked = {
      tokens: Uint8Array.from(tokens as readonly TokenKind[], (kind: TokenKind, i: number) => choice(call, `tokens[${i}]`, kind, tokenKinds)),
      images: grids('images', images),
      videos: grids('videos', videos),
      merge: integer(call, 'merge', merge, 1, mostTokens),
      videoFrames: choice(call, 'videoFrames', videoFrames, frameRuns),
    };
    return this.#memory.call(call, () => this.#memory.done(this.#memory.raw.runsOfTokens(checked))) as PositionRun[];
  }

  interpret(evidence: PositionEvidence): Interpretation {
    const call = 'positions.interpret';
    const { shape, positionIds, paddingMask, cuSeqlens, segmentIds, cached } =
      options(call, evidence, ['shape', 'positionIds', 'paddingMask', 'cuSeqlens', 'segmentIds', 'cached']);
    const none = new Int32Array(0);
    const optional = (name: string, list: Integers | undefined): Int32Array => (list === undefined ? none : int32s(call, name, list));
    const checked = {
      shape: int32s(call, 'shape', shape),
      positionIds: int32s(call, 'positionIds', positionIds),
      paddingMask: paddingMask === undefined ? new Uint8Array(0) : flags(call, 'paddingMask', paddingMask),
      cuSeqlens: optional('cuSeqlens', cuSeqlens),
      segmentIds: optional('segmentIds', segmentIds),
      cached: optional('cached', cached),
    };
    return this.#memory.call(call, () => {
      const { positions, ...rest } = this.#memory.done(this.#memory.raw.interpretPositions(checked));
      const findings = rest.findings.map((finding) => ({ ...finding, sentence: inPackageNames(finding.sentence) }));
      return { ...rest, findings, positions: positions === 0 ? null : readPositions(this.#memory, positions), contradicts: positions === 0 };
    });
  }

  from(arrays: PositionArrays): Positions {
    const call = 'positions.from';
    if (arrays === null || typeof arrays !== 'object') argumentFault(`${call}: got ${show(arrays)}, expected the arrays`);
    // Not `options`: a Positions has further members.
    const rows = int32s(call, 'rowLengths', arrays.rowLengths);
    if (!Array.isArray(arrays.position) || arrays.position.length === 0) {
      argumentFault(`${call}: position is ${show(arrays.position)}, expected one array per axis`);
    }
    const axes = Array.from(arrays.position as readonly Integers[], (axis, i) => int32s(call, `position[${i}]`, axis, 'position-range'));
    const tokens = axes[0]!.length;
    for (const [i, axis] of axes.entries()) {
      if (axis.length !== tokens) {
        throw makeError('shape', `${call}: position[${i}] holds ${axis.length} values, expected ${tokens} as position[0] holds`, axis.length, tokens);
      }
    }
    const none = new Int32Array(0);
    const optional = (name: 'order' | 'segment'): Int32Array => {
      const array = arrays[name] === undefined ? none : int32s(call, name, arrays[name], 'position-range');
      if (arrays[name] !== undefined && array.length !== tokens) sized(call, name, array.length, tokens);
      return array;
    };
    const order = optional('order');
    const segment = optional('segment');
    const valid = arrays.valid === undefined ? new Uint8Array(0) : flags(call, 'valid', arrays.valid);
    if (arrays.valid !== undefined && valid.length !== tokens) sized(call, 'valid', valid.length, tokens);
    const position = new Int32Array(axes.length * tokens);
    for (const [i, axis] of axes.entries()) position.set(axis, i * tokens);
    return this.#memory.call(call, (frame) => readPositions(this.#memory, this.#memory.raw.positionsFrom(
      frame.int32(rows), rows.length, frame.int32(position), axes.length, tokens, frame.int32(order), order.length,
      frame.int32(segment), segment.length, frame.bytes(valid), valid.length)));
  }
}

function runOf(call: string, at: string, given: unknown): object {
  const run = options<{ tokens?: number; height?: number; width?: number; frames?: number; timeStep?: number }>(
    `${call}: ${at}`, given as object, ['tokens', 'height', 'width', 'frames', 'timeStep']);
  if (run.tokens !== undefined) {
    if (Object.keys(run).length > 1) argumentFault(`${call}: ${at} has tokens beside ${Object.keys(run).join(', ')}, expected { tokens } or a grid`);
    return { tokens: integer(call, `${at}.tokens`, run.tokens, 0, mostTokens) };
  }
  return {
    height: integer(call, `${at}.height`, run.height, 1, mostTokens),
    width: integer(call, `${at}.width`, run.width, 1, mostTokens),
    frames: integer(call, `${at}.frames`, run.frames ?? 1, 1, mostTokens),
    timeStep: finite(call, `${at}.timeStep`, run.timeStep ?? 1),
  };
}

function sized(call: string, name: string, held: number, tokens: number): never {
  throw makeError('shape', `${call}: ${name} holds ${held} values, expected one per token = ${tokens}`, held, tokens);
}

function position(call: string, name: string, value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && (value < 0 || value > maxPosition)) {
    throw makeError('position-range', `${call}: ${name} is ${value}, expected a position of 0 .. ${maxPosition}`, value,
      value < 0 ? 0 : maxPosition);
  }
  return integer(call, name, value, 0, maxPosition);
}

function offsetsOf(call: string, offsets: Integers | undefined, rows: number): Int32Array {
  if (offsets === undefined) return new Int32Array(0);
  const starts = int32s(call, 'offsets', offsets, 'position-range');
  if (starts.length !== rows) {
    throw makeError('shape', `${call}: offsets holds ${starts.length} values, expected one per row = ${rows}`, starts.length, rows);
  }
  return starts;
}
