// The decoder: tokens and positions in, logits out.
import type {
  AuditOptions,
  AuditReport,
  Cache,
  CacheOptions,
  Decoder,
  DecoderConfig,
  DecoderLayer,
  DecoderWeights,
  ForwardOptions,
  GeneratedRow,
  GenerateAsyncOptions,
  GenerateOptions,
  Generation,
  Lanes,
  LanesOptions,
  MethodInLayers,
  Positions,
  PrefillOptions,
  WantedTokens,
} from '../types/locant.js';
import { gridNames, gridOf, sinusoidNames, sinusoidOf, tableNames, tableOf } from './absolute.js';
import { callMaskOf, layerOf, requireHeads, writeMask } from './attention.js';
import { LayerCache } from './cache.js';
import { argumentFault, choice, finite, int32s, integer, maxPosition, options, result, show, honest } from './check.js';
import type { Context } from './context.js';
import { readDescription } from './describe.js';
import { makeError } from './errors.js';
import { cacheOf, generateNames, generationOf, promptsOf, rowsOf, StepGeneration, stepOptionsOf, StepPrefill, withCache } from './generation.js';
import { handleOf, OwnedObject, refuseStrangers } from './owned.js';
import { positionsOf, writePositions } from './positions.js';
import type { RawDecoder } from './raw.js';

const norms = ['rms', 'layer', 'rms-from-one'] as const;
const normPlacements = ['before', 'before-and-after'] as const;
const feedForwards = ['gated', 'plain'] as const;
const activations = ['silu', 'gelu', 'gelu-tanh', 'relu'] as const;
const embeddingKinds = ['tied', 'separate'] as const;
const biasKinds = ['none', 'query-key-value', 'attention', 'all'] as const;
const offsets = ['true', 'restarted', 'off-by-one'] as const;
const faults = ['none', 'offset-restarted', 'off-by-one', 'upper-layers-ahead', 'rows-taken-for-positions', 'padding-counted',
  'reset-without-document-mask'] as const;
const expectations = ['equal', 'different'] as const;
const verdicts = ['pass', 'fail', 'not-applicable'] as const;
const none = new Int32Array(0);
/** Prompt tokens between two turns of the page. */
const shortChunk = 64;
const mostWidth = 1048576;

/** A factor far from where float32 ends. */
const factor = (call: string, name: string, value: unknown): number =>
  typeof value === 'number' && value >= 1e-6 && value <= 1e6
    ? value
    : argumentFault(`${call}: ${name} is ${show(value)}, expected a number of 1e-6 .. 1e6`, value, 1e6);

function configOf(context: Context, call: string, given: DecoderConfig): object {
  const { vocabulary, width, heads, kvHeads = heads, headDim, feedForwardWidth, norm = 'rms', normPlacement = 'before', normEpsilon = 1e-5,
    feedForward = 'gated', activation = 'silu', embeddings = 'tied', embeddingScale = 1, logitSoftCap,
    biases = 'none', inputPosition = null, layers } =
    options(call, given, ['vocabulary', 'width', 'heads', 'kvHeads', 'headDim', 'feedForwardWidth', 'norm', 'normPlacement',
      'normEpsilon', 'feedForward', 'activation', 'embeddings', 'embeddingScale', 'logitSoftCap', 'biases', 'inputPosition', 'layers']);
  requireHeads(call, heads, kvHeads, headDim);
  if (!Array.isArray(layers) || layers.length === 0) argumentFault(`${call}: layers is ${show(layers)}, expected an array of 1 or more`);
  return {
    vocabulary: integer(call, 'vocabulary', vocabulary, 1, maxPosition),
    width: integer(call, 'width', width, 1, mostWidth),
    heads,
    kvHeads,
    headDim,
    feedForwardWidth: integer(call, 'feedForwardWidth', feedForwardWidth, 1, mostWidth),
    norm: choice(call, 'norm', norm, norms),
    normPlacement: choice(call, 'normPlacement', normPlacement, normPlacements),
    normEpsilon: finite(call, 'normEpsilon', normEpsilon),
    feedForward: choice(call, 'feedForward', feedForward, feedForwards),
    activation: choice(call, 'activation', activation, activations),
    embeddings: choice(call, 'embeddings', embeddings, embeddingKinds),
    embeddingScale: factor(call, 'embeddingScale', embeddingScale),
    logitSoftCap: logitSoftCap === undefined ? undefined : factor(call, 'logitSoftCap', logitSoftCap),
    biases: choice(call, 'biases', biases, biasKinds),
    inputPosition: inputPosition === null ? null : inputOf(call, inputPosition, width),
    layers: Array.from(layers as readonly DecoderLayer[], (layer, i) => {
      const read = options(`${call}: layers[${i}]`, layer ?? (null as never), ['rotation', 'terms', 'valueTerm', 'mask', 'scale', 'softCap', 'temperature']);
      return layerOf(context, call, `layers[${i}].`, read);
    }),
  };
}

function inputOf(call: string, given: NonNullable<DecoderConfig['inputPosition']>, width: number): object {
  const at = `${call}: inputPosition`;
  const read = options<{ sinusoidal?: object; learnedTable?: object; gridSinusoidal?: object }>(at, given,
    ['sinusoidal', 'learnedTable', 'gridSinusoidal']);
  if (Object.values(read).filter((value) => value !== undefined).length !== 1) {
    argumentFault(`${at} is ${show(given)}, expected { sinusoidal }, { learnedTable } or { gridSinusoidal }`);
  }
  const own = (name: keyof typeof read, names: readonly string[]): never => options(`${at}.${name}`, read[name], names as never) as never;
  if (read.sinusoidal !== undefined) return { sinusoidal: sinusoidOf(at, own('sinusoidal', sinusoidNames), width) };
  if (read.learnedTable !== undefined) return { learnedTable: tableOf(at, own('learnedTable', tableNames), width) };
  return { gridSinusoidal: gridOf(at, own('gridSinusoidal', gridNames), width) };
}

function weightsOf(call: string, given: DecoderWeights): object {
  const read = options<{ seed?: number; embedding?: number; queryKey?: number; matrix?: number; safetensors?: unknown }>(
    call, given, ['seed', 'embedding', 'queryKey', 'matrix', 'safetensors']);
  if (read.safetensors !== undefined) {
    const { safetensors, ...rest } = read;
    for (const name of Object.keys(rest)) argumentFault(`${call}: ${name} is given beside safetensors, expected one of the two`);
    const files = Array.isArray(safetensors) ? safetensors : [safetensors];
    for (const file of files) {
      if (!(file instanceof Uint8Array)) argumentFault(`${call}: safetensors is ${show(file)}, expected a Uint8Array, or an array of them`);
      honest(call, 'safetensors', file);
    }
    return { safetensors: files };
  }
  const scale = (name: 'embedding' | 'queryKey' | 'matrix'): number | undefined =>
    read[name] === undefined ? undefined : factor(call, name, read[name]);
  return {
    seed: integer(call, 'seed', read.seed, 0, maxPosition),
    embedding: scale('embedding'),
    queryKey: scale('queryKey'),
    matrix: scale('matrix'),
  };
}

export class TokenDecoder extends OwnedObject<RawDecoder> implements Decoder {
  readonly #context: Context;
  readonly #shape: Pick<CacheOptions, 'kvHeads' | 'headDim' | 'layers'>;
  readonly vocabulary: number;
  readonly width: number;
  readonly layers: number;
  readonly parameters: number;

  static {
    refuseStrangers('Decoder', this, (value) => #context in value);
  }

  constructor(context: Context, config: DecoderConfig, weights: DecoderWeights) {
    const call = 'decoder';
    const { memory, census } = context;
    const checked = configOf(context, call, config);
    const from = weightsOf(call, weights);
    super(census, 'decoder', memory.call(call, () => memory.done(memory.raw.makeDecoder(checked, from))));
    this.#context = context;
    this.#shape = { kvHeads: config.kvHeads ?? config.heads, headDim: config.headDim, layers: config.layers.length };
    this.vocabulary = config.vocabulary;
    this.width = config.width;
    this.layers = config.layers.length;
    this.parameters = handleOf<RawDecoder>(this, call).parameters();
  }

  bytes(): number {
    return handleOf(this, 'bytes').bytes();
  }

  prepare(count: number): void {
    const handle = handleOf(this, 'prepare');
    const { memory } = this.#context;
    integer('prepare', 'count', count, 0, maxPosition + 1);
    memory.call('prepare', () => memory.done(handle.prepare(count)));
  }

  safetensors(): Uint8Array {
    const handle = handleOf(this, 'safetensors');
    const { memory } = this.#context;
    return memory.call('safetensors', () => memory.done(handle.safetensors()));
  }

  cache(given?: Pick<CacheOptions, 'sequences' | 'capacity' | 'keys' | 'backward'>): Cache {
    const handle = handleOf(this, 'cache');
    const read = options('cache', given, ['sequences', 'capacity', 'keys', 'backward']);
    return new LayerCache(this.#context, 'cache', { ...this.#shape, ...read }, (checked) => handle.cache(checked));
  }

  #tokens(call: string, name: string, tokens: unknown): Int32Array {
    return int32s(call, name, tokens);
  }

  /** The tokens whose logits are asked for. */
  #wanted(call: string, wanted: WantedTokens, positions: Positions): Int32Array {
    if (typeof wanted !== 'string') {
      const list = int32s(call, 'wanted', wanted);
      for (const [i, token] of list.entries()) integer(call, `wanted[${i}]`, token, 0, positions.tokens - 1);
      return list;
    }
    const { memory } = this.#context;
    const which = choice(call, 'wanted', wanted, ['last', 'valid']);
    return memory.call(call, (frame) => {
      const block = writePositions(frame, memory, call, 'positions', positions);
      return memory.done(which === 0 ? memory.raw.lastTokens(block) : memory.raw.validTokens(block));
    });
  }

  forward(given: ForwardOptions): Float32Array {
    const call = 'forward';
    const handle = handleOf(this, call);
    const { memory } = this.#context;
    const { tokens, positions, wanted = 'last', cache, sequences, mask, out } =
      options(call, given, ['tokens', 'positions', 'wanted', 'cache', 'sequences', 'mask', 'out']);
    positionsOf(call, 'positions', positions);
    const ids = this.#tokens(call, 'tokens', tokens);
    if (ids.length !== positions.tokens) {
      throw makeError('shape', `${call}: tokens holds ${ids.length} values, expected one per token of positions = ${positions.tokens}`,
        ids.length, positions.tokens);
    }
    const cacheHandle = cache === undefined ? undefined : cacheOf(this.#context, call, cache);
    const of = sequences === undefined ? none : int32s(call, 'sequences', sequences);
    if (sequences !== undefined && cache === undefined) argumentFault(`${call}: sequences is given, expected a cache beside it`);
    const indices = this.#wanted(call, wanted, positions);
    const count = indices.length * this.vocabulary;
    const into = result(call, out, count, `${indices.length} wanted tokens x ${this.vocabulary}`);
    return memory.call(call, (frame) => {
      const block = writePositions(frame, memory, call, 'positions', positions);
      const marks = writeMask(frame, callMaskOf(call, mask));
      const at = frame.reserve(count * 4);
      const idsAt = frame.int32(ids);
      const wantedAt = frame.int32(indices);
      if (cacheHandle === undefined) {
        memory.done(handle.forward(idsAt, ids.length, block, wantedAt, indices.length, at, count, ...marks));
      } else {
        memory.done(handle.forwardCached(cacheHandle, idsAt, ids.length, block, frame.int32(of), of.length, wantedAt,
          indices.length, at, count, ...marks));
      }
      return frame.copyTo(into, at);
    });
  }

  generate(given: GenerateOptions): GeneratedRow[] {
    const call = 'generate';
    const handle = handleOf(this, call);
    const { memory } = this.#context;
    const read = options(call, given, generateNames);
    const write = promptsOf(call, read.prompts);
    const checked = generationOf(call, read);
    const cache = read.cache === undefined ? null : cacheOf(this.#context, call, read.cache);
    return rowsOf(memory.call(call, (frame) => memory.done(handle.generate(cache, ...write(frame), checked))));
  }

  generation(given: GenerateOptions): Generation {
    return new StepGeneration(this.#context, 'generation', this, options('generation', given, generateNames));
  }

  async generateAsync(given: GenerateAsyncOptions): Promise<GeneratedRow[]> {
    const call = 'generateAsync';
    const read = options(call, given, [...generateNames, 'onProgress', 'signal']);
    stepOptionsOf(call, read);
    return withCache(call, read.cache, async () => {
      const generation = new StepGeneration(this.#context, call, this, { ...read, prefillChunk: read.prefillChunk ?? shortChunk });
      try {
        return await generation.runAll(call, read, () => generation.cancelFor(call));
      } finally {
        generation.dispose();
      }
    });
  }

  async prefillAsync(given: PrefillOptions): Promise<Float32Array> {
    const call = 'prefillAsync';
    const read = options(call, given, ['prompts', 'cache', 'prefillChunk', 'onProgress', 'signal']);
    const { prompts, cache, prefillChunk = shortChunk } = read;
    stepOptionsOf(call, read);
    const chunk = integer(call, 'prefillChunk', prefillChunk, 1, maxPosition);
    return withCache(call, cache, async () => {
      const prefill = new StepPrefill(this.#context, call, this, prompts, cache, chunk);
      try {
        return await prefill.runAll(call, read, () => argumentFault(`${call}: onProgress said "stop", expected a signal for that: half a prompt has no logits`));
      } finally {
        prefill.dispose();
      }
    });
  }

  lanes(given: LanesOptions): Lanes {
    const call = 'lanes';
    const handle = handleOf(this, call);
    const { memory } = this.#context;
    const { prompt, steps = 16, offset = 'true', tolerance = 1e-3, prefillChunk = 512 } =
      options(call, given, ['prompt', 'steps', 'offset', 'tolerance', 'prefillChunk']);
    const ids = this.#tokens(call, 'prompt', prompt);
    const checked = {
      steps: integer(call, 'steps', steps, 1, maxPosition),
      offset: choice(call, 'offset', offset, offsets),
      tolerance: finite(call, 'tolerance', tolerance),
      prefillChunk: integer(call, 'prefillChunk', prefillChunk, 1, maxPosition),
    };
    return memory.call(call, (frame) => memory.done(handle.lanes(frame.int32(ids), ids.length, checked)));
  }

  auditTests(given?: AuditOptions): AuditReport {
    const call = 'auditTests';
    const handle = handleOf(this, call);
    const { memory } = this.#context;
    const { length = 24, move = 37, seed = 1, tolerance = 1e-4, fault = 'none' } =
      options(call, given, ['length', 'move', 'seed', 'tolerance', 'fault']);
    const checked = {
      length: integer(call, 'length', length, 8, 4096),
      move: integer(call, 'move', move, 1, maxPosition),
      seed: integer(call, 'seed', seed, 0, maxPosition),
      tolerance: finite(call, 'tolerance', tolerance),
      fault: choice(call, 'fault', fault, faults),
    };
    const report = memory.call(call, () => memory.done(handle.audit(checked)));
    return {
      ...report,
      methods: report.methods.map(methodInLayers),
      lines: report.lines.map((line) => ({
        ...line,
        expectation: expectations[line.expectation]!,
        verdict: verdicts[line.verdict]!,
      })),
    };
  }

  describe(): readonly MethodInLayers[] {
    const handle = handleOf(this, 'describe');
    const { memory } = this.#context;
    return memory.call('describe', () => memory.done(handle.describe())).map(methodInLayers);
  }
}

const methodInLayers = (raw: ReturnType<RawDecoder['describe']>[number]): MethodInLayers => ({
  method: readDescription(raw.method),
  layers: Array.from(raw.layers),
});
