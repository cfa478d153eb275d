// locant: both kernels inlined, gzipped, the relaxed one as its difference from the deterministic one.
import { deterministic, difference } from 'locant:kernels';
import type { Kernel, Locant } from '../types/locant.js';
import type { LoadOptions } from '../types/index.js';
import { applyDelta } from './delta.js';
import { choice, compile, makeError, options, requireSimd, start, supportsRelaxed } from './shared.js';

export * from './public.js';

const loading = new Map<Kernel, Promise<Locant>>();

export async function load(given?: LoadOptions): Promise<Locant> {
  const { kernel = 'auto' } = options('load', given, ['kernel']);
  choice('load', 'kernel', kernel, ['auto', 'relaxed', 'deterministic']);
  requireSimd();
  const chosen = kernel === 'auto' ? (supportsRelaxed() ? 'relaxed' : 'deterministic') : kernel;
  if (chosen === 'relaxed' && !supportsRelaxed()) {
    throw makeError('load', 'load: this engine has no relaxed SIMD, which the kernel "relaxed" needs; take "auto" or "deterministic"');
  }
  let library = loading.get(chosen);
  if (!library) {
    library = bytesOf(chosen).then((bytes) => compile(bytes, 'the inlined module')).then(start);
    loading.set(chosen, library);
    library.catch(() => loading.delete(chosen));
  }
  return library;
}

async function bytesOf(kernel: Kernel): Promise<Uint8Array> {
  const base = await open(deterministic);
  return kernel === 'deterministic' ? base : applyDelta(base, await open(difference));
}

/** Opens gzipped bytes that were inlined as base64. */
async function open(base64: string): Promise<Uint8Array> {
  if (typeof DecompressionStream !== 'function') {
    throw makeError('load', 'load: this engine has no DecompressionStream to open the inlined module with; use locant/external');
  }
  const packed = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
