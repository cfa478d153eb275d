// Rotation: one query, one key, and the positions they are turned to.
//
//   shift        R(t+s) q · R(j+s) k  against  R(t) q · R(j) k,  for s = 0 … 63      the identity of the view
//   norm         |R q|², |R k|²       against  |q|², |k|²
//   composition  R(j) R(t) q          against  R(t+j) q
//
// Scores come from attention's explain() with scale 1 over rows of one query and one key each.
import type { Locant, Owned, Pairing, RotaryPlan, Rotation } from 'locant';
import { choice, integer } from '../../shell/fields';
import { fixed, signed } from '../../shell/format';
import { owning } from '../../shell/owned';
import type { CallText, Check, Model } from '../../shell/view';
import { text } from '../../text/en';

/** The first four coordinates are the ones that the rotation is usually introduced with; the rest go on in their manner. */
export const contents = {
  query: [1, 0, 0.4, -0.2, 0.6, 0.3, -0.5, 0.8],
  key: [0.7, 0.5, -0.1, 0.9, -0.4, 0.6, 0.2, 0.7],
} as const;
export const headDim = contents.query.length;
export const pairs = headDim / 2;
export const lastPosition = 63;
export const shifts = 64;
export const bases = ['100', '1000', '10000', '500000', '1000000'] as const;

/** Eight float32 products of values near 1, sines and cosines rounded once: a few units of the last place. */
export const tolerance = 1e-5;

export interface RotationState {
  readonly query: number;
  readonly key: number;
  /** The pair that is looked at. */
  readonly pair: number;
  readonly pairing: Pairing;
  readonly base: (typeof bases)[number];
  /** The pairing of the key: the query's, or the other one. */
  readonly keyPairing: 'same' | 'other';
}

/** One pair's plane: where the hands point, before and after the turn, and what the pair gives to the score. */
export interface Dial {
  readonly inverseFrequency: number;
  readonly query: readonly [number, number];
  readonly key: readonly [number, number];
  readonly queryBefore: readonly [number, number];
  readonly keyBefore: readonly [number, number];
  readonly share: number;
}

export interface RotationResult {
  readonly plan: RotaryPlan;
  readonly dials: readonly Dial[];
  readonly score: number;
  /** The score with the key at every position, the query where it is. */
  readonly byKey: Float32Array;
  /** The score with both moved on by 0, 1, 2, … */
  readonly byShift: Float32Array;
  readonly spread: number;
  readonly norm: number;
  readonly composition: number;
}

const otherPairing = (pairing: Pairing): Pairing => (pairing === 'interleaved' ? 'half-split' : 'interleaved');

/** The two coordinates of pair i. */
export function coordinates(pairing: Pairing, pair: number): readonly [number, number] {
  return pairing === 'interleaved' ? [2 * pair, 2 * pair + 1] : [pair, pair + pairs];
}

function repeated(vector: readonly number[], times: number): Float32Array {
  const all = new Float32Array(vector.length * times);
  for (let row = 0; row < times; row += 1) all.set(vector, row * vector.length);
  return all;
}

function compute(library: Locant, state: RotationState): RotationResult {
  return owning((keep) => {
    const plan = library.rotaryPlan({ rule: 'default', headDim, base: Number(state.base), pairing: state.pairing });
    const keyPlan = state.keyPairing === 'same'
      ? plan
      : library.rotaryPlan({ rule: 'default', headDim, base: Number(state.base), pairing: otherPairing(state.pairing) });
    const queryRotation = keep(library.rotation(plan, { headDim }));
    const keyRotation = keep(library.rotation(keyPlan, { headDim }));

    /** The vector at each of the positions: [positions, headDim]. */
    const turn = (rotation: Rotation, vector: readonly number[], at: readonly number[], role: 'query' | 'key') =>
      rotation.apply(repeated(vector, at.length), library.positions.from({ rowLengths: [at.length], position: [at] }), { heads: 1, role });
    const scores = scorer(library, keep);

    const everywhere = Array.from({ length: lastPosition + 1 }, (_, index) => index);
    const atQuery = turn(queryRotation, contents.query, [state.query], 'query');
    const atKey = turn(keyRotation, contents.key, [state.key], 'key');
    const [score] = scores(atQuery, atKey, headDim);

    const byShift = scores(
      turn(queryRotation, contents.query, everywhere.map((shift) => state.query + shift), 'query'),
      turn(keyRotation, contents.key, everywhere.map((shift) => state.key + shift), 'key'), headDim);
    const byKey = scores(
      turn(queryRotation, contents.query, everywhere.map(() => state.query), 'query'),
      turn(keyRotation, contents.key, everywhere, 'key'), headDim);

    const plane = (vector: ArrayLike<number>, pair: number) => coordinates(state.pairing, pair).map((at) => vector[at]) as [number, number];
    const planes = (vector: ArrayLike<number>) => new Float32Array(Array.from({ length: pairs }, (_, pair) => plane(vector, pair)).flat());
    const shares = scores(planes(atQuery), planes(atKey), 2);
    const dials = Array.from({ length: pairs }, (_, pair) => ({
      inverseFrequency: plan.inverseFrequencies[pair],
      query: plane(atQuery, pair),
      key: plane(atKey, pair),
      queryBefore: plane(contents.query, pair),
      keyBefore: plane(contents.key, pair),
      share: shares[pair],
    }));

    const both = (a: Float32Array, b: Float32Array) => new Float32Array([...a, ...b]);
    const still = both(new Float32Array(contents.query), new Float32Array(contents.key));
    const turned = both(atQuery, atKey);
    const again = queryRotation.apply(atQuery, library.positions.range(1, { offset: state.key }), { heads: 1, role: 'query' });
    const atOnce = turn(queryRotation, contents.query, [state.query + state.key], 'query');
    return {
      plan,
      dials,
      score,
      byKey,
      byShift,
      spread: library.difference(byShift, new Float32Array(shifts).fill(byShift[0])).largest,
      norm: library.difference(scores(still, still, headDim), scores(turned, turned, headDim)).largest,
      composition: library.difference(again, atOnce).largest,
    };
  });
}

/** q·k of row after row; q, k: [rows, width]. */
function scorer(library: Locant, keep: <O extends Owned>(object: O) => O) {
  return (q: Float32Array, k: Float32Array, width: number): Float32Array => {
    const attention = keep(library.attention({ heads: 1, headDim: width, scale: 1, mask: { direction: 'bidirectional' } }));
    const rows = q.length / width;
    const positions = library.positions.ragged(new Int32Array(rows).fill(1));
    const requests = Array.from({ length: rows }, (_, query) => ({ head: 0, query }));
    return new Float32Array(attention.explain({ q, k, positions, requests }).map(({ score }) => score[0]));
  };
}

function checks({ spread, norm, composition }: RotationResult): Check[] {
  return [
    { id: 'shift', kind: 'identity', label: text.rotation.checks.shift(shifts), residual: spread, tolerance },
    { id: 'norm', kind: 'identity', label: text.rotation.checks.norm, residual: norm, tolerance },
    { id: 'composition', kind: 'identity', label: text.rotation.checks.composition, residual: composition, tolerance },
  ];
}

function call(state: RotationState): CallText {
  const keyPairing = state.keyPairing === 'same' ? state.pairing : otherPairing(state.pairing);
  const fault = state.keyPairing === 'same' ? '' : '  // the fault: another pairing than the query\'s';
  const cppPairing = { interleaved: 'kInterleaved', 'half-split': 'kHalfSplit' };
  return {
    javascript: `import { load } from 'locant';

const locant = await load({ kernel: 'deterministic' });
const q = new Float32Array([${contents.query.join(', ')}]);
const k = new Float32Array([${contents.key.join(', ')}]);
const headDim = ${headDim};
const plan = (pairing) => locant.rotaryPlan({ rule: 'default', headDim, base: ${state.base}, pairing });
const forQueries = locant.rotation(plan('${state.pairing}'), { headDim });
const forKeys = locant.rotation(plan('${keyPairing}'), { headDim });${fault}
const dot = locant.attention({ heads: 1, headDim, scale: 1 });

const score = (t, j) => dot.explain({
  q: forQueries.apply(q, locant.positions.range(1, { offset: t }), { heads: 1, role: 'query' }),
  k: forKeys.apply(k, locant.positions.range(1, { offset: j }), { heads: 1, role: 'key' }),
  positions: locant.positions.range(1),
  requests: [{ head: 0, query: 0 }],
})[0].score[0];

score(${state.query}, ${state.key});  // displacement ${state.key - state.query}
score(${state.query + 5}, ${state.key + 5});  // both five further on`,
    cpp: `const std::vector<float> q = {${contents.query.join(', ')}}, k = {${contents.key.join(', ')}};
const auto plan = [](locant::Pairing pairing) {
  return locant::resolve({.width = ${headDim}, .base = ${state.base}, .pairing = pairing});
};
const locant::Rotation for_queries(plan(locant::Pairing::${cppPairing[state.pairing]}), ${headDim});
const locant::Rotation for_keys(plan(locant::Pairing::${cppPairing[keyPairing]}), ${headDim});${fault}

std::vector<float> turned_q(${headDim}), turned_k(${headDim});
for_queries.apply(q, locant::Positions::range(1, ${state.query}), 1, locant::RotationRole::kQuery, turned_q);
for_keys.apply(k, locant::Positions::range(1, ${state.key}), 1, locant::RotationRole::kKey, turned_k);
const float score = std::inner_product(turned_q.begin(), turned_q.end(), turned_k.begin(), 0.0f);`,
  };
}

export const rotationModel: Model<RotationState, RotationResult> = {
  id: 'rotation',
  fields: {
    query: integer(3, 0, lastPosition),
    key: integer(5, 0, lastPosition),
    pair: integer(0, 0, pairs - 1),
    pairing: choice(['interleaved', 'half-split'], 'interleaved'),
    base: choice(bases, '10000'),
    keyPairing: choice(['same', 'other'], 'same'),
  },
  compute,
  checks,
  wrong: { field: 'keyPairing', right: 'same', wrongs: ['other'] },
  call,
  table: ({ byKey, byShift }, state) => ({
    caption: text.rotation.caption(state.query),
    columns: text.rotation.columns(state.query, state.key),
    rows: [...byKey].map((score, n) => [n, fixed(score, 6), fixed(byShift[n], 6)]),
  }),
  sentence: ({ score, spread, dials }, { query, key, pair }) => text.rotation.told({
    query, key, pair,
    displacement: signed(key - query),
    score: fixed(score, 4),
    spread: fixed(spread, 3),
    flat: spread <= tolerance,
    share: fixed(dials[pair].share, 4),
  }),
};
