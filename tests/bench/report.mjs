// What the measurements say: one line per contest while it runs, and the table of targets at the end.
import { cacheBytes, operations } from './cases.mjs';
import { lineDecoder, reportDecoder } from './decoder.mjs';

const sorted = (values) => [...values].sort((a, b) => a - b);
export function median(values) {
  const x = sorted(values), n = x.length;
  return n === 0 ? NaN : (x[(n - 1) >> 1] + x[n >> 1]) / 2;
}
const spread = (values) => (values.length < 2 ? '' : ` ±${(((sorted(values).at(-1) - sorted(values)[0]) / 2 / median(values)) * 100).toFixed(0)}%`);
const short = (value) => (Number.isNaN(value) ? '-' : value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));

/** Of one contest: GFLOP/s of ours over the peak of its instruction set, and ours over the best peer, both by medians. */
function judge(c, answer, ours, set) {
  const samples = answer.results[ours]?.samples ?? [];
  if (samples.length === 0) return undefined;
  const ms = median(samples);
  const peers = Object.entries(answer.results)
    .filter(([name, { samples: theirs, failed }]) => !name.startsWith('locant') && theirs.length > 0 && !failed)
    .map(([name, { samples: theirs }]) => ({ name, ms: median(theirs) }))
    .sort((a, b) => a.ms - b.ms);
  const peak = median(answer.peaks[set] ?? []);
  const judged = { ms, peer: peers[0], times: peers.length > 0 ? peers[0].ms / ms : NaN, peak };
  if (c.kind === 'prefill') judged.ofLimit = operations(c) / (ms * 1e6) / peak;
  if (c.kind === 'decode') {
    const read = median(answer.reads);
    const byBytes = cacheBytes(c) / (read * 1e6), byWork = operations(c) / (peak * 1e6);
    Object.assign(judged, { read, limit: byBytes > byWork ? 'bytes' : 'multiply-adds', ofLimit: Math.max(byBytes, byWork) / ms });
  }
  return judged;
}

function line(c, host, answer) {
  if (c.kind === 'decoder') return lineDecoder(c, host, answer);
  if (answer.failed) return `${c.id}, ${host}: failed: ${answer.failed}`;
  const parts = Object.entries(answer.results).map(([name, { samples, failed }]) =>
    (failed ? `${name}: failed (${failed.slice(0, 80)})` : `${name} ${short(median(samples))} ms${spread(samples)}`));
  const peaks = Object.entries(answer.peaks).map(([set, values]) => `${set} ${short(median(values))}`);
  const reads = answer.reads.length > 0 ? `, read ${short(median(answer.reads))} GB/s` : '';
  return `${c.id}, ${host}: ${parts.join('; ')}; peak GFLOP/s ${peaks.join(', ')}${reads}`;
}

const targets = [
  { name: 'prefill, WebAssembly, relaxed', kind: 'prefill', hosts: ['node', 'chromium'], ours: 'locant relaxed', set: 'relaxed',
    times: 3, ofLimit: (c) => (c.tokens < 1024 ? 0 : c.headDim >= 128 ? 0.7 : 0.65) },
  { name: 'prefill, WebAssembly, SIMD128', kind: 'prefill', hosts: ['node', 'chromium'], ours: 'locant deterministic', set: 'simd128',
    times: 2.2, ofLimit: (c) => (c.tokens < 1024 ? 0 : 0.7) },
  { name: 'decode, WebAssembly, relaxed', kind: 'decode', hosts: ['node', 'chromium'], ours: 'locant relaxed', set: 'relaxed',
    times: 5, timesFrom: 2048, ofLimit: (c) => (c.length < 8192 ? 0 : 0.7) },
  { name: 'prefill, native, best set', kind: 'prefill', hosts: ['native'], ours: 'locant', set: undefined, times: 1.2, ofLimit: () => 0.65 },
];

const verdict = (value, least) => (least === 0 ? '' : value >= least ? ' reached' : ' not reached');

/** Slope of log(time) over log(size). */
function exponent(points) {
  const n = points.length;
  if (n < 3) return NaN;
  const x = points.map(([size]) => Math.log(size)), y = points.map(([, ms]) => Math.log(ms));
  const mx = x.reduce((a, b) => a + b) / n, my = y.reduce((a, b) => a + b) / n;
  return x.reduce((sum, xi, i) => sum + (xi - mx) * (y[i] - my), 0) / x.reduce((sum, xi) => sum + (xi - mx) ** 2, 0);
}

function table(all, cases) {
  const out = ['', `Locant bench, ${all.date}, ${all.machine.processor}, ${all.command}`, ''];
  const byId = new Map(cases.map((c) => [c.id, c]));
  for (const target of targets) {
    out.push(target.name);
    out.push('  case                     host      ours ms   best peer                          ms   times          of the limit');
    for (const answer of all.measured) {
      const c = byId.get(answer.case);
      if (!c?.judged || c.kind !== target.kind || !target.hosts.includes(answer.host)) continue;
      const judged = judge(c, answer, target.ours, target.set ?? answer.sets?.[0]);
      if (!judged) {
        out.push(`  ${c.id.padEnd(24)} ${answer.host.padEnd(9)} not measured: ${answer.failed ?? answer.results[target.ours]?.failed ?? ''}`);
        continue;
      }
      const least = c.kind === 'decode' && c.length < target.timesFrom ? 0 : target.times;
      out.push(`  ${c.id.padEnd(24)} ${answer.host.padEnd(9)} ${short(judged.ms).padStart(7)}   ${(judged.peer?.name ?? 'none that works').padEnd(28)} ${short(judged.peer?.ms ?? NaN).padStart(8)}`
        + `   ${`${short(judged.times)}${verdict(judged.times, least)}`.padEnd(18)} ${(judged.ofLimit * 100).toFixed(0)} %${verdict(judged.ofLimit, target.ofLimit(c))}`
        + (judged.limit ? ` (${judged.limit})` : ''));
    }
    out.push('');
  }
  out.push(...reportDecoder(all, cases));
  if (all.firstUse.length > 0) {
    const ms = median(all.firstUse);
    out.push(`first use: module ready ${short(ms)} ms after its bytes in Node${ms <= 30 ? ', reached' : ', not reached'} (at most 30)`, '');
  }
  for (const host of ['node', 'chromium']) {
    const ours = new Map(all.measured.filter((m) => m.host === host).map((m) => [m.case, m.results['locant relaxed']]));
    const ms = (id) => median(ours.get(id)?.samples ?? []);
    const points = (kind, name, key) => cases.filter((c) => c.kind === kind && c.id.startsWith(`${kind} ${name}`) && ours.has(c.id) && !Number.isNaN(ms(c.id)))
      .map((c) => [c[key], ms(c.id)]);
    const prefill = exponent(points('prefill', '9/3x64', 'tokens')), decode = exponent(points('decode', '9/3x64', 'length'));
    if (!Number.isNaN(prefill)) out.push(`${host}: prefill (9,3,64) grows with T^${prefill.toFixed(2)} (2: quadratic)`);
    if (!Number.isNaN(decode)) out.push(`${host}: a decode step (9,3,64) grows with T^${decode.toFixed(2)} (1: linear)`);
    const full = ms('prefill 9/3x64 8192'), whole = operations(byId.get('prefill 9/3x64 8192'));
    for (const id of ['window 512 9/3x64 8192', 'packed 8x1024 9/3x64 8192']) {
      const part = ms(id);
      if (Number.isNaN(part) || Number.isNaN(full)) continue;
      out.push(`${host}: ${id} takes ${((part / full) * 100).toFixed(1)} % of the full mask's time for ${((operations(byId.get(id)) / whole) * 100).toFixed(1)} % of its pairs`);
    }
    const memory = [...ours].filter(([id, r]) => /^prefill 9\/3x64/.test(id) && r?.memory).map(([id, r]) => [byId.get(id).tokens, r.memory]).sort((a, b) => a[0] - b[0]);
    if (memory.length >= 2) {
      out.push(`${host}: WebAssembly memory (9,3,64): ${memory.map(([t, bytes]) => `T ${t} ${(bytes / 2 ** 20).toFixed(0)} MB`).join(', ')}`);
      const longest = memory.at(-1);
      if (longest[0] === 32768) out.push(`${host}: T = 32,768 under 1 GB: ${longest[1] < 2 ** 30 ? 'reached' : 'not reached'}`);
    }
  }
  const untimed = new Map();
  for (const { results } of all.measured) {
    for (const [name, r] of Object.entries(results)) if (r.untimed) untimed.set(name, `${r.untimed} (${r.version})`);
  }
  out.push('', 'Prepared before the clock starts:', ...[...untimed].map(([name, what]) => `  ${name}: ${what}`));
  return out.join('\n');
}

export const report = { line, table };
