// One loaded library: the object that load() resolves to.
import type {
  AlibiOptions,
  Attention,
  AttentionOptions,
  BuildInfo,
  Cache,
  CacheOptions,
  Decoder,
  DecoderConfig,
  DecoderWeights,
  DisplacementBiasOptions,
  Kernel,
  LearnedTable,
  LearnedTableOptions,
  Locant,
  MatrixBiasOptions,
  MethodDescription,
  PositionBuilders,
  RotaryPlan,
  RotaryRule,
  Rotation,
  RotationOptions,
  ScoreTerm,
  ShawKeysOptions,
  ShawValuesOptions,
  Sinusoidal,
  SinusoidalOptions,
  T5BiasOptions,
  ValueTerm,
} from '../types/locant.js';
import { SinusoidalEncoding, TableEncoding } from './absolute.js';
import { AttentionLayer } from './attention.js';
import { alibi, displacementBias, matrixBias, shawKeys, shawValues, t5Bias } from './bias.js';
import { LayerCache } from './cache.js';
import type { Context } from './context.js';
import { TokenDecoder } from './decoder.js';
import { Memory } from './memory.js';
import { difference, random } from './numbers.js';
import { Census } from './owned.js';
import { Builders } from './positions.js';
import type { Raw } from './raw.js';
import { describePlan, PlanRotation, rotaryPlan } from './rotary.js';

export class Library implements Locant {
  readonly kernel: Kernel;
  readonly positions: PositionBuilders;
  readonly #context: Context;

  constructor(raw: Raw) {
    const memory = new Memory(raw);
    this.#context = { memory, census: new Census() };
    this.kernel = raw.buildInfo().simd.includes('relaxed') ? 'relaxed' : 'deterministic';
    this.positions = new Builders(memory);
  }

  buildInfo(): BuildInfo {
    const { raw, buffer } = this.#context.memory;
    const { version, simd, compiler, eigen } = raw.buildInfo();
    return { version, kernel: this.kernel, simd, compiler, eigen, memory: buffer.byteLength };
  }

  liveObjects(): number {
    return this.#context.census.live;
  }

  sinusoidal(options: SinusoidalOptions): Sinusoidal {
    return new SinusoidalEncoding(this.#context, options);
  }

  learnedTable(options: LearnedTableOptions): LearnedTable {
    return new TableEncoding(this.#context, options);
  }

  rotaryPlan(rule: RotaryRule): RotaryPlan {
    return rotaryPlan(this.#context, rule);
  }

  describePlan(plan: RotaryPlan): MethodDescription {
    return describePlan(this.#context, plan);
  }

  rotation(plan: RotaryPlan, options: RotationOptions): Rotation {
    return new PlanRotation(this.#context, plan, options);
  }

  alibi(options: AlibiOptions): ScoreTerm {
    return alibi(this.#context, options);
  }

  t5Bias(options: T5BiasOptions): ScoreTerm {
    return t5Bias(this.#context, options);
  }

  displacementBias(options: DisplacementBiasOptions): ScoreTerm {
    return displacementBias(this.#context, options);
  }

  matrixBias(options: MatrixBiasOptions): ScoreTerm {
    return matrixBias(this.#context, options);
  }

  shawKeys(options: ShawKeysOptions): ScoreTerm {
    return shawKeys(this.#context, options);
  }

  shawValues(options: ShawValuesOptions): ValueTerm {
    return shawValues(this.#context, options);
  }

  attention(options: AttentionOptions): Attention {
    return new AttentionLayer(this.#context, options);
  }

  cache(options: CacheOptions): Cache {
    return new LayerCache(this.#context, 'cache', options);
  }

  decoder(config: DecoderConfig, weights: DecoderWeights): Decoder {
    return new TokenDecoder(this.#context, config, weights);
  }

  random(options: { readonly seed: number; readonly stream: string; readonly count: number }): Float32Array {
    return random(this.#context, options);
  }

  difference(a: Float32Array, b: Float32Array): { readonly largest: number; readonly index: number } {
    return difference(a, b);
  }
}
