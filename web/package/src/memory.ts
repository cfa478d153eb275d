// Calls into the module: arrays are copied in, the call is made, results are copied out, memory is given back.
//
// A view of WebAssembly memory dies when the memory grows, which any call can make it do. So views are derived anew for
// each copy and none is kept or handed out.
import type { ErrorCode } from '../types/locant.js';
import { LocantError, makeError } from './errors.js';
import type { Address, Raw } from './raw.js';

const scratchBytes = 1 << 18;
const border = 64;
const roundUp = (bytes: number): number => Math.ceil(bytes / border) * border;

/**
 * What else can be thrown on the way in and out, as a typed error: arrays that were transferred away, objects of another
 * instance of the library, or the module's own end.
 */
function typed(call: string, fault: unknown): unknown {
  if (fault instanceof LocantError) return fault;
  const said = fault instanceof Error ? fault.message : String(fault);
  if (fault instanceof RangeError && /allocation|array length|array buffer/i.test(said)) {
    return makeError('out-of-memory', `${call}: no memory for the result: ${said}`, undefined, undefined, { cause: fault });
  }
  if (fault instanceof Error && fault.name === 'BindingError' && /deleted/.test(said)) {
    return makeError('disposed', `${call}: an object of the call was disposed while the call read its options`, undefined, undefined, { cause: fault });
  }
  return fault instanceof WebAssembly.RuntimeError
    ? makeError('internal', `${call}: the module gave up on these arguments: ${said}`, undefined, undefined, { cause: fault })
    : makeError('argument', `${call}: an argument could not be taken over: ${said}`, undefined, undefined, { cause: fault });
}

/** The library's sentences begin with the C++ name of the call: `T5Buckets: `, `Positions::next: `. */
const withoutCall = (sentence: string): string => sentence.replace(/^[A-Za-z][A-Za-z0-9_]*(?:::[A-Za-z0-9_]+)*: /, '');

/**
 * A sentence of the library with the package's spelling of its names: what C++ calls head_dim is headDim here, and
 * Attention::explain is attention.explain. What stands in quotes, or with dots as the tensors of a file do, is somebody
 * else's name and stays.
 */
export const inPackageNames = (sentence: string): string =>
  sentence.split(/("[^"]*")/).map((part, i) => (i % 2 === 1 ? part : part
    .replace(/\b([A-Z])(\w*)::(\w+)/g, (_, first: string, rest: string, call: string) => `${first.toLowerCase()}${rest}.${call}`)
    .replace(/(?<![\w./])[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?![\w./]*\w)/g, (name) => name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())))).join('');

/** What one call borrows. */
export class Frame {
  readonly #memory: Memory;
  readonly #owned: Address[] = [];
  constructor(memory: Memory) {
    this.#memory = memory;
  }

  /** Memory for `bytes` bytes until the call is over. */
  reserve(bytes: number): Address {
    const address = this.#memory.take(bytes);
    if (address.owned) this.#owned.push(address.at);
    return address.at;
  }

  float32(values: Float32Array): Address {
    const at = this.reserve(values.byteLength);
    new Float32Array(this.#memory.buffer, at, values.length).set(values);
    return at;
  }

  int32(values: Int32Array): Address {
    const at = this.reserve(values.byteLength);
    new Int32Array(this.#memory.buffer, at, values.length).set(values);
    return at;
  }

  bytes(values: Uint8Array): Address {
    const at = this.reserve(values.byteLength);
    new Uint8Array(this.#memory.buffer, at, values.length).set(values);
    return at;
  }

  /** Copies a result into `out`, which it returns. */
  copyTo(out: Float32Array, from: Address): Float32Array {
    out.set(new Float32Array(this.#memory.buffer, from, out.length));
    return out;
  }

  release(): void {
    for (const address of this.#owned) this.#memory.raw.release(address);
  }
}

export class Memory {
  readonly raw: Raw;
  readonly #faultFlag: Address;
  // Small calls share one block; what does not fit is allocated for the call.
  readonly #scratch: Address;
  #scratchUsed = 0;
  #call = '';

  constructor(raw: Raw) {
    this.raw = raw;
    this.#faultFlag = raw.faultFlag() >>> 0;
    this.#scratch = raw.allocate(scratchBytes) >>> 0;
  }

  get buffer(): ArrayBuffer {
    return this.raw.wasmMemory.buffer as ArrayBuffer;
  }

  take(bytes: number): { at: Address; owned: boolean } {
    const size = roundUp(bytes);
    if (this.#scratchUsed + size <= scratchBytes) {
      const at = this.#scratch + this.#scratchUsed;
      this.#scratchUsed += size;
      return { at, owned: false };
    }
    const at = this.raw.allocate(size) >>> 0;
    if (at === 0) {
      throw makeError('out-of-memory', `${this.#call}: ${bytes} bytes could not be had; ${this.buffer.byteLength} are in use of at most 4294967296`,
        bytes, 4294967296);
    }
    return { at, owned: true };
  }

  /** Makes one call: `body` fills the frame, calls the module, checks it with `done` and copies results out. */
  call<T>(call: string, body: (frame: Frame) => T): T {
    const frame = new Frame(this);
    // A getter of somebody's options may make a call within this one.
    const [outer, used] = [this.#call, this.#scratchUsed];
    this.#call = call;
    try {
      return body(frame);
    } catch (fault) {
      throw typed(call, fault);
    } finally {
      frame.release();
      this.#scratchUsed = used;
      this.#call = outer;
    }
  }

  /** What a raw call returned, or the fault that it recorded as a typed error. */
  done<T>(returned: T): T {
    if (new Uint32Array(this.buffer, this.#faultFlag, 1)[0] !== 0) {
      const { code, message, value, limit } = this.raw.takeFault();
      const theirs = code === 'format' || this.#call === 'llamaConfig';  // names of a file, which this package keeps
      const sentence = `${this.#call}: ${theirs ? withoutCall(message) : inPackageNames(withoutCall(message))}`;
      throw makeError(code as ErrorCode, sentence, Number.isNaN(value) ? undefined : value, Number.isNaN(limit) ? undefined : limit);
    }
    return returned;
  }
}
