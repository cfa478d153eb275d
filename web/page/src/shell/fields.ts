// The typed table of what a view keeps in the address: each field says what it may hold, what it holds when nothing is
// said, and how it is written. A value out of range is brought in and said aloud; nothing is dropped in silence.

import { text } from '../text/en';

/** What reading a value gave: the value, and a sentence where it is not the one that was asked for. */
export interface Reading<T> {
  readonly value: T;
  readonly note?: string;
}

export interface Field<T> {
  readonly initial: T;
  read(raw: string): Reading<T>;
  write(value: T): string;
}

/** One field per property of a view's state; the property's name is the key in the address. */
export type Fields<State> = { readonly [Key in keyof State]: Field<State[Key]> };

export interface IntegerField extends Field<number> {
  readonly minimum: number;
  readonly maximum: number;
}

export interface ChoiceField<T extends string> extends Field<T> {
  readonly values: readonly T[];
}

function shown(raw: string): string {
  return raw.length > 40 ? `${raw.slice(0, 40)}…` : raw;
}

export function integer(initial: number, minimum: number, maximum: number): IntegerField {
  return {
    initial,
    minimum,
    maximum,
    read(raw) {
      if (!/^-?\d{1,15}$/.test(raw)) return { value: initial, note: text.notes.notWhole(shown(raw), initial) };
      const asked = Number(raw) + 0;  // not −0
      if (asked < minimum) return { value: minimum, note: text.notes.below(asked, minimum) };
      if (asked > maximum) return { value: maximum, note: text.notes.above(asked, maximum) };
      return { value: asked };
    },
    write: String,
  };
}

export function choice<const T extends string>(values: readonly T[], initial: NoInfer<T>): ChoiceField<T> {
  return {
    initial,
    values,
    read(raw) {
      const found = values.find((value) => value === raw);
      if (found !== undefined) return { value: found };
      return { value: initial, note: text.notes.noneOf(shown(raw), values, initial) };
    },
    write: String,
  };
}

/** The reader's sentence: words separated by single spaces, at most `words` of them, each of at most `letters`. */
export function sentence(initial: string, words: number, letters: number): Field<string> {
  return {
    initial,
    read(raw) {
      const asked = wordsOf(raw);
      if (asked.length < 2) return { value: initial, note: text.notes.shortSentence(initial) };
      const kept = asked.slice(0, words).map((word) => [...word].slice(0, letters).join(''));
      const value = kept.join(' ');
      if (asked.length > words) return { value, note: text.notes.longSentence(asked.length, words) };
      if (value !== asked.join(' ')) return { value, note: text.notes.longWords(letters) };
      return { value };
    },
    write: (value) => value,
  };
}

/** Words of a sentence; full stops and the like count as words of their own. */
export function wordsOf(text: string): string[] {
  return text.normalize('NFC').replace(/([.,;:!?…]+)/g, ' $1 ').split(/[\s\p{Cc}]+/u).filter((word) => word !== '');
}

/** An order of the numbers 0 … n−1, written with points between them. How many there are is checked by the view. */
export function order(initial: readonly number[]): Field<readonly number[]> {
  return {
    initial,
    read(raw) {
      const numbers = raw.split('.').map((part) => (/^\d{1,3}$/.test(part) ? Number(part) : -1));
      if (isOrder(numbers)) return { value: numbers };
      return { value: initial, note: text.notes.noOrder(shown(raw)) };
    },
    write: (value) => value.join('.'),
  };
}

/** Whether every number 0 … n−1 occurs once. */
export function isOrder(numbers: readonly number[]): boolean {
  return [...numbers].sort((a, b) => a - b).every((number, index) => number === index);
}
