// What every part of one library works with.
import type { Memory } from './memory.js';
import type { Census } from './owned.js';

export interface Context {
  readonly memory: Memory;
  readonly census: Census;
}
