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

export const text = { shell, keys, views: { shuffle, rotation } };
