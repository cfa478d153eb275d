// One loaded library: the object that load() resolves to.
import type {
  AlibiOptions,
  Attention,
  AttentionOptions,
  AxialPlanOptions,
  BuildInfo,
  Cache,
  CacheOptions,
  ConvertPairingOptions,
  DebertaOptions,
  Decoder,
  DecoderConfig,
  DecoderWeights,
  DisplacementBiasOptions,
  FireOptions,
  GridSinusoidal,
  GridSinusoidalOptions,
  Kernel,
  KerpleOptions,
  LearnedTable,
  LearnedTableOptions,
  LlamaParameters,
  Locant,
  MatrixBiasOptions,
  MethodDescription,
  PixelPlanOptions,
  PositionBuilders,
  RotaryPlan,
  RotaryRule,
  Rotation,
  RotationOptions,
  SandwichOptions,
  ScoreTerm,
  ShawKeysOptions,
  ShawValuesOptions,
  Sinusoidal,
  SinusoidalOptions,
  T5BiasOptions,
  TransformerXlOptions,
  ValueTerm,
} from '../types/locant.js';
import { GridEncoding, SinusoidalEncoding, TableEncoding } from './absolute.js';
import { AttentionLayer } from './attention.js';
import { alibi, deberta, displacementBias, fire, kerple, matrixBias, sandwich, shawKeys, shawValues, t5Bias, transformerXl } from './bias.js';
import { LayerCache } from './cache.js';
import type { Context } from './context.js';
import { TokenDecoder } from './decoder.js';
import { llamaConfig } from './llama.js';
import { Memory } from './memory.js';
import { difference, random } from './numbers.js';
import { Census } from './owned.js';
import { Builders } from './positions.js';
import type { Raw } from './raw.js';
import { axialPlan, convertPairing, describePlan, pixelPlan, PlanRotation, rotaryPlan } from './rotary.js';

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

  gridSinusoidal(options: GridSinusoidalOptions): GridSinusoidal {
    return new GridEncoding(this.#context, options);
  }

  learnedTable(options: LearnedTableOptions): LearnedTable {
    return new TableEncoding(this.#context, options);
  }

  rotaryPlan(rule: RotaryRule): RotaryPlan {
    return rotaryPlan(this.#context, rule);
  }

  axialPlan(options: AxialPlanOptions): RotaryPlan {
    return axialPlan(this.#context, options);
  }

  pixelPlan(options: PixelPlanOptions): RotaryPlan {
    return pixelPlan(this.#context, options);
  }

  convertPairing(x: Float32Array, options: ConvertPairingOptions): Float32Array {
    return convertPairing(this.#context, x, options);
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

  transformerXl(options: TransformerXlOptions): ScoreTerm {
    return transformerXl(this.#context, options);
  }

  deberta(options: DebertaOptions): ScoreTerm {
    return deberta(this.#context, options);
  }

  kerple(options: KerpleOptions): ScoreTerm {
    return kerple(this.#context, options);
  }

  sandwich(options: SandwichOptions): ScoreTerm {
    return sandwich(this.#context, options);
  }

  fire(options: FireOptions): ScoreTerm {
    return fire(this.#context, options);
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

  llamaConfig(parameters: LlamaParameters): DecoderConfig {
    return llamaConfig(this.#context, parameters);
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
