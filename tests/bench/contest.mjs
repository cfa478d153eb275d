// One case, all contestants in one process or one page, taking turns: a machine that slows down slows them all
// down. Each is checked against the reference before it is timed and once more after. Runs in Node and in a
// browser worker; `host` gives addresses and files (host-node.mjs, worker.mjs).
import { cacheBytes, checks, inputs, largestError, tolerance } from './cases.mjs';

const contestants = {
  locant: './contestants/locant.mjs',
  onnxruntime: './contestants/onnxruntime.mjs',
  tfjs: './contestants/tfjs.mjs',
};

// Milliseconds: long enough that the first run, which finds the processor's caches full of others' data, counts little.
const turn = 60;

/** job: { case, names: ["locant relaxed", ...], rounds, milliseconds }. Resolves to samples per contestant. */
export async function contest(job, host) {
  const c = job.case;
  const timed = async (run, repeats = 1) => {
    const start = host.now();
    for (let i = 0; i < repeats; i++) await run();
    return (host.now() - start) / repeats;
  };
  const results = {}, ready = [];
  const limits = await host.limits();
  for (const name of job.names) {
    const [kind, ...mode] = name.split(' ');
    const result = (results[name] = { samples: [] });
    try {
      const module = await import(contestants[kind]);
      const contestant = await module.open(mode.join(' '), host);
      result.version = contestant.version;
      result.untimed = contestant.untimed;
      const small = checks[c.kind], few = inputs(small);
      const tried = await contestant.prepare(small, few);
      await tried.run();
      result.checkError = largestError(small, few, await tried.output());
      tried.dispose?.();
      if (!(result.checkError < tolerance)) throw new Error(`wrong by ${result.checkError}`);
      ready.push({ name, contestant, result });
    } catch (error) {
      result.failed = String(error?.message ?? error).slice(0, 300);
    }
  }

  const x = inputs(c);
  const racing = [];
  for (const entry of ready) {
    try {
      const work = await entry.contestant.prepare(c, x);
      const first = await timed(work.run);
      // Engines replace their first code by better code at calls, after a while of running.
      const until = performance.now() + (first > 3000 || c.once ? 0 : Math.max(400, 2 * first));
      let last = first;
      while (performance.now() < until) last = await timed(work.run);
      const repeats = Math.max(1, Math.min(500, Math.round(turn / last)));
      racing.push({ ...entry, work, repeats, last });
    } catch (error) {
      entry.result.failed = String(error?.message ?? error).slice(0, 300);
    }
  }

  const peaks = {}, reads = [];
  const started = performance.now();
  for (let round = 0; round < job.rounds; round++) {
    for (const set of limits.sets) (peaks[set] ??= []).push(limits.peak(set));
    if (c.kind === 'decode') reads.push(limits.read(cacheBytes(c), turn));
    for (const entry of racing) {
      if (round > 0 && entry.last > 5000) continue;  // slow ones race once
      entry.result.samples.push(await timed(entry.work.run, entry.repeats));
    }
    if (round >= 2 && performance.now() - started > job.milliseconds) break;
  }
  for (const { work, result, contestant } of racing) {
    try {
      result.error = largestError(c, x, await work.output(), 24);
      if (!(result.error < tolerance)) result.failed = `wrong by ${result.error}`;
      result.memory = await contestant.memory?.();
      work.dispose?.();
    } catch (error) {
      result.failed = String(error?.message ?? error).slice(0, 300);
    }
  }
  return { case: c.id, results, peaks, reads };
}

/** The machine's limits from their modules: bytes of limits.wasm by set name. */
export async function openLimits(bytesOf, now) {
  const open = {};
  let filled = 0;
  for (const [set, bytes] of Object.entries(bytesOf)) {
    try {
      const { instance } = await WebAssembly.instantiate(await bytes, { wasi_snapshot_preview1: {}, env: {} });
      open[set] = instance.exports;
    } catch {}  // an engine without relaxed SIMD
  }
  const best = (measure) => {
    let most = 0;
    const until = performance.now() + 60;
    while (performance.now() < until) most = Math.max(most, measure());
    return most;
  };
  const reading = (call, piece, bytes, milliseconds) => {
    const { memory, [call]: read } = Object.values(open)[0];
    // Two megabytes on from the module's free end, well clear of its data and stack. Pages never written are all
    // the same page of zeros, and would be read from the first-level cache.
    const from = 2 * 2 ** 20, missing = bytes + 3 * from - memory.buffer.byteLength;
    if (missing > 0) memory.grow(Math.ceil(missing / 65536));
    if (bytes > filled) {
      new Float32Array(memory.buffer, from).fill(1);
      filled = bytes;
    }
    const start = now();
    let passes = 0, passed = 0;
    while (passed < milliseconds) {
      for (let at = 0; at < bytes; at += piece) read(from + at, Math.min(piece, bytes - at));
      passes++;
      passed = now() - start;
    }
    return (passes * bytes) / passed / 1e6;
  };
  return {
    sets: Object.keys(open),
    /** GFLOP/s of multiply-adds in registers. */
    peak(set) {
      const { multiply_add, lanes } = open[set], steps = 20000;
      return Math.max(...[8, 10, 12].map((sums) => best(() => {
        const start = now();
        for (let i = 0; i < 10; i++) multiply_add(sums, steps, 1, 0.999, 1e-3);
        return (10 * steps * sums * 2 * lanes()) / (now() - start) / 1e6;
      })));
    },
    /**
     * GB/s of reading a buffer of this size again and again for this time, in one stream or in four at once, whichever
     * is faster. All passes count, also the first: whoever had the turn before may have driven the buffer out of the
     * processor's caches, as it has for the contestants.
     */
    read: (bytes, milliseconds) => Math.max(
      reading('read', 65536, bytes, milliseconds), reading('read_side_by_side', 2 ** 22, bytes, milliseconds)),
  };
}
