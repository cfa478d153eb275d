// locant: the module is inlined, nothing is fetched.
import type { Kernel, Locant } from './locant.js';

export * from './locant.js';

export interface LoadOptions {
  /**
   * `auto` (default): the fastest kernel that the engine validates. A named kernel that the engine does not have is a
   * LoadError.
   */
  readonly kernel?: 'auto' | Kernel;
}

/**
 * Loads the library. The same kernel is loaded once: later calls give the same promise, whoever made the first. Nothing
 * happens on import. Options that are none reject with an ArgumentError, an engine or a module that cannot be used with a
 * LoadError; a failed load may be tried again.
 */
export function load(options?: LoadOptions): Promise<Locant>;
