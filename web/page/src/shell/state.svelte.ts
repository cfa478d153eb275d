// The living state of the page: one address, read from the location at the start and at every navigation, written back
// with replaceState while a figure is used and with pushState when another view is chosen.
import { initialState, readAddress, writeAddress, type Address, type Hideable } from './address';
import type { AnyView } from './view';

/** Browsers refuse more than some hundred history writes in half a minute, so dragging writes at most this often. */
const writePause = 200;

export class PageState {
  #models;
  #views;
  #timer: ReturnType<typeof setTimeout> | undefined;

  address: Address = $state.raw({ view: '', state: {}, hide: [], embed: false, ignored: [], notes: [] });
  /** Goes up when the reader has finished a change: what is read aloud changes only then. */
  commits = $state(0);

  constructor(views: readonly AnyView[], hash: string) {
    this.#views = views;
    this.#models = views.map(({ model }) => model);
    this.address = readAddress(hash, this.#models);
  }

  get view(): AnyView {
    return this.#views.find(({ model }) => model.id === this.address.view)!;
  }

  get hash(): string {
    return writeAddress(this.address, this.#models);
  }

  /** The address of another view at its defaults, for links. */
  hashOf(view: AnyView): string {
    return writeAddress({ ...this.address, view: view.model.id, state: initialState(view.model), ignored: [] }, this.#models);
  }

  hides(part: Hideable): boolean {
    return this.address.hide.includes(part);
  }

  change(patch: object, commit = true): void {
    let state = { ...this.address.state, ...patch };
    let notes: readonly string[] = [];
    const { settle } = this.view.model;
    if (settle) ({ state, notes } = settle(state));
    this.address = { ...this.address, state, notes };
    if (commit) {
      this.commits += 1;
      this.#write();
    } else {
      this.#timer ??= setTimeout(() => this.#write(), writePause);
    }
  }

  reset(): void {
    this.address = { ...this.address, state: initialState(this.view.model), notes: [], ignored: [] };
    this.commits += 1;
    this.#write();
  }

  open(hash: string): void {
    this.#flush();
    this.address = readAddress(hash, this.#models);
    this.commits += 1;
    history.pushState(null, '', this.hash);
  }

  /** The reader used Back, Forward or edited the address. */
  follow(hash: string): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (hash === this.hash) return;
    this.address = readAddress(hash, this.#models);
    this.commits += 1;
  }

  #flush(): void {
    if (this.#timer !== undefined) this.#write();
  }

  #write(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    try {
      history.replaceState(null, '', this.hash);
    } catch {
      // Too many writes, as by a key held down: later, then.
      this.#timer = setTimeout(() => this.#write(), 5000);
    }
  }
}
