// Shuffle: attention on the reader's sentence, in two orders, with and without position.
//
// P is the reader's reordering, f the attention of all heads (queries, keys and values are the token vectors themselves:
// projections would add numbers and no idea). Three questions, each one comparison of two results:
//
//   alone      the contents move, positions 0, 1, 2, … stay in their places:   P f(x, p)  against  f(P x, p)
//   carried    every token takes its position (and order) along:               P f(x, p)  against  f(P x, P p)
//   stretched  nothing moves, positions become 0, 10, 20, …:                   f(x, p)    against  f(x, 10 p)
import type { Attention, Locant, MethodDescription, Owned, Positions } from 'locant';
import { choice, integer, isOrder, order, sentence, wordsOf } from '../../shell/fields';
import { fixed, scientific } from '../../shell/format';
import { owning, rowsOf } from '../../shell/owned';
import type { CallText, Check, Model } from '../../shell/view';
import { text } from '../../text/en';

export const heads = 4;
export const headDim = 8;
export const width = heads * headDim;
/** Rows of the learned table: what the stretched sentence of twelve words needs, and some. */
export const tableRows = 128;
export const maximumWords = 12;
export const methods = ['none', 'sinusoidal', 'learned', 'rotary', 'alibi'] as const;
export type Method = (typeof methods)[number];

/** Sums of eight float32 products and a softmax, in another order: a few units of the last place of values near 1. */
export const tolerance = 1e-5;

export interface ShuffleState {
  readonly sentence: string;
  /** Which token stands at each place. */
  readonly order: readonly number[];
  readonly method: Method;
  readonly mask: 'bidirectional' | 'causal';
  readonly head: number;
  /** The pair that is looked at: tokens of the sentence, by their first places. */
  readonly query: number;
  readonly key: number;
  readonly seed: number;
  /** Where the positions of the carried run come from. */
  readonly carried: 'token' | 'slot';
}

export interface Run {
  /** [query][key], of the head that is looked at. */
  readonly weights: readonly Float32Array[];
  /** [tokens, width] */
  readonly output: Float32Array;
}

export interface Pair {
  readonly before: Run;
  readonly after: Run;
  readonly alone: number;
  readonly stretched: number;
}

export interface ShuffleResult {
  readonly words: readonly string[];
  /** Without any method, and with the one chosen. */
  readonly plain: Pair;
  readonly placed: Pair;
  readonly carried: number;
  readonly description: MethodDescription | null;
}

/** The first reordering that a sentence meets: its second and second last word change places; a short one is turned round. */
export function firstOrder(count: number): number[] {
  const numbers = Array.from({ length: count }, (_, index) => index);
  if (count < 5) return numbers.reverse();
  [numbers[1], numbers[count - 2]] = [numbers[count - 2], numbers[1]];
  return numbers;
}

/** What Space goes through. */
export function nextOrder(current: readonly number[]): readonly number[] {
  const count = current.length;
  const same = Array.from({ length: count }, (_, index) => index);
  const orders = [firstOrder(count), same.slice().reverse(), [...same.slice(1), 0], same];
  const at = orders.findIndex((each) => each.join() === current.join());
  return orders[(at + 1) % orders.length];
}

interface Layer {
  attention: Attention;
  /** Door 1, where the method is one of that door. */
  place(x: Float32Array, positions: Positions): Float32Array;
  description: MethodDescription | null;
}

function layer(library: Locant, keep: <O extends Owned>(object: O) => O, state: ShuffleState, method: Method): Layer {
  const options = { heads, headDim, mask: { direction: state.mask } };
  const asItIs = (x: Float32Array) => x;
  switch (method) {
    case 'none':
      return { attention: keep(library.attention(options)), place: asItIs, description: null };
    case 'sinusoidal': {
      const encoding = keep(library.sinusoidal({ width }));
      return { attention: keep(library.attention(options)), place: (x, positions) => encoding.add(x, positions), description: encoding.describe() };
    }
    case 'learned': {
      const table = library.random({ seed: state.seed, stream: 'position table', count: tableRows * width });
      const encoding = keep(library.learnedTable({ table, rows: tableRows, width }));
      return { attention: keep(library.attention(options)), place: (x, positions) => encoding.add(x, positions), description: encoding.describe() };
    }
    case 'rotary': {
      const rotation = library.rotaryPlan({ rule: 'default', headDim });
      return { attention: keep(library.attention({ ...options, rotation })), place: asItIs, description: library.describePlan(rotation) };
    }
    case 'alibi': {
      const term = keep(library.alibi({ heads, form: state.mask === 'causal' ? 'causal' : 'symmetric' }));
      return { attention: keep(library.attention({ ...options, terms: [term] })), place: asItIs, description: term.describe() };
    }
  }
}

function run({ attention, place }: Layer, x: Float32Array, positions: Positions, head: number): Run {
  const placed = place(x, positions);
  const output = attention.attend({ q: placed, k: placed, v: placed, positions });
  const requests = Array.from({ length: positions.tokens }, (_, query) => ({ head, query }));
  const parts = attention.explain({ q: placed, k: placed, positions, requests });
  return { output, weights: parts.map(({ weight }) => weight) };
}

/** The vectors of the words: [words, width]; equal words have equal vectors, whatever the sentence. */
export function vectorsOf(library: Locant, words: readonly string[], seed: number): Float32Array {
  const x = new Float32Array(words.length * width);
  words.forEach((word, index) => x.set(library.random({ seed, stream: `word ${word}`, count: width }), index * width));
  return x;
}

function compute(library: Locant, state: ShuffleState): ShuffleResult {
  return owning((keep) => {
    const sentenceWords = wordsOf(state.sentence);
    const count = sentenceWords.length;
    const x = vectorsOf(library, sentenceWords, state.seed);
    const moved = rowsOf(x, width, state.order);
    const positions = library.positions.range(count);
    const far = library.positions.from({ rowLengths: [count], position: [sentenceWords.map((_, index) => index * 10)] });
    const carriedPositions = library.positions.from({
      rowLengths: [count],
      position: [state.carried === 'token' ? state.order : positions.position[0]],
      order: state.order,
    });
    const difference = (a: Float32Array, b: Float32Array) => library.difference(a, b).largest;

    const pairOf = (each: Layer): Pair => {
      const before = run(each, x, positions, state.head);
      const after = run(each, moved, positions, state.head);
      return {
        before,
        after,
        alone: difference(rowsOf(before.output, width, state.order), after.output),
        stretched: difference(before.output, run(each, x, far, state.head).output),
      };
    };
    const plain = pairOf(layer(library, keep, state, 'none'));
    const chosen = layer(library, keep, state, state.method);
    const placed = state.method === 'none' ? plain : pairOf(chosen);
    const carried = run(chosen, moved, carriedPositions, state.head);
    return {
      words: sentenceWords,
      plain,
      placed,
      carried: difference(rowsOf(placed.before.output, width, state.order), carried.output),
      description: chosen.description,
    };
  });
}

const words = text.shuffle;

function checks(result: ShuffleResult, { method }: ShuffleState): Check[] {
  const finding = (id: string, label: string, residual: number): Check => ({ id, kind: 'finding', label, residual, tolerance });
  const all: Check[] = [
    { id: 'carried', kind: 'identity', label: words.checks.carried, residual: result.carried, tolerance },
    finding('alone-plain', words.checks.alonePlain, result.plain.alone),
  ];
  if (method !== 'none') all.push(finding('alone-placed', words.checks.same(method), result.placed.alone));
  all.push(finding('stretched-plain', words.checks.stretchedPlain, result.plain.stretched));
  if (method !== 'none') all.push(finding('stretched-placed', words.checks.same(method), result.placed.stretched));
  return all;
}

function call(state: ShuffleState): CallText {
  const tokens = wordsOf(state.sentence);
  const quoted = (quote: string) => tokens.map((word) => `${quote}${word.replaceAll('\\', '\\\\').replaceAll(quote, `\\${quote}`)}${quote}`).join(', ');
  const list = state.order.join(', ');
  const slots = tokens.map((_, index) => index).join(', ');
  const carriedPosition = state.carried === 'token' ? 'order' : `[${slots}]`;
  const wrong = state.carried === 'token' ? '' : '  // the fault: the slot, where the token\'s own position belongs';
  const form = state.mask === 'causal' ? 'causal' : 'symmetric';

  const [makeJs, optionJs, placeJs] = {
    none: ['', '', 'x'],
    sinusoidal: [`const encoding = locant.sinusoidal({ width });\n`, '', 'encoding.add(x, positions)'],
    learned: [
      `const table = locant.random({ seed, stream: 'position table', count: ${tableRows} * width });\n` +
      `const encoding = locant.learnedTable({ table, rows: ${tableRows}, width });\n`, '', 'encoding.add(x, positions)'],
    rotary: [`const rotation = locant.rotaryPlan({ rule: 'default', headDim });\n`, ', rotation', 'x'],
    alibi: [`const term = locant.alibi({ heads, form: '${form}' });\n`, ', terms: [term]', 'x'],
  }[state.method];
  const javascript = `import { load } from 'locant';

const locant = await load({ kernel: 'deterministic' });
const [heads, headDim, width, seed] = [${heads}, ${headDim}, ${width}, ${state.seed}];
const words = [${quoted("'")}];
const order = [${list}];
const vectorOf = (word) => locant.random({ seed, stream: 'word ' + word, count: width });
const vectors = (list) => new Float32Array(list.flatMap((word) => [...vectorOf(word)]));
const reorder = (y) => new Float32Array(order.flatMap((token) => [...y.subarray(token * width, (token + 1) * width)]));

${makeJs}const attention = locant.attention({ heads, headDim, mask: { direction: '${state.mask}' }${optionJs} });
const f = (x, positions) => {
  const placed = ${placeJs};
  return attention.attend({ q: placed, k: placed, v: placed, positions });
};

const here = locant.positions.range(words.length);
const carried = locant.positions.from({ rowLengths: [words.length], position: [${carriedPosition}], order });${wrong}
const x = vectors(words);

locant.difference(reorder(f(x, here)), f(reorder(x), here)).largest;     // words move alone
locant.difference(reorder(f(x, here)), f(reorder(x), carried)).largest;  // positions move along`;

  const [makeCpp, placeCpp] = {
    none: ['', ''],
    sinusoidal: [`const locant::Sinusoidal encoding({.width = ${width}});\n`, '  encoding.add(x, positions, x);\n'],
    learned: [`const locant::LearnedTable encoding({.rows = ${tableRows}, .width = ${width}}, table);\n`, '  encoding.add(x, positions, x);\n'],
    rotary: [`config.rotation = std::make_shared<locant::Rotation>(locant::resolve({.width = ${headDim}}), ${headDim});\n`, ''],
    alibi: [`config.score_terms = {std::make_shared<locant::Alibi>(locant::alibi_slopes(${heads}), locant::AlibiForm::${form === 'causal' ? 'kCausal' : 'kSymmetric'})};\n`, ''],
  }[state.method];
  const cpp = `// x: the vectors of ${tokens.join(' ')}, [${tokens.length}, ${width}]; moved_x: its rows in the order ${list}
locant::AttentionConfig config{.shape = {.heads = ${heads}, .kv_heads = ${heads}, .head_dim = ${headDim}, .value_dim = ${headDim}}};
config.mask.direction = locant::Direction::${state.mask === 'causal' ? 'kCausal' : 'kBidirectional'};
${makeCpp}const locant::Attention attention(config);
const auto f = [&](std::vector<float> x, const locant::Positions& positions) {
${placeCpp}  std::vector<float> y(x.size());
  attention.attend(x, x, x, positions, y);
  return y;
};

const auto here = locant::Positions::range(${tokens.length});
const auto carried = locant::Positions::from_arrays({
    .row_lengths = {${tokens.length}}, .position = {{${state.carried === 'token' ? list : slots}}}, .order = {${list}}});${wrong}
const std::vector<float> before = f(x, here), after = f(moved_x, here), along = f(moved_x, carried);`;
  return { javascript, cpp };
}

export const shuffleModel: Model<ShuffleState, ShuffleResult> = {
  id: 'shuffle',
  fields: {
    sentence: sentence('the dog bit the man .', maximumWords, 16),
    order: order([]),
    method: choice(methods, 'sinusoidal'),
    mask: choice(['bidirectional', 'causal'], 'bidirectional'),
    head: integer(0, 0, heads - 1),
    query: integer(1, 0, maximumWords - 1),
    key: integer(2, 0, maximumWords - 1),
    seed: integer(1, 0, 9999),
    carried: choice(['token', 'slot'], 'token'),
  },
  settle(state) {
    const count = wordsOf(state.sentence).length;
    const notes: string[] = [];
    let { order: places, query, key } = state;
    if (places.length !== count || !isOrder(places)) {
      if (places.length > 0) notes.push(text.notes.otherOrder(places.length, count));
      places = firstOrder(count);
    }
    // The default pair may lie past the end of a short sentence without anybody having asked for it.
    const inside = (name: 'query' | 'key', token: number) => {
      if (token < count) return token;
      if (token !== shuffleModel.fields[name].initial) notes.push(text.notes.pastSentence(name, count - 1));
      return count - 1;
    };
    query = inside('query', query);
    key = inside('key', key);
    return { state: { ...state, order: places, query, key }, notes };
  },
  compute,
  checks,
  wrong: { field: 'carried', right: 'token', wrongs: ['slot'] },
  call,
  table({ words: sentenceWords, plain, placed }, state) {
    const slot = (token: number) => state.order.indexOf(token);
    return {
      caption: words.caption(state.head + 1),
      columns: words.columns(state.method),
      rows: sentenceWords.flatMap((query, t) => sentenceWords.map((key, j) => [
        `${query} (${t}) → ${key} (${j})`,
        fixed(plain.before.weights[t][j], 4),
        fixed(plain.after.weights[slot(t)][slot(j)], 4),
        fixed(placed.before.weights[t][j], 4),
        fixed(placed.after.weights[slot(t)][slot(j)], 4),
      ])),
    };
  },
  sentence({ words: sentenceWords, plain, placed, carried }, { order: places, query, key, method }) {
    const [querySlot, keySlot] = [places.indexOf(query), places.indexOf(key)];
    const change = ({ before, after }: Pair): [string, string] => [fixed(before.weights[query][key], 3), fixed(after.weights[querySlot][keySlot], 3)];
    return words.told({
      query: sentenceWords[query], key: sentenceWords[key], method,
      plain: change(plain), plainBlind: plain.alone <= tolerance,
      placed: change(placed), placedBlind: placed.alone <= tolerance,
      carried: scientific(carried),
    });
  },
};
