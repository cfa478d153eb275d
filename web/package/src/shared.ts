// What the two entries share; it becomes a file of its own, so that whoever imports both has one set of error classes.
export { choice, options, show } from './check.js';
export { makeError } from './errors.js';
export { compile, requireSimd, start, supportsRelaxed } from './kernel.js';
