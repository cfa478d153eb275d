// Generation and prefill step by step, and as promises that give the page its turn between steps.
import type {
  GeneratedRow, GenerateOptions, Generation, Integers, Progress, Sampled, SampleOptions, SamplingOptions, StepOptions,
} from '../types/locant.js';
import { LayerCache } from './cache.js';
import { argumentFault, finite, float32, honest, int32s, integer, maxPosition, options, result, show } from './check.js';
import type { Context } from './context.js';
import { makeError } from './errors.js';
import type { Frame } from './memory.js';
import { handleBeside, handleOf, OwnedObject } from './owned.js';
import type { Address, Handle, RawCache, RawDecoder, RawGeneration, RawPrefill, RawProgress } from './raw.js';

export const generateNames = ['prompts', 'cache', 'newTokens', 'stopTokens', 'temperature', 'topK', 'topP', 'seed', 'prefillChunk'] as const;
const reasons = ['unfinished', 'length', 'stop-token', 'cancelled'] as const;
const phases = ['prefill', 'decode'] as const;
const none = new Int32Array(0);

export function cacheOf(context: Context, call: string, cache: unknown): RawCache {
  if (!(cache instanceof LayerCache)) argumentFault(`${call}: cache is ${show(cache)}, expected a cache of this library`);
  return handleBeside(context, cache, call, 'cache');
}

/** Prompts as they cross: address of the tokens, address of the lengths, number of prompts. */
export type WritePrompts = (frame: Frame) => [Address, Address, number];
export function promptsOf(call: string, prompts: unknown): WritePrompts {
  if (!Array.isArray(prompts)) argumentFault(`${call}: prompts is ${show(prompts)}, expected an array of prompts`);
  const rows = Array.from(prompts as readonly Integers[], (prompt, i) => int32s(call, `prompts[${i}]`, prompt));
  const lengths = Int32Array.from(rows, (row) => row.length);
  const all = new Int32Array(lengths.reduce((sum, length) => sum + length, 0));
  let at = 0;
  for (const row of rows) {
    all.set(honest(call, 'prompts', row), at);
    at += row.length;
  }
  return (frame) => [frame.int32(all), frame.int32(lengths), rows.length];
}

function samplingOf(call: string, { temperature = 0, topK = 0, topP = 1, seed = 0 }: SamplingOptions): object {
  return {
    temperature: finite(call, 'temperature', temperature),
    topK: integer(call, 'topK', topK, 0, maxPosition),
    topP: finite(call, 'topP', topP),
    seed: integer(call, 'seed', seed, 0, maxPosition),
  };
}

export function sample({ memory }: Context, logits: Float32Array, given: SampleOptions | undefined): Sampled {
  const call = 'sample';
  float32(call, 'logits', logits);
  const { row = 0, index = 0, ...sampling } = options(call, given, ['temperature', 'topK', 'topP', 'seed', 'row', 'index']);
  const checked = { ...samplingOf(call, sampling), row: integer(call, 'row', row, 0, maxPosition), index: integer(call, 'index', index, 0, maxPosition) };
  return memory.call(call, (frame) => memory.done(memory.raw.sample(frame.float32(logits), logits.length, checked)));
}

/** What a generation is told, checked. */
export function generationOf(call: string, given: GenerateOptions): object {
  const { newTokens = 32, stopTokens = none, prefillChunk = 512 } = given;
  return {
    newTokens: integer(call, 'newTokens', newTokens, 1, maxPosition),
    stopTokens: int32s(call, 'stopTokens', stopTokens),
    ...samplingOf(call, given),
    prefillChunk: integer(call, 'prefillChunk', prefillChunk, 1, maxPosition),
  };
}

export const rowsOf = (raw: { tokens: Int32Array; reason: number }[]): GeneratedRow[] =>
  raw.map(({ tokens, reason }) => ({ tokens, reason: reasons[reason]! }));

interface Steps extends Handle {
  step(): RawProgress;
  rollBack(): void;
}

type Part = OwnedObject<Handle>;

/** Steps over a decoder and a cache, which must both still be there at each. */
abstract class Stepping<H extends Steps, Result> extends OwnedObject<H> {
  protected readonly context: Context;
  readonly #decoder: Part;
  readonly #cache: Part | undefined;  // none where it is the generation's own
  #ended = false;

  protected constructor(context: Context, name: string, handle: H, decoder: Part, cache: Part | undefined) {
    super(context.census, name, handle);
    this.context = context;
    this.#decoder = decoder;
    this.#cache = cache;
  }

  get ended(): boolean {
    return this.#ended;
  }

  protected run<T>(call: string, body: (handle: H, frame: Frame) => T): T {
    handleOf(this.#decoder, call);
    return this.#onCache(call, body);
  }

  /** For what reads no weights. */
  #onCache<T>(call: string, body: (handle: H, frame: Frame) => T): T {
    const handle = handleOf(this, call);
    if (this.#cache) handleOf(this.#cache, call);
    const { memory } = this.context;
    return memory.call(call, (frame) => memory.done(body(handle, frame)));
  }

  protected end(): void {
    this.#ended = true;
  }

  step(): Progress {
    return this.advance('step');
  }

  /** One step, for the call that a fault is to be named by. */
  protected advance(call: string): Progress {
    try {
      const { phase, done, total, rows, tokens, ended } = this.run(call, (handle) => handle.step());
      this.#ended = ended;
      return { phase: phases[phase]!, done, total, rows, tokens };
    } catch (fault) {
      this.#ended = true;
      throw fault;
    }
  }

  rollBack(): void {
    this.#onCache('rollBack', (handle) => handle.rollBack());
    this.#ended = true;
  }

  /** What the steps came to, for the call that a fault is to be named by. */
  abstract result(call: string): Result;

  /** All steps, with a turn of the event loop between them, and their result. Rolled back where it does not come to that. */
  async runAll(call: string, { onProgress, signal }: Pick<StepOptions, 'onProgress' | 'signal'>, stop: () => void): Promise<Result> {
    try {
      while (!this.#ended) {
        if (signal?.aborted) throw signal.reason;
        const progress = this.advance(call);
        if ((await onProgress?.(progress)) === 'stop') stop();
        if (!this.#ended) await turn();
      }
      if (signal?.aborted) throw signal.reason;  // by the last onProgress
      return this.result(call);
    } catch (fault) {
      // A step that failed has taken its rows back; with its cache gone there is nothing to take back.
      try {
        this.rollBack();
      } catch {} // changed by another call in between: it stays as that call left it
      throw fault;
    }
  }
}

export class StepGeneration extends Stepping<RawGeneration, GeneratedRow[]> implements Generation {
  constructor(context: Context, call: string, decoder: OwnedObject<RawDecoder>, given: GenerateOptions) {
    const handle = handleOf(decoder, call);
    const { memory } = context;
    const write = promptsOf(call, given.prompts);
    const checked = generationOf(call, given);
    const cache = given.cache === undefined ? null : cacheOf(context, call, given.cache);
    super(context, 'generation', memory.call(call, (frame) => memory.done(handle.generation(cache, ...write(frame), checked))), decoder,
      given.cache as LayerCache | undefined);
  }

  cancel(): void {
    this.cancelFor('cancel');
  }

  /** For the call that a fault is to be named by. */
  cancelFor(call: string): void {
    this.run(call, (handle) => handle.cancel());
    this.end();
  }

  rows(): GeneratedRow[] {
    return this.result('rows');
  }

  result(call: string): GeneratedRow[] {
    return rowsOf(this.run(call, (handle) => handle.rows()));
  }
}

export class StepPrefill extends Stepping<RawPrefill, Float32Array> {
  readonly #count: number;

  constructor(context: Context, call: string, decoder: OwnedObject<RawDecoder> & { readonly vocabulary: number }, prompts: unknown, given: unknown, chunk: number) {
    const handle = handleOf(decoder, call);
    const { memory } = context;
    const write = promptsOf(call, prompts);
    const cache = cacheOf(context, call, given);
    super(context, 'prefill', memory.call(call, (frame) => memory.done(handle.prefill(cache, ...write(frame), chunk))), decoder,
      given as LayerCache);
    this.#count = (prompts as readonly unknown[]).length * decoder.vocabulary;
  }

  result(call: string): Float32Array {
    const out = result(call, undefined, this.#count, 'prompts x vocabulary');
    return this.run(call, (handle, frame) => {
      const at = frame.reserve(this.#count * 4);
      handle.logits(at, this.#count);
      return frame.copyTo(out, at);
    });
  }
}

/** Caches that a promise is working on: their steps would come in between each other. */
const busy = new WeakSet<object>();

/** Runs `body` while nobody else's promise has the cache. */
export async function withCache<T>(call: string, cache: object | undefined, body: () => Promise<T>): Promise<T> {
  if (cache === undefined) return body();
  if (busy.has(cache)) throw makeError('cache-state', `${call}: the cache is being written by another call that has not ended yet`);
  busy.add(cache);
  try {
    return await body();
  } finally {
    busy.delete(cache);
  }
}

export function stepOptionsOf(call: string, { onProgress, signal }: Pick<StepOptions, 'onProgress' | 'signal'>): void {
  if (onProgress !== undefined && typeof onProgress !== 'function') {
    argumentFault(`${call}: onProgress is ${show(onProgress)}, expected a function`);
  }
  if (signal !== undefined && typeof signal?.aborted !== 'boolean') argumentFault(`${call}: signal is ${show(signal)}, expected an AbortSignal`);
}

/** One turn of the event loop. Not a timer, which pages in the background get once a second. */
const turn = (): Promise<void> => new Promise((resolve) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    resolve();
  };
  port2.postMessage(null);
});
