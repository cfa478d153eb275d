// The module as the glue hands it over: the names of cpp/wasm/bindings.cpp. Internal; users never see it.

/** A C++ object behind Embind. */
export interface Handle {
  delete(): void;
}

/** An address in WebAssembly memory. Unsigned: above 2 GB a signed one would be negative. */
export type Address = number;

export interface RawDescription {
  name: string;
  door: number;
  reference: number;
  parameters: { name: string; value: string }[];
  formula: string;
  source: string;
  origin: string;
  direction: string;
  pastEnd: string;
}

export interface RawSinusoidal extends Handle {
  frequencies(): Float64Array;
  prepare(count: number): void;
  encode(block: Address, out: Address, count: number): void;
  add(x: Address, block: Address, count: number): void;
  describe(): RawDescription;
}

export interface RawLearnedTable extends Handle {
  rows(): number;
  values(): Float32Array;
  count(block: Address): Float64Array;
  fit(block: Address): Address;
  rowsOf(block: Address): Int32Array;
  requireLength(length: number): void;
  encode(block: Address, out: Address, count: number): void;
  add(x: Address, count: number, block: Address, out: Address, outCount: number): void;
  describe(): RawDescription;
}

/** A plan with its pairing as a number. */
export type RawPlan = Omit<import('../types/locant.js').RotaryPlan, 'pairing'> & { pairing: number };

export interface RawRotation extends Handle {
  prepare(count: number): void;
  apply(x: Address, count: number, block: Address, heads: number, role: number, direction: 1 | -1): void;
  reach(): number;
  advance(key: Address, count: number, delta: number): void;
}

export interface RawDecoupledRotation extends Handle {
  prepare(count: number): void;
  describe(): RawDescription;
  applyQuery(q: Address, count: number, block: Address, heads: number): void;
  joinKey(
    plain: Address, plains: number, shared: Address, shareds: number, block: Address, heads: number, out: Address,
    count: number,
  ): void;
}

export interface RawLayerPlans {
  kinds: (RawPlan | null)[];
  kindOfLayer: Int32Array;
  layersWithoutPosition: Int32Array;
  descriptions: RawDescription[];
}

/** Runs with a member `tokens` are text. */
export type RawRun = { tokens?: number; frames?: number; height?: number; width?: number; timeStep?: number };

/** `positions` is the address of a block, or 0. */
export type RawInterpretation = Omit<import('../types/locant.js').Interpretation, 'positions' | 'contradicts'> & { positions: Address };

export interface RawTerms extends Handle {
  describe(): RawDescription;
  needsContent(): boolean;
  shiftInvariant(): boolean;
  runs(): { entry: number; first: number; last: number }[];
  bias(heads: number, queryBlock: Address, keyBlock: Address, out: Address, count: number): void;
}

export interface RawScoreParts {
  content: Float32Array;
  position: Float32Array;
  score: Float32Array;
  weight: Float32Array;
}

export interface RawAttention extends Handle {
  prepare(count: number): void;
  describe(): RawDescription[];
  attend(
    tensors: Address, queryBlock: Address, keyBlock: Address, prefix: Address, prefixes: number, visible: Address,
    visibles: number,
  ): void;
  attendCached(
    cache: RawCache, serial: number, layer: number, tensors: Address, prefix: Address, prefixes: number,
    visible: Address, visibles: number,
  ): void;
  explain(
    tensors: Address, queryBlock: Address, keyBlock: Address, requests: Address, requestCount: number,
    prefix: Address, prefixes: number, visible: Address, visibles: number,
  ): RawScoreParts[];
}

export interface RawCache extends Handle {
  rows(sequence: number): number;
  capacity(sequence: number): number;
  bytes(): number;
  positions(sequence: number): Address;
  next(counts: Address, count: number, sequences: Address, sequenceCount: number): Address;
  begin(block: Address, sequences: Address, sequenceCount: number): number;
  cancel(serial: number): void;
  truncate(sequence: number, rows: number): void;
  evict(sequence: number, rows: Address, count: number): void;
  keepWindow(sequence: number, sinks: number, window: number): void;
  clear(sequence: number): void;
  fork(from: number, to: number): void;
  shift(sequence: number, first: number, last: number, delta: number, positionsIn: number): void;
  divide(sequence: number, first: number, last: number, divisor: number, positionsIn: number): void;
  read(
    sequence: number, layer: number, kvHead: number, row: number, key: Address, keyCount: number, value: Address,
    valueCount: number,
  ): void;
}

interface RawMethodInLayers {
  method: RawDescription;
  layers: Int32Array;
}

export interface RawAudit {
  methods: RawMethodInLayers[];
  lines: {
    test: string; claim: string; residual: number; tolerance: number; expectation: number; verdict: number; note: string;
  }[];
  passed: boolean;
  text: string;
}

export interface RawProgress {
  phase: number; done: number; total: number; rows: Int32Array; tokens: Int32Array; ended: boolean;
}

export interface RawGeneration extends Handle {
  step(): RawProgress;
  cancel(): void;
  rollBack(): void;
  rows(): { tokens: Int32Array; reason: number }[];
}

export interface RawPrefill extends Handle {
  step(): RawProgress;
  rollBack(): void;
  logits(out: Address, count: number): void;
}

export interface RawDecoder extends Handle {
  safetensors(): Uint8Array;
  parameters(): number;
  bytes(): number;
  prepare(count: number): void;
  cache(options: object): RawCache;
  forward(
    tokens: Address, count: number, block: Address, wanted: Address, wantedCount: number, out: Address,
    outCount: number, prefix: Address, prefixes: number, visible: Address, visibles: number,
  ): void;
  forwardCached(
    cache: RawCache, tokens: Address, count: number, block: Address, sequences: Address, sequenceCount: number,
    wanted: Address, wantedCount: number, out: Address, outCount: number, prefix: Address, prefixes: number,
    visible: Address, visibles: number,
  ): void;
  generate(
    cache: RawCache | null, tokens: Address, lengths: Address, rows: number, options: object,
  ): { tokens: Int32Array; reason: number }[];
  generation(
    cache: RawCache | null, tokens: Address, lengths: Address, rows: number, options: object,
  ): RawGeneration;
  prefill(cache: RawCache, tokens: Address, lengths: Address, rows: number, chunk: number): RawPrefill;
  lanes(prompt: Address, count: number, options: object): import('../types/locant.js').Lanes;
  audit(options: object): RawAudit;
  describe(): RawMethodInLayers[];
}

export interface Raw {
  readonly wasmMemory: WebAssembly.Memory;

  allocate(bytes: number): Address;
  release(address: Address): void;
  faultFlag(): Address;
  takeFault(): { code: string; message: string; value: number; limit: number };
  buildInfo(): { version: string; simd: string; compiler: string; eigen: string };

  positionsRange(count: number, offset: number): Address;
  positionsRagged(lengths: Address, rows: number, offsets: Address, offsetCount: number): Address;
  positionsPadded(
    lengths: Address, rows: number, columns: number, side: number, offsets: Address, offsetCount: number,
  ): Address;
  positionsFromPaddingMask(
    rows: number, columns: number, mask: Address, maskCount: number, offsets: Address, offsetCount: number,
  ): Address;
  positionsPacked(lengths: Address, segments: number, positions: number): Address;
  positionsFrom(
    lengths: Address, rows: number, position: Address, axes: number, tokens: number, order: Address, orders: number,
    segment: Address, segments: number, valid: Address, valids: number,
  ): Address;
  positionsFromCuSeqlens(cuSeqlens: Address, count: number, positions: number): Address;
  positionsFromSegmentIds(
    rows: number, columns: number, ids: Address, count: number, paddingId: number | undefined, positions: number,
  ): Address;
  positionsGrid(options: object): Address;
  positionsMultimodal(rows: object[][], after: number, side: number): Address;
  positionsCuSeqlens(block: Address, row: number): Int32Array;
  positionsRow(block: Address, row: number): Address;
  positionsSlice(block: Address, first: number, count: number): Address;
  positionsNext(block: Address, counts: Address, rows: number): Address;
  positionsDelta(block: Address, row: number): number;
  interpretPositions(evidence: object): RawInterpretation;
  runsOfTokens(options: object): RawRun[];
  positionsForget(): void;

  random(seed: number, stream: string, out: Address, count: number): void;

  makeSinusoidal(options: object): RawSinusoidal;
  makeGridSinusoidal(options: object): Omit<RawSinusoidal, 'prepare'>;
  makeLearnedTable(options: object, values: Address, count: number): RawLearnedTable;
  detrSinusoids(options: object, mask: Address, cells: number, out: Address, count: number): void;
  describeDetr(options: object): RawDescription;
  interpolateRows(options: object, values: Address, count: number): Float32Array;
  interpolateGrid(options: object, values: Address, count: number): Float32Array;
  describeInterpolation(options: object): RawDescription;

  rotaryPlan(rule: object): RawPlan;
  axialPlan(convention: number, headDim: number, base: number): RawPlan;
  pixelPlan(options: object): RawPlan;
  convertPairing(
    values: Address, count: number, rows: number, columns: number, heads: object, from: number, to: number,
  ): void;
  describePlan(plan: RawPlan): RawDescription;
  scaleAxes(plan: RawPlan, factors: Float64Array): RawPlan;
  planDifference(a: RawPlan, b: RawPlan): string;
  layerPlans(options: object): RawLayerPlans;
  comparePairings(
    plan: RawPlan, headDim: number, heads: number, x: Address, rotated: Address, count: number, block: Address,
  ): import('../types/locant.js').PairingResidual;
  makeRotation(plan: RawPlan, headDim: number): RawRotation;
  makeDecoupledRotation(plan: RawPlan, plainDim: number, rotaryDim: number): RawDecoupledRotation;

  makeTerms(options: object, table: Address, count: number): RawTerms;
  cope(
    options: object, q: Address, qCount: number, k: Address, kCount: number, table: Address, tableCount: number,
    visible: Address, visibles: number, out: Address, count: number,
  ): void;
  describeCope(options: object): RawDescription;
  relativeShift(x: Address, count: number, rows: number, columns: number, keys: number): Float32Array;

  makeAttention(options: object): RawAttention;
  makeCache(options: object): RawCache;

  lastTokens(block: Address): Int32Array;
  validTokens(block: Address): Int32Array;
  sample(logits: Address, count: number, options: object): { token: number; tokens: Int32Array; shares: Float64Array };
  llamaConfig(parameters: object): { kvHeads: number; headDim: number; rotation: RawPlan };
  makeDecoder(options: object, weights: object): RawDecoder;
}
