// The public types of locant, written by hand: they are the package's reference. The facade (src/) is compiled against
// them, and a test proves that the two agree.
//
// Conventions, everywhere:
//   tensors     Float32Array, row-major, token after token: q is [tokens, heads, headDim]
//   positions   integers 0 .. 2147483647, handed over as `Positions`; never implied by an array's index
//   direction   displacement = key position - query position
//   ownership   arrays you pass are copied in; results are copies of your own, or the `out` that you passed.
//               Nothing here is a view of WebAssembly memory
//   errors      every fault is a LocantError with a `code`, a sentence that names call, value and limit, and those two
//               numbers; the object and the library stay as they were before the call
/// <reference lib="esnext.disposable" />

// ---- Loading ---------------------------------------------------------------------------------------------------------

/**
 * Which WebAssembly kernel computes.
 * - `relaxed`: relaxed SIMD with fused multiply-add, the fastest. Chromium, Firefox, Node 22 and newer.
 * - `deterministic`: SIMD128 alone; the same bits on every engine and machine.
 */
export type Kernel = 'relaxed' | 'deterministic';

/** What the loaded module is and how it was built. */
export interface BuildInfo {
  /** Version of the library, e.g. "0.1.0". */
  readonly version: string;
  readonly kernel: Kernel;
  /** The instruction set in words, e.g. "WebAssembly SIMD128 + relaxed fused multiply-add". */
  readonly simd: string;
  /** Compiler and Emscripten versions. */
  readonly compiler: string;
  /** Version of Eigen in the module; what it vectorises itself is said here too. */
  readonly eigen: string;
  /** WebAssembly memory in bytes, now. */
  readonly memory: number;
}

/** An object that owns WebAssembly memory. Dispose it when done; a finalizer does it late if you forget. */
export interface Owned {
  /** Frees the memory. Any later call on the object throws DisposedError; disposing again does nothing. */
  dispose(): void;
  [Symbol.dispose](): void;
  readonly disposed: boolean;
}

/** The library: everything is synchronous once it is loaded. */
export interface Locant {
  readonly kernel: Kernel;
  buildInfo(): BuildInfo;
  /** How many owning objects are alive (made and not disposed): for leak tests. */
  liveObjects(): number;

  /** Makes Positions: what stands where. */
  readonly positions: PositionBuilders;

  // Door 1: added to the input.
  sinusoidal(options: SinusoidalOptions): Sinusoidal;
  gridSinusoidal(options: GridSinusoidalOptions): GridSinusoidal;
  learnedTable(options: LearnedTableOptions): LearnedTable;
  /** DETR's encoding of an image, which counts its unmasked cells. Owns no memory. */
  detrSinusoidal(options: DetrSinusoidalOptions): DetrSinusoidal;
  /**
   * A table stretched along its rows: [rows, width] in, [newRows, width] out, linear. A table that keeps its size comes back
   * bit for bit. Stretch once for the length that a generation may reach: every row depends on that length.
   */
  interpolateRows(values: Float32Array, options: RowInterpolation): Float32Array;
  /**
   * The same for the table of a grid, as vision models do it: [prefixRows + from.height * from.width, channels] in, line by
   * line from the top left; prefix rows (class and register tokens) are copied.
   */
  interpolateGrid(values: Float32Array, options: GridInterpolation): Float32Array;
  /** What a table stretched so says of itself. */
  describeInterpolation(options: GridInterpolation): MethodDescription;

  // Door 2: rotating queries and keys.
  /** Resolves a scaling rule and its parameters to a plan: plain data. */
  rotaryPlan(rule: RotaryRule): RotaryPlan;
  /** A plan over two axes, for the rows and columns of an image. */
  axialPlan(options: AxialPlanOptions): RotaryPlan;
  /** The same with coordinates of -1 .. 1 over one grid. */
  pixelPlan(options: PixelPlanOptions): RotaryPlan;
  /** The plan with the coordinates of each axis multiplied by a factor above 0: trained side / side stretches a grid (EVA-02). */
  scaleAxes(plan: RotaryPlan, factors: readonly number[] | Float64Array): RotaryPlan;
  /**
   * What keeps two plans from the same rotation, the first that is met, in words: "the frequency of pair 3 is 0.1 in one and
   * 0.05 in the other"; null where they rotate alike. Where a plan came from is not compared.
   */
  planDifference(a: RotaryPlan, b: RotaryPlan): string | null;
  /** Which layer has which plan, for models whose layers do not all rotate alike, or do not all rotate. */
  layerPlans(options: LayerPlansOptions): LayerPlans;
  /**
   * Which pairing turned `x` into `rotated`: how far `rotated` lies from what the plan gives under each. Where both are small
   * the data cannot tell (all positions 0, or one pair alone).
   */
  comparePairings(options: ComparePairingsOptions): PairingResidual;
  /**
   * Puts the rows of a projection (or queries or keys themselves) in the order of the other pairing: rotated under it they
   * give the same scores. x is [heads * headDim, columns], a weight or (columns 1) a bias; or [tokens, heads, headDim], which
   * may be no tokens at all.
   */
  convertPairing(x: Float32Array, options: ConvertPairingOptions): Float32Array;
  /** What a plan says of itself. */
  describePlan(plan: RotaryPlan): MethodDescription;
  rotation(plan: RotaryPlan, options: RotationOptions): Rotation;
  /**
   * The rotation of multi-head latent attention (DeepSeek): heads of [plain | rotary], where the rotary part of a key is one
   * vector for all heads. The plan is that of the rotary part alone.
   */
  decoupledRotation(plan: RotaryPlan, options: DecoupledRotationOptions): DecoupledRotation;

  // Door 3: added to the score.
  alibi(options: AlibiOptions): ScoreTerm;
  t5Bias(options: T5BiasOptions): ScoreTerm;
  displacementBias(options: DisplacementBiasOptions): ScoreTerm;
  matrixBias(options: MatrixBiasOptions): ScoreTerm;
  shawKeys(options: ShawKeysOptions): ScoreTerm;
  transformerXl(options: TransformerXlOptions): ScoreTerm;
  deberta(options: DebertaOptions): ScoreTerm;
  kerple(options: KerpleOptions): ScoreTerm;
  sandwich(options: SandwichOptions): ScoreTerm;
  fire(options: FireOptions): ScoreTerm;
  shawValues(options: ShawValuesOptions): ValueTerm;
  /** Contextual positions, forward form: makes a bias of one call's queries and keys, for `matrixBias`. Owns no memory. */
  cope(options: CopeOptions): Cope;
  /**
   * The shift of Transformer-XL's code, for who ports it: x [rows, columns] gets a zero column on its left, is read as
   * [columns + 1, rows] and loses its first row. With `keys` XLNet's, which pads nothing and keeps the first `keys` columns.
   */
  relativeShift(x: Float32Array, options: { readonly rows: number; readonly columns: number; readonly keys?: number }): Float32Array;

  attention(options: AttentionOptions): Attention;
  cache(options: CacheOptions): Cache;

  /** A small, complete decoder, with random weights by seed or a checkpoint's. */
  decoder(config: DecoderConfig, weights: DecoderWeights): Decoder;
  /** A decoder's configuration from the values of a Llama-shaped model's config.json. */
  llamaConfig(parameters: LlamaParameters): DecoderConfig;
  /** One token by its logits, as `generate` draws it, and the tokens that it was drawn among. */
  sample(logits: Float32Array, options?: SampleOptions): Sampled;

  /**
   * `count` numbers in [-1, 1) for examples and tests: value i is a function of (seed, stream, i) alone, the same bits on
   * every machine. seed: 0 .. 2147483647; stream: a name, such as that of the tensor.
   */
  random(options: { readonly seed: number; readonly stream: string; readonly count: number }): Float32Array;
  /**
   * The largest |a[i] - b[i]|, in double, and the first index where it is met (-1 for empty arrays). NaN against anything
   * is NaN, and infinity against the same infinity is 0. ShapeError where the lengths differ.
   */
  difference(a: Float32Array, b: Float32Array): { readonly largest: number; readonly index: number };
}

// ---- Errors ----------------------------------------------------------------------------------------------------------

export type ErrorCode =
  /** An array holds another number of values than the shapes say. */
  | 'shape'
  /** A scalar parameter, choice, type or combination that the call does not take. */
  | 'argument'
  /** A position, order or segment outside 0 .. 2147483647, or outside a method's range. */
  | 'position-range'
  /** A position past the last row of a learned table. */
  | 'table-end'
  /** Tokens that do not continue what a cache already holds. */
  | 'order'
  /** A cache of fixed capacity has no row left. */
  | 'cache-full'
  /** A cache or step that cannot do this now. */
  | 'cache-state'
  /** Keys rotated under one plan would meet queries rotated under another. */
  | 'plan-mismatch'
  /** The method is defined, but not for this. */
  | 'unsupported'
  /** Bytes that are not what their format requires. */
  | 'format'
  /** Memory could not be had; everything is as it was before the call. */
  | 'out-of-memory'
  /** A call on an object after dispose(). */
  | 'disposed'
  /** The WebAssembly module could not be had, compiled or started. */
  | 'load'
  /** A fault of the library itself: please report it. */
  | 'internal';

/** Any fault. `value` broke `limit`, where the fault is about numbers. */
export class LocantError extends Error {
  readonly code: ErrorCode;
  readonly value: number | undefined;
  readonly limit: number | undefined;
  constructor(code: ErrorCode, message: string, value?: number, limit?: number, options?: { cause?: unknown });
}
export class ShapeError extends LocantError {}
export class ArgumentError extends LocantError {}
export class PositionRangeError extends LocantError {}
export class TableEndError extends LocantError {}
export class OrderError extends LocantError {}
/** Codes 'cache-full' and 'cache-state'. */
export class CacheError extends LocantError {}
export class PlanMismatchError extends LocantError {}
export class UnsupportedError extends LocantError {}
export class FormatError extends LocantError {}
/**
 * `value` is how many bytes were asked for (in all, where a call needs several pieces), `limit` how many can still be had.
 * What asked for them is as it was, and memory has not grown for it.
 */
export class OutOfMemoryError extends LocantError {}
export class DisposedError extends LocantError {}
export class LoadError extends LocantError {}

// ---- Positions -------------------------------------------------------------------------------------------------------

/** Integers: positions, lengths, counts. Anything that is not an int32 is an ArgumentError or PositionRangeError. */
export type Integers = Int32Array | readonly number[];
/** Zero or one each: masks. */
export type Flags = Uint8Array | readonly (boolean | number)[];

/**
 * What stands where, for every token of a batch: plain arrays, nothing to dispose.
 *
 * Tokens lie row after row (a row is one sequence of the batch); rows may differ in length. Positions say where a token
 * stands and are what methods read; orders say what comes before what inside a segment and are what masks read. Padding
 * has position 0, order -1, segment -1, and neither receives nor influences anything.
 */
export interface Positions {
  readonly rows: number;
  readonly axes: number;
  readonly tokens: number;
  /** [rows] Tokens of each row, padding included. */
  readonly rowLengths: Int32Array;
  /** [axes][tokens] */
  readonly position: readonly Int32Array[];
  /** [tokens] */
  readonly order: Int32Array;
  /** [tokens] The document that the token belongs to; attention never crosses segments. */
  readonly segment: Int32Array;
  /** [tokens] 1 for a token, 0 for padding. */
  readonly valid: Uint8Array;

  /** Row r alone, as a batch of one row. */
  row(r: number): Positions;
  /** Tokens first .. first+count-1 of every row: a chunk of a prefill. ArgumentError where a row is shorter. */
  slice(first: number, count: number): Positions;
  /**
   * counts[r] further tokens for row r: they continue the row's last segment at its largest position + 1 and its largest
   * order + 1. PositionRangeError where that would pass 2147483647.
   */
  next(counts: Integers): Positions;
  /**
   * What to add to the number of valid tokens of row r to get the position of the next one: 0 for text, negative where
   * images share numbers. It belongs to the whole row; of a part of it (a chunk) it means something else.
   */
  delta(r: number): number;
  /**
   * Where the documents of a row begin, and its end, as FlashAttention's cu_seqlens. UnsupportedError where padding lies in
   * the row.
   */
  cuSeqlens(r: number): Int32Array;
}

/** The arrays of `positions.from`; a Positions fits, so one that came through postMessage becomes whole again. */
export interface PositionArrays {
  /** [rows]; their sum is the number of tokens. */
  readonly rowLengths: Integers;
  /** [axes][tokens] */
  readonly position: readonly Integers[];
  /** [tokens]; left out: arrival order within the segment. */
  readonly order?: Integers;
  /** [tokens]; left out: all 0. */
  readonly segment?: Integers;
  /** [tokens]; left out: all valid. */
  readonly valid?: Flags;
}

export interface GridOptions {
  readonly height: number;
  readonly width: number;
  /** Repeated with the same positions. Default 1. */
  readonly frames?: number;
  /** Patches come in merge x merge blocks (Qwen2-VL: 2); must divide height and width. Default 1. */
  readonly merge?: number;
  /** Position of row 0 and of column 0; 1 for Llama 4. Default 0. */
  readonly first?: number;
  /** Which axis comes first. Default `row-column`. */
  readonly axes?: 'row-column' | 'column-row';
  /** A token of its own at position (0, 0). Default `none`. */
  readonly classToken?: 'none' | 'first' | 'last';
}

/** Text, or a grid of tokens (after merging) that share positions. */
export type PositionRun =
  | { readonly tokens: number }
  | {
      readonly height: number;
      readonly width: number;
      /** Default 1. */
      readonly frames?: number;
      /** Positions from frame to frame. Default 1. */
      readonly timeStep?: number;
    };

/** What a token is, in the order of a row. */
export type TokenKind = 'text' | 'image' | 'video';

/** A grid in patches, before merging: what image processors report as (t, h, w). */
export interface PatchGrid {
  /** Default 1. */
  readonly frames?: number;
  readonly height: number;
  readonly width: number;
  /** Positions from frame to frame. Default 1. */
  readonly timeStep?: number;
}

/** What another system would use. Flat arrays, row after row; all but shape and positionIds may be left out. */
export interface PositionEvidence {
  /** Of positionIds: [columns], [rows, columns] or [axes, rows, columns]. */
  readonly shape: Integers;
  readonly positionIds: Integers;
  /** [rows, columns] 1 = valid. */
  readonly paddingMask?: Flags;
  /** Documents over the valid tokens of all rows, one after another. */
  readonly cuSeqlens?: Integers;
  /** [rows, columns] */
  readonly segmentIds?: Integers;
  /** [rows] Tokens that a cache already holds of each row. */
  readonly cached?: Integers;
}

/** How much a finding proves: the evidence cannot all hold; it reads in two ways; it is unusual, and right in some model. */
export type FindingGrade = 'contradiction' | 'ambiguity' | 'note';

export type FindingCode =
  // contradictions
  | 'negative-position' | 'padding-counted' | 'restart-without-boundary' | 'segments-disagree' | 'segment-returns'
  | 'cu-seqlens-malformed' | 'before-cached-end' | 'falls-back'
  // ambiguities
  | 'padding-or-documents' | 'only-restarts' | 'restart-at-offset' | 'after-cached-end' | 'readers-disagree'
  | 'constant-positions'
  // notes
  | 'hole-in-mask' | 'shared-positions' | 'gap' | 'starts-late' | 'boundary-without-restart' | 'axes-equal';

export interface Finding {
  readonly code: FindingCode;
  readonly grade: FindingGrade;
  /** -1: of the whole. */
  readonly row: number;
  /** The first token concerned; -1: of the whole row. */
  readonly column: number;
  readonly axis: number;
  /** The numbers of the sentence; equal where it names none. */
  readonly found: number;
  readonly expected: number;
  readonly sentence: string;
}

/** What one row says of itself. */
export interface RowReading {
  readonly validTokens: number;
  /** By the mask; 0 without one. */
  readonly leftPadding: number;
  readonly rightPadding: number;
  /** Of the first valid token, axis 0; null where there is none. */
  readonly firstPosition: number | null;
  /** Largest + 1 over all axes: where decoding goes on. */
  readonly nextPosition: number;
  /** Columns where documents begin, by the strongest evidence there is. */
  readonly documents: Int32Array;
  /** The same as two published readers have it from positions alone; the second may begin after the row does. */
  readonly byDifference: Int32Array;
  readonly byMinimum: Int32Array;
}

export interface Interpretation {
  readonly axes: number;
  readonly rows: number;
  readonly columns: number;
  readonly row: readonly RowReading[];
  /** By row, then column. */
  readonly findings: readonly Finding[];
  /** What all of it says together; null where there is a contradiction. */
  readonly positions: Positions | null;
  readonly contradicts: boolean;
}

export interface PositionBuilders {
  /** One row of `count` tokens at offset, offset+1, ...; it continues a sequence of `offset` tokens. */
  range(count: number, options?: { readonly offset?: number }): Positions;
  /** One row per length, row r at offsets[r], offsets[r]+1, ... (left out: all 0). */
  ragged(lengths: Integers, options?: { readonly offsets?: Integers }): Positions;
  /** Rows of `columns` tokens of which lengths[r] are valid and stand at offsets[r], ...; the rest is padding. */
  padded(
    lengths: Integers,
    options: { readonly columns: number; readonly side: 'left' | 'right'; readonly offsets?: Integers },
  ): Positions;
  /** mask: [rows, columns], 1 = valid, padding anywhere. Valid tokens of a row count on from offsets[r]. */
  fromPaddingMask(
    mask: Flags,
    options: { readonly rows: number; readonly columns: number; readonly offsets?: Integers },
  ): Positions;
  /**
   * One row that holds documents one after another. Orders start again at 0 in each; positions do (`restart`) or run
   * through the row (`running`).
   */
  packed(lengths: Integers, options: { readonly positions: 'restart' | 'running' }): Positions;
  /** One row of documents from cu_seqlens: 0, 3, 4, 7 are three documents of 3, 1 and 3 tokens. */
  fromCuSeqlens(cuSeqlens: Integers, options: { readonly positions: 'restart' | 'running' }): Positions;
  /** ids: [rows, columns], one number per token; equal numbers that touch are one document, paddingId is padding. */
  fromSegmentIds(
    ids: Integers,
    options: {
      readonly rows: number;
      readonly columns: number;
      readonly paddingId?: number;
      readonly positions: 'restart' | 'running';
    },
  ): Positions;
  /** The patches of an image, two axes. */
  grid(options: GridOptions): Positions;
  /** Text with images and videos, three axes (M-RoPE): one row for each list of runs, padded to the longest on `side`. */
  multimodal(
    rows: readonly (readonly PositionRun[])[],
    options: {
      /** Where text goes on: at the grid's largest position + 1 (default), or at its start + its longer side. */
      readonly after?: 'largest-plus-one' | 'start-plus-side';
      readonly side: 'left' | 'right';
    },
  ): Positions;
  /**
   * The runs of one row without its padding, for `multimodal`: images and videos take the grids in order, so images that
   * touch are told apart. `videoFrames`: a video is one run (`whole`, the default), or a run for each frame with text between
   * (`each`, Qwen3-VL). ArgumentError for a merge that does not divide, and for grids that are missing or left over.
   */
  runsOfTokens(
    tokens: readonly TokenKind[],
    options: {
      readonly images?: readonly PatchGrid[];
      readonly videos?: readonly PatchGrid[];
      readonly merge: number;
      readonly videoFrames?: 'whole' | 'each';
    },
  ): PositionRun[];
  /**
   * The inverse of the builders: what position ids, masks, cu_seqlens and segment ids mean, and where they contradict each
   * other. It reports and never repairs; contradictory numbers are findings, not errors. ShapeError where an array does not
   * fit the shape.
   */
  interpret(evidence: PositionEvidence): Interpretation;
  /** Everything given by the caller. */
  from(arrays: PositionArrays): Positions;
}

// ---- What a method says of itself ------------------------------------------------------------------------------------

export interface MethodParameter {
  readonly name: string;
  /** Numbers with enough digits to be read back. */
  readonly value: string;
}

export interface MethodDescription {
  readonly name: string;
  /** Through which door position enters. */
  readonly door: 'input' | 'rotation' | 'score';
  readonly reference: 'absolute' | 'relative';
  readonly parameters: readonly MethodParameter[];
  /** The frequency formula or the table's shape, in the paper's symbols. */
  readonly formula: string;
  /** Paper and equation, or the code whose convention this is. */
  readonly source: string;
  /** What index 0 is. */
  readonly origin: string;
  readonly direction: string;
  /** What happens past the table, clip, bucket or trained length. */
  readonly pastEnd: string;
}

/** Where a result goes: an array of your own of exactly the right length, which is then also what is returned. */
export interface Out {
  readonly out?: Float32Array;
}

// ---- Door 1: added to the input ---------------------------------------------------------------------------------------

export interface SinusoidalOptions {
  /** Values per token: 1 or more (`mlx`: even, 4 or more). What an odd width means is said by `describe()`. */
  readonly width: number;
  /**
   * Where the sine and cosine of pair i lie, and its frequency base^(-e).
   * - `interleaved` (default): columns 2i and 2i+1, e = 2i/width: the paper's.
   * - `concatenated`: all sines, then all cosines, e = 2i/width (Marian, Transformer-XL).
   * - `tensor2tensor`: the same columns, e = i/(width/2 - 1) (M2M-100, Whisper).
   * - `mlx`: the same, scaled by sqrt(2/width).
   */
  readonly layout?: 'interleaved' | 'concatenated' | 'tensor2tensor' | 'mlx';
  /** Which half of a pair comes first. Default `sine-first`. */
  readonly order?: 'sine-first' | 'cosine-first';
  /** Default 10000. */
  readonly base?: number;
  /** Radians per position of pair 0. Default 1. */
  readonly maxFrequency?: number;
  /** Default 1; `mlx`: sqrt(2/width). */
  readonly scale?: number;
  /** Added to every position (fairseq's tables start at the padding index + 1). Default 0. */
  readonly positionOffset?: number;
}

/** Encodings of one position alone, the same for every token that stands there. */
export interface InputEncoding extends Owned {
  /** Values per token. */
  readonly width: number;
  /** The encodings: [tokens, width]. Padding gets zeros. */
  encode(positions: Positions, options?: Out): Float32Array;
  /** x + encoding; x is [tokens, width] and may be `out` too. Padding is left as it is. */
  add(x: Float32Array, positions: Positions, options?: Out): Float32Array;
  describe(): MethodDescription;
}

export interface Sinusoidal extends InputEncoding {
  /** Radians per position of each pair. */
  readonly frequencies: Float64Array;
  /** Keeps the rows of positions 0 .. count-1. Other positions are computed when met, to the same bits. */
  prepare(count: number): void;
}

/** Two axes: half of the features encode one coordinate, half the other. */
export interface GridSinusoidalOptions {
  /** In all, a multiple of 4. */
  readonly features: number;
  /** Whether the row (default) or the column has the first half (MAE, MoCo v3). */
  readonly order?: 'row-first' | 'column-first';
  /** Exponents i/(features/4) (default), or i/(features/4 - 1) (the simple ViT baseline). */
  readonly steps?: 'quarter' | 'ends-at-base';
  /** Default 10000. */
  readonly base?: number;
}

export interface GridSinusoidal extends InputEncoding {
  readonly frequencies: Float64Array;
}

export interface DetrSinusoidalOptions {
  readonly featuresPerAxis: number;
  /** Default 10000. */
  readonly base?: number;
  /** `to-scale` (default): counts are divided by the last of their row or column and multiplied by the scale. */
  readonly normalize?: 'none' | 'to-scale';
  /** Radians. Default 2 pi; read where normalized. */
  readonly scale?: number;
  /** Added to the divisor. Default 1e-6. */
  readonly epsilon?: number;
}

export interface DetrSinusoidal {
  /** Values per cell: 2 * featuresPerAxis, the row's first. */
  readonly width: number;
  /** mask: [height, width], 1 = a cell of the image. [height, width, this.width]; masked cells get that of the count so far. */
  encode(mask: Flags, options: Out & { readonly height: number; readonly width: number }): Float32Array;
  describe(): MethodDescription;
}

/** Where samples are read: (i + 0.5) * old / new - 0.5, or i * (old - 1) / (new - 1). */
export type SampleCenters = 'half-pixel' | 'align-corners';

export interface RowInterpolation {
  readonly rows: number;
  readonly width: number;
  readonly newRows: number;
  /** Default `half-pixel`. */
  readonly centers?: SampleCenters;
}

export interface GridInterpolation {
  /** 1 .. 32768 a side. */
  readonly from: { readonly height: number; readonly width: number };
  readonly to: { readonly height: number; readonly width: number };
  readonly channels: number;
  /** Rows before the grid. Default 1. */
  readonly prefixRows?: number;
  /** Default `bicubic` (a = -0.75; with antialias -0.5). */
  readonly filter?: 'bilinear' | 'bicubic';
  /** Whether a shrinking grid is smoothed first (DINOv2 with registers, SigLIP 2, timm). Default `none`. */
  readonly smoothing?: 'none' | 'antialias';
  /** Default `half-pixel`; `align-corners` (Qwen3-VL) is defined without smoothing only. */
  readonly centers?: SampleCenters;
}

export interface LearnedTableOptions {
  /** [rows, width] As stored in the checkpoint. */
  readonly table: Float32Array;
  readonly rows: number;
  readonly width: number;
  /** The row of position 0: 2 for OPT and BART, padding index + 1 for RoBERTa. Default 0. */
  readonly firstRow?: number;
  /** The row that padding reads (RoBERTa: the padding index; OPT: 1). Left out: padding gets nothing. */
  readonly paddingRow?: number;
  /**
   * What a position without a row means.
   * - `error` (default): TableEndError.
   * - `truncate`: its token is dropped; `fit()` says what is left.
   * - `clamp`: it reads the last row, which it then shares.
   * - `interpolate`: the table was stretched to `length` positions; past that TableEndError.
   */
  readonly pastEnd?: 'error' | 'truncate' | 'clamp' | 'interpolate';
  /** Positions after stretching: for `interpolate` alone. */
  readonly length?: number;
}

/** Results have fit(positions).tokens tokens, which is fewer than were given only under `truncate`. */
export interface LearnedTable extends InputEncoding {
  /** Rows held now (after stretching). */
  readonly rows: number;
  /** Positions 0 .. length-1 have a row. */
  readonly length: number;
  /** Of the table as given: rows * width. */
  readonly parameterCount: number;
  /** [rows, width] as held now, a copy. */
  readonly values: Float32Array;
  /** How many valid tokens of fit(positions) read each row, [rows]; added to `into`, which is then returned. */
  count(positions: Positions, options?: { readonly into?: Float64Array }): Float64Array;
  /** What of the input is used: under `truncate` the batch without the tokens that have no row; else all of it. */
  fit(positions: Positions): Positions;
  /** The row of each token of fit(positions), -1 for padding without one. */
  rowsOf(positions: Positions): Int32Array;
  /** TableEndError unless positions 0 .. length-1 all have rows of their own: for set-up time. */
  requireLength(length: number): void;
}

// ---- Door 2: rotation -------------------------------------------------------------------------------------------------

/** Which two coordinates make pair i of a rotated slice of width w: 2i and 2i+1, or i and i + w/2. */
export type Pairing = 'interleaved' | 'half-split';

export interface RotaryShape {
  readonly headDim: number;
  /** How many coordinates are rotated, an even number. Default headDim - start. */
  readonly rotatedWidth?: number;
  /** First rotated coordinate. Default 0. */
  readonly start?: number;
  /** theta. Default 10000. */
  readonly base?: number;
  /** Default `half-split` (Hugging Face's LLaMA, GPT-NeoX); `interleaved` is the paper's and GPT-J's. */
  readonly pairing?: Pairing;
  /**
   * The number of positions that attention may span. Read by `dynamic-ntk` and `longrope`, which need it: their plans
   * differ by length, so choose the length that a generation may reach and keep the plan.
   */
  readonly length?: number;
  /** M-RoPE: how many pairs each axis of the position turns (time, height, width). Left out: axis 0 turns all. */
  readonly sections?: Integers;
  /** Qwen2-VL (default) or Qwen3-VL, which has three sections. */
  readonly sectionOrder?: 'chunked' | 'interleaved';
  /** xPos: queries are also multiplied by zeta^((position - center) / scaleBase), keys by its inverse. */
  readonly xpos?: RotaryPlan['xpos'];
}

/**
 * A scaling rule with its parameters. `originalLength` is what the model was trained at before it was extended,
 * `trainedLength` what its configuration calls its maximum.
 */
export type RotaryRule =
  | (RotaryShape & { readonly rule: 'default' })
  /** Frequencies divided by factor: position interpolation. */
  | (RotaryShape & { readonly rule: 'linear'; readonly factor: number })
  /** "NTK-aware": a larger base. */
  | (RotaryShape & { readonly rule: 'ntk'; readonly factor: number })
  | (RotaryShape & { readonly rule: 'vllm-ntk'; readonly factor: number })
  | (RotaryShape & { readonly rule: 'vllm-ntk-mixed'; readonly factor: number; readonly b?: number })
  | (RotaryShape & {
      readonly rule: 'dynamic-ntk';
      readonly factor: number;
      readonly trainedLength: number;
      readonly length: number;
    })
  | (RotaryShape & {
      readonly rule: 'yarn';
      readonly factor: number;
      readonly originalLength: number;
      /** Default 32 and 1. */
      readonly betaFast?: number;
      readonly betaSlow?: number;
      /** Whether the ramp's ends are rounded outwards to whole pairs (default) or not (gpt-oss). */
      readonly rampEnds?: 'whole-pairs' | 'exact';
      readonly mscale?: number;
      readonly mscaleAllDim?: number;
      readonly attentionFactor?: number;
      /** `deepseek`: softmaxScaleFactor of the plan is the squared mscale of mscaleAllDim. Default `unchanged`. */
      readonly softmaxScale?: 'unchanged' | 'deepseek';
    })
  | (RotaryShape & {
      readonly rule: 'longrope';
      /** One per pair; short ones serve lengths up to and including originalLength. */
      readonly shortFactors: readonly number[] | Float64Array;
      readonly longFactors: readonly number[] | Float64Array;
      readonly originalLength: number;
      readonly length: number;
      /** One of factor and maximumLength is needed, unless attentionFactor (or the next two) is given. */
      readonly factor?: number;
      readonly maximumLength?: number;
      readonly attentionFactor?: number;
      /** Both or none: by the same length as the factors (short_mscale and long_mscale of Phi-3.5-MoE). */
      readonly shortAttentionFactor?: number;
      readonly longAttentionFactor?: number;
    })
  | (RotaryShape & {
      readonly rule: 'llama3';
      readonly factor: number;
      /** Default 1 and 4. */
      readonly lowFrequencyFactor?: number;
      readonly highFrequencyFactor?: number;
      readonly originalLength: number;
    })
  /** p-RoPE: only the first fraction of the head's pairs turn, paired over the whole head. */
  | (RotaryShape & { readonly rule: 'proportional'; readonly fraction: number; readonly factor?: number })
  | (Omit<RotaryShape, 'base'> & {
      readonly rule: 'custom';
      /** One per pair, radians per position. */
      readonly inverseFrequencies: readonly number[] | Float64Array;
    });

/** Everything that a rotation needs to know, as plain data; safe to keep, compare, send and change by copying. */
export interface RotaryPlan {
  /** One per pair, radians per position. */
  readonly inverseFrequencies: Float64Array;
  readonly pairing: Pairing;
  /** First rotated coordinate of a head. */
  readonly start: number;
  /** Multiplies cos and sin, so a score between rotated query and key carries its square. */
  readonly attentionFactor: number;
  /** A factor for the softmax scale alone (DeepSeek's mscale squared). */
  readonly softmaxScaleFactor: number;
  /** Which axis of the position turns each pair; null: axis 0 turns all. */
  readonly axisOfPair: Uint8Array | null;
  /** Added to the positions of each axis before they are multiplied; null: 0 for all. */
  readonly axisOffsets: Float64Array | null;
  readonly xpos: { readonly gamma: number; readonly scaleBase: number; readonly center: number } | null;
  // Where the plan came from; not read by a rotation.
  readonly rule: string;
  readonly base: number | null;
  readonly parameters: readonly MethodParameter[];
  readonly length: number | null;
}

export interface AxialPlanOptions {
  /** Whose: Qwen2-VL's tower, Pixtral, Llama 4's tower (axis 0 is the column), or rows then columns (timm). */
  readonly convention: 'qwen2-vl' | 'pixtral' | 'llama4' | 'rows';
  /** A multiple of 4. */
  readonly headDim: number;
  /** Default 10000. */
  readonly base?: number;
}

export interface PixelPlanOptions {
  /** Even; the rotated width is twice that. */
  readonly featuresPerAxis: number;
  /** Default 10. */
  readonly maxFrequency?: number;
  readonly height: number;
  readonly width: number;
  /** pi * linspace (default: rotary-embedding-torch) or pi * 2^linspace (timm). */
  readonly bands?: 'linear' | 'powers';
}

export interface ConvertPairingOptions extends Out {
  readonly from: Pairing;
  readonly to: Pairing;
  /** Of this projection: the number of key heads for W_k. */
  readonly heads: number;
  readonly headDim: number;
  /** Default 0. */
  readonly start?: number;
  /** Default headDim - start. */
  readonly rotatedWidth?: number;
  /** Inputs of a weight. Default 1: a bias, or queries and keys. */
  readonly columns?: number;
}

/** One plan for all layers; one special layer in every `interval`; or a kind for each layer. A plan of null does not rotate. */
export type LayerPlansOptions =
  | { readonly layers: number; readonly plan: RotaryPlan | null }
  | {
      readonly layers: number;
      readonly interval: number;
      /** Layer l is special where l % interval is interval - 1 (Gemma 3, SmolLM3), or where it is 0 (ModernBERT). */
      readonly which: 'last-of-group' | 'first-of-group';
      readonly special: RotaryPlan | null;
      readonly other: RotaryPlan | null;
    }
  | { readonly kindOfLayer: Integers; readonly kinds: readonly (RotaryPlan | null)[] };

/** Plain data; `plans[l]` is what layer l of a decoder, or its attention, is given as `rotation`. */
export interface LayerPlans {
  readonly layers: number;
  readonly kinds: readonly (RotaryPlan | null)[];
  readonly kindOfLayer: Int32Array;
  readonly plans: readonly (RotaryPlan | null)[];
  /** Ascending. */
  readonly layersWithoutPosition: Int32Array;
  /** One a kind, with its layers among the parameters. */
  readonly descriptions: readonly MethodDescription[];
}

export interface ComparePairingsOptions {
  /** Its own pairing is not read. */
  readonly plan: RotaryPlan;
  readonly headDim: number;
  readonly heads: number;
  /** [tokens, heads, headDim] Before the rotation, and after it. */
  readonly x: Float32Array;
  readonly rotated: Float32Array;
  readonly positions: Positions;
}

/** The largest |difference| under each pairing. */
export interface PairingResidual {
  readonly interleaved: number;
  readonly halfSplit: number;
}

export interface DecoupledRotationOptions {
  /** Coordinates before the rotary part; may be 0. */
  readonly plainDim: number;
  readonly rotaryDim: number;
}

export interface DecoupledRotation extends Owned {
  /** Of the rotary part. */
  readonly plan: RotaryPlan;
  readonly plainDim: number;
  readonly rotaryDim: number;
  /** plainDim + rotaryDim */
  readonly headDim: number;
  /** Keeps the tables of positions 0 .. count-1. */
  prepare(count: number): void;
  /** q: [tokens, heads, headDim]; its rotary parts are turned. `out` may be q. */
  applyQuery(q: Float32Array, positions: Positions, options: Out & { readonly heads: number }): Float32Array;
  /** plain: [tokens, heads, plainDim], shared: [tokens, rotaryDim], not turned yet. [tokens, heads, headDim]. */
  joinKey(plain: Float32Array, shared: Float32Array, positions: Positions, options: Out & { readonly heads: number }): Float32Array;
  describe(): MethodDescription;
}

export interface RotationOptions {
  readonly headDim: number;
}

export interface RotateOptions extends Out {
  /** Heads per token in x. */
  readonly heads: number;
  /** Queries and keys are turned alike except under xPos. */
  readonly role: 'query' | 'key';
}

export interface Rotation extends Owned {
  readonly plan: RotaryPlan;
  readonly headDim: number;
  /** Turns x, [tokens, heads, headDim]; `out` may be x itself. Padding and values outside the rotated slice are copied. */
  apply(x: Float32Array, positions: Positions, options: RotateOptions): Float32Array;
  /** The turn undone, attention factor and xPos scale divided out again. */
  applyInverse(x: Float32Array, positions: Positions, options: RotateOptions): Float32Array;
  /** Keeps the table of positions 0 .. count-1. Other positions are computed when met, to the same bits. */
  prepare(count: number): void;
  /** The farthest a position may lie from the centre of xPos; Infinity without xPos. */
  readonly reach: number;
  /**
   * One key [headDim] that is turned already, turned on by `delta` positions: its norm stays, the attention factor is not
   * applied again. UnsupportedError for plans with xPos or several axes.
   */
  advance(key: Float32Array, delta: number, options?: Out): Float32Array;
}

// ---- Door 3: added to the score ---------------------------------------------------------------------------------------

/** All displacements first .. last read the same entry of a method's table: it cannot tell them apart. */
export interface DisplacementRun {
  /** -1: nothing is added. */
  readonly entry: number;
  readonly first: number;
  readonly last: number;
}

/** What a method adds to the scores. An attention made with it keeps what it needs: the term may be disposed at once. */
export interface ScoreTerm extends Owned {
  describe(): MethodDescription;
  /** Whether it reads queries and keys, and not their positions alone. */
  readonly needsContent: boolean;
  /** Whether positions enter through key - query alone. */
  readonly shiftInvariant: boolean;
  /** What its buckets, clip or ends merge; empty where nothing is. */
  runs(): DisplacementRun[];
  /**
   * The term alone, [heads, query tokens, key tokens], for batches of one row. `heads` is the number of query heads.
   * UnsupportedError for terms that read contents: `attention.explain` shows those.
   */
  bias(options: {
    readonly heads: number;
    readonly positions: Positions;
    readonly queryPositions?: Positions;
  }): Float32Array;
}

/** What a method adds to the mixture of values. */
export interface ValueTerm extends Owned {
  describe(): MethodDescription;
  runs(): DisplacementRun[];
}

export interface AlibiOptions {
  readonly heads: number;
  /**
   * - `causal` (default): slope * displacement.
   * - `symmetric`: -slope * |displacement|.
   * - `key-only`: slope * (key position - origin); Bloom (origin 0), MPT (its longest sequence - 1).
   */
  readonly form?: 'causal' | 'symmetric' | 'key-only';
  /** The caller's own, one per head. Left out: those of the paper for that many heads. */
  readonly slopes?: readonly number[] | Float64Array;
  /** Default 8; read where there are no slopes. */
  readonly biasMax?: number;
  /** Read by `key-only` alone. Default 0. */
  readonly origin?: number;
}

export interface T5BiasOptions {
  readonly heads: number;
  /** [buckets, heads], as T5's relative_attention_bias.weight. */
  readonly table: Float32Array;
  /** Encoders: `bidirectional`; decoders: `unidirectional`. */
  readonly direction: 'unidirectional' | 'bidirectional';
  /** Default 32. */
  readonly buckets?: number;
  /** Default 128. */
  readonly maxDistance?: number;
}

export interface DisplacementBiasOptions {
  readonly heads: number;
  /** The displacements of the table's first and last column. */
  readonly first: number;
  readonly last: number;
  /** [heads, last - first + 1] */
  readonly table: Float32Array;
  /** What displacements beyond the table get: the nearest column (default), nothing, or a PositionRangeError. */
  readonly beyond?: 'clamp' | 'zero' | 'error';
}

/** A whole matrix, read by position and not by slot: cell [head][t - firstQuery][j - firstKey]. */
export interface MatrixBiasOptions {
  /** 1: one matrix for all heads. */
  readonly heads: number;
  readonly queries: number;
  readonly keys: number;
  /** [heads, queries, keys] */
  readonly matrix: Float32Array;
  /** Default 0. */
  readonly firstQuery?: number;
  /** Default 0. */
  readonly firstKey?: number;
}

export interface ShawTableOptions {
  /** Displacements are clipped to -maxDistance .. maxDistance. */
  readonly maxDistance: number;
  /** Tables: 1 for all heads (default), or one for each. */
  readonly heads?: number;
  /** `both` (default): 2 * maxDistance + 1 rows; `past-only`: maxDistance + 1 rows, later keys read the last. */
  readonly sides?: 'both' | 'past-only';
  /** [heads, rows, headDim or valueDim] */
  readonly table: Float32Array;
}

/** A learned vector per clipped displacement, added to keys inside the score. */
export interface ShawKeysOptions extends ShawTableOptions {
  readonly headDim: number;
  /** What meets the table in the score: the query (default: the paper, BERT's relative_key), the key, or each of them. */
  readonly content?: 'query' | 'key' | 'both';
}

/** The same, added to values inside the mixture. */
export interface ShawValuesOptions extends ShawTableOptions {
  readonly valueDim: number;
}

/** Transformer-XL's and XLNet's: with the attention's own q . k, (q + u) . k + (q + v) . r(t - j). */
export interface TransformerXlOptions {
  readonly heads: number;
  readonly headDim: number;
  /** Width of the sinusoids, even. */
  readonly modelWidth: number;
  /** [heads * headDim, modelWidth] */
  readonly projection: Float32Array;
  /** u: [heads, headDim] */
  readonly contentBias: Float32Array;
  /** v: [heads, headDim] */
  readonly positionBias: Float32Array;
  /** Default 10000. */
  readonly base?: number;
  /** Distances beyond it read that of it. */
  readonly clamp?: number;
  /** Vectors kept for distances -keptAfter .. keptBefore; others are computed when met. Default 0. */
  readonly keptBefore?: number;
  readonly keptAfter?: number;
}

/** DeBERTa's; give the attention scale 1/sqrt(headDim * (1 + tables given)). At least one table is needed. */
export interface DebertaOptions {
  readonly heads: number;
  readonly headDim: number;
  /** Log buckets (v2, v3); 0: none (v1). Default 256. */
  readonly buckets?: number;
  /** Default 512. */
  readonly maxPosition?: number;
  /** [heads, 2 * span, headDim], span = buckets, or maxPosition where there are none. */
  readonly contentToPosition?: Float32Array;
  /** The same shape. */
  readonly positionToContent?: Float32Array;
  /** Who says what lies beyond maxPosition. Default `hugging-face`. */
  readonly far?: 'hugging-face' | 'microsoft';
  /** Which distance the second table reads: as published code has it (default), or as the paper. */
  readonly convention?: 'code' | 'paper';
}

export interface KerpleOptions {
  /** -r1 ln(1 + r2 |displacement|), or -r1 |displacement|^r2. */
  readonly kernel: 'logarithmic' | 'power';
  /** One per head. */
  readonly r1: readonly number[] | Float64Array;
  readonly r2: readonly number[] | Float64Array;
}

export interface SandwichOptions {
  readonly heads: number;
  /** Even. Default 128. */
  readonly width?: number;
  /** Default 10000. */
  readonly base?: number;
}

/** A learned function of distance as a share of the query's position; forward form. */
export interface FireOptions {
  /** Default 0.1. */
  readonly c?: number;
  /** Default 512. */
  readonly threshold?: number;
  /** Default 1e-6. */
  readonly epsilon?: number;
  /** [hidden] */
  readonly w1: readonly number[] | Float64Array;
  readonly b1: readonly number[] | Float64Array;
  /** [heads, hidden] */
  readonly w2: readonly number[] | Float64Array;
  /** [heads] */
  readonly b2: readonly number[] | Float64Array;
}

/** CoPE: how far a key is, counted in what the query attends to. */
export interface CopeOptions {
  readonly heads: number;
  /** Default heads; must divide heads. */
  readonly kvHeads?: number;
  readonly headDim: number;
  /** Rows of the table; contextual positions beyond read the last. */
  readonly maxPositions: number;
  /** [maxPositions, headDim] One for all heads. */
  readonly table: Float32Array;
  /** The attention's. Default 1/sqrt(headDim). */
  readonly scale?: number;
}

export interface CopeForward extends Out {
  readonly queries: number;
  readonly keys: number;
  /** [queries, heads, headDim] */
  readonly q: Float32Array;
  /** [keys, kvHeads, headDim], in their order. */
  readonly k: Float32Array;
  /** [queries, keys] 1 = may see. */
  readonly visible: Flags;
}

export interface Cope {
  /** [heads, queries, keys]; 0 where a query may not see. */
  bias(options: CopeForward): Float32Array;
  describe(): MethodDescription;
}

// ---- Attention --------------------------------------------------------------------------------------------------------

export interface MaskOptions {
  /** Default `causal`: a query sees keys of its own order and before. */
  readonly direction?: 'causal' | 'bidirectional';
  readonly window?: {
    readonly size: number;
    /**
     * `counts-current` (default): `size` tokens with the query itself (Hugging Face, llama.cpp, MLX).
     * `before-current`: `size` tokens before the query (FlashAttention's left bound, ONNX).
     */
    readonly convention?: 'counts-current' | 'before-current';
    /** Keys of an order below this stay visible. Default 0. */
    readonly sinks?: number;
  } | null;
  /** Queries see keys of their own chunk of this many orders. */
  readonly chunk?: number | null;
}

export interface AttentionOptions {
  readonly heads: number;
  /** Default heads; must divide heads. */
  readonly kvHeads?: number;
  readonly headDim: number;
  /** Default headDim. */
  readonly valueDim?: number;
  readonly mask?: MaskOptions;
  /** null (default): queries and keys are not rotated. */
  readonly rotation?: RotaryPlan | null;
  readonly terms?: readonly ScoreTerm[];
  readonly valueTerm?: ValueTerm | null;
  /** 0 (positions alone decide), or 1e-6 to 1e6. Default 1/sqrt(headDim), times the plan's softmaxScaleFactor. */
  readonly scale?: number;
  /** Scaled dot products become softCap * tanh(x / softCap), before terms are added; 1e-6 to 1e6. */
  readonly softCap?: number;
  /** [heads] A logit per head that takes its share of the softmax and gives nothing. */
  readonly sinkLogits?: Float32Array;
  /** Scores are multiplied by 1 + slope * ln(1 + floor((position of the query + shift) / period)). */
  readonly temperature?: { readonly slope: number; readonly period: number; readonly shift: number };
}

/** What one call adds to the mask. */
export interface CallMask {
  /** [rows], or one entry that serves all rows: tokens of an order below this see each other both ways (prefix-LM). */
  readonly prefix?: Integers;
  /**
   * 1 = may see: row after row [queries of the row, keys of the row]; the keys of a cached row are its stored rows with
   * the new ones last.
   */
  readonly visible?: Flags;
}

/** One call without a cache. */
export interface AttendOptions extends Out {
  /** [tokens, heads, headDim]; tokens of queryPositions if given. */
  readonly q: Float32Array;
  /** [tokens, kvHeads, headDim] */
  readonly k: Float32Array;
  /** [tokens, kvHeads, valueDim] */
  readonly v: Float32Array;
  readonly positions: Positions;
  /** Queries of their own; as many rows as positions. */
  readonly queryPositions?: Positions;
  readonly mask?: CallMask;
}

/** One layer of a cache step: q, k, v are those of the step's tokens. */
export interface CachedAttendOptions extends Out {
  readonly q: Float32Array;
  readonly k: Float32Array;
  readonly v: Float32Array;
  readonly cache: Cache;
  readonly step: CacheStep;
  /** Default 0. */
  readonly layer?: number;
  readonly mask?: CallMask;
}

export interface ExplainOptions {
  readonly q: Float32Array;
  readonly k: Float32Array;
  readonly positions: Positions;
  readonly queryPositions?: Positions;
  /** Pairs of a query head and a query token (its index in the batch). */
  readonly requests: readonly { readonly head: number; readonly query: number }[];
  readonly mask?: CallMask;
}

/** One query's scores against every key of its row, taken apart; hidden keys have weight 0 and score -Infinity. */
export interface ScoreParts {
  /** Scaled dot products without rotation. */
  readonly content: Float32Array;
  /** score - content: what rotation, terms and cap made of it. */
  readonly position: Float32Array;
  /** Before the softmax. */
  readonly score: Float32Array;
  /** After it. */
  readonly weight: Float32Array;
}

export interface Attention extends Owned {
  /** What it was made of, door by door; empty where position enters by the mask alone. */
  describe(): MethodDescription[];
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly valueDim: number;
  /** The mixtures: [tokens, heads, valueDim]. A query that may see nothing gives zeros. */
  attend(options: AttendOptions | CachedAttendOptions): Float32Array;
  /** Keeps the rotation's table of positions 0 .. count-1. Other positions are computed when met, to the same bits. */
  prepare(count: number): void;
  /** Weights and scores of chosen queries, by the plain definition; for looking, not for speed. */
  explain(options: ExplainOptions): ScoreParts[];
}

// ---- Cache ------------------------------------------------------------------------------------------------------------

export interface CacheOptions {
  readonly kvHeads: number;
  readonly headDim: number;
  /** Default headDim. */
  readonly valueDim?: number;
  /** Default 1. */
  readonly layers?: number;
  /** Default 1. */
  readonly sequences?: number;
  /** Rows per sequence: a limit, or a first reservation that grows. Default { initial: 0 }. */
  readonly capacity?: { readonly fixed: number } | { readonly initial: number };
  /** `rotated` (default): keys are kept turned; their plan is then the cache's. `unrotated`: turned at every use. */
  readonly keys?: 'rotated' | 'unrotated';
  /** What begin() makes of a token whose position lies before the last one of its segment. Default `refuse`. */
  readonly backward?: 'refuse' | 'allow';
}

/** The tokens of one step. Valid until the next begin() or change of its cache. */
export interface CacheStep {
  readonly positions: Positions;
  /** The sequence of each row of positions. */
  readonly sequences: readonly number[];
}

/** Whether positions were also added to the input, and so are baked into keys and values. */
export type PositionsIn = 'rotation-or-score' | 'input';

/**
 * Keys and values, and the position that each was given.
 *
 *     const step = cache.begin(cache.next([3]));
 *     for (const layer of layers) attention.attend({ q, k, v, cache, step, layer });
 *
 * What "exact" means: a step's output equals attention over the whole text, whatever the split. After evict(), truncate()
 * and keepWindow() it equals attention over the kept rows, which stand where they stood; after shift() and divide() over
 * the kept rows at their new positions. None of them is the text computed anew without the rows that went: keys and values
 * of upper layers still carry what was visible when they were computed.
 */
export interface Cache extends Owned {
  readonly kvHeads: number;
  readonly headDim: number;
  readonly valueDim: number;
  readonly layers: number;
  readonly sequences: number;
  /** Rows held by a sequence (default 0). */
  rows(sequence?: number): number;
  /** Rows that a sequence can hold without growing. */
  capacity(sequence?: number): number;
  bytes(): number;
  /** What stands in the rows of a sequence, as a batch of one row. */
  positions(sequence?: number): Positions;
  /** The tokens that come next: counts[i] for sequences[i] (left out: all in order), at their true positions. */
  next(counts: Integers, options?: { readonly sequences?: Integers }): Positions;
  /**
   * Opens a step: gives the valid tokens rows. Row r belongs to sequences[r] (left out: sequence r). Faults, each leaving
   * the cache as it was: 'cache-full'; 'order'; 'cache-state' where the step before was not written by every layer.
   */
  begin(positions: Positions, options?: { readonly sequences?: Integers }): CacheStep;
  /** Takes the rows of the open step back. */
  cancel(step: CacheStep): void;
  /** Keeps the first `rows` rows. */
  truncate(rows: number, options?: { readonly sequence?: number }): void;
  /** Removes rows by index, ascending. What stays keeps position and order. */
  evict(rows: Integers, options?: { readonly sequence?: number }): void;
  /** Keeps the first `sinks` and the last `window` rows. */
  keepWindow(options: { readonly sinks: number; readonly window: number; readonly sequence?: number }): void;
  clear(sequence?: number): void;
  /** Copies a sequence over another. */
  fork(from: number, to: number): void;
  /**
   * Adds `delta` to the positions of rows first .. last-1 and turns their keys with them; the attention factor is not
   * applied again, so norms stay. Without a rotation it renumbers and changes no key. UnsupportedError for xPos, for several
   * axes, and for positions that were added to the input, which are baked into keys and values.
   */
  shift(options: {
    readonly first: number;
    readonly last: number;
    readonly delta: number;
    readonly sequence?: number;
    readonly positionsIn?: PositionsIn;
  }): void;
  /** Positions of rows first .. last-1 become floor(position / divisor). Orders stay. */
  divide(options: {
    readonly first: number;
    readonly last: number;
    readonly divisor: number;
    readonly sequence?: number;
    readonly positionsIn?: PositionsIn;
  }): void;
  /** Key and value of one row, as stored. */
  read(options: {
    readonly row: number;
    readonly sequence?: number;
    readonly layer?: number;
    readonly kvHead?: number;
  }): { readonly key: Float32Array; readonly value: Float32Array };
}

// ---- Decoder ----------------------------------------------------------------------------------------------------------

/** Doors 2 and 3 of one layer, and its mask; as in AttentionOptions. Causal. */
export interface DecoderLayer {
  readonly rotation?: RotaryPlan | null;
  readonly terms?: readonly ScoreTerm[];
  readonly valueTerm?: ValueTerm | null;
  readonly mask?: Omit<MaskOptions, 'direction'>;
  readonly scale?: number;
  readonly softCap?: number;
  readonly temperature?: AttentionOptions['temperature'];
}

/** What a decoder is made of. Position enters by this and nothing else. */
export interface DecoderConfig {
  readonly vocabulary: number;
  readonly width: number;
  readonly heads: number;
  /** Default heads. */
  readonly kvHeads?: number;
  readonly headDim: number;
  readonly feedForwardWidth: number;
  /** Default `rms`; `rms-from-one` multiplies by 1 + weight (Gemma). */
  readonly norm?: 'rms' | 'layer' | 'rms-from-one';
  /** Of attention and feed-forward. Default `before`; `before-and-after` as in Gemma 2. */
  readonly normPlacement?: 'before' | 'before-and-after';
  /** Default 1e-5. */
  readonly normEpsilon?: number;
  /** Default `gated`. */
  readonly feedForward?: 'gated' | 'plain';
  /** Default `silu`. */
  readonly activation?: 'silu' | 'gelu' | 'gelu-tanh' | 'relu';
  /** Whether the unembedding is the embedding (default) or a matrix of its own. */
  readonly embeddings?: 'tied' | 'separate';
  /** What token embeddings are multiplied by, not the unembedding; 1e-6 to 1e6. Default 1; Gemma: sqrt(width). */
  readonly embeddingScale?: number;
  /** cap * tanh(logits / cap); 1e-6 to 1e6. Left out: none. */
  readonly logitSoftCap?: number;
  /** Which linear layers add a bias. Default `none`. */
  readonly biases?: 'none' | 'query-key-value' | 'attention' | 'all';
  /** Door 1; null (default): nothing is added to the input. A learned table's values are weights. */
  readonly inputPosition?:
    | { readonly sinusoidal: Omit<SinusoidalOptions, 'width'> }
    | { readonly learnedTable: Omit<LearnedTableOptions, 'table' | 'width'> }
    /** For positions with two axes. */
    | { readonly gridSinusoidal: Omit<GridSinusoidalOptions, 'features'> }
    | null;
  /** One per layer, 1 or more. */
  readonly layers: readonly DecoderLayer[];
}

export type DecoderWeights =
  /** Uniform random weights, the same bits everywhere. */
  | {
      readonly seed: number;
      /** Deviation of embeddings. Default 1/sqrt(width). All three: 1e-6 to 1e6, so that no logit is NaN. */
      readonly embedding?: number;
      /** Deviation of query and key matrices times sqrt(width). Default 2: attention has preferences. */
      readonly queryKey?: number;
      /** The same of all other matrices. Default 1. */
      readonly matrix?: number;
    }
  /**
   * The files of a checkpoint with Hugging Face's names (Llama's); float32, float16 and bfloat16. Read piece by piece:
   * the module holds the weights once (the largest tensor twice, while they are taken over), and not the files. A header
   * that is truncated, overlaps, lies or asks for too much is a FormatError that names the byte or the tensor. NaN in a
   * weight is not looked for: it spreads to the logits, where sampling refuses it.
   */
  | { readonly safetensors: Uint8Array | readonly Uint8Array[] };

/** Whose logits: the last valid token of each row, every valid token, or tokens by their index in the batch. */
export type WantedTokens = 'last' | 'valid' | Integers;

export interface ForwardOptions extends Out {
  /** [tokens of positions] Ids; those of padding are not read. */
  readonly tokens: Integers;
  readonly positions: Positions;
  /** Default `last`. */
  readonly wanted?: WantedTokens;
  /** A cache of this decoder: the tokens are its next step, row r goes on with sequences[r]. */
  readonly cache?: Cache;
  readonly sequences?: Integers;
  readonly mask?: CallMask;
}

export interface SamplingOptions {
  /** 0 (default): greedy. */
  readonly temperature?: number;
  /** 0 (default): no cut. Equal logits: the lower ids stay. */
  readonly topK?: number;
  /** 1 (default): no cut. */
  readonly topP?: number;
  /** Default 0. */
  readonly seed?: number;
}

export interface SampleOptions extends SamplingOptions {
  /** Row of the batch, and how many tokens it has got before this one: a draw is a function of logits, seed and these. */
  readonly row?: number;
  readonly index?: number;
}

export interface Sampled {
  readonly token: number;
  /** What was left after the cuts, most probable first. */
  readonly tokens: Int32Array;
  readonly shares: Float64Array;
}

export interface GenerateOptions extends SamplingOptions {
  /** One per row. */
  readonly prompts: readonly Integers[];
  /** Goes on with what it holds; left out: one that grows as needed. */
  readonly cache?: Cache;
  /** The most a row gets. Default 32. */
  readonly newTokens?: number;
  /** A row ends after one of these. */
  readonly stopTokens?: Integers;
  /** Prompt tokens of a row that go in at once: the split changes nothing but memory. Default 512, with promises 64. */
  readonly prefillChunk?: number;
}

export interface GeneratedRow {
  readonly tokens: Int32Array;
  /** Why the row ended: it has `newTokens` tokens, its last is a stop token, or it was cancelled. `unfinished`: it has not. */
  readonly reason: 'unfinished' | 'length' | 'stop-token' | 'cancelled';
}

/** What one step did. */
export interface Progress {
  readonly phase: 'prefill' | 'decode';
  /** Prompt tokens of all rows in the prefill, then steps. */
  readonly done: number;
  readonly total: number;
  /** New tokens, one for each of `rows`. */
  readonly rows: Int32Array;
  readonly tokens: Int32Array;
}

/** A generation in the caller's hands: one chunk of the prefill or one new token of every row at a time. */
export interface Generation extends Owned {
  readonly ended: boolean;
  /**
   * The next step. After an error everything is taken back. CacheError once it has ended, and where another call has
   * changed the cache since the last step: it has ended then, and the cache stays as that call left it.
   */
  step(): Progress;
  /** Ends it where it is; rows at work get the reason `cancelled`. */
  cancel(): void;
  /** Ends it and takes back the rows that it wrote. CacheError, nothing done, where another call changed the cache since. */
  rollBack(): void;
  rows(): GeneratedRow[];
}

/** An AbortSignal, by what is read of it: these types need no library of a browser. */
export interface Signal {
  readonly aborted: boolean;
  readonly reason: any;
}

export interface StepOptions {
  /**
   * Told of every step, and waited for. Returns `stop`: a generation ends there, with what there is; a prefill rejects, as
   * half a prompt has no logits (a signal ends it and takes its rows back).
   */
  readonly onProgress?: (progress: Progress) => unknown;
  /** Aborted: the promise rejects with the signal's reason, and the cache is as it was before the call. */
  readonly signal?: Signal;
}

export interface GenerateAsyncOptions extends GenerateOptions, StepOptions {}

export interface PrefillOptions extends StepOptions {
  /** Prompt r goes on after what sequence r holds. */
  readonly prompts: readonly Integers[];
  readonly cache: Cache;
  /** Default 64. */
  readonly prefillChunk?: number;
}

type RuleAlone<Rule> = Rule extends unknown ? Omit<Rule, keyof RotaryShape> : never;

/** Values of a config.json, under its own names; defaults are those of Hugging Face's LlamaConfig. */
export interface LlamaParameters {
  readonly vocab_size: number;
  readonly hidden_size: number;
  readonly intermediate_size: number;
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
  /** Default num_attention_heads. */
  readonly num_key_value_heads?: number;
  /** Default hidden_size / num_attention_heads. */
  readonly head_dim?: number;
  /** Default 1e-6. */
  readonly rms_norm_eps?: number;
  /** Default false. */
  readonly tie_word_embeddings?: boolean;
  /** Default false. */
  readonly attention_bias?: boolean;
  /** Default false; true needs attention_bias beside it. */
  readonly mlp_bias?: boolean;
  /** Default 10000. */
  readonly rope_theta?: number;
  /** Default 1. */
  readonly partial_rotary_factor?: number;
  /** Tokens that a query sees, itself included, in all layers. Default: all. */
  readonly sliding_window?: number | null;
  /** rope_scaling or rope_parameters, as a rule of `rotaryPlan`. Default `{ rule: 'default' }`. */
  readonly rope?: RuleAlone<RotaryRule>;
  /** Default `half-split`, the order of Hugging Face's checkpoints. */
  readonly pairing?: Pairing;
  /** For rules that depend on a length: the number of positions that the generation may reach. */
  readonly length?: number;
}

export interface LanesOptions {
  readonly prompt: Integers;
  /** After the prompt. Default 16. */
  readonly steps?: number;
  /** Where new tokens of the cached lane stand. Default `true`. */
  readonly offset?: 'true' | 'restarted' | 'off-by-one';
  /** On the largest difference of a logit. Default 1e-3. */
  readonly tolerance?: number;
  /** Default 512. */
  readonly prefillChunk?: number;
}

export interface LaneStep {
  /** Of the step's last token. */
  readonly fullPosition: number;
  readonly cachedPosition: number;
  /** Chosen next, greedy. */
  readonly fullToken: number;
  readonly cachedToken: number;
  /** Largest |full logit - cached logit|. */
  readonly difference: number;
  /** Of the full lane's choice. */
  readonly fullLogit: number;
  readonly cachedLogit: number;
}

/** The full forward and the cached step of one text, side by side. */
export interface Lanes {
  /** The prompt's, then one per step. */
  readonly steps: readonly LaneStep[];
  readonly largestDifference: number;
  /** Index of the first step past the tolerance, or null. */
  readonly firstPastTolerance: number | null;
  /** Index of the first step whose chosen tokens differ, or null. */
  readonly firstOtherToken: number | null;
}

export interface AuditOptions {
  /** Tokens of the longest content, 8 to 4096. Default 24. */
  readonly length?: number;
  /** By how many positions content is moved. Default 37. */
  readonly move?: number;
  /** Of the contents. Default 1. */
  readonly seed?: number;
  /** Of residuals. Default 1e-4. */
  readonly tolerance?: number;
  /** One of the classic faults, made on purpose: its test must then fail. Default `none`. */
  readonly fault?:
    | 'none'
    | 'offset-restarted'
    | 'off-by-one'
    | 'upper-layers-ahead'
    | 'rows-taken-for-positions'
    | 'padding-counted'
    | 'reset-without-document-mask';
}

export interface AuditLine {
  readonly test: string;
  /** In words, with its numbers. */
  readonly claim: string;
  readonly residual: number;
  readonly tolerance: number;
  readonly expectation: 'equal' | 'different';
  readonly verdict: 'pass' | 'fail' | 'not-applicable';
  readonly note: string;
}

export interface MethodInLayers {
  readonly method: MethodDescription;
  /** Empty: the input. */
  readonly layers: readonly number[];
}

export interface AuditReport {
  readonly methods: readonly MethodInLayers[];
  readonly lines: readonly AuditLine[];
  /** No line failed. */
  readonly passed: boolean;
  /** The record as a table of text. */
  readonly text: string;
}

/** Tokens and their positions in, logits out, with or without a cache by one and the same path. */
export interface Decoder extends Owned {
  readonly vocabulary: number;
  readonly width: number;
  readonly layers: number;
  /** Number of weights. */
  readonly parameters: number;
  bytes(): number;
  /** The weights as a safetensors file, float32, under Hugging Face's names: what `decoder` reads again, to the bit. */
  safetensors(): Uint8Array;
  /** Keeps the position tables of positions 0 .. count-1. */
  prepare(count: number): void;
  /** A cache of this decoder's shape. */
  cache(options?: Pick<CacheOptions, 'sequences' | 'capacity' | 'keys' | 'backward'>): Cache;
  /** Logits: [wanted tokens, vocabulary]. */
  forward(options: ForwardOptions): Float32Array;
  /**
   * Tokens after the prompts. Afterwards the cache holds every prompt and every new token but the last of each row, which
   * was never an input; after an error (a fixed cache that fills up, too) it is as it was before the call. With the
   * `deterministic` kernel, equal options give the same tokens on every machine, and the same as the C++ library natively
   * with SSE2: every sum is taken in the same order, without fused multiply-adds (`relaxed` fuses).
   */
  generate(options: GenerateOptions): GeneratedRow[];
  /** The same in the caller's hands, step by step. */
  generation(options: GenerateOptions): Generation;
  /** The same as a promise: the page gets a turn after every step. Faults of its options reject, too. */
  generateAsync(options: GenerateAsyncOptions): Promise<GeneratedRow[]>;
  /**
   * Long prompts into a cache, a chunk at a time with a turn of the page between: logits after the last token of each,
   * [prompts, vocabulary].
   */
  prefillAsync(options: PrefillOptions): Promise<Float32Array>;
  lanes(options: LanesOptions): Lanes;
  /** What a decoder must do with positions, measured on this one. */
  auditTests(options?: AuditOptions): AuditReport;
  describe(): readonly MethodInLayers[];
}
