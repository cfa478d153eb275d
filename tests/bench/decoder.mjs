// A whole decoder of a 135M-parameter Llama shape with random float32 weights, ours alone, through the package: decode
// in tokens/s against reading the weights once, prefill against the multiply-add peak. Runs in Node and in a browser
// worker, like contest.mjs.
//
// Limits are of the same run: bytes read per second over as much memory as the weights take, in one stream or in four,
// the most of all rounds, since other work only ever slows reading down; and the peak of relaxed multiply-adds, by its median. Operations are 2
// for each weight and token and 4 x heads x head_dim for each pair of attention, the unembedding once: prefill asks for
// the logits of the last token alone, as generation does.

/** What the table asks for. */
export const targets = { decode: 0.7, prefill: 0.6 };

const config = ({ layers, vocabulary, width, heads, kvHeads, headDim, feedForwardWidth }, rotation) => ({
  vocabulary, width, heads, kvHeads, headDim, feedForwardWidth, embeddings: 'tied',
  layers: Array.from({ length: layers }, () => ({ rotation })),
});

export function decoderOperations({ layers, width, heads, kvHeads, headDim, feedForwardWidth, vocabulary, tokens }) {
  const matrices = layers * (width * headDim * (2 * heads + 2 * kvHeads) + 3 * width * feedForwardWidth);
  return 2 * tokens * matrices + 2 * vocabulary * width + layers * 4 * heads * headDim * ((tokens * (tokens + 1)) / 2);
}

export async function decoderContest(job, host) {
  const c = job.case, name = job.names[0], result = { samples: [], decode: [], steps: 8 };
  const answer = { case: c.id, results: { [name]: result }, peaks: {}, reads: [] };
  try {
    const { load } = await host.locant();
    const locant = await load({ kernel: 'relaxed' });
    const info = locant.buildInfo();
    result.version = `${info.version}, ${info.simd}`;
    result.untimed = 'weights made and packed; rotary table';
    const rotation = locant.rotaryPlan({ rule: 'default', headDim: c.headDim, base: 100000 });
    const decoder = locant.decoder(config(c, rotation), { seed: 1 });
    decoder.prepare(c.tokens + 1024);
    const tokens = Int32Array.from({ length: c.tokens }, (_, i) => (i * 97) % c.vocabulary);
    const cache = decoder.cache({ capacity: { fixed: c.tokens + 64 } });
    const prefill = (count) => {
      cache.clear();
      return decoder.forward({ tokens: tokens.subarray(0, count), positions: cache.next([count]), cache });
    };
    const step = (token) => decoder.forward({ tokens: [token], positions: cache.next([1]), cache });

    // Checked before it is timed: a prefill, and one token less with that token as a step, give the same logits.
    const whole = prefill(64);
    prefill(63);
    const difference = locant.difference(step(tokens[63]), whole).largest / Math.max(...whole.map(Math.abs));
    result.checkError = difference;
    if (!(difference < 1e-4)) throw new Error(`cached logits are off by ${difference} of the largest`);

    const limits = await host.limits(), bytes = decoder.parameters * 4;
    const started = performance.now();
    prefill(c.tokens);  // engines replace their first code while it runs
    for (let round = 0; round < job.rounds; round++) {
      for (const set of limits.sets) (answer.peaks[set] ??= []).push(limits.peak(set));
      answer.reads.push(limits.read(bytes, 100));
      let start = host.now();
      prefill(c.tokens);
      result.samples.push(host.now() - start);
      start = host.now();
      for (let i = 0; i < result.steps; i++) step(i);
      result.decode.push((host.now() - start) / result.steps);
      if (round >= 2 && performance.now() - started > job.milliseconds) break;
    }
    Object.assign(result, { parameters: decoder.parameters, bytes: decoder.bytes(), memory: locant.buildInfo().memory });
  } catch (error) {
    result.failed = String(error?.message ?? error).slice(0, 300);
  }
  return answer;
}

const median = (values) => {
  const x = [...values].sort((a, b) => a - b), n = x.length;
  return n === 0 ? NaN : (x[(n - 1) >> 1] + x[n >> 1]) / 2;
};

/** Rates and shares of the limits, or undefined where nothing was measured. */
export function judgeDecoder(c, answer) {
  const result = answer.results['locant relaxed'];
  if (!result || result.failed || result.samples.length === 0) return undefined;
  const read = Math.max(...answer.reads), peak = median(answer.peaks.relaxed ?? []);
  const decodeMs = median(result.decode), prefillMs = median(result.samples), bytes = result.parameters * 4;
  const gflops = decoderOperations(c) / (prefillMs * 1e6), readMs = bytes / (read * 1e6);
  return {
    decode: { ms: decodeMs, tokensPerSecond: 1000 / decodeMs, read, readMs, ofLimit: readMs / decodeMs },
    prefill: { ms: prefillMs, tokensPerSecond: (1000 * c.tokens) / prefillMs, gflops, peak, ofLimit: gflops / peak },
    memory: result.memory, parameters: result.parameters,
  };
}

/** The lines of the table, and what goes into the JSON beside the samples. */
export function reportDecoder(all, cases) {
  const out = [], rows = [];
  for (const answer of all.measured) {
    const c = cases.find(({ id }) => id === answer.case);
    if (c?.kind !== 'decoder') continue;
    const judged = judgeDecoder(c, answer);
    if (!judged) {
      rows.push(`  ${c.id.padEnd(24)} ${answer.host.padEnd(9)} not measured: ${answer.failed ?? answer.results['locant relaxed']?.failed ?? ''}`);
      continue;
    }
    const { decode, prefill } = judged;
    const verdict = (value, least) => (value >= least ? 'reached' : 'not reached');
    answer.judged = { ...judged, decodeReached: decode.ofLimit >= targets.decode, prefillReached: prefill.ofLimit >= targets.prefill };
    rows.push(`  ${`${c.id} decode`.padEnd(24)} ${answer.host.padEnd(9)} ${decode.ms.toFixed(1).padStart(7)}   ${decode.tokensPerSecond.toFixed(1).padStart(7)}   `
      + `${(decode.ofLimit * 100).toFixed(0)} % ${verdict(decode.ofLimit, targets.decode)} (of reading ${(judged.parameters * 4 / 1e6).toFixed(0)} MB at ${decode.read.toFixed(1)} GB/s)`);
    rows.push(`  ${`${c.id} prefill ${c.tokens}`.padEnd(24)} ${answer.host.padEnd(9)} ${prefill.ms.toFixed(0).padStart(7)}   ${prefill.tokensPerSecond.toFixed(0).padStart(7)}   `
      + `${(prefill.ofLimit * 100).toFixed(0)} % ${verdict(prefill.ofLimit, targets.prefill)} (${prefill.gflops.toFixed(1)} of ${prefill.peak.toFixed(1)} GFLOP/s); `
      + `memory ${(judged.memory / 2 ** 20).toFixed(0)} MB for ${(judged.parameters / 1e6).toFixed(1)} M weights`);
  }
  if (rows.length === 0) return out;
  out.push(`Decoder, ours alone: decode at least ${targets.decode * 100} % of reading the weights once, prefill at least ${targets.prefill * 100} % of the relaxed peak`);
  out.push('  case                     host           ms  tokens/s   of the limit', ...rows, '');
  return out;
}

export function lineDecoder(c, host, answer) {
  const judged = judgeDecoder(c, answer);
  if (!judged) return `${c.id}, ${host}: failed: ${answer.failed ?? answer.results['locant relaxed']?.failed ?? 'nothing measured'}`;
  const { decode, prefill } = judged;
  return `${c.id}, ${host}: decode ${decode.ms.toFixed(1)} ms, prefill ${prefill.ms.toFixed(0)} ms; `
    + `peak GFLOP/s relaxed ${prefill.peak.toFixed(1)}, read ${decode.read.toFixed(1)} GB/s`;
}
