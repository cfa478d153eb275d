// What a method says of itself, with the words of the types in place of the numbers that cross.
import type { MethodDescription } from '../types/locant.js';
import type { RawDescription } from './raw.js';

const doors = ['input', 'rotation', 'score'] as const;
const references = ['absolute', 'relative'] as const;

export const readDescription = (raw: RawDescription): MethodDescription => ({
  ...raw,
  door: doors[raw.door]!,
  reference: references[raw.reference]!,
});
