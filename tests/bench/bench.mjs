// npm run bench: ours and the peers in one run, taking turns, checked before they are timed. See README.md.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, totalmem, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildPackage, cmakeBuild } from '../../build-scripts/build.mjs';
import { isScript, main, readOptions, Refusal, root, which } from '../../build-scripts/lib/command.mjs';
import { ensureNodeModules, newestNode } from '../../build-scripts/lib/npm.mjs';
import { openBrowser } from './browser.mjs';
import { cases } from './cases.mjs';
import { report } from './report.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const help = `
Usage: npm run bench [-- OPTIONS]      (in tests/bench; installs the peers there the first time)

Times causal attention with rotation, decode steps over a cache, and rotation alone: this library against
onnxruntime-web, TensorFlow.js and onnxruntime-node, one thread each, in Node and in Chromium; and a whole decoder of
135M parameters, ours alone, against what the machine can read and multiply. Prints a table
that says which targets are reached, and writes everything measured to a JSON file.

  --quick          the smaller cases, fewer turns, the decoder in Chromium alone: under 3 minutes
  --only=REGEX     only cases whose name matches, such as "decode 9/3x64" or "decoder"
  --host=LIST      of node, chromium, native (default: all three)
  --rounds=N       turns per case (default 15, quick 7)
  --shipped        time onnxruntime-web as it is shipped too: up to a minute a run in the longest cases
  --clock=NAME     wall (default), or processor: time that the work itself took, for a machine that is busy with
                   other things; in Node and natively (Chromium has no such clock and is left out)
  --json=FILE      where the measurements go (default: bench.json here)
  --locant=FILE    another build of the package to time: its index.js
`;

/** Who takes part in a case. */
function contestantsOf(c, host, options) {
  const ours = ['locant relaxed', 'locant deterministic'];
  if (c.kind === 'decoder') return host === 'native' || (options.quick && host === 'node' && options.only === '.') ? [] : ours.slice(0, 1);
  if (host === 'native') return c.kind === 'prefill' && c.judged ? ['locant', 'onnxruntime native'] : [];
  if (c.ours) return host === 'chromium' || !c.once ? ours.slice(0, 1) : [];
  const peers = [];
  if (c.kind === 'prefill') {
    if (c.tokens <= 4096) peers.push('onnxruntime web plain');
    if ((options.shipped && !options.quick) || c.tokens > 4096) peers.push('onnxruntime web shipped');
    peers.push('tfjs heads');
  } else {
    peers.push('onnxruntime web shipped', 'tfjs batched');
  }
  return [...ours, ...peers];
}

async function prepare(options) {
  const modules = join(here, 'node_modules');
  // onnxruntime-node brings its own binary; its install script would fetch others.
  await ensureNodeModules('tests/bench', ['--ignore-scripts']);
  const locant = options.locant ?? join(root, 'web/package/dist/index.js');
  if (!options.locant) await buildPackage({ quiet: true });
  if (!existsSync(locant)) throw new Refusal(`bench: ${locant} is not there.`);
  const relaxed = await cmakeBuild('relaxed', { target: 'locant_limits', quiet: true });
  const simd = await cmakeBuild('simd', { target: 'locant_limits', quiet: true });
  const native = await cmakeBuild('native', { target: 'locant_bench', quiet: true });
  return {
    here,
    modules,
    locant,
    native: join(native, 'tests/bench/locant_bench'),
    limits: {
      relaxed: join(relaxed, 'tests/bench/locant_limits.wasm'),
      simd128: join(simd, 'tests/bench/locant_limits.wasm'),
    },
  };
}

/** A Node that has relaxed SIMD (22 or newer): this one, or the newest, which the tests install too. */
const findNode = async () =>
  Number(process.versions.node.split('.')[0]) >= 22 ? process.execPath : (await newestNode()) ?? process.execPath;

function inNode(program, job, places, timeout) {
  return new Promise((resolve) => {
    const child = spawn(program, [join(here, 'host-node.mjs')], { stdio: ['pipe', 'pipe', 'pipe'] });
    let out = '', errors = '';
    const timer = setTimeout(() => child.kill('SIGKILL'), timeout);
    child.stdout.on('data', (data) => { out += data; });
    child.stderr.on('data', (data) => { errors = (errors + data).slice(-2000); });
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      try {
        resolve(JSON.parse(out.trim().split('\n').pop()));
      } catch {
        resolve({ case: job.case.id, results: {}, peaks: {}, reads: [], failed: `ended with ${signal ?? code}: ${errors.trim().split('\n').slice(0, 3).join(' ')}` });
      }
    });
    child.stdin.end(JSON.stringify({ job, places }));
  });
}

/** Milliseconds from the module's bytes to a first result, in a fresh Node each time. */
async function firstUse(program, places) {
  const folder = mkdtempSync(join(tmpdir(), 'locant-bench-'));
  const script = join(folder, 'first.mjs');
  writeFileSync(script, `
    import { readFileSync } from 'node:fs';
    const { load } = await import(${JSON.stringify(join(dirname(places.locant), 'external.js'))});
    const bytes = readFileSync(${JSON.stringify(join(dirname(places.locant), 'relaxed.wasm'))});
    const start = performance.now();
    const locant = await load({ wasm: bytes });
    locant.positions.range(1);
    console.log(performance.now() - start);`);
  const samples = [];
  for (let i = 0; i < 7; i++) {
    const text = await new Promise((resolve) => {
      const child = spawn(program, [script], { stdio: ['ignore', 'pipe', 'ignore'] });
      let out = '';
      child.stdout.on('data', (data) => { out += data; });
      child.on('close', () => resolve(out));
    });
    if (text) samples.push(Number(text));
  }
  rmSync(folder, { recursive: true });
  return samples;
}

async function run() {
  const { values } = readOptions('bench', help, {
    quick: { type: 'boolean', default: false }, shipped: { type: 'boolean', default: false },
    only: { type: 'string', default: '.' }, host: { type: 'string', default: 'node,chromium,native' },
    rounds: { type: 'string' }, json: { type: 'string', default: join(here, 'bench.json') }, locant: { type: 'string' },
    clock: { type: 'string', default: 'wall' },
  });
  if (!['wall', 'processor'].includes(values.clock)) throw new Refusal(`bench: --clock is ${values.clock}, expected wall or processor.`);
  const hosts = values.host.split(',').filter((host) => host !== 'chromium' || values.clock === 'wall');
  const rounds = Number(values.rounds ?? (values.quick ? 7 : 15));
  if (!Number.isInteger(rounds) || rounds < 1) throw new Refusal(`bench: --rounds is ${values.rounds}, expected a number of turns.`);
  const places = await prepare(values);
  const node = await findNode();
  const chosen = cases.filter((c) => new RegExp(values.only).test(c.id) && (!values.quick || c.quick));
  if (chosen.length === 0) throw new Refusal(`bench: no case matches ${values.only}.`);

  let browser;
  if (hosts.includes('chromium')) {
    const chromium = process.env.CHROMIUM || which('chromium') || which('chromium-browser') || which('google-chrome');
    if (!chromium) throw new Refusal('bench: no Chromium found; install it, set CHROMIUM, or leave it out with --host=node,native.');
    browser = await openBrowser(places, chromium);
  }
  const measured = [];
  const job = { clock: values.clock, rounds, milliseconds: values.quick ? 2000 : 15000 };
  const timeout = values.quick ? 120_000 : 900_000;
  try {
    for (const c of chosen) {
      for (const host of hosts) {
        const names = contestantsOf(c, host, values);
        if (names.length === 0) continue;
        const one = { ...job, case: c, names, native: host === 'native' };
        const answer = host === 'chromium'
          ? await browser.ask({ job: one, places: { limits: places.limits } }, timeout)
              .catch((error) => ({ case: c.id, results: {}, peaks: {}, reads: [], failed: error.message.split('\n')[0] }))
          : await inNode(node, one, places, timeout);
        measured.push({ host, ...answer });
        console.log(report.line(c, host, answer));
      }
    }
  } finally {
    await browser?.close();
  }
  const first = hosts.includes('node') ? await firstUse(node, places) : [];
  const all = {
    date: new Date().toISOString(),
    command: `npm run bench -- ${process.argv.slice(2).join(' ')}`.trim(),
    machine: { processor: cpus()[0]?.model, cores: cpus().length, memory: totalmem(), system: `${process.platform} ${process.arch}` },
    versions: { node: process.version, nodeForBench: node, chromium: browser?.version },
    firstUse: first,
    measured,
  };
  const text = report.table(all, cases);  // it adds its verdicts on the decoder to what is written
  writeFileSync(values.json, JSON.stringify(all, null, 1));
  console.log(text);
  console.log(`Everything measured: ${values.json}`);
}

if (isScript(import.meta.url)) main(run);
