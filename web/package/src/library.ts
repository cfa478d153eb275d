// One loaded library: the object that load() resolves to.
import type {
  AlibiOptions,
  Attention,
  AttentionOptions,
  AxialPlanOptions,
  BuildInfo,
  Cache,
  CacheOptions,
  ComparePairingsOptions,
  ConvertPairingOptions,
  Cope,
  CopeOptions,
  DebertaOptions,
  Decoder,
  DecoderConfig,
  DecoderWeights,
  DecoupledRotation,
  DecoupledRotationOptions,
  DetrSinusoidal,
  DetrSinusoidalOptions,
  DisplacementBiasOptions,
  FireOptions,
  GridInterpolation,
  GridSinusoidal,
  GridSinusoidalOptions,
  Kernel,
  KerpleOptions,
  LayerPlans,
  LayerPlansOptions,
  LearnedTable,
  LearnedTableOptions,
  LlamaParameters,
  Locant,
  MatrixBiasOptions,
  MethodDescription,
  PairingResidual,
  PixelPlanOptions,
  PositionBuilders,
  RotaryPlan,
  RotaryRule,
  Rotation,
  RotationOptions,
  RowInterpolation,
  Sampled,
  SampleOptions,
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
import {
  describeInterpolation, DetrEncoding, GridEncoding, interpolateGrid, interpolateRows, SinusoidalEncoding, TableEncoding,
} from './absolute.js';
import { AttentionLayer } from './attention.js';
import {
  alibi, CopeForm, deberta, displacementBias, fire, kerple, matrixBias, relativeShift, sandwich, shawKeys, shawValues, t5Bias,
  transformerXl,
} from './bias.js';
import { LayerCache } from './cache.js';
import type { Context } from './context.js';
import { TokenDecoder } from './decoder.js';
import { sample } from './generation.js';
import { llamaConfig } from './llama.js';
import { Memory } from './memory.js';
import { difference, random } from './numbers.js';
import { Census, refuseStrangers } from './owned.js';
import { Builders } from './positions.js';
import type { Raw } from './raw.js';
import {
  axialPlan, comparePairings, convertPairing, describePlan, layerPlans, pixelPlan, planDifference, PlanRotation, rotaryPlan,
  scaleAxes, SplitRotation,
} from './rotary.js';

export class Library implements Locant {
  readonly kernel: Kernel;
  readonly positions: PositionBuilders;
  readonly #context: Context;

  static {
    refuseStrangers('Locant', this, (value) => #context in value);
  }

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

  detrSinusoidal(options: DetrSinusoidalOptions): DetrSinusoidal {
    return new DetrEncoding(this.#context, options);
  }

  interpolateRows(values: Float32Array, options: RowInterpolation): Float32Array {
    return interpolateRows(this.#context, values, options);
  }

  interpolateGrid(values: Float32Array, options: GridInterpolation): Float32Array {
    return interpolateGrid(this.#context, values, options);
  }

  describeInterpolation(options: GridInterpolation): MethodDescription {
    return describeInterpolation(this.#context, options);
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

  scaleAxes(plan: RotaryPlan, factors: readonly number[] | Float64Array): RotaryPlan {
    return scaleAxes(this.#context, plan, factors);
  }

  planDifference(a: RotaryPlan, b: RotaryPlan): string | null {
    return planDifference(this.#context, a, b);
  }

  layerPlans(options: LayerPlansOptions): LayerPlans {
    return layerPlans(this.#context, options);
  }

  comparePairings(options: ComparePairingsOptions): PairingResidual {
    return comparePairings(this.#context, options);
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

  decoupledRotation(plan: RotaryPlan, options: DecoupledRotationOptions): DecoupledRotation {
    return new SplitRotation(this.#context, plan, options);
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

  cope(options: CopeOptions): Cope {
    return new CopeForm(this.#context, options);
  }

  relativeShift(x: Float32Array, options: { readonly rows: number; readonly columns: number; readonly keys?: number }): Float32Array {
    return relativeShift(this.#context, x, options);
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

  sample(logits: Float32Array, options?: SampleOptions): Sampled {
    return sample(this.#context, logits, options);
  }

  random(options: { readonly seed: number; readonly stream: string; readonly count: number }): Float32Array {
    return random(this.#context, options);
  }

  difference(a: Float32Array, b: Float32Array): { readonly largest: number; readonly index: number } {
    return difference(a, b);
  }
}
