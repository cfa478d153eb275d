// Door 3: what a method adds to the score, and Shaw's other half that it adds to the mixture.
import type {
  AlibiOptions,
  DisplacementBiasOptions,
  DisplacementRun,
  MatrixBiasOptions,
  MethodDescription,
  Positions,
  ScoreTerm,
  ShawKeysOptions,
  ShawTableOptions,
  ShawValuesOptions,
  T5BiasOptions,
  ValueTerm,
} from '../types/locant.js';
import { argumentFault, choice, float32, float64, integer, maxPosition, mostHeads, options, positive, result } from './check.js';
import type { Context } from './context.js';
import { readDescription } from './describe.js';
import { handleOf, OwnedObject } from './owned.js';
import { positionsOf, writePositions } from './positions.js';
import type { RawTerms } from './raw.js';

const none = new Float32Array(0);

abstract class Term extends OwnedObject<RawTerms> {
  protected readonly context: Context;

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
  const { headDim, ...rest } = options('shawKeys', given, ['maxDistance', 'heads', 'sides', 'table', 'headDim']);
  return new Score(context, 'shawKeys', ...shaw('shawKeys', 'headDim', headDim, rest));
}

export function shawValues(context: Context, given: ShawValuesOptions): ValueTerm {
  const { valueDim, ...rest } = options('shawValues', given, ['maxDistance', 'heads', 'sides', 'table', 'valueDim']);
  return new Value(context, 'shawValues', ...shaw('shawValues', 'valueDim', valueDim, rest));
}
