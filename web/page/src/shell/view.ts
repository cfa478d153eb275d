// The contract of a view. A view is a folder: model.ts (state → package calls → numbers, no drawing, runs in Node),
// a Figure and a Controls component, and view.ts, which puts them together in this shape. The shell does the rest:
// address, navigation, keyboard, checks, calls, tables, copying, errors.
import type { Component } from 'svelte';
import type { Locant } from 'locant';
import type { Fields } from './fields';

/** One number of a view that says whether two results agree. */
export interface Check {
  /** Names the check in the page and in tests. */
  readonly id: string;
  /** What is measured, in words. */
  readonly label: string;
  readonly residual: number;
  readonly tolerance: number;
  /** `identity`: claimed to stay within the tolerance, whatever the reader does. `finding`: it is what it is. */
  readonly kind: 'identity' | 'finding';
}

export function within(check: Check): boolean {
  return check.residual <= check.tolerance;  // NaN is within nothing
}

/** The package call that made the numbers, as a reader would write it. */
export interface CallText {
  readonly javascript: string;
  readonly cpp: string;
}

export interface Table {
  readonly caption: string;
  readonly columns: readonly string[];
  /** The first cell of a row is its heading. */
  readonly rows: readonly (readonly (string | number)[])[];
}

/** The pure half of a view, shared by the page, by the tests and by the build that draws the first picture. */
export interface Model<State extends object, Result> {
  readonly id: string;
  readonly fields: Fields<State>;
  /** Brings fields that hang together into agreement; says what it changed. */
  settle?(state: State): { readonly state: State; readonly notes: readonly string[] };
  /** Everything that the view shows. Only package calls; their errors pass through. */
  compute(library: Locant, state: State): Result;
  /** The identity first; further measurements after it. */
  checks(result: Result, state: State): readonly Check[];
  /** The option of the package call that the wrong switch changes: the field, its right value and the wrong ones. */
  readonly wrong: { readonly field: keyof State & string; readonly right: string; readonly wrongs: readonly string[] };
  call(state: State): CallText;
  table(result: Result, state: State): Table;
  /** The figure in one sentence, for those who do not see it. */
  sentence(result: Result, state: State): string;
}

/** How a part of a view changes the state: `commit` is false while something is being dragged. */
export type Change<State> = (patch: Partial<State>, commit?: boolean) => void;

export interface PartProps<State, Result> {
  state: State;
  result: Result;
  change: Change<State>;
}

/** What the keys of the common grammar do here; each gives the new part of the state, or nothing. */
export interface Keys<State, Result> {
  previous?(state: State, result: Result): Partial<State> | undefined;
  next?(state: State, result: Result): Partial<State> | undefined;
  step?(state: State, result: Result): Partial<State> | undefined;
}

export interface View<State extends object, Result> {
  readonly model: Model<State, Result>;
  readonly text: ViewText;
  readonly keys: Keys<State, Result>;
  readonly Controls: Component<PartProps<State, Result>>;
  readonly Figure: Component<PartProps<State, Result>>;
}

/** The words of a view; they live in text/en.ts. Values marked html are our own MathML. */
export interface ViewText {
  readonly name: string;
  readonly door: string;
  readonly question: string;
  readonly lede: string;
  /** The identity as MathML, with the same in words for its label. */
  readonly identity: { readonly html: string; readonly words: string };
  readonly wrong: {
    readonly label: string;
    readonly explain: string;
    readonly options: Readonly<Record<string, string>>;
    /** Where the fault has been met. */
    readonly met: string;
  };
  readonly keys: { readonly previous?: string; readonly next?: string; readonly step?: string };
  readonly notice: readonly string[];
}

// States and results differ from view to view; the registry holds them all as this.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type AnyView = View<any, any>;
