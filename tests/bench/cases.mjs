// What is timed: the cases, their inputs, the double-precision reference, and the work that they contain.
// Runs in Node and in a browser; imports nothing.

const shapes = { '8/8x64': [8, 8, 64], '9/3x64': [9, 3, 64], '32/8x128': [32, 8, 128] };
const shape = (name) => ({ heads: shapes[name][0], kvHeads: shapes[name][1], headDim: shapes[name][2] });

const prefill = (name, tokens, more = {}) => ({ id: `prefill ${name} ${tokens}`, kind: 'prefill', ...shape(name), tokens, ...more });
const decode = (name, length) => ({ id: `decode ${name} ${length}`, kind: 'decode', ...shape(name), tokens: 1, length });

/** `judged` cases carry a line of the table; the others serve exponents and the costs of masks. */
export const cases = [
  prefill('8/8x64', 512, { judged: true, quick: true }),
  prefill('8/8x64', 2048, { judged: true, quick: true }),
  prefill('9/3x64', 2048, { judged: true, quick: true }),
  prefill('32/8x128', 1024, { judged: true, quick: true }),
  prefill('9/3x64', 8192, { judged: true }),
  ...[512, 2048, 8192, 32768].map((length) => ({ ...decode('9/3x64', length), judged: true, quick: length === 2048 || length === 8192 })),
  ...[512, 2048, 8192, 32768].map((length) => ({ ...decode('32/8x128', length), judged: true, quick: length === 8192 })),
  { id: 'rotation 32x128 2048', kind: 'rotation', heads: 32, kvHeads: 32, headDim: 128, tokens: 2048, quick: true },
  prefill('9/3x64', 512, { ours: true }),
  prefill('9/3x64', 4096, { ours: true }),
  prefill('9/3x64', 8192, { id: 'window 512 9/3x64 8192', window: 512, ours: true }),
  prefill('9/3x64', 8192, { id: 'packed 8x1024 9/3x64 8192', packed: 8, ours: true }),
  prefill('9/3x64', 32768, { id: 'prefill 9/3x64 32768', ours: true, once: true }),
  { id: 'decoder 135M', kind: 'decoder', layers: 30, vocabulary: 49152, width: 576, heads: 9, kvHeads: 3, headDim: 64,
    feedForwardWidth: 1536, tokens: 512, quick: true },
];

/** Small shapes for the check before anything is timed, one per kind. */
export const checks = {
  prefill: { id: 'check', kind: 'prefill', heads: 6, kvHeads: 2, headDim: 64, tokens: 37 },
  decode: { id: 'check', kind: 'decode', heads: 6, kvHeads: 2, headDim: 64, tokens: 1, length: 53 },
  rotation: { id: 'check', kind: 'rotation', heads: 4, kvHeads: 4, headDim: 64, tokens: 37 },
};

export const base = 10000;

/** Pairs (query, key) that the mask lets through. */
export function pairs({ kind, tokens, length, window, packed }) {
  if (kind === 'decode') return length + 1;
  if (window) return window * tokens - (window * (window - 1)) / 2;
  if (packed) return (tokens * (tokens / packed + 1)) / 2;
  return (tokens * (tokens + 1)) / 2;
}

/** Floating-point operations of the two products, counting only what the mask lets through. */
export const operations = (c) => (c.kind === 'rotation' ? 0 : 4 * c.heads * c.headDim * pairs(c));

/** Bytes of the cache that a decode step reads. */
export const cacheBytes = (c) => 8 * c.kvHeads * c.headDim * (c.length + 1);

/** Numbers of about normal distribution, the same in every run. */
export function numbers(count, seed) {
  const out = new Float32Array(count);
  let state = (seed * 0x9e3779b1) >>> 0;
  const uniform = () => {  // xorshift32
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state / 4294967296;
  };
  for (let i = 0; i < count; i++) out[i] = (uniform() + uniform() + uniform() - 1.5) * 2;
  return out;
}

/** q, k, v token after token; for a decode step also the cache, [kvHeads, length, headDim], keys turned already. */
export function inputs(c) {
  const { heads, kvHeads, headDim, tokens, length } = c;
  const x = { q: numbers(tokens * heads * headDim, 1) };
  if (c.kind === 'rotation') return x;
  x.k = numbers(tokens * kvHeads * headDim, 2);
  x.v = numbers(tokens * kvHeads * headDim, 3);
  if (c.kind === 'decode') {
    // Keys as they come, and the same turned: who turns keys itself starts from the first.
    x.pastRaw = numbers(length * kvHeads * headDim, 4);  // [length, kvHeads, headDim]
    const values = numbers(length * kvHeads * headDim, 5);
    x.pastRawValues = values;
    x.pastKeys = new Float32Array(x.pastRaw.length);
    x.pastValues = new Float32Array(values.length);
    const half = headDim / 2, frequency = frequencies(headDim);
    for (let t = 0; t < length; t++) {
      const cos = frequency.map((f) => Math.cos(t * f)), sin = frequency.map((f) => Math.sin(t * f));
      for (let h = 0; h < kvHeads; h++) {
        const from = (t * kvHeads + h) * headDim, to = (h * length + t) * headDim;
        for (let i = 0; i < half; i++) {
          const a = x.pastRaw[from + i], b = x.pastRaw[from + half + i];
          x.pastKeys[to + i] = a * cos[i] - b * sin[i];
          x.pastKeys[to + half + i] = b * cos[i] + a * sin[i];
        }
        x.pastValues.set(values.subarray(from, from + headDim), to);
      }
    }
  }
  return x;
}

export const frequencies = (headDim) => Float64Array.from({ length: headDim / 2 }, (_, i) => base ** ((-2 * i) / headDim));

/** Float32 tables of cos and sin, [positions, headDim / 2], computed in double. */
export function rotaryTables(positions, headDim) {
  const frequency = frequencies(headDim), half = headDim / 2;
  const cos = new Float32Array(positions * half), sin = new Float32Array(positions * half);
  for (let p = 0; p < positions; p++) {
    for (let i = 0; i < half; i++) {
      cos[p * half + i] = Math.cos(p * frequency[i]);
      sin[p * half + i] = Math.sin(p * frequency[i]);
    }
  }
  return { cos, sin };
}

/** One output row (query token, head) by the definition, in double: row(token, head). */
export function reference(c, x) {
  const { heads, kvHeads, headDim, length = 0 } = c;
  const half = headDim / 2, frequency = frequencies(headDim);
  const turned = (source, at, position) => {
    const out = Float64Array.from(source.subarray(at, at + headDim));
    for (let i = 0; i < half; i++) {
      const cos = Math.cos(position * frequency[i]), sin = Math.sin(position * frequency[i]);
      out[i] = source[at + i] * cos - source[at + half + i] * sin;
      out[half + i] = source[at + half + i] * cos + source[at + i] * sin;
    }
    return out;
  };
  const document = c.packed ? c.tokens / c.packed : Infinity;
  const positionOf = (token) => (c.packed ? token % document : token);
  const memo = new Map();
  const key = (head, token) => {
    if (token < length) return x.pastKeys.subarray((head * length + token) * headDim, (head * length + token + 1) * headDim);
    const id = head * 65536 + token;
    if (!memo.has(id)) memo.set(id, turned(x.k, ((token - length) * kvHeads + head) * headDim, positionOf(token)));
    return memo.get(id);
  };
  const value = (head, token) => (token < length
    ? x.pastValues.subarray((head * length + token) * headDim, (head * length + token + 1) * headDim)
    : x.v.subarray(((token - length) * kvHeads + head) * headDim, ((token - length) * kvHeads + head + 1) * headDim));
  return (token, head) => {
    const q = turned(x.q, (token * heads + head) * headDim, positionOf(length + token));
    if (c.kind === 'rotation') return q;
    const at = length + token, shared = Math.floor(head / (heads / kvHeads));
    let first = c.packed ? Math.floor(at / document) * document : 0;
    if (c.window) first = Math.max(first, at - c.window + 1);
    const scores = [];
    for (let j = first; j <= at; j++) {
      const k = key(shared, j);
      let sum = 0;
      for (let i = 0; i < headDim; i++) sum += q[i] * k[i];
      scores.push(sum / Math.sqrt(headDim));
    }
    const highest = scores.reduce((a, b) => Math.max(a, b), -Infinity);
    const out = new Float64Array(headDim);
    let total = 0;
    scores.forEach((score, j) => {
      const weight = Math.exp(score - highest), v = value(shared, first + j);
      total += weight;
      for (let i = 0; i < headDim; i++) out[i] += weight * v[i];
    });
    return out.map((y) => y / total);
  };
}

/** The largest difference from the reference over all rows, or over about `sample` of them, the last one always. */
export function largestError(c, x, got, sample = Infinity) {
  const row = reference(c, x), rows = c.tokens * c.heads, step = Math.max(1, Math.floor(rows / sample));
  if (got.length !== rows * c.headDim) return Infinity;
  let most = 0;
  for (let r = rows - 1; r >= 0; r -= step) {
    const want = row(Math.floor(r / c.heads), r % c.heads);
    for (let i = 0; i < c.headDim; i++) {
      const error = Math.abs(got[r * c.headDim + i] - want[i]);
      if (!(error <= most)) most = error;
    }
  }
  return Number.isNaN(most) ? Infinity : most;
}

/** What a result may be off by: float32 softmax and sums of thousands of values near 1 stay under it. */
export const tolerance = 2e-5;
