// The key/value cache.
import type { Cache, CacheOptions, CacheStep, Integers, Positions, PositionsIn } from '../types/locant.js';
import { argumentFault, choice, int32s, integer, maxPosition, mostHeads, options, show } from './check.js';
import type { Context } from './context.js';
import { makeError } from './errors.js';
import type { Memory } from './memory.js';
import { handleOf, OwnedObject, refuseStrangers } from './owned.js';
import { positionsOf, readPositions, writePositions } from './positions.js';
import type { RawCache } from './raw.js';

const storages = ['rotated', 'unrotated'] as const;
const backwards = ['refuse', 'allow'] as const;
const positionsIns = ['rotation-or-score', 'input'] as const;
const none = new Int32Array(0);

class Step implements CacheStep {
  readonly #cache: LayerCache;
  readonly #serial: number;
  readonly positions: Positions;
  readonly sequences: readonly number[];

  constructor(cache: LayerCache, serial: number, positions: Positions, sequences: readonly number[]) {
    this.#cache = cache;
    this.#serial = serial;
    this.positions = positions;
    this.sequences = sequences;
    Object.freeze(this);
  }

  /** Which begin() of this cache the step is of. */
  static serialOf(call: string, cache: LayerCache, step: unknown): number {
    if (!(step instanceof Step)) argumentFault(`${call}: step is ${show(step)}, expected what begin() gave`);
    if (step.#cache !== cache) throw makeError('cache-state', `${call}: the step belongs to another cache`);
    return step.#serial;
  }
}

export const stepOf = Step.serialOf;

export class LayerCache extends OwnedObject<RawCache> implements Cache {
  readonly #memory: Memory;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly valueDim: number;
  readonly layers: number;
  readonly sequences: number;

  static {
    refuseStrangers('Cache', this, (value) => #memory in value);
  }

  /** A cache of these options, or of a decoder's shape where `make` makes it. */
  constructor({ memory, census }: Context, call: string, given: CacheOptions, make?: (checked: object) => RawCache) {
    const { kvHeads, headDim, valueDim = headDim, layers = 1, sequences = 1, capacity = { initial: 0 }, keys = 'rotated',
      backward = 'refuse' } = options(call, given,
      ['kvHeads', 'headDim', 'valueDim', 'layers', 'sequences', 'capacity', 'keys', 'backward']);
    const size = options<{ fixed?: number; initial?: number }>(`${call}: capacity`, capacity, ['fixed', 'initial']);
    if ((size.fixed === undefined) === (size.initial === undefined)) {
      argumentFault(`${call}: capacity is ${show(capacity)}, expected { fixed } or { initial }`);
    }
    const checked = {
      kvHeads: integer(call, 'kvHeads', kvHeads, 1, mostHeads),
      headDim: integer(call, 'headDim', headDim, 1, mostHeads),
      valueDim: integer(call, 'valueDim', valueDim, 1, mostHeads),
      layers: integer(call, 'layers', layers, 1, 65536),
      sequences: integer(call, 'sequences', sequences, 1, 65536),
      capacity: size.fixed === undefined ? 1 : 0,
      rows: size.fixed === undefined
        ? integer(call, 'capacity.initial', size.initial, 0, maxPosition)
        : integer(call, 'capacity.fixed', size.fixed, 1, maxPosition),
      keys: choice(call, 'keys', keys, storages),
      backward: choice(call, 'backward', backward, backwards),
    };
    super(census, 'cache', memory.call(call, () => memory.done(make ? make(checked) : memory.raw.makeCache(checked))));
    this.#memory = memory;
    this.kvHeads = kvHeads;
    this.headDim = headDim;
    this.valueDim = valueDim;
    this.layers = layers;
    this.sequences = sequences;
  }

  #call<T>(call: string, body: (handle: RawCache) => T): T {
    const handle = handleOf(this, call);
    return this.#memory.call(call, () => this.#memory.done(body(handle)));
  }

  #sequence(call: string, sequence: unknown): number {
    return integer(call, 'sequence', sequence, 0, this.sequences - 1);
  }

  #sequences(call: string, given: { readonly sequences?: Integers } | undefined): Int32Array {
    const { sequences } = options(call, given, ['sequences']);
    if (sequences === undefined) return none;
    const list = int32s(call, 'sequences', sequences);
    for (const [i, sequence] of list.entries()) integer(call, `sequences[${i}]`, sequence, 0, this.sequences - 1);
    return list;
  }

  rows(sequence = 0): number {
    return this.#call('rows', (handle) => handle.rows(this.#sequence('rows', sequence)));
  }

  capacity(sequence = 0): number {
    return this.#call('capacity', (handle) => handle.capacity(this.#sequence('capacity', sequence)));
  }

  bytes(): number {
    return this.#call('bytes', (handle) => handle.bytes());
  }

  positions(sequence = 0): Positions {
    const handle = handleOf(this, 'positions');
    this.#sequence('positions', sequence);
    return this.#memory.call('positions', () => readPositions(this.#memory, handle.positions(sequence)));
  }

  next(counts: Integers, given?: { readonly sequences?: Integers }): Positions {
    const handle = handleOf(this, 'next');
    const sequences = this.#sequences('next', given);
    const numbers = int32s('next', 'counts', counts);
    return this.#memory.call('next', (frame) => readPositions(this.#memory,
      handle.next(frame.int32(numbers), numbers.length, frame.int32(sequences), sequences.length)));
  }

  begin(positions: Positions, given?: { readonly sequences?: Integers }): CacheStep {
    const handle = handleOf(this, 'begin');
    positionsOf('begin', 'positions', positions);
    const sequences = this.#sequences('begin', given);
    const serial = this.#memory.call('begin', (frame) => {
      const block = writePositions(frame, this.#memory, 'begin', 'positions', positions);
      return this.#memory.done(handle.begin(block, frame.int32(sequences), sequences.length));
    });
    const of = sequences.length > 0 ? Array.from(sequences) : Array.from({ length: positions.rows }, (_, row) => row);
    return new Step(this, serial, positions, Object.freeze(of));
  }

  cancel(step: CacheStep): void {
    this.#call('cancel', (handle) => handle.cancel(stepOf('cancel', this, step)));
  }

  truncate(rows: number, given?: { readonly sequence?: number }): void {
    handleOf(this, 'truncate');
    const { sequence = 0 } = options('truncate', given, ['sequence']);
    integer('truncate', 'rows', rows, 0, maxPosition);
    this.#call('truncate', (handle) => handle.truncate(this.#sequence('truncate', sequence), rows));
  }

  evict(rows: Integers, given?: { readonly sequence?: number }): void {
    const handle = handleOf(this, 'evict');
    const { sequence = 0 } = options('evict', given, ['sequence']);
    this.#sequence('evict', sequence);
    const list = int32s('evict', 'rows', rows);
    const held = this.rows(sequence);
    for (const [i, row] of list.entries()) integer('evict', `rows[${i}]`, row, i > 0 ? list[i - 1]! + 1 : 0, held - 1);
    this.#memory.call('evict', (frame) => this.#memory.done(handle.evict(sequence, frame.int32(list), list.length)));
  }

  keepWindow(given: { readonly sinks: number; readonly window: number; readonly sequence?: number }): void {
    handleOf(this, 'keepWindow');
    const { sinks, window, sequence = 0 } = options('keepWindow', given, ['sinks', 'window', 'sequence']);
    integer('keepWindow', 'sinks', sinks, 0, maxPosition);
    integer('keepWindow', 'window', window, 0, maxPosition);
    this.#call('keepWindow', (handle) => handle.keepWindow(this.#sequence('keepWindow', sequence), sinks, window));
  }

  clear(sequence = 0): void {
    this.#call('clear', (handle) => handle.clear(this.#sequence('clear', sequence)));
  }

  fork(from: number, to: number): void {
    handleOf(this, 'fork');
    integer('fork', 'from', from, 0, this.sequences - 1);
    integer('fork', 'to', to, 0, this.sequences - 1);
    this.#call('fork', (handle) => handle.fork(from, to));
  }

  #run(call: string, first: unknown, last: unknown, sequence: unknown): void {
    const held = this.rows(this.#sequence(call, sequence));
    integer(call, 'first', first, 0, held);
    integer(call, 'last', last, first as number, held);
  }

  shift(given: { readonly first: number; readonly last: number; readonly delta: number; readonly sequence?: number; readonly positionsIn?: PositionsIn }): void {
    const handle = handleOf(this, 'shift');
    const { first, last, delta, sequence = 0, positionsIn = 'rotation-or-score' } =
      options('shift', given, ['first', 'last', 'delta', 'sequence', 'positionsIn']);
    this.#run('shift', first, last, sequence);
    integer('shift', 'delta', delta, -maxPosition, maxPosition);
    const where = choice('shift', 'positionsIn', positionsIn, positionsIns);
    this.#memory.call('shift', () => this.#memory.done(handle.shift(sequence, first, last, delta, where)));
  }

  divide(given: { readonly first: number; readonly last: number; readonly divisor: number; readonly sequence?: number; readonly positionsIn?: PositionsIn }): void {
    const handle = handleOf(this, 'divide');
    const { first, last, divisor, sequence = 0, positionsIn = 'rotation-or-score' } =
      options('divide', given, ['first', 'last', 'divisor', 'sequence', 'positionsIn']);
    this.#run('divide', first, last, sequence);
    integer('divide', 'divisor', divisor, 1, maxPosition);
    const where = choice('divide', 'positionsIn', positionsIn, positionsIns);
    this.#memory.call('divide', () => this.#memory.done(handle.divide(sequence, first, last, divisor, where)));
  }

  read(given: { readonly row: number; readonly sequence?: number; readonly layer?: number; readonly kvHead?: number }): { readonly key: Float32Array; readonly value: Float32Array } {
    const handle = handleOf(this, 'read');
    const { row, sequence = 0, layer = 0, kvHead = 0 } = options('read', given, ['row', 'sequence', 'layer', 'kvHead']);
    integer('read', 'row', row, 0, this.rows(this.#sequence('read', sequence)) - 1);
    integer('read', 'layer', layer, 0, this.layers - 1);
    integer('read', 'kvHead', kvHead, 0, this.kvHeads - 1);
    return this.#memory.call('read', (frame) => {
      const key = frame.reserve(this.headDim * 4);
      const value = frame.reserve(this.valueDim * 4);
      this.#memory.done(handle.read(sequence, layer, kvHead, row, key, this.headDim, value, this.valueDim));
      return { key: frame.copyTo(new Float32Array(this.headDim), key), value: frame.copyTo(new Float32Array(this.valueDim), value) };
    });
  }
}
