// locant/external: the same library with the module handed in, for places that may not compile bytes (edge workers) or
// that want the .wasm file cached on its own. The files are locant/deterministic.wasm and locant/relaxed.wasm.
import type { Locant } from './locant.js';

export * from './locant.js';

declare global {
  // So that the name is known where neither the DOM's nor another library declares it; merges where one does.
  namespace WebAssembly {
    interface Module {}
  }
}

/** What is read of a Response, the browser's or another. */
export interface ResponseLike {
  readonly ok: boolean;
  readonly status: number;
  readonly url: string;
  readonly headers: { get(name: string): string | null };
  arrayBuffer(): Promise<ArrayBuffer>;
}

/** Where the module is: an address (fetched), a response, its bytes, or compiled already. */
export type WasmSource =
  | { readonly href: string }
  | string
  | ResponseLike
  | ArrayBuffer
  | ArrayBufferView
  | WebAssembly.Module;

export interface ExternalLoadOptions {
  readonly wasm: WasmSource | Promise<WasmSource>;
}

/**
 * Loads the library from the given module: a new instance each time. What is no module and no way to one rejects with an
 * ArgumentError; a module that does not come, or is none, with a LoadError that says what arrived instead: address, status
 * and content type.
 */
export function load(options: ExternalLoadOptions): Promise<Locant>;

/** Whether this engine can run locant/relaxed.wasm; if not, take locant/deterministic.wasm. */
export function supportsRelaxed(): boolean;
