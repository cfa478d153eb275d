// The page's state as text: #v=1&view=rotation&query=3. Defaults are left out, unknown keys are kept and named, values out
// of range are brought in and said aloud. Pure functions; state.svelte.ts keeps the living state.
import type { Fields } from './fields';
import type { Model } from './view';
import { text } from '../text/en';

export const version = 1;

/** Parts of the page that `hide=` can take away, for teachers who want one figure. */
export const hideable = ['controls', 'check', 'wrong', 'call', 'table', 'notes'] as const;
export type Hideable = (typeof hideable)[number];

export interface Address {
  readonly view: string;
  readonly state: object;
  readonly hide: readonly Hideable[];
  readonly embed: boolean;
  /** Keys that nothing here reads, in the order they came. */
  readonly ignored: readonly (readonly [string, string])[];
  /** What was asked for and could not be had, as sentences. */
  readonly notes: readonly string[];
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any
type AnyModel = Model<any, any>;

export function initialState<State extends object>(model: Model<State, unknown>): State {
  const entries = Object.entries(model.fields as Fields<Record<string, unknown>>).map(([key, field]) => [key, field.initial]);
  const state = Object.fromEntries(entries) as State;
  return model.settle ? model.settle(state).state : state;
}

/** Reads an address. Never throws: garbage gives the defaults and notes that say so. */
export function readAddress(hash: string, models: readonly AnyModel[]): Address {
  const parameters = [...new URLSearchParams(hash.replace(/^#/, ''))];
  const given = new Map<string, string>();
  const notes: string[] = [];
  for (const [key, value] of parameters) {
    if (given.has(key)) notes.push(text.notes.twice(key));
    else given.set(key, value);
  }
  const take = (key: string) => {
    const value = given.get(key);
    given.delete(key);
    return value;
  };

  const asked = take('v');
  if (asked !== undefined && asked !== String(version)) {
    notes.push(text.notes.version(asked.slice(0, 20), version));
  }
  const wanted = take('view');
  let model = models.find(({ id }) => id === wanted);
  if (!model) {
    model = models[0];
    if (wanted !== undefined) notes.push(text.notes.noView(wanted.slice(0, 40), model.id));
  }

  const hide: Hideable[] = [];
  for (const part of (take('hide') ?? '').split(',').filter(Boolean)) {
    const known = hideable.find((name) => name === part);
    if (known) hide.push(known);
    else notes.push(text.notes.noPart(part.slice(0, 20), hideable));
  }
  const embedded = take('embed');
  if (embedded !== undefined && embedded !== '0' && embedded !== '1') notes.push(text.notes.embed);

  let state: Record<string, unknown> = {};
  for (const [key, field] of Object.entries(model.fields)) {
    const raw = take(key);
    const reading = raw === undefined ? { value: field.initial } : field.read(raw);
    state[key] = reading.value;
    if (reading.note) notes.push(text.notes.ofKey(key, reading.note));
  }
  if (model.settle) {
    const settled = model.settle(state);
    state = settled.state;
    notes.push(...settled.notes);
  }
  return { view: model.id, state, hide, embed: embedded === '1', ignored: [...given], notes };
}

/** Writes an address; `readAddress` of it gives the same view and state. */
export function writeAddress({ view, state, hide, embed, ignored }: Omit<Address, 'notes'>, models: readonly AnyModel[]): string {
  const model = models.find(({ id }) => id === view)!;
  const defaults = initialState(model) as Record<string, unknown>;
  const parameters = new URLSearchParams({ v: String(version), view });
  for (const [key, field] of Object.entries(model.fields)) {
    const text = field.write((state as Record<string, unknown>)[key]);
    if (text !== field.write(defaults[key])) parameters.set(key, text);
  }
  if (hide.length > 0) parameters.set('hide', hide.join(','));
  if (embed) parameters.set('embed', '1');
  for (const [key, value] of ignored) parameters.set(key, value);
  return `#${parameters}`;
}
