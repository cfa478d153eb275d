// Attention, with and without a cache.
import type {
  AttendOptions,
  Attention,
  AttentionOptions,
  CachedAttendOptions,
  CallMask,
  DecoderLayer,
  ExplainOptions,
  MaskOptions,
  MethodDescription,
  ScoreParts,
} from '../types/locant.js';
import { Score, Value } from './bias.js';
import { LayerCache, stepOf } from './cache.js';
import {
  argumentFault, choice, finite, flags, float32, int32s, integer, maxPosition, mostHeads, options, positive, result, show,
} from './check.js';
import type { Context } from './context.js';
import { readDescription } from './describe.js';
import type { Frame, Memory } from './memory.js';
import { handleBeside, handleOf, OwnedObject, refuseStrangers } from './owned.js';
import { positionsOf, writePositions } from './positions.js';
import type { Address, RawAttention } from './raw.js';
import { writePlan } from './rotary.js';

const directions = ['causal', 'bidirectional'] as const;
const conventions = ['counts-current', 'before-current'] as const;
const noInts = new Int32Array(0);
const noBytes = new Uint8Array(0);

function maskOf(call: string, at: string, given: MaskOptions | undefined): object {
  const { direction = 'causal', window = null, chunk = null } = options(`${call}: ${at}`, given, ['direction', 'window', 'chunk']);
  const checked = { direction: choice(call, `${at}.direction`, direction, directions), window: null as object | null, chunk };
  if (chunk !== null) integer(call, `${at}.chunk`, chunk, 1, maxPosition);
  if (window !== null) {
    const { size, convention = 'counts-current', sinks = 0 } = options(`${call}: ${at}.window`, window, ['size', 'convention', 'sinks']);
    const index = choice(call, `${at}.window.convention`, convention, conventions);
    checked.window = {
      size: integer(call, `${at}.window.size`, size, 1 - index, maxPosition),
      convention: index,
      sinks: integer(call, `${at}.window.sinks`, sinks, 0, maxPosition),
    };
  }
  return checked;
}

export function requireHeads(call: string, heads: number, kvHeads: number, headDim: number): void {
  integer(call, 'heads', heads, 1, mostHeads);
  integer(call, 'kvHeads', kvHeads, 1, mostHeads);
  if (heads % kvHeads !== 0) argumentFault(`${call}: kvHeads is ${kvHeads}, expected a divisor of heads, ${heads}`, kvHeads, heads);
  integer(call, 'headDim', headDim, 1, mostHeads);
}

/** What attention and decoder layers are given alike: mask, rotation, terms, scale, cap and temperature, checked. */
export function layerOf(context: Context, call: string, at: string, given: Omit<DecoderLayer, 'mask'> & { readonly mask?: MaskOptions }): object {
  const { mask, rotation = null, terms = [], valueTerm = null, scale, softCap, temperature } = given;
  const of = (name: string): string => `${at}${name}`;
  if (!Array.isArray(terms)) argumentFault(`${call}: ${of('terms')} is ${show(terms)}, expected an array`);
  const termHandle = (name: string, term: unknown, kind: typeof Score | typeof Value, word: string): object => {
    if (!(term instanceof kind)) argumentFault(`${call}: ${of(name)} is ${show(term)}, expected a ${word} term of this library`);
    return handleBeside(context, term as Score, call, of(name));
  };
  let warmth: object | undefined;
  if (temperature !== undefined) {
    const { slope, period, shift } = options(`${call}: ${of('temperature')}`, temperature, ['slope', 'period', 'shift']);
    warmth = {
      slope: finite(call, of('temperature.slope'), slope),
      period: positive(call, of('temperature.period'), period),
      shift: finite(call, of('temperature.shift'), shift),
    };
  }
  return {
    mask: maskOf(call, of('mask'), mask),
    rotation: rotation === null ? null : writePlan(call, of('rotation'), rotation),
    terms: Array.from(terms, (term: unknown, i: number) => termHandle(`terms[${i}]`, term, Score, 'score')),
    valueTerm: valueTerm === null ? null : termHandle('valueTerm', valueTerm, Value, 'value'),
    scale: scale === undefined ? undefined : finite(call, of('scale'), scale),
    softCap: softCap === undefined ? undefined : positive(call, of('softCap'), softCap),
    temperature: warmth,
  };
}

/** What a call adds to the mask, checked. */
export function callMaskOf(call: string, given: CallMask | undefined): { readonly lengths: Int32Array; readonly marks: Uint8Array } {
  const { prefix, visible } = options(`${call}: mask`, given, ['prefix', 'visible']);
  const lengths = prefix === undefined ? noInts : int32s(call, 'mask.prefix', prefix);
  const marks = visible === undefined ? noBytes : flags(call, 'mask.visible', visible);
  return { lengths, marks };
}

/** The same copied in: address and count of prefix and of visible. */
export const writeMask = (frame: Frame, { lengths, marks }: ReturnType<typeof callMaskOf>): [Address, number, Address, number] =>
  [frame.int32(lengths), lengths.length, frame.bytes(marks), marks.length];

export class AttentionLayer extends OwnedObject<RawAttention> implements Attention {
  readonly #context: Context;
  readonly #memory: Memory;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly valueDim: number;

  static {
    refuseStrangers('Attention', this, (value) => #memory in value);
  }

  constructor(context: Context, given: AttentionOptions) {
    const call = 'attention';
    const { memory, census } = context;
    const { heads, headDim, kvHeads = heads, valueDim = headDim, sinkLogits, ...layer } = options(call, given,
      ['heads', 'kvHeads', 'headDim', 'valueDim', 'mask', 'rotation', 'terms', 'valueTerm', 'scale', 'softCap', 'sinkLogits', 'temperature']);
    requireHeads(call, heads, kvHeads, headDim);
    const checked = {
      heads,
      kvHeads,
      headDim,
      valueDim: integer(call, 'valueDim', valueDim, 1, mostHeads),
      ...layerOf(context, call, '', layer),
      sinkLogits: sinkLogits === undefined ? undefined : float32(call, 'sinkLogits', sinkLogits, heads, `${heads} heads`),
    };
    super(census, 'attention', memory.call(call, () => memory.done(memory.raw.makeAttention(checked))));
    this.#context = context;
    this.#memory = memory;
    this.heads = heads;
    this.kvHeads = kvHeads;
    this.headDim = headDim;
    this.valueDim = valueDim;
  }

  describe(): MethodDescription[] {
    const handle = handleOf(this, 'describe');
    return this.#memory.call('describe', () => this.#memory.done(handle.describe())).map(readDescription);
  }

  prepare(count: number): void {
    const handle = handleOf(this, 'prepare');
    integer('prepare', 'count', count, 0, maxPosition + 1);
    this.#memory.call('prepare', () => this.#memory.done(handle.prepare(count)));
  }

  attend(given: AttendOptions | CachedAttendOptions): Float32Array {
    return given !== null && typeof given === 'object' && ('cache' in given || 'step' in given)
      ? this.#attendCached(given as CachedAttendOptions)
      : this.#attendAll(given as AttendOptions);
  }

  #attendAll(given: AttendOptions): Float32Array {
    const call = 'attend';
    const handle = handleOf(this, call);
    const { q, k, v, positions, queryPositions, mask, out } =
      options(call, given, ['q', 'k', 'v', 'positions', 'queryPositions', 'mask', 'out']);
    const keys = positionsOf(call, 'positions', positions).tokens;
    const queries = queryPositions === undefined ? keys : positionsOf(call, 'queryPositions', queryPositions).tokens;
    const added = callMaskOf(call, mask);
    const into = this.#tensors(call, q, queries, k, v, keys, out);
    return this.#memory.call(call, (frame) => {
      const keyBlock = writePositions(frame, this.#memory, call, 'positions', positions);
      const queryBlock = queryPositions === undefined ? 0 : writePositions(frame, this.#memory, call, 'queryPositions', queryPositions);
      const marks = writeMask(frame, added);
      const [tensors, at] = this.#write(frame, q, k, v, into.length);
      this.#memory.done(handle.attend(tensors, queryBlock, keyBlock, ...marks));
      return frame.copyTo(into, at);
    });
  }

  #attendCached(given: CachedAttendOptions): Float32Array {
    const call = 'attend';
    const handle = handleOf(this, call);
    const { q, k, v, cache, step, layer = 0, mask, out } =
      options(call, given, ['q', 'k', 'v', 'cache', 'step', 'layer', 'mask', 'out']);
    if (!(cache instanceof LayerCache)) argumentFault(`${call}: cache is ${show(cache)}, expected a cache of this library`);
    const cacheHandle = handleBeside(this.#context, cache, call, 'cache');
    const serial = stepOf(call, cache, step);
    integer(call, 'layer', layer, 0, cache.layers - 1);
    const { tokens } = step.positions;
    const added = callMaskOf(call, mask);
    const into = this.#tensors(call, q, tokens, k, v, tokens, out);
    return this.#memory.call(call, (frame) => {
      const marks = writeMask(frame, added);
      const [tensors, at] = this.#write(frame, q, k, v, into.length);
      this.#memory.done(handle.attendCached(cacheHandle, serial, layer, tensors, ...marks));
      return frame.copyTo(into, at);
    });
  }

  explain(given: ExplainOptions): ScoreParts[] {
    const call = 'explain';
    const handle = handleOf(this, call);
    const { q, k, positions, queryPositions, requests, mask } =
      options(call, given, ['q', 'k', 'positions', 'queryPositions', 'requests', 'mask']);
    const keys = positionsOf(call, 'positions', positions).tokens;
    const queries = queryPositions === undefined ? keys : positionsOf(call, 'queryPositions', queryPositions).tokens;
    const added = callMaskOf(call, mask);
    if (!Array.isArray(requests)) argumentFault(`${call}: requests is ${show(requests)}, expected an array`);
    const pairs = Int32Array.from(Array.from(requests as readonly unknown[]).flatMap((request: unknown, i: number) => {
      const { head, query } = options<{ head: number; query: number }>(`${call}: requests[${i}]`, request as never, ['head', 'query']);
      return [
        integer(call, `requests[${i}].head`, head, 0, this.heads - 1),
        integer(call, `requests[${i}].query`, query, 0, queries - 1),
      ];
    }));
    this.#queries(call, q, queries);
    this.#keys(call, k, keys);
    return this.#memory.call(call, (frame) => {
      const keyBlock = writePositions(frame, this.#memory, call, 'positions', positions);
      const queryBlock = queryPositions === undefined ? keyBlock : writePositions(frame, this.#memory, call, 'queryPositions', queryPositions);
      const marks = writeMask(frame, added);
      const [tensors] = this.#write(frame, q, k, new Float32Array(0), 0);
      return this.#memory.done(handle.explain(tensors, queryBlock, keyBlock, frame.int32(pairs), requests.length, ...marks));
    });
  }

  #queries(call: string, q: unknown, tokens: number): void {
    float32(call, 'q', q, tokens * this.heads * this.headDim, `${tokens} tokens x ${this.heads} heads x ${this.headDim}`);
  }

  #keys(call: string, k: unknown, tokens: number): void {
    float32(call, 'k', k, tokens * this.kvHeads * this.headDim, `${tokens} tokens x ${this.kvHeads} heads x ${this.headDim}`);
  }

  /** Checks the tensors of a call and gives the array of its result. */
  #tensors(call: string, q: unknown, queries: number, k: unknown, v: unknown, keys: number, out: unknown): Float32Array {
    this.#queries(call, q, queries);
    this.#keys(call, k, keys);
    float32(call, 'v', v, keys * this.kvHeads * this.valueDim, `${keys} tokens x ${this.kvHeads} heads x ${this.valueDim}`);
    return result(call, out, queries * this.heads * this.valueDim, `${queries} tokens x ${this.heads} heads x ${this.valueDim}`);
  }

  /** Copies q, k, v in and reserves the result: the address of the eight words that say where, and of the result. */
  #write(frame: Frame, q: Float32Array, k: Float32Array, v: Float32Array, results: number): [Address, Address] {
    const at = frame.reserve(results * 4);
    const words = [frame.float32(q), q.length, frame.float32(k), k.length, frame.float32(v), v.length, at, results];
    return [frame.int32(Int32Array.from(words)), at];
  }
}
