// Door 2: rules give plans, rotations turn by plans.
import type {
  AxialPlanOptions,
  ComparePairingsOptions,
  ConvertPairingOptions,
  DecoupledRotation,
  DecoupledRotationOptions,
  LayerPlans,
  LayerPlansOptions,
  MethodDescription,
  Out,
  PairingResidual,
  PixelPlanOptions,
  Positions,
  RotaryPlan,
  RotaryRule,
  RotateOptions,
  Rotation,
  RotationOptions,
} from '../types/locant.js';
import { argumentFault, choice, finite, float32, float64, honest, int32s, integer, maxPosition, mostHeads, options, positive, result, show } from './check.js';
import type { Context } from './context.js';
import { readDescription } from './describe.js';
import type { Memory } from './memory.js';
import { handleOf, OwnedObject, refuseStrangers } from './owned.js';
import { positionsOf, writePositions } from './positions.js';
import type { RawDecoupledRotation, RawPlan, RawRotation } from './raw.js';

const pairings = ['half-split', 'interleaved'] as const;
// In the order of the C++ enum.
const pairingOrder = ['interleaved', 'half-split'] as const;
const roles = ['query', 'key'] as const;
const rampEnds = ['whole-pairs', 'exact'] as const;
const softmaxScales = ['unchanged', 'deepseek'] as const;
const sectionOrders = ['chunked', 'interleaved'] as const;
const axialConventions = ['qwen2-vl', 'pixtral', 'llama4', 'rows'] as const;
const pixelBands = ['linear', 'powers'] as const;

type Check = 'positive' | 'finite' | 'length' | 'numbers' | readonly string[];
/** The parameters of each rule: how each is checked, and whether it may be left out. */
const rules: Record<RotaryRule['rule'], Record<string, { check: Check; optional?: true; default?: string }>> = {
  default: {},
  linear: { factor: { check: 'positive' } },
  ntk: { factor: { check: 'positive' } },
  'vllm-ntk': { factor: { check: 'positive' } },
  'vllm-ntk-mixed': { factor: { check: 'positive' }, b: { check: 'positive', optional: true } },
  'dynamic-ntk': { factor: { check: 'positive' }, trainedLength: { check: 'length' } },
  yarn: {
    factor: { check: 'positive' },
    originalLength: { check: 'positive' },
    betaFast: { check: 'positive', optional: true },
    betaSlow: { check: 'positive', optional: true },
    rampEnds: { check: rampEnds, default: 'whole-pairs' },
    mscale: { check: 'finite', optional: true },
    mscaleAllDim: { check: 'finite', optional: true },
    attentionFactor: { check: 'positive', optional: true },
    softmaxScale: { check: softmaxScales, default: 'unchanged' },
  },
  longrope: {
    shortFactors: { check: 'numbers' },
    longFactors: { check: 'numbers' },
    originalLength: { check: 'length' },
    factor: { check: 'positive', optional: true },
    maximumLength: { check: 'positive', optional: true },
    attentionFactor: { check: 'positive', optional: true },
    shortAttentionFactor: { check: 'positive', optional: true },
    longAttentionFactor: { check: 'positive', optional: true },
  },
  llama3: {
    factor: { check: 'positive' },
    lowFrequencyFactor: { check: 'positive', optional: true },
    highFrequencyFactor: { check: 'positive', optional: true },
    originalLength: { check: 'positive' },
  },
  proportional: { fraction: { check: 'finite' }, factor: { check: 'positive', optional: true } },
  custom: { inverseFrequencies: { check: 'numbers' } },
};

function parameter(call: string, name: string, value: unknown, check: Check): unknown {
  if (check === 'positive') return positive(call, name, value);
  if (check === 'finite') return finite(call, name, value);
  if (check === 'length') return integer(call, name, value, 1, maxPosition);
  if (check === 'numbers') return float64(call, name, value);
  return choice(call, name, value, check);
}

/** A rule's own parameters, checked, and everything that was given; `also` are the names of what stands beside them. */
export function ruleOf(call: string, given: unknown, also: readonly string[]): { checked: Record<string, unknown>; values: Record<string, unknown> } {
  if (given === null || typeof given !== 'object') argumentFault(`${call}: the rule is ${show(given)}, expected an object`);
  const { rule } = given as RotaryRule;
  choice(call, 'rule', rule, Object.keys(rules));
  const values = options<Record<string, unknown>>(call, given as Record<string, unknown>, ['rule', ...also, ...Object.keys(rules[rule])]);
  const checked: Record<string, unknown> = { rule };
  for (const [name, { check, optional, default: fallback }] of Object.entries(rules[rule])) {
    const value = values[name] ?? fallback;
    if (value !== undefined || !optional) checked[name] = parameter(call, name, value, check);
  }
  return { checked, values };
}

export const pairingOf = (call: string, value: unknown): number => pairingOrder.indexOf(pairings[choice(call, 'pairing', value ?? 'half-split', pairings)]!);

export function rotaryPlan({ memory }: Context, given: RotaryRule): RotaryPlan {
  const call = 'rotaryPlan';
  const { checked, values } = ruleOf(call, given,
    ['headDim', 'rotatedWidth', 'start', 'base', 'pairing', 'length', 'sections', 'sectionOrder', 'xpos']);
  const headDim = integer(call, 'headDim', values.headDim, 1, mostHeads);
  const start = integer(call, 'start', values.start ?? 0, 0, headDim - 1);
  Object.assign(checked, {
    headDim,
    start,
    width: integer(call, 'rotatedWidth', values.rotatedWidth ?? headDim - start, 1, headDim - start),
    base: positive(call, 'base', values.base ?? 10000),
    pairing: pairingOf(call, values.pairing),
    length: values.length === undefined ? undefined : integer(call, 'length', values.length, 1, maxPosition + 1),
  });
  if (values.sections !== undefined) {
    const sections = int32s(call, 'sections', values.sections);
    const interleaved = choice(call, 'sectionOrder', values.sectionOrder ?? 'chunked', sectionOrders) === 1;
    if (interleaved && sections.length !== 3) {
      argumentFault(`${call}: sections holds ${sections.length} values, expected 3 where they are interleaved`, sections.length, 3);
    }
    checked.sections = sections;
    checked.interleavedSections = interleaved;
  } else if (values.sectionOrder !== undefined) {
    argumentFault(`${call}: sectionOrder is given, expected sections beside it`);
  }
  if (values.xpos !== undefined && values.xpos !== null) checked.xpos = xposOf(call, 'xpos', values.xpos);
  return readPlan(memory.call(call, () => memory.done(memory.raw.rotaryPlan(checked))));
}

function xposOf(call: string, at: string, given: unknown): NonNullable<RotaryPlan['xpos']> {
  const { gamma, scaleBase, center } = options(`${call}: ${at}`, given as NonNullable<RotaryPlan['xpos']>, ['gamma', 'scaleBase', 'center']);
  return {
    gamma: positive(call, `${at}.gamma`, gamma),
    scaleBase: positive(call, `${at}.scaleBase`, scaleBase),
    center: finite(call, `${at}.center`, center),
  };
}

export function axialPlan({ memory }: Context, given: AxialPlanOptions): RotaryPlan {
  const call = 'axialPlan';
  const { convention, headDim, base = 10000 } = options(call, given, ['convention', 'headDim', 'base']);
  const which = choice(call, 'convention', convention, axialConventions);
  integer(call, 'headDim', headDim, 1, mostHeads);
  positive(call, 'base', base);
  return readPlan(memory.call(call, () => memory.done(memory.raw.axialPlan(which, headDim, base))));
}

export function pixelPlan({ memory }: Context, given: PixelPlanOptions): RotaryPlan {
  const call = 'pixelPlan';
  const { featuresPerAxis, maxFrequency = 10, height, width, bands = 'linear' } =
    options(call, given, ['featuresPerAxis', 'maxFrequency', 'height', 'width', 'bands']);
  const checked = {
    featuresPerAxis: integer(call, 'featuresPerAxis', featuresPerAxis, 1, mostHeads),
    maxFrequency: finite(call, 'maxFrequency', maxFrequency),
    height: integer(call, 'height', height, 1, maxPosition),
    width: integer(call, 'width', width, 1, maxPosition),
    bands: choice(call, 'bands', bands, pixelBands),
  };
  return readPlan(memory.call(call, () => memory.done(memory.raw.pixelPlan(checked))));
}

export function convertPairing({ memory }: Context, x: Float32Array, given: ConvertPairingOptions): Float32Array {
  const call = 'convertPairing';
  const { from, to, heads, headDim, start = 0, rotatedWidth, columns = 1, out } =
    options(call, given, ['from', 'to', 'heads', 'headDim', 'start', 'rotatedWidth', 'columns', 'out']);
  const before = choice(call, 'from', from, pairingOrder);
  const after = choice(call, 'to', to, pairingOrder);
  integer(call, 'heads', heads, 1, mostHeads);
  integer(call, 'headDim', headDim, 1, mostHeads);
  integer(call, 'start', start, 0, headDim - 1);
  const width = integer(call, 'rotatedWidth', rotatedWidth ?? headDim - start, 1, headDim - start);
  integer(call, 'columns', columns, 1, maxPosition);
  const block = heads * headDim * columns;
  float32(call, 'x', x);
  // A weight is one block; a bias, queries and keys are as many as there are tokens, which may be none.
  const rows = columns === 1 ? Math.ceil(x.length / block) : 1;
  const shape = `${rows} x ${heads} heads x ${headDim} x ${columns}`;
  float32(call, 'x', x, rows * block, shape);
  const into = result(call, out, x.length, shape);
  return memory.call(call, (frame) => {
    const at = frame.float32(x);
    memory.done(memory.raw.convertPairing(at, x.length, rows, columns, { heads, headDim, start, width }, before, after));
    return frame.copyTo(into, at);
  });
}

export const readPlan = (raw: RawPlan): RotaryPlan => Object.freeze({ ...raw, pairing: pairingOrder[raw.pairing]! });

const planKeys = [
  'inverseFrequencies', 'pairing', 'start', 'attentionFactor', 'softmaxScaleFactor', 'axisOfPair', 'axisOffsets', 'xpos',
  'rule', 'base', 'parameters', 'length',
] as const;

/** A plan as it crosses, every member checked: it is plain data that anybody may have put together. */
export function writePlan(call: string, name: string, value: unknown): RawPlan {
  if (value === null || typeof value !== 'object') argumentFault(`${call}: ${name} is ${show(value)}, expected a plan of rotaryPlan`);
  const plan = options(`${call}: ${name}`, value as RotaryPlan, planKeys);
  const of = (member: string): string => `${name}.${member}`;
  const { axisOfPair, axisOffsets, xpos, base, length } = plan;
  if (axisOfPair !== null && !(axisOfPair instanceof Uint8Array)) {
    argumentFault(`${call}: ${of('axisOfPair')} is ${show(axisOfPair)}, expected a Uint8Array or null`);
  }
  if (axisOfPair !== null) honest(call, of('axisOfPair'), axisOfPair);
  if (!Array.isArray(plan.parameters)) argumentFault(`${call}: ${of('parameters')} is ${show(plan.parameters)}, expected an array`);
  return {
    inverseFrequencies: float64(call, of('inverseFrequencies'), plan.inverseFrequencies),
    pairing: choice(call, of('pairing'), plan.pairing, pairingOrder),
    start: integer(call, of('start'), plan.start, 0, mostHeads),
    attentionFactor: positive(call, of('attentionFactor'), plan.attentionFactor),
    softmaxScaleFactor: positive(call, of('softmaxScaleFactor'), plan.softmaxScaleFactor),
    axisOfPair,
    axisOffsets: axisOffsets === null ? null : float64(call, of('axisOffsets'), axisOffsets),
    xpos: xpos === null ? null : xposOf(call, of('xpos'), xpos),
    rule: String(plan.rule),
    base: base === null ? null : finite(call, of('base'), base),
    parameters: Array.from(plan.parameters, (entry) => ({ name: String(entry?.name), value: String(entry?.value) })),
    length: length === null ? null : integer(call, of('length'), length, 0, Number.MAX_SAFE_INTEGER),
  };
}

export function describePlan({ memory }: Context, plan: RotaryPlan): MethodDescription {
  const raw = writePlan('describePlan', 'the plan', plan);
  return readDescription(memory.call('describePlan', () => memory.done(memory.raw.describePlan(raw))));
}

export function scaleAxes({ memory }: Context, plan: RotaryPlan, factors: readonly number[] | Float64Array): RotaryPlan {
  const call = 'scaleAxes';
  const raw = writePlan(call, 'the plan', plan);
  const numbers = float64(call, 'factors', factors);
  return readPlan(memory.call(call, () => memory.done(memory.raw.scaleAxes(raw, numbers))));
}

export function planDifference({ memory }: Context, a: RotaryPlan, b: RotaryPlan): string | null {
  const call = 'planDifference';
  const [one, other] = [writePlan(call, 'the first plan', a), writePlan(call, 'the second plan', b)];
  return memory.call(call, () => memory.done(memory.raw.planDifference(one, other))) || null;
}

const everyNth = ['last-of-group', 'first-of-group'] as const;
const mostLayers = 65536;

export function layerPlans({ memory }: Context, given: LayerPlansOptions): LayerPlans {
  const call = 'layerPlans';
  const read = options(call, given as Record<string, unknown>, ['layers', 'plan', 'interval', 'which', 'special', 'other', 'kindOfLayer', 'kinds']);
  const plan = (name: string, value: unknown): RawPlan | null => (value === null ? null : writePlan(call, name, value));
  const names = (...known: string[]): void => {
    options<Record<string, unknown>>(call, read, known);
  };
  let checked: object;
  if (read.kindOfLayer !== undefined) {
    names('kindOfLayer', 'kinds');
    if (!Array.isArray(read.kinds)) argumentFault(`${call}: kinds is ${show(read.kinds)}, expected an array of plans and nulls`);
    checked = {
      kindOfLayer: int32s(call, 'kindOfLayer', read.kindOfLayer),
      kinds: Array.from(read.kinds as readonly unknown[], (kind, i) => plan(`kinds[${i}]`, kind)),
    };
  } else if (read.interval !== undefined) {
    names('layers', 'interval', 'which', 'special', 'other');
    checked = {
      layers: integer(call, 'layers', read.layers, 1, mostLayers),
      interval: integer(call, 'interval', read.interval, 1, mostLayers),
      which: choice(call, 'which', read.which as string, everyNth),
      special: plan('special', read.special),
      other: plan('other', read.other),
    };
  } else {
    names('layers', 'plan');
    checked = { layers: integer(call, 'layers', read.layers, 1, mostLayers), plan: plan('plan', read.plan) };
  }
  const raw = memory.call(call, () => memory.done(memory.raw.layerPlans(checked)));
  const kinds = Object.freeze(raw.kinds.map((kind) => (kind === null ? null : readPlan(kind))));
  const { kindOfLayer, layersWithoutPosition } = raw;
  return Object.freeze({
    layers: kindOfLayer.length,
    kinds,
    kindOfLayer,
    layersWithoutPosition,
    plans: Object.freeze(Array.from(kindOfLayer, (kind) => kinds[kind]!)),
    descriptions: Object.freeze(raw.descriptions.map(readDescription)),
  });
}

export function comparePairings({ memory }: Context, given: ComparePairingsOptions): PairingResidual {
  const call = 'comparePairings';
  const { plan, headDim, heads, x, rotated, positions } = options(call, given, ['plan', 'headDim', 'heads', 'x', 'rotated', 'positions']);
  const raw = writePlan(call, 'plan', plan);
  integer(call, 'headDim', headDim, 1, mostHeads);
  integer(call, 'heads', heads, 1, mostHeads);
  const { tokens } = positionsOf(call, 'positions', positions);
  const count = tokens * heads * headDim;
  const shape = `${tokens} tokens x ${heads} heads x ${headDim}`;
  float32(call, 'x', x, count, shape);
  float32(call, 'rotated', rotated, count, shape);
  return memory.call(call, (frame) => {
    const block = writePositions(frame, memory, call, 'positions', positions);
    return memory.done(memory.raw.comparePairings(raw, headDim, heads, frame.float32(x), frame.float32(rotated), count, block));
  });
}

export class SplitRotation extends OwnedObject<RawDecoupledRotation> implements DecoupledRotation {
  readonly #memory: Memory;
  readonly plan: RotaryPlan;
  readonly plainDim: number;
  readonly rotaryDim: number;
  readonly headDim: number;

  constructor({ memory, census }: Context, plan: RotaryPlan, given: DecoupledRotationOptions) {
    const call = 'decoupledRotation';
    const { plainDim, rotaryDim } = options(call, given, ['plainDim', 'rotaryDim']);
    integer(call, 'plainDim', plainDim, 0, mostHeads - 1);
    integer(call, 'rotaryDim', rotaryDim, 2, mostHeads - plainDim);
    const raw = writePlan(call, 'the plan', plan);
    super(census, 'decoupled rotation', memory.call(call, () => memory.done(memory.raw.makeDecoupledRotation(raw, plainDim, rotaryDim))));
    this.#memory = memory;
    this.plan = readPlan(raw);
    this.plainDim = plainDim;
    this.rotaryDim = rotaryDim;
    this.headDim = plainDim + rotaryDim;
  }

  prepare(count: number): void {
    const handle = handleOf(this, 'prepare');
    integer('prepare', 'count', count, 0, maxPosition + 1);
    this.#memory.call('prepare', () => this.#memory.done(handle.prepare(count)));
  }

  applyQuery(q: Float32Array, positions: Positions, given: Out & { readonly heads: number }): Float32Array {
    const call = 'applyQuery';
    const handle = handleOf(this, call);
    const { heads, out } = options(call, given, ['heads', 'out']);
    integer(call, 'heads', heads, 1, mostHeads);
    const { tokens } = positionsOf(call, 'positions', positions);
    const count = tokens * heads * this.headDim;
    const shape = `${tokens} tokens x ${heads} heads x ${this.headDim}`;
    float32(call, 'q', q, count, shape);
    const into = result(call, out, count, shape);
    return this.#memory.call(call, (frame) => {
      const block = writePositions(frame, this.#memory, call, 'positions', positions);
      const at = frame.float32(q);
      this.#memory.done(handle.applyQuery(at, count, block, heads));
      return frame.copyTo(into, at);
    });
  }

  joinKey(plain: Float32Array, shared: Float32Array, positions: Positions, given: Out & { readonly heads: number }): Float32Array {
    const call = 'joinKey';
    const handle = handleOf(this, call);
    const { heads, out } = options(call, given, ['heads', 'out']);
    integer(call, 'heads', heads, 1, mostHeads);
    const { tokens } = positionsOf(call, 'positions', positions);
    float32(call, 'plain', plain, tokens * heads * this.plainDim, `${tokens} tokens x ${heads} heads x ${this.plainDim}`);
    float32(call, 'shared', shared, tokens * this.rotaryDim, `${tokens} tokens x ${this.rotaryDim}`);
    const count = tokens * heads * this.headDim;
    const into = result(call, out, count, `${tokens} tokens x ${heads} heads x ${this.headDim}`);
    return this.#memory.call(call, (frame) => {
      const block = writePositions(frame, this.#memory, call, 'positions', positions);
      const at = frame.reserve(count * 4);
      this.#memory.done(handle.joinKey(frame.float32(plain), plain.length, frame.float32(shared), shared.length, block, heads, at, count));
      return frame.copyTo(into, at);
    });
  }

  describe(): MethodDescription {
    const handle = handleOf(this, 'describe');
    return readDescription(this.#memory.call('describe', () => this.#memory.done(handle.describe())));
  }
}

export class PlanRotation extends OwnedObject<RawRotation> implements Rotation {
  readonly #memory: Memory;
  readonly plan: RotaryPlan;
  readonly headDim: number;

  static {
    refuseStrangers('Rotation', this, (value) => #memory in value);
  }

  constructor({ memory, census }: Context, plan: RotaryPlan, given: RotationOptions) {
    const call = 'rotation';
    const { headDim } = options(call, given, ['headDim']);
    integer(call, 'headDim', headDim, 1, mostHeads);
    const raw = writePlan(call, 'the plan', plan);
    super(census, 'rotation', memory.call(call, () => memory.done(memory.raw.makeRotation(raw, headDim))));
    this.#memory = memory;
    this.plan = readPlan(raw);
    this.headDim = headDim;
  }

  prepare(count: number): void {
    const handle = handleOf(this, 'prepare');
    integer('prepare', 'count', count, 0, maxPosition + 1);
    this.#memory.call('prepare', () => this.#memory.done(handle.prepare(count)));
  }

  apply(x: Float32Array, positions: Positions, given: RotateOptions): Float32Array {
    return this.#turn('apply', x, positions, given, 1);
  }

  applyInverse(x: Float32Array, positions: Positions, given: RotateOptions): Float32Array {
    return this.#turn('applyInverse', x, positions, given, -1);
  }

  get reach(): number {
    return handleOf<RawRotation>(this, 'reach').reach();
  }

  advance(key: Float32Array, delta: number, given?: Out): Float32Array {
    const call = 'advance';
    const handle = handleOf<RawRotation>(this, call);
    const { out } = options(call, given, ['out']);
    float32(call, 'key', key, this.headDim, `headDim`);
    integer(call, 'delta', delta, -maxPosition, maxPosition);
    const into = result(call, out, this.headDim, 'headDim');
    return this.#memory.call(call, (frame) => {
      const at = frame.float32(key);
      this.#memory.done(handle.advance(at, key.length, delta));
      return frame.copyTo(into, at);
    });
  }

  #turn(call: string, x: Float32Array, positions: Positions, given: RotateOptions, direction: 1 | -1): Float32Array {
    const handle = handleOf(this, call);
    const { heads, role, out } = options(call, given, ['heads', 'role', 'out']);
    integer(call, 'heads', heads, 1, mostHeads);
    const roleIndex = choice(call, 'role', role, roles);
    const { tokens } = positionsOf(call, 'positions', positions);
    const count = tokens * heads * this.headDim;
    const shape = `${tokens} tokens x ${heads} heads x ${this.headDim}`;
    float32(call, 'x', x, count, shape);
    const into = result(call, out, count, shape);
    return this.#memory.call(call, (frame) => {
      const block = writePositions(frame, this.#memory, call, 'positions', positions);
      const at = frame.float32(x);
      this.#memory.done(handle.apply(at, count, block, heads, roleIndex, direction));
      return frame.copyTo(into, at);
    });
  }
}
