// From a module, however it comes, to a library.
import glue from 'locant:glue';
import { makeError } from './errors.js';
import { Library } from './library.js';
import type { Raw } from './raw.js';

// A function that is three i8x16.splat and one f32x4.relaxed_madd: validates where relaxed SIMD is.
const relaxedProbe = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 19, 1, 17, 0, 65, 0, 253, 15, 65, 0, 253, 15, 65,
  0, 253, 15, 253, 133, 2, 11,
];
// One i32x4.splat: validates where SIMD128 is.
const simdProbe = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 8, 1, 6, 0, 65, 0, 253, 17, 11];

const validates = (probe: readonly number[]): boolean =>
  typeof WebAssembly === 'object' && WebAssembly.validate(Uint8Array.from(probe));

export const supportsRelaxed = (): boolean => validates(relaxedProbe);

/** LoadError where this engine cannot run any kernel; says what is missing. */
export function requireSimd(): void {
  if (typeof WebAssembly !== 'object') throw makeError('load', 'load: this engine has no WebAssembly');
  if (!validates(simdProbe)) {
    throw makeError('load', 'load: this engine has no WebAssembly SIMD, which needs Chrome 91, Firefox 89, Safari 16.4 or Node 16.4');
  }
}

/** Compiles bytes; LoadError where they are no module. */
export async function compile(bytes: ArrayBuffer | ArrayBufferView, from: string): Promise<WebAssembly.Module> {
  try {
    return await WebAssembly.compile(bytes as BufferSource);
  } catch (cause) {
    throw makeError('load', `load: ${from} could not be compiled: ${(cause as Error).message}`, undefined, undefined, { cause });
  }
}

/** Starts a compiled module. */
export async function start(module: WebAssembly.Module): Promise<Library> {
  let raw: Raw;
  try {
    raw = await new Promise<Raw>((resolve, reject) => {
      const instantiateWasm = (imports: WebAssembly.Imports, receive: (instance: WebAssembly.Instance, module: WebAssembly.Module) => void) => {
        WebAssembly.instantiate(module, imports).then((instance) => receive(instance, module)).catch(reject);
        return {};
      };
      glue({ instantiateWasm }).then(resolve, reject);
    });
  } catch (cause) {
    throw makeError('load', `load: the module could not be started: ${(cause as Error).message}`, undefined, undefined, { cause });
  }
  return new Library(raw);
}
