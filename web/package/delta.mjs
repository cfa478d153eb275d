// How the relaxed kernel is inlined: as its difference from the deterministic one. Both are made of the same source and
// differ in the few functions that multiply and add, so the difference is a tenth of the whole.
//
// Format, in bytes; numbers are LEB128:
//   repeated: n, n literal bytes; m, and where m > 0: zigzag(offset - end of the last copy), a copy of m bytes of the base
// src/delta.ts takes it apart again.

const window = 12;
const shortest = 20;

/** The difference that makes `target` of `base`. */
export function makeDelta(base, target) {
  // Where each run of `window` bytes of the base begins (the first place of each).
  const places = new Map();
  const key = (bytes, at) => bytes.toString('latin1', at, at + window);
  for (let at = base.length - window; at >= 0; --at) places.set(key(base, at), at);

  const out = [];
  const number = (value) => {
    for (; value >= 128; value = Math.floor(value / 128)) out.push((value % 128) | 128);
    out.push(value);
  };
  const lengthOf = (from, at) => {
    let length = 0;
    while (from + length < base.length && at + length < target.length && base[from + length] === target[at + length]) ++length;
    return length;
  };

  let literal = 0;  // where the literal bytes that are not written yet begin
  let end = 0;      // end of the last copy in the base
  const flush = (at) => {
    number(at - literal);
    for (let i = literal; i < at; ++i) out.push(target[i]);
  };
  let at = 0;
  while (at < target.length) {
    // Where the last copy would go on, past as many bytes as have been literal since, is the likeliest place.
    const candidates = [end + (at - literal), at + window <= target.length ? places.get(key(target, at)) : undefined];
    let from = 0;
    let length = 0;
    for (const candidate of candidates) {
      if (candidate === undefined || candidate >= base.length) continue;
      const found = lengthOf(candidate, at);
      if (found > length) [from, length] = [candidate, found];
    }
    if (length < shortest) {
      ++at;
      continue;
    }
    flush(at);
    number(length);
    const step = from - end;
    number(step >= 0 ? step * 2 : -step * 2 - 1);
    end = from + length;
    at += length;
    literal = at;
  }
  flush(at);
  number(0);
  return Buffer.from(out);
}
