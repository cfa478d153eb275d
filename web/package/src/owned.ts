// Objects that own C++ objects: disposal, the finalizer behind it, and the count of those alive.
import { makeError } from './errors.js';
import type { Handle } from './raw.js';

/** Counts the owning objects of one library. */
export class Census {
  live = 0;
  // Backstop alone: finalizers do not run in synchronous code, and may never run.
  readonly finalizer = new FinalizationRegistry<Handle>((handle) => {
    this.live -= 1;
    handle.delete();
  });
}

/**
 * Makes the methods and getters of a class answer with a sentence where they are called on something else: a method that
 * was passed on without its object, or a Proxy. (Private fields would throw a TypeError that names none of this.)
 */
export function refuseStrangers(kind: string, type: { readonly prototype: object }, isOne: (value: object) => boolean): void {
  type Method = (this: unknown, ...given: unknown[]) => unknown;
  const guarded = (name: string, method: Method): Method => function (this: unknown, ...given) {
    if (typeof this !== 'object' || this === null || !isOne(this)) {
      throw makeError('argument', `${name} was called on something that is no ${kind} of this library`);
    }
    return method.apply(this, given);
  };
  for (const key of Reflect.ownKeys(type.prototype)) {
    const property = Object.getOwnPropertyDescriptor(type.prototype, key)!;
    if (key === 'constructor') continue;
    const name = typeof key === 'symbol' ? 'dispose' : key;
    if (property.get) property.get = guarded(name, property.get);
    else property.value = guarded(name, property.value as Method);
    Object.defineProperty(type.prototype, key, property);
  }
}

export abstract class OwnedObject<H extends Handle> {
  readonly #census: Census;
  readonly #name: string;
  #handle: H | null;

  protected constructor(census: Census, name: string, handle: H) {
    this.#census = census;
    this.#name = name;
    this.#handle = handle;
    census.live += 1;
    census.finalizer.register(this, handle, this);
  }

  get disposed(): boolean {
    return this.#handle === null;
  }

  dispose(): void {
    if (this.#handle === null) return;
    this.#census.finalizer.unregister(this);
    this.#census.live -= 1;
    const handle = this.#handle;
    this.#handle = null;
    handle.delete();
  }

  /** The C++ object of an owning object, or DisposedError naming the call. */
  static handleOf<H extends Handle>(object: OwnedObject<H>, call: string): H {
    if (object.#handle === null) throw makeError('disposed', `${call}: the ${object.#name} has been disposed`);
    return object.#handle;
  }

  /** The same for an argument, which must belong to the library of `host`; ArgumentError where it is of another instance. */
  static handleBeside<H extends Handle>(host: { readonly census: Census }, object: OwnedObject<H>, call: string, name: string): H {
    if (object.#census !== host.census) {
      throw makeError('argument', `${call}: ${name} belongs to another instance of the library, expected one of the same load()`);
    }
    return OwnedObject.handleOf(object, call);
  }

  static {
    // Where the engine has the symbol (Node 20, browsers of 2025), `using` works.
    if (typeof Symbol.dispose === 'symbol') {
      Object.defineProperty(this.prototype, Symbol.dispose, {
        value(this: OwnedObject<Handle>) { this.dispose(); },
        configurable: true,
        writable: true,
      });
    }
    refuseStrangers('object', this, OwnedObject.isOne);
  }

  static isOne(value: object): boolean {
    return #handle in value;
  }

  declare [Symbol.dispose]: () => void;
}

export const handleOf = OwnedObject.handleOf;
export const handleBeside = OwnedObject.handleBeside;
export const isOwned = OwnedObject.isOne;
