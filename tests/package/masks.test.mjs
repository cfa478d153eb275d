// Who may see whom, in combinations, through the package: what attend() and explain() make of random masks over random
// batches against the definition, said anew here in a few lines.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { close, locant, numbers } from './helpers.mjs';

const { positions } = locant;

/** Reproducible whole numbers. */
function dice(seed) {
  let state = seed;
  return (low, high) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return low + Math.floor((state / 4294967296) * (high - low + 1));
  };
}

/** The definition: query q of row r sees key k. */
function sees(batch, r, first, q, k, mask, prefix, visible, keys) {
  const [a, b] = [first + q, first + k];
  if (!batch.valid[a] || !batch.valid[b] || batch.segment[a] !== batch.segment[b]) return false;
  if (visible && !visible[q * keys + k]) return false;
  const [mine, other] = [batch.order[a], batch.order[b]];
  const causal = (mask.direction ?? 'causal') === 'causal';
  if (causal && other > mine && other >= prefix) return false;
  if (mask.window) {
    const back = causal ? mine - other : Math.abs(mine - other);
    const most = mask.window.size - (mask.window.convention === 'before-current' ? 0 : 1);
    if (back > most && other >= (mask.window.sinks ?? 0)) return false;
  }
  return !mask.chunk || Math.floor(mine / mask.chunk) === Math.floor(other / mask.chunk);
}

function randomBatch(pick) {
  const [a, b, c] = [pick(1, 9), pick(0, 12), pick(1, 7)];
  switch (pick(0, 3)) {
    case 0: return positions.ragged([a, b, c]);
    case 1: return positions.packed([a, b, c], { positions: pick(0, 1) ? 'restart' : 'running' });
    case 2: return positions.padded([a, b], { columns: 13, side: pick(0, 1) ? 'left' : 'right' });
    default: return positions.fromPaddingMask(Array.from({ length: 20 }, () => pick(0, 3) > 0), { rows: 2, columns: 10 });
  }
}

test('masks: windows of both conventions, sinks, chunks, prefixes, own masks, documents and padding, all at once', () => {
  const pick = dice(7);
  const [heads, headDim, valueDim] = [2, 4, 3];
  let hidden = 0;
  let empty = 0;
  for (let round = 0; round < 120; ++round) {
    const batch = randomBatch(pick);
    const mask = { direction: pick(0, 2) ? 'causal' : 'bidirectional' };
    if (pick(0, 1)) {
      mask.window = pick(0, 1) ? { size: pick(1, 6), sinks: pick(0, 2) } : { size: pick(0, 6), convention: 'before-current' };
    }
    if (pick(0, 2) === 0) mask.chunk = pick(1, 8);
    const lengths = Array.from(batch.rowLengths);
    const prefix = pick(0, 2) === 0 ? lengths.map(() => pick(0, 6)) : undefined;
    const pairs = lengths.reduce((sum, n) => sum + n * n, 0);
    const visible = pick(0, 2) === 0 ? Uint8Array.from({ length: pairs }, () => (pick(0, 4) > 0 ? 1 : 0)) : undefined;
    const sinkLogits = pick(0, 2) === 0 ? Float32Array.of(0.5, -1) : undefined;
    const [q, k, v] = [heads * headDim, headDim, valueDim].map((width, i) => numbers(batch.tokens * width, 'qkv'[i], round));
    const attention = locant.attention({ heads, kvHeads: 1, headDim, valueDim, mask, sinkLogits });
    const added = { prefix, visible };
    const out = attention.attend({ q, k, v, positions: batch, mask: added });
    const requests = Array.from({ length: batch.tokens }, (_, query) => ({ head: query % heads, query }));
    const parts = attention.explain({ q, k, positions: batch, mask: added, requests });
    let first = 0;
    let pair = 0;
    for (const [r, count] of lengths.entries()) {
      const own = visible?.subarray(pair, pair + count * count);
      for (let t = 0; t < count; ++t) {
        for (let h = 0; h < heads; ++h) {
          const scores = Array.from({ length: count }, (_, j) => {
            if (!sees(batch, r, first, t, j, mask, prefix?.[r] ?? 0, own, count)) return -Infinity;
            let dot = 0;
            for (let c = 0; c < headDim; ++c) dot += q[((first + t) * heads + h) * headDim + c] * k[(first + j) * headDim + c];
            return dot / Math.sqrt(headDim);
          });
          const exps = scores.map(Math.exp);
          const seen = scores.some((score) => score > -Infinity);
          const total = exps.reduce((sum, e) => sum + e, 0) + (sinkLogits ? Math.exp(sinkLogits[h]) : 0);
          const weights = exps.map((e) => (seen ? e / total : 0));
          hidden += scores.filter((score) => score === -Infinity).length;
          if (!seen) ++empty;
          const expected = Array.from({ length: valueDim }, (_, c) => weights.reduce((sum, w, j) => sum + w * v[(first + j) * valueDim + c], 0));
          const at = ((first + t) * heads + h) * valueDim;
          const what = `round ${round}, row ${r}, query ${t}, head ${h}: ${JSON.stringify({ mask, prefix })}`;
          close(out.subarray(at, at + valueDim), expected, 2e-6, what);
          if (!seen) assert.ok(out.subarray(at, at + valueDim).every((y) => y === 0), what);
          // Weights of the chosen head and query alone.
          if (h === (first + t) % heads) {
            close(parts[first + t].weight, weights, 1e-6, what);
            assert.equal(parts[first + t].score.length, count);
            for (const [j, score] of scores.entries()) {
              if (score === -Infinity) assert.equal(parts[first + t].score[j], -Infinity, what);
              else close([parts[first + t].content[j] + parts[first + t].position[j]], [parts[first + t].score[j]], 2e-6, what);
            }
          }
        }
      }
      first += count;
      pair += count * count;
    }
    attention.dispose();
  }
  assert.ok(hidden > 5000 && empty > 100, `${hidden} hidden pairs, ${empty} empty rows`);
});

test('masks: orders decide, not positions: image tokens that share one and positions that were divided see what they saw', () => {
  const count = 6;
  const image = positions.from({ rowLengths: [count], position: [[0, 1, 1, 1, 2, 3]] });
  const attention = locant.attention({ heads: 1, headDim: 4 });
  const [q, k, v] = ['q', 'k', 'v'].map((name) => numbers(count * 4, name));
  // Without rotation or bias positions do not enter, so only the mask could tell.
  assert.deepEqual(attention.attend({ q, k, v, positions: image }), attention.attend({ q, k, v, positions: positions.range(count) }));
  // Tokens handed over in another order than they stand in.
  const order = [3, 0, 5, 1, 4, 2];
  const shuffle = (x) => Float32Array.from(order.flatMap((from) => Array.from(x.subarray(from * 4, from * 4 + 4))));
  const shuffled = attention.attend({ q: shuffle(q), k: shuffle(k), v: shuffle(v), positions: positions.from({ rowLengths: [count], position: [order], order }) });
  const straight = attention.attend({ q, k, v, positions: positions.range(count) });
  assert.ok(locant.difference(shuffled, shuffle(straight)).largest < 1e-6);
  attention.dispose();
});

test('masks: a window, sinks and an own mask go on over a cache as over the whole', () => {
  const pick = dice(3);
  const count = 23;
  for (const mask of [{ window: { size: 5 } }, { window: { size: 4, sinks: 2 } }, { window: { size: 6, convention: 'before-current' } }, { chunk: 7 }]) {
    const attention = locant.attention({ heads: 2, kvHeads: 1, headDim: 4, mask, rotation: locant.rotaryPlan({ rule: 'default', headDim: 4 }) });
    const [q, k, v] = [8, 4, 4].map((width, i) => numbers(count * width, 'qkv'[i]));
    const own = Uint8Array.from({ length: count * count }, () => (pick(0, 3) > 0 ? 1 : 0));
    const whole = attention.attend({ q, k, v, positions: positions.range(count), mask: { visible: own } });
    const cache = locant.cache({ kvHeads: 1, headDim: 4 });
    let at = 0;
    for (const rows of [9, 1, 1, 8, 4]) {
      const end = at + rows;
      const visible = Uint8Array.from({ length: rows * end }, (_, i) => own[(at + Math.floor(i / end)) * count + (i % end)]);
      const cut = (x, width) => x.slice(at * width, end * width);
      const out = attention.attend({ q: cut(q, 8), k: cut(k, 4), v: cut(v, 4), cache, step: cache.begin(cache.next([rows])), mask: { visible } });
      assert.ok(locant.difference(out, whole.slice(at * 8, end * 8)).largest < 2e-6, JSON.stringify(mask));
      at = end;
    }
    attention.dispose();
    cache.dispose();
  }
});

test('masks: a prefix, sinks, documents and other values take part in a cache of several sequences', () => {
  const attention = locant.attention({ heads: 2, headDim: 4, valueDim: 6, sinkLogits: Float32Array.of(0.3, -0.7), mask: { window: { size: 7, sinks: 1 } } });
  const cache = locant.cache({ kvHeads: 2, headDim: 4, valueDim: 6, sequences: 2 });
  const batch = positions.ragged([6, 4]);
  const [q, k, v] = [8, 8, 12].map((width, i) => numbers(12 * width, 'qkv'[i]));
  const whole = [0, 1].map((row) => {
    const rows = row === 0 ? [0, 1, 2, 3, 4, 5, 10] : [6, 7, 8, 9, 11];
    const take = (x, width) => Float32Array.from(rows.flatMap((t) => Array.from(x.subarray(t * width, (t + 1) * width))));
    return attention.attend({ q: take(q, 8), k: take(k, 8), v: take(v, 12), positions: positions.range(rows.length), mask: { prefix: [3] } });
  });
  const cut = (x, width, first, count) => x.slice(first * width, (first + count) * width);
  const prefill = attention.attend({ q: cut(q, 8, 0, 10), k: cut(k, 8, 0, 10), v: cut(v, 12, 0, 10), cache, step: cache.begin(batch), mask: { prefix: [3, 3] } });
  assert.ok(locant.difference(prefill.slice(0, 6 * 12), whole[0].slice(0, 6 * 12)).largest < 2e-6);
  assert.ok(locant.difference(prefill.slice(6 * 12), whole[1].slice(0, 4 * 12)).largest < 2e-6);
  const next = attention.attend({ q: cut(q, 8, 10, 2), k: cut(k, 8, 10, 2), v: cut(v, 12, 10, 2), cache, step: cache.begin(cache.next([1, 1])), mask: { prefix: [3] } });
  assert.ok(locant.difference(next.slice(0, 12), whole[0].slice(6 * 12)).largest < 2e-6);
  assert.ok(locant.difference(next.slice(12), whole[1].slice(4 * 12)).largest < 2e-6);
  attention.dispose();
  cache.dispose();
});
