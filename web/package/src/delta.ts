// Makes the relaxed kernel of the deterministic one and their difference (web/package/delta.mjs says how it is written).

export function applyDelta(base: Uint8Array, delta: Uint8Array): Uint8Array {
  let at = 0;
  const number = (): number => {
    for (let value = 0, scale = 1; ; scale *= 128) {
      const byte = delta[at++]!;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  const parts: Uint8Array[] = [];
  for (let end = 0; at < delta.length; ) {
    const literal = number();
    parts.push(delta.subarray(at, at + literal));
    at += literal;
    const length = number();
    if (length > 0) {
      const step = number();
      const from = end + (step % 2 === 0 ? step / 2 : -(step + 1) / 2);
      end = from + length;
      parts.push(base.subarray(from, end));
    }
  }
  const target = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let to = 0;
  for (const part of parts) {
    target.set(part, to);
    to += part.length;
  }
  return target;
}
