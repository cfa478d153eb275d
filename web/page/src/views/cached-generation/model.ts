// Cached generation: a small decoder with random weights says one word after another, in two lanes. The whole sequence
// computed anew at every step is the measure; the lane with a cache computes the new word alone, at the position that the
// offset gives it. Both are fed what the whole sequence says next, so that their logits stay comparable.
//
//   per step   largest |logit of the cache − logit of the whole sequence|        the identity of the view is its maximum
import type { DecoderConfig, DecoderLayer, Locant, Owned } from 'locant';
import { choice, integer, sentence, wordsOf } from '../../shell/fields';
import { scientific } from '../../shell/format';
import { owning } from '../../shell/owned';
import type { CallText, Check, Model } from '../../shell/view';
import { text } from '../../text/en';

const words = text.cachedGeneration;

export const maximumWords = 12;
export const mostSteps = 24;
export const maximumSeed = 99;
export const offsets = ['true', 'restarted', 'off-by-one'] as const;
export type Offset = (typeof offsets)[number];
/** Rows of the learned table: fewer than the longest text needs, so that its end can be met. */
export const tableRows = 24;
export const methods = ['sinusoidal', 'learned', 'rotary', 'alibi'] as const;
export type Method = (typeof methods)[number];

/** Logits near 1 through two layers, summed in another order: rounding stays below a hundredth of this. */
export const tolerance = 1e-4;

export interface CachedGenerationState {
  readonly sentence: string;
  readonly method: Method;
  /** How many words are said. */
  readonly steps: number;
  /** The step that is looked at; 0 is the prompt. */
  readonly step: number;
  readonly seed: number;
  readonly offset: Offset;
}

export interface Step {
  /** The tokens so far, and where each stands in the two lanes. */
  readonly words: readonly string[];
  readonly truePositions: readonly number[];
  readonly storedPositions: readonly number[];
  readonly difference: number;
  readonly fullWord: string;
  readonly cachedWord: string;
  readonly differs: boolean;
}

export interface CachedGenerationResult {
  readonly prompt: readonly string[];
  readonly steps: readonly Step[];
  readonly largest: number;
  readonly firstOver: number | null;
  readonly firstOther: number | null;
}

/** What the decoder can say. The reader's own words take the places of the last ones, so that the vocabulary keeps its
    size, and a new word does not change the weights of the others. */
const commonWords = ('the a dog man bit and ran saw old big that house cat bird to from with in on who was is not it he she they said ' +
  'then when fast slow red blue far near home away up down . ,').split(' ');
const spareWords = 'road sun moon rain tree door hand song king stone river light'.split(' ');
const vocabularySize = commonWords.length + maximumWords;

/** The word of each token. */
export function vocabularyOf(words: readonly string[]): readonly string[] {
  return [...new Set([...commonWords, ...words.map((word) => word.toLowerCase()), ...spareWords])].slice(0, vocabularySize);
}

const layerCount = 2;
const size = { width: 32, heads: 4, kvHeads: 2, headDim: 8, feedForwardWidth: 64 } as const;
/** Door 1 of the decoder, and doors 2 and 3 of its layers. */
function decoderConfig(library: Locant, keep: <O extends Owned>(object: O) => O, method: Method): DecoderConfig {
  const layers = (layer: DecoderLayer) => Array.from({ length: layerCount }, () => layer);
  const rest = { ...size, vocabulary: vocabularySize, layers: layers({}) };
  switch (method) {
    case 'sinusoidal': return { ...rest, inputPosition: { sinusoidal: {} } };
    case 'learned': return { ...rest, inputPosition: { learnedTable: { rows: tableRows } } };
    case 'rotary': return { ...rest, layers: layers({ rotation: library.rotaryPlan({ rule: 'default', headDim: size.headDim }) }) };
    case 'alibi': return { ...rest, layers: layers({ terms: [keep(library.alibi({ heads: size.heads }))] }) };
  }
}

function compute(library: Locant, state: CachedGenerationState): CachedGenerationResult {
  return owning((keep) => {
    const prompt = wordsOf(state.sentence);
    const vocabulary = vocabularyOf(prompt);
    const numbers = prompt.map((word) => vocabulary.indexOf(word.toLowerCase()));
    const decoder = keep(library.decoder(decoderConfig(library, keep, state.method), { seed: state.seed }));
    const lanes = decoder.lanes({ prompt: numbers, steps: state.steps, offset: state.offset, tolerance });

    const wordOf = (token: number) => vocabulary[token];
    const said = lanes.steps.map(({ fullToken }) => wordOf(fullToken));
    const promptPositions = prompt.map((_, index) => index);
    const steps = lanes.steps.map((step, index): Step => {
      const upTo = lanes.steps.slice(1, index + 1);
      return {
        words: [...prompt, ...said.slice(0, index)],
        truePositions: [...promptPositions, ...upTo.map(({ fullPosition }) => fullPosition)],
        storedPositions: [...promptPositions, ...upTo.map(({ cachedPosition }) => cachedPosition)],
        difference: step.difference,
        fullWord: said[index],
        cachedWord: wordOf(step.cachedToken),
        differs: step.cachedToken !== step.fullToken,
      };
    });
    return { prompt, steps, largest: lanes.largestDifference, firstOver: lanes.firstPastTolerance, firstOther: lanes.firstOtherToken };
  });
}

function checks({ largest }: CachedGenerationResult): Check[] {
  return [{ id: 'cached-vs-full', kind: 'identity', label: words.check, residual: largest, tolerance }];
}

function call(state: CachedGenerationState): CallText {
  const prompt = wordsOf(state.sentence);
  const vocabulary = vocabularyOf(prompt);
  const numbers = prompt.map((word) => vocabulary.indexOf(word.toLowerCase())).join(', ');
  const offset = { true: 'kTrue', restarted: 'kRestarted', 'off-by-one': 'kOffByOne' }[state.offset];
  const fault = state.offset === 'true' ? '' : '  // the fault';
  const [positionJs, positionCpp] = {
    sinusoidal: [
      `const layers = Array(${layerCount}).fill({});\nconst inputPosition = { sinusoidal: {} };`,
      `config.input_position = locant::SinusoidalConfig{.width = ${size.width}};\n`,
    ],
    learned: [
      `const layers = Array(${layerCount}).fill({});\nconst inputPosition = { learnedTable: { rows: ${tableRows} } };`,
      `config.input_position = locant::TableConfig{.rows = ${tableRows}, .width = ${size.width}};\n`,
    ],
    rotary: [
      `const layers = Array(${layerCount}).fill({ rotation: locant.rotaryPlan({ rule: 'default', headDim: ${size.headDim} }) });\nconst inputPosition = null;`,
      `for (auto& layer : config.layers) layer.rotation = locant::resolve({.width = ${size.headDim}});\n`,
    ],
    alibi: [
      `const layers = Array(${layerCount}).fill({ terms: [locant.alibi({ heads: ${size.heads} })] });\nconst inputPosition = null;`,
      `for (auto& layer : config.layers) layer.score_terms = {std::make_shared<locant::Alibi>(locant::alibi_slopes(${size.heads}))};\n`,
    ],
  }[state.method];
  return {
    javascript: `import { load } from 'locant';

const locant = await load({ kernel: 'deterministic' });
${positionJs}
const decoder = locant.decoder(
  { vocabulary: ${vocabularySize}, width: ${size.width}, heads: ${size.heads}, kvHeads: ${size.kvHeads}, headDim: ${size.headDim}, feedForwardWidth: ${size.feedForwardWidth}, inputPosition, layers },
  { seed: ${state.seed} },  // random weights
);

const prompt = [${numbers}];  // ${prompt.join(' ')}
const lanes = decoder.lanes({ prompt, steps: ${state.steps}, offset: '${state.offset}', tolerance: ${tolerance} });${fault}
lanes.largestDifference;

// One step by hand, as lanes() does it:
const cache = decoder.cache();
decoder.forward({ tokens: prompt, positions: cache.next([${prompt.length}]), cache });
const cached = decoder.forward({ tokens: [lanes.steps[0].fullToken], positions: cache.next([1]), cache });`,
    cpp: `locant::DecoderConfig config{
    .vocabulary = ${vocabularySize}, .width = ${size.width}, .heads = ${size.heads}, .kv_heads = ${size.kvHeads}, .head_dim = ${size.headDim}, .feed_forward_width = ${size.feedForwardWidth}};
config.layers.resize(${layerCount});
${positionCpp}locant::Decoder decoder(config, locant::random_weights(config, ${state.seed}));

const std::vector<std::int32_t> prompt = {${numbers}};  // ${prompt.join(' ')}
const locant::Lanes lanes = locant::compare_lanes(
    decoder, prompt, {.steps = ${state.steps}, .offset = locant::Offset::${offset}, .tolerance = ${tolerance}});${fault}
const double residual = lanes.largest_difference;`,
  };
}

export const cachedGenerationModel: Model<CachedGenerationState, CachedGenerationResult> = {
  id: 'cached-generation',
  fields: {
    sentence: sentence('the dog bit the man .', maximumWords, 16),
    method: choice(methods, 'rotary'),
    steps: integer(12, 1, mostSteps),
    step: integer(4, 0, mostSteps),
    seed: integer(1, 0, maximumSeed),
    offset: choice(offsets, 'true'),
  },
  settle(state) {
    if (state.step <= state.steps) return { state, notes: [] };
    const notes = state.step === cachedGenerationModel.fields.step.initial ? [] : [text.notes.pastText(state.steps)];
    return { state: { ...state, step: state.steps }, notes };
  },
  compute,
  checks,
  wrong: { field: 'offset', right: 'true', wrongs: ['restarted', 'off-by-one'] },
  call,
  table: ({ steps }, state) => ({
    caption: words.caption(state.method),
    columns: words.columns,
    rows: steps.map((step, index) => [
      index, index === 0 ? words.promptRow : step.words.at(-1)!, step.truePositions.at(-1)!, step.storedPositions.at(-1)!,
      scientific(step.difference), step.fullWord, step.cachedWord,
    ]),
  }),
  sentence({ steps, firstOver, firstOther }, state) {
    const { difference, fullWord, cachedWord, storedPositions, truePositions } = steps[state.step];
    return words.told({
      step: state.step, position: storedPositions.at(-1)!, truth: truePositions.at(-1)!,
      difference: scientific(difference), whole: fullWord, cache: cachedWord, firstOver, firstOther,
    });
  },
};
