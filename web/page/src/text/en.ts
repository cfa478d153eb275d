// Every word of the page that is not a number, in one place, to be proof-read and translated. Formulas are MathML,
// which browsers draw themselves.
import type { ViewText } from '../shell/view';

const math = (inner: string) => `<math display="inline">${inner}</math>`;
const i = (name: string) => `<mi>${name}</mi>`;
const o = (sign: string) => `<mo>${sign}</mo>`;
const sub = (base: string, below: string) => `<msub>${base}<mrow>${below}</mrow></msub>`;
const open = '<mo stretchy="false">(</mo>';
const shut = '<mo stretchy="false">)</mo>';
const thin = '<mspace width="0.17em"></mspace>';

const shell = {
  tagline: 'Where does position enter a transformer? Move things and see.',
  views: 'Views',
  skip: 'Skip to the figure',
  help: 'Keys',
  dark: 'Dark',
  light: 'Light',
  computedBy: 'Computed here by',
  controls: 'Controls',
  check: 'The claim, measured here',
  holds: 'holds',
  broken: 'broken',
  equal: 'equal',
  different: 'different',
  wrong: 'Wrong on purpose',
  call: 'The call that made these numbers',
  copyCall: 'Copy call',
  theCall: 'Call',
  copyLink: 'Copy link',
  theLink: 'Link',
  copyData: 'Copy data',
  theData: 'Data',
  saveSvg: 'Save drawing',
  copied: 'copied',
  notCopied: 'The browser does not let this page copy.',
  reset: 'Reset',
  data: 'The numbers as a table',
  rows: 'Rows',
  notice: 'What to look for',
  ignored: 'Kept in the address, read by nothing here:',
  librarySays: 'The library refuses, in its own words:',
  pageFault: 'The page itself failed here:',
  notDrawn: 'This figure could not be drawn.',
  openWhole: 'open the whole page',
  noLibrary: 'The figures cannot be computed here, because this browser does not run the WebAssembly library; what you see is the first state of the first figure.',
};

const keys = {
  title: 'Keys',
  tab: 'go to the next control',
  arrows: 'move what has the focus: a cell, a marker, a word',
  reset: 'reset the view',
  wrong: 'switch the fault on or off',
  copy: 'copy the call',
  help: 'show the keys',
  address: 'The address bar always holds what you see: copy it to share, or use Back to return.',
  close: 'Close',
};

const shuffle: ViewText = {
  name: 'Shuffle',
  door: 'Why position',
  question: 'Can attention tell “dog bit man” from “man bit dog”?',
  lede: 'Move the words. Attention compares every word with every other; nothing in it counts places. Without a positional method the weights travel with their words and the outputs only change places. With one, moving a word changes what it says.',
  identity: {
    html: math(`${i('P')}${thin}${i('f')}${open}${i('x')}${o(',')}${i('p')}${shut}${o('=')}${i('f')}${open}${i('P')}${i('x')}${o(',')}${i('P')}${i('p')}${shut}`),
    words: 'P f of x and p equals f of P x and P p',
  },
  wrong: {
    label: 'When words move, whose number do they stand at?',
    options: { token: 'Each token keeps its own position', slot: 'Positions are read off the array slot' },
    explain: 'The same vectors in the same shapes, and no error: only the numbers changed. A method that reads no positions hides the fault.',
    met: 'Met with left padding, where positions were counted from the slot (transformers, issues 3095 and 18478).',
  },
  keys: { previous: 'look at the previous word', next: 'look at the next word', step: 'try another order of the words' },
  notice: [
    'Choose “none”: the four matrices hold the same weights, only elsewhere. The two “the” are one and the same vector, so nothing can tell them apart.',
    'Switch the mask to causal with no method: the symmetry goes, since who may look back depends on the order. Yet gaps ten times as wide change nothing: a mask knows before and after, not how far.',
    'Take the positions along with the words and every method gives the old result back: order lives in the positions, not in the array.',
  ],
};

const rotation: ViewText = {
  name: 'Rotation',
  door: 'Door 2: queries and keys',
  question: 'Why does turning both hands not change the time between them?',
  lede: 'Rotary embedding turns each pair of coordinates of a query and a key by an angle that grows with its position. Move one of them and their score changes. Move both together and it does not: only the displacement, key minus query, is left.',
  identity: {
    html: math(`${sub(i('R'), `${i('t')}${o('+')}${i('s')}`)}${thin}${i('q')}${o('·')}${sub(i('R'), `${i('j')}${o('+')}${i('s')}`)}${thin}${i('k')}${o('=')}${sub(i('R'), i('t'))}${thin}${i('q')}${o('·')}${sub(i('R'), i('j'))}${thin}${i('k')}`),
    words: 'For every common shift s, the score of the query at t plus s and the key at j plus s is that of the query at t and the key at j',
  },
  wrong: {
    label: 'Which coordinates make a pair, in the key?',
    options: { same: 'The same ones as in the query', other: 'Those of the other convention' },
    explain: 'Each side is a proper rotation and keeps its length, so every shape and norm is right. But the two turn different pairs, and the score now depends on where they stand.',
    met: 'Met where weights stored for one pairing ran under the other (TinyLlama, issue 24; nanotron, pull request 427).',
  },
  keys: { previous: 'move both one position back', next: 'move both one position on', step: 'look at the next pair' },
  notice: [
    'Drag “both”: all hands turn, the score stands still. Drag one: the slow pairs hardly notice a small step, the fast ones do.',
    'Turn the fault on and drag “both” again. The upper curve looks as plausible as before; the lower one is no longer flat.',
    'Raise the base: the hands of the last pairs almost stop. That is how long contexts are told apart, and why the base belongs to the weights.',
  ],
};

const cachedGeneration: ViewText = {
  name: 'Cached generation',
  door: 'The cache',
  question: 'What must be remembered so that the next word comes out the same?',
  lede: 'A cache keeps the keys and values of the words so far, so that each step computes one word instead of all. It is exact as long as that word is told where it truly stands. Tell it something else: no shape changes, no error is raised, and the text drifts away.',
  identity: {
    html: math(`${sub(i('ℓ'), '<mtext>cache</mtext>')}${open}${sub(i('x'), i('t'))}${o(',')}${i('t')}${shut}${o('=')}${i('ℓ')}${open}${sub(i('x'), '<mn>0</mn>')}${o('…')}${sub(i('x'), i('t'))}${shut}`),
    words: 'The logits of the cached step of token t at position t equal the logits of the whole sequence up to token t',
  },
  wrong: {
    label: 'Which position does a new word get?',
    options: {
      true: 'The next one of its sequence',
      restarted: 'Counted from 0 again, as the call counts',
      'off-by-one': 'One too many',
    },
    explain: 'Every array keeps its shape, for a position is only a number. (A cache of this library refuses positions that go backwards unless it is told to allow them; here it is told.) Look at the numbers under the stored keys.',
    met: 'Met in tiny-llm (pull request 46), mlx-lm (issue 1699), gpt-neox (pull request 363).',
  },
  keys: { previous: 'go back one step', next: 'go on one step', step: 'go on one step, and from the last to the prompt' },
  notice: [
    'With the offset right, the difference is rounding: sums are taken in another order, and the chosen words are the same.',
    'With the fault, the numbers differ at once, the chosen word often only later. A test that compares texts can miss it; one that compares logits cannot.',
    'Choose the learned table and ask for 19 words: its 24 rows end before the text does, and the library says so instead of reading something else.',
  ],
};

/** What is said of an address that asks for what there is not. */
const notes = {
  ofKey: (key: string, note: string) => `${key}: ${note}.`,
  notWhole: (raw: string, used: number) => `“${raw}” is not a whole number; ${used} is used`,
  below: (asked: number, limit: number) => `${asked} is below ${limit}; ${limit} is used`,
  above: (asked: number, limit: number) => `${asked} is above ${limit}; ${limit} is used`,
  noneOf: (raw: string, values: readonly string[], used: string) => `“${raw}” is none of ${values.join(', ')}; ${used} is used`,
  shortSentence: (used: string) => `a sentence needs two words or more; “${used}” is used`,
  longSentence: (count: number, kept: number) => `the sentence has ${count} words; the first ${kept} are used`,
  longWords: (letters: number) => `words are cut after ${letters} letters`,
  noOrder: (raw: string) => `“${raw}” is not an order of the tokens; the first order is used`,
  otherOrder: (named: number, count: number) => `order: it names ${named} tokens and the sentence has ${count}; the first order is used.`,
  pastSentence: (key: string, last: number) => `${key}: the sentence ends with token ${last}; that is used.`,
  pastText: (last: number) => `step: the text ends with step ${last}; that is shown.`,
  twice: (key: string) => `${key} is given twice; the first is used.`,
  version: (asked: string, version: number) => `This address says version “${asked}”; the page reads version ${version} and takes what it knows.`,
  noView: (asked: string, used: string) => `There is no view “${asked}”; this is ${used}.`,
  noPart: (asked: string, parts: readonly string[]) => `hide: there is no part “${asked}”; there are ${parts.join(', ')}.`,
  embed: 'embed: only 0 and 1 are read; 0 is used.',
};

const methods = { none: 'none', sinusoidal: 'sinusoidal', learned: 'learned table', rotary: 'rotary', alibi: 'ALiBi' } as const;
const methodWords = { none: 'no method', sinusoidal: 'sinusoidal positions', learned: 'the learned table', rotary: 'rotary positions', alibi: 'ALiBi' } as const;

const shuffleParts = {
  sentence: 'Your sentence',
  reorder: 'The order of the words',
  howToMove: 'Drag a word, or focus it and press ← →',
  before: 'before',
  after: 'after',
  place: (word: string, place: number, count: number) => `${word}, place ${place} of ${count}`,
  method: 'Method',
  mask: 'Mask',
  masks: { bidirectional: 'bidirectional', causal: 'causal' },
  head: 'Head',
  matrices: 'Attention matrices. Arrow keys choose a query and a key.',
  drawing: 'Attention weights before and after the words changed places',
  without: 'Without a method',
  withMethod: (method: keyof typeof methods) => `With ${methodWords[method]}`,
  afterMove: 'after the words moved',
  blind: '= blind to this move',
  sees: '≠ it sees this move',
  query: 'query ↓',
  output: 'output',
  hidden: 'hidden by the mask',
  checks: {
    carried: 'max |P f(x, p) − f(P x, P p)|: every word takes its position along',
    alonePlain: 'max |P f(x) − f(P x)|: words move alone, no method',
    stretchedPlain: 'max |f(x, p) − f(x, 10 p)|: gaps ten times as wide, no method',
    same: (method: keyof typeof methods) => `The same with ${methodWords[method]}`,
  },
  caption: (head: number) => `Attention weights of head ${head}, by token: before and after the words changed places`,
  columns: (method: keyof typeof methods) => ['query → key', 'no method, before', 'no method, after', `${methods[method]}, before`, `${methods[method]}, after`],
  told: (value: { query: string; key: string; plain: [string, string]; plainBlind: boolean; method: keyof typeof methods; placed: [string, string]; placedBlind: boolean; carried: string }) => {
    const blind = (isBlind: boolean) => (isBlind ? 'the outputs only change places' : 'the outputs themselves change');
    const change = ([before, after]: [string, string]) => `${before} before and ${after} after`;
    const placed = value.method === 'none' ? '' : ` With ${methodWords[value.method]} it is ${change(value.placed)}, and ${blind(value.placedBlind)}.`;
    return `Without a method, “${value.query}” gives “${value.key}” the weight ${change(value.plain)}: ${blind(value.plainBlind)}.${placed} ` +
      `With positions carried along the largest difference is ${value.carried}.`;
  },
};

const rotationParts = {
  queryPosition: 'Query position',
  keyPosition: 'Key position',
  both: 'Both together',
  bothHandle: 'Both positions together',
  pairing: 'Pairs are',
  pairings: { interleaved: 'interleaved', 'half-split': 'half-split' },
  base: 'Base',
  drawing: 'Scores by position, dials of the pairs, and scores of both moved together',
  byKey: 'Score with the key at each position',
  byKeyShort: 'Score by the key’s position',
  here: (score: string) => `${score} here`,
  pair: (pair: number) => `pair ${pair}`,
  speed: (radians: string) => `${radians} rad a step`,
  byShift: 'Score with both moved on together',
  byShiftShort: 'Both moved together',
  flat: '✓ flat',
  changes: (by: string) => `✗ changes by ${by}`,
  legend: { query: 'query', key: 'key', before: 'before the turn' },
  checks: {
    shift: (shifts: number) => `Score of both moved on together by 0 … ${shifts - 1}: largest change`,
    norm: 'Squared length of query and key, turned against unturned',
    composition: 'Turning twice against turning once by the sum',
  },
  caption: (query: number) => `Scores: the query at ${query} with the key at n; and both moved on by n`,
  columns: (query: number, key: number) => ['n', `query at ${query}, key at n`, `query at ${query} + n, key at ${key} + n`],
  told: (value: { query: number; key: number; displacement: string; score: string; spread: string; flat: boolean; pair: number; share: string }) =>
    `Query at position ${value.query}, key at ${value.key}, displacement ${value.displacement}: score ${value.score}; ` +
    `${value.flat ? 'moving both together does not change it' : `moving both together changes it by up to ${value.spread}`}. ` +
    `Pair ${value.pair} gives ${value.share} of it.`,
};

const cachedGenerationParts = {
  prompt: 'Prompt',
  method: 'Method',
  step: 'Step',
  stepOf: (step: number, steps: number) => (step === 0 ? 'prompt' : `${step} of ${steps}`),
  steps: 'Words to say',
  seed: 'Seed of the weights',
  drawing: 'Two lanes of tokens with their positions, and the difference of their logits by step',
  whole: 'Whole sequence anew',
  wholeNote: (count: number) => `${count} tokens computed`,
  cache: 'From the cache',
  cacheNote: (step: number, count: number) => (step === 0 ? `${count} tokens computed and stored` : `1 token computed, ${count - 1} keys read`),
  at: (word: string, position: number, truth: number) => `${word}, position ${position}${position === truth ? '' : `, which should be ${truth}`}`,
  meter: 'Largest difference of the logits, by step',
  meterShort: 'Difference of the logits',
  nonePasses: '✓ none passes',
  passesFrom: (step: number) => `✗ from step ${step}`,
  bar: (step: number, difference: string, whole: string, cache: string) => `step ${step}: ${difference}; the whole sequence says ${whole}, the cache ${cache}`,
  rows: { step: 'step', whole: 'whole', cache: 'cache' },
  random: 'Weights are random: the words mean nothing, only their agreement does. Both lanes are fed what the whole sequence says next.',
  check: 'max |logits from the cache − logits of the whole sequence|, over all steps',
  caption: (method: keyof typeof methods) => `Each step of both lanes, method ${methods[method]}`,
  columns: ['step', 'new word', 'position', 'position in the cache', 'largest difference', 'whole sequence says next', 'cache says next'],
  promptRow: '(prompt)',
  told: (value: { step: number; position: number; truth: number; difference: string; whole: string; cache: string; firstOver: number | null; firstOther: number | null }) => {
    const where = value.step === 0 ? 'After the prompt'
      : `At step ${value.step}, the new word at position ${value.position} in the cache${value.position === value.truth ? '' : ` and ${value.truth} in truth`},`;
    const says = value.whole === value.cache ? `both say “${value.whole}” next` : `the whole sequence says “${value.whole}” next, the cache “${value.cache}”`;
    const over = value.firstOver === null ? 'No step passes the tolerance.' : `The difference passes the tolerance first at step ${value.firstOver}` +
      (value.firstOther === null ? ', and yet no chosen word differs.' : `; the chosen word differs first at step ${value.firstOther}.`);
    return `${where} the logits differ by ${value.difference} at most; ${says}. ${over}`;
  },
};

export const text = {
  shell,
  keys,
  notes,
  methods,
  views: { shuffle, rotation, cachedGeneration },
  shuffle: shuffleParts,
  rotation: rotationParts,
  cachedGeneration: cachedGenerationParts,
};
