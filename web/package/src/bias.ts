// Door 3: what a method adds to the score, and Shaw's other half that it adds to the mixture.
import type {
  AlibiOptions,
  Cope,
  CopeForward,
  CopeOptions,
  DebertaOptions,
  DisplacementBiasOptions,
  DisplacementRun,
  FireOptions,
  KerpleOptions,
  MatrixBiasOptions,
  MethodDescription,
  Positions,
  SandwichOptions,
  ScoreTerm,
  ShawKeysOptions,
  ShawTableOptions,
  ShawValuesOptions,
  T5BiasOptions,
  TransformerXlOptions,
  ValueTerm,
} from '../types/locant.js';
import { argumentFault, choice, finite, flags, float32, float64, integer, maxPosition, mostHeads, options, positive, result } from './check.js';
import type { Context } from './context.js';
import { readDescription } from './describe.js';
import { makeError } from './errors.js';
import { handleOf, isOwned, OwnedObject, refuseStrangers } from './owned.js';
import { positionsOf, writePositions } from './positions.js';
import type { RawTerms } from './raw.js';

const none = new Float32Array(0);

abstract class Term extends OwnedObject<RawTerms> {
  protected readonly context: Context;

  static {
    refuseStrangers('term', this, isOwned);
  }

  constructor(context: Context, call: string, checked: object, table: Float32Array = none) {
    const { memory, census } = context;
    super(census, 'term', memory.call(call, (frame) =>
      memory.done(memory.raw.makeTerms({ kind: call, ...checked }, frame.float32(table), table.length))));
    this.context = context;
  }

  describe(): MethodDescription {
    return readDescription(handleOf(this, 'describe').describe());
  }

  runs(): DisplacementRun[] {
    return handleOf(this, 'runs').runs();
  }
}

export class Score extends Term implements ScoreTerm {
  static {
    refuseStrangers('ScoreTerm', this, isOwned);
  }

  get needsContent(): boolean {
    return handleOf<RawTerms>(this, 'needsContent').needsContent();
  }

  get shiftInvariant(): boolean {
    return handleOf<RawTerms>(this, 'shiftInvariant').shiftInvariant();
  }

  bias(given: { readonly heads: number; readonly positions: Positions; readonly queryPositions?: Positions }): Float32Array {
    const call = 'bias';
    const handle = handleOf<RawTerms>(this, call);
    const { memory } = this.context;
    const { heads, positions, queryPositions = positions } = options(call, given, ['heads', 'positions', 'queryPositions']);
    integer(call, 'heads', heads, 1, mostHeads);
    const keys = positionsOf(call, 'positions', positions).tokens;
    const queries = positionsOf(call, 'queryPositions', queryPositions).tokens;
    const count = heads * queries * keys;
    return memory.call(call, (frame) => {
      const keyBlock = writePositions(frame, memory, call, 'positions', positions);
      const queryBlock = writePositions(frame, memory, call, 'queryPositions', queryPositions);
      const at = frame.reserve(count * 4);
      memory.done(handle.bias(heads, queryBlock, keyBlock, at, count));
      return frame.copyTo(result(call, undefined, count, ''), at);
    });
  }
}

export class Value extends Term implements ValueTerm {}

const forms = ['causal', 'symmetric', 'key-only'] as const;
const directions = ['unidirectional', 'bidirectional'] as const;
const beyonds = ['clamp', 'zero', 'error'] as const;
const sidesOfShaw = ['both', 'past-only'] as const;
const contents = ['query', 'key', 'both'] as const;

export function alibi(context: Context, given: AlibiOptions): ScoreTerm {
  const call = 'alibi';
  const { heads, form = 'causal', slopes, biasMax = 8, origin = 0 } =
    options(call, given, ['heads', 'form', 'slopes', 'biasMax', 'origin']);
  integer(call, 'heads', heads, 1, mostHeads);
  const own = slopes === undefined ? undefined : float64(call, 'slopes', slopes);
  if (own && own.length !== heads) argumentFault(`${call}: slopes holds ${own.length} values, expected one per head = ${heads}`, own.length, heads);
  return new Score(context, call, {
    heads,
    form: choice(call, 'form', form, forms),
    slopes: own,
    biasMax: positive(call, 'biasMax', biasMax),
    origin: integer(call, 'origin', origin, 0, maxPosition),
  });
}

export function t5Bias(context: Context, given: T5BiasOptions): ScoreTerm {
  const call = 't5Bias';
  const { heads, table, direction, buckets = 32, maxDistance = 128 } =
    options(call, given, ['heads', 'table', 'direction', 'buckets', 'maxDistance']);
  const checked = {
    heads: integer(call, 'heads', heads, 1, mostHeads),
    direction: choice(call, 'direction', direction, directions),
    buckets: integer(call, 'buckets', buckets, 2, 8192),
    maxDistance: integer(call, 'maxDistance', maxDistance, 1, maxPosition),
  };
  return new Score(context, call, checked, float32(call, 'table', table, buckets * heads, `${buckets} buckets x ${heads} heads`));
}

export function displacementBias(context: Context, given: DisplacementBiasOptions): ScoreTerm {
  const call = 'displacementBias';
  const { heads, first, last, table, beyond = 'clamp' } = options(call, given, ['heads', 'first', 'last', 'table', 'beyond']);
  const checked = {
    heads: integer(call, 'heads', heads, 1, mostHeads),
    first: integer(call, 'first', first, -maxPosition, maxPosition),
    last: integer(call, 'last', last, first, maxPosition),
    beyond: choice(call, 'beyond', beyond, beyonds),
  };
  const columns = last - first + 1;
  return new Score(context, call, checked, float32(call, 'table', table, heads * columns, `${heads} heads x ${columns} displacements`));
}

export function matrixBias(context: Context, given: MatrixBiasOptions): ScoreTerm {
  const call = 'matrixBias';
  const { heads, queries, keys, matrix, firstQuery = 0, firstKey = 0 } =
    options(call, given, ['heads', 'queries', 'keys', 'matrix', 'firstQuery', 'firstKey']);
  const checked = {
    heads: integer(call, 'heads', heads, 1, mostHeads),
    queries: integer(call, 'queries', queries, 1, maxPosition),
    keys: integer(call, 'keys', keys, 1, maxPosition),
    firstQuery: integer(call, 'firstQuery', firstQuery, 0, maxPosition),
    firstKey: integer(call, 'firstKey', firstKey, 0, maxPosition),
  };
  return new Score(context, call, checked,
    float32(call, 'matrix', matrix, heads * queries * keys, `${heads} heads x ${queries} queries x ${keys} keys`));
}

function shaw(call: string, widthName: string, width: unknown, given: ShawTableOptions): [object, Float32Array] {
  const { maxDistance, heads = 1, sides = 'both', table } = given;
  const checked = {
    maxDistance: integer(call, 'maxDistance', maxDistance, 0, 1048576),
    heads: integer(call, 'heads', heads, 1, mostHeads),
    width: integer(call, widthName, width, 1, mostHeads),
    sides: choice(call, 'sides', sides, sidesOfShaw),
  };
  const rows = sides === 'both' ? 2 * maxDistance + 1 : maxDistance + 1;
  return [checked, float32(call, 'table', table, heads * rows * checked.width, `${heads} tables x ${rows} rows x ${checked.width}`)];
}

export function shawKeys(context: Context, given: ShawKeysOptions): ScoreTerm {
  const call = 'shawKeys';
  const { headDim, content = 'query', ...rest } = options(call, given, ['maxDistance', 'heads', 'sides', 'table', 'headDim', 'content']);
  const [checked, table] = shaw(call, 'headDim', headDim, rest);
  return new Score(context, call, { ...checked, content: choice(call, 'content', content, contents) }, table);
}

export function shawValues(context: Context, given: ShawValuesOptions): ValueTerm {
  const { valueDim, ...rest } = options('shawValues', given, ['maxDistance', 'heads', 'sides', 'table', 'valueDim']);
  return new Value(context, 'shawValues', ...shaw('shawValues', 'valueDim', valueDim, rest));
}

const fars = ['hugging-face', 'microsoft'] as const;
const conventions = ['code', 'paper'] as const;
const kernels = ['logarithmic', 'power'] as const;
const mostKept = 16777216;

export function transformerXl(context: Context, given: TransformerXlOptions): ScoreTerm {
  const call = 'transformerXl';
  const { heads, headDim, modelWidth, projection, contentBias, positionBias, base = 10000, clamp, keptBefore = 0, keptAfter = 0 } =
    options(call, given, ['heads', 'headDim', 'modelWidth', 'projection', 'contentBias', 'positionBias', 'base', 'clamp', 'keptBefore', 'keptAfter']);
  integer(call, 'heads', heads, 1, mostHeads);
  integer(call, 'headDim', headDim, 1, mostHeads);
  integer(call, 'modelWidth', modelWidth, 2, 1048576);
  const shape = `${heads} heads x ${headDim}`;
  const checked = {
    heads,
    headDim,
    modelWidth,
    contentBias: float32(call, 'contentBias', contentBias, heads * headDim, shape),
    positionBias: float32(call, 'positionBias', positionBias, heads * headDim, shape),
    base: positive(call, 'base', base),
    clamp: clamp === undefined ? undefined : integer(call, 'clamp', clamp, 0, maxPosition),
    keptBefore: integer(call, 'keptBefore', keptBefore, 0, mostKept),
    keptAfter: integer(call, 'keptAfter', keptAfter, 0, mostKept),
  };
  return new Score(context, call, checked,
    float32(call, 'projection', projection, heads * headDim * modelWidth, `${shape} x ${modelWidth}`));
}

export function deberta(context: Context, given: DebertaOptions): ScoreTerm {
  const call = 'deberta';
  const { heads, headDim, buckets = 256, maxPosition: longest = 512, contentToPosition, positionToContent, far = 'hugging-face', convention = 'code' } =
    options(call, given, ['heads', 'headDim', 'buckets', 'maxPosition', 'contentToPosition', 'positionToContent', 'far', 'convention']);
  integer(call, 'heads', heads, 1, mostHeads);
  integer(call, 'headDim', headDim, 1, mostHeads);
  integer(call, 'buckets', buckets, 0, 8192);
  integer(call, 'maxPosition', longest, 1, 1048576);
  const span = buckets > 0 ? buckets : longest;
  const table = (name: string, values: unknown): Float32Array =>
    values === undefined ? none : float32(call, name, values, heads * 2 * span * headDim, `${heads} heads x ${2 * span} rows x ${headDim}`);
  return new Score(context, call, {
    heads,
    headDim,
    buckets,
    maxPosition: longest,
    contentToPosition: table('contentToPosition', contentToPosition),
    positionToContent: table('positionToContent', positionToContent),
    far: choice(call, 'far', far, fars),
    convention: choice(call, 'convention', convention, conventions),
  });
}

export function kerple(context: Context, given: KerpleOptions): ScoreTerm {
  const call = 'kerple';
  const { kernel, r1, r2 } = options(call, given, ['kernel', 'r1', 'r2']);
  return new Score(context, call, { kernel: choice(call, 'kernel', kernel, kernels), r1: float64(call, 'r1', r1), r2: float64(call, 'r2', r2) });
}

export function sandwich(context: Context, given: SandwichOptions): ScoreTerm {
  const call = 'sandwich';
  const { heads, width = 128, base = 10000 } = options(call, given, ['heads', 'width', 'base']);
  return new Score(context, call, {
    heads: integer(call, 'heads', heads, 1, mostHeads),
    width: integer(call, 'width', width, 2, mostHeads),
    base: positive(call, 'base', base),
  });
}

export function fire(context: Context, given: FireOptions): ScoreTerm {
  const call = 'fire';
  const { c = 0.1, threshold = 512, epsilon = 1e-6, w1, b1, w2, b2 } = options(call, given, ['c', 'threshold', 'epsilon', 'w1', 'b1', 'w2', 'b2']);
  return new Score(context, call, {
    c: positive(call, 'c', c),
    threshold: positive(call, 'threshold', threshold),
    epsilon: finite(call, 'epsilon', epsilon),
    w1: float64(call, 'w1', w1),
    b1: float64(call, 'b1', b1),
    w2: float64(call, 'w2', w2),
    b2: float64(call, 'b2', b2),
  });
}

/** CoPE needs all visible keys of a query at once, so it is no term: it makes a bias for one call. No memory of its own. */
export class CopeForm implements Cope {
  readonly #context: Context;
  readonly #checked: { heads: number; kvHeads: number; headDim: number; maxPositions: number; scale: number };
  readonly #table: Float32Array;

  constructor(context: Context, given: CopeOptions) {
    const call = 'cope';
    const { heads, kvHeads = heads, headDim, maxPositions, table, scale = 1 / Math.sqrt(headDim) } =
      options(call, given, ['heads', 'kvHeads', 'headDim', 'maxPositions', 'table', 'scale']);
    integer(call, 'heads', heads, 1, mostHeads);
    integer(call, 'kvHeads', kvHeads, 1, mostHeads);
    if (heads % kvHeads !== 0) argumentFault(`${call}: kvHeads is ${kvHeads}, expected a divisor of heads, ${heads}`, kvHeads, heads);
    integer(call, 'headDim', headDim, 1, mostHeads);
    integer(call, 'maxPositions', maxPositions, 1, maxPosition);
    this.#context = context;
    this.#checked = { heads, kvHeads, headDim, maxPositions, scale: finite(call, 'scale', scale) };
    this.#table = float32(call, 'table', table, maxPositions * headDim, `${maxPositions} positions x ${headDim}`).slice();
  }

  bias(given: CopeForward): Float32Array {
    const call = 'bias';
    const { memory } = this.#context;
    const { heads, kvHeads, headDim } = this.#checked;
    const { q, queries, k, keys, visible, out } = options(call, given, ['q', 'queries', 'k', 'keys', 'visible', 'out']);
    integer(call, 'queries', queries, 0, maxPosition);
    integer(call, 'keys', keys, 0, maxPosition);
    float32(call, 'q', q, queries * heads * headDim, `${queries} queries x ${heads} heads x ${headDim}`);
    float32(call, 'k', k, keys * kvHeads * headDim, `${keys} keys x ${kvHeads} heads x ${headDim}`);
    const marks = flags(call, 'visible', visible);
    if (marks.length !== queries * keys) {
      throw makeError('shape', `${call}: visible holds ${marks.length} values, expected ${queries} queries x ${keys} keys = ${queries * keys}`,
        marks.length, queries * keys);
    }
    const count = heads * queries * keys;
    const into = result(call, out, count, `${heads} heads x ${queries} queries x ${keys} keys`);
    return memory.call(call, (frame) => {
      const at = frame.reserve(count * 4);
      memory.done(memory.raw.cope({ ...this.#checked, queries, keys }, frame.float32(q), q.length, frame.float32(k), k.length,
        frame.float32(this.#table), this.#table.length, frame.bytes(marks), marks.length, at, count));
      return frame.copyTo(into, at);
    });
  }

  describe(): MethodDescription {
    const { memory } = this.#context;
    return readDescription(memory.call('describe', () => memory.done(memory.raw.describeCope(this.#checked))));
  }
}

export function relativeShift({ memory }: Context, x: Float32Array, given: { readonly rows: number; readonly columns: number; readonly keys?: number }): Float32Array {
  const call = 'relativeShift';
  const { rows, columns, keys } = options(call, given, ['rows', 'columns', 'keys']);
  integer(call, 'rows', rows, 1, maxPosition);
  integer(call, 'columns', columns, 1, maxPosition);
  if (keys !== undefined) integer(call, 'keys', keys, 1, columns - 1);
  float32(call, 'x', x, rows * columns, `${rows} rows x ${columns} columns`);
  return memory.call(call, (frame) => memory.done(memory.raw.relativeShift(frame.float32(x), x.length, rows, columns, keys ?? 0)));
}
