// locant/external: the module is handed in.
import type { ExternalLoadOptions, ResponseLike, WasmSource } from '../types/external.js';
import type { Locant } from '../types/locant.js';
import { compile, makeError, options, requireSimd, show, start } from './shared.js';

export { supportsRelaxed } from './shared.js';
export * from './public.js';

export async function load(given: ExternalLoadOptions): Promise<Locant> {
  const { wasm } = options('load', given, ['wasm']);
  requireSimd();
  return start(await moduleOf(await wasm));
}

async function moduleOf(source: WasmSource | undefined): Promise<WebAssembly.Module> {
  if (source instanceof WebAssembly.Module) return source;
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return compile(source, `${source.byteLength} bytes`);
  if (typeof source === 'string' || source instanceof URL) return fromResponse(await fetched(String(source)));
  if (source !== null && typeof source === 'object' && 'arrayBuffer' in source) return fromResponse(source);
  throw makeError('argument', `load: wasm is ${show(source)}, expected an address, a Response, bytes or a WebAssembly.Module`);
}

async function fetched(address: string): Promise<ResponseLike> {
  try {
    return await fetch(address);
  } catch (cause) {
    throw makeError('load', `load: ${address} could not be fetched: ${(cause as Error).message}`, undefined, undefined, { cause });
  }
}

async function fromResponse(response: ResponseLike): Promise<WebAssembly.Module> {
  const type = response.headers.get('content-type');
  const from = `${response.url || 'the response'} (status ${response.status}, content type ${type ?? 'not given'})`;
  if (!response.ok) throw makeError('load', `load: ${from} is no module`, response.status, 200);
  // Compiled while it streams, where the server sends the type that engines want for that.
  if (response instanceof Response && type === 'application/wasm' && typeof WebAssembly.compileStreaming === 'function') {
    try {
      return await WebAssembly.compileStreaming(response);
    } catch (cause) {
      throw makeError('load', `load: ${from} could not be compiled: ${(cause as Error).message}`, undefined, undefined, { cause });
    }
  }
  let bytes: ArrayBuffer;
  try {
    bytes = await response.arrayBuffer();
  } catch (cause) {
    throw makeError('load', `load: ${from} could not be read: ${(cause as Error).message}`, undefined, undefined, { cause });
  }
  return compile(bytes, from);
}
