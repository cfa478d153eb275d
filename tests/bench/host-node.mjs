// Runs one contest in this Node process: node host-node.mjs, the job and the places on standard input, the answer
// on the last line of standard output.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { contest, openLimits } from './contest.mjs';
import { decoderContest } from './decoder.mjs';
import { nativeContest } from './native.mjs';

const { job, places } = JSON.parse(readFileSync(0, 'utf8'));
const folder = mkdtempSync(join(tmpdir(), 'locant-bench-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const path = (name) => join(places.modules, name);
const address = (name) => pathToFileURL(path(name)).href;
const unwrapped = (module) => (module.default?.InferenceSession ? module.default : module);

// Milliseconds by the clock on the wall, or (--clock=processor) of work done by this process.
const now = job.clock === 'processor'
  ? () => { const { user, system } = process.cpuUsage(); return (user + system) / 1000; }
  : () => performance.now();

const host = {
  name: 'node',
  now,
  folder,
  places,
  address,
  package: async (name, copy = '') => unwrapped(await import(`${address(name)}?${copy}`)),
  locant: () => import(pathToFileURL(places.locant).href),
  async changed(name, from, to) {
    const text = readFileSync(path(name), 'utf8');
    if (!text.includes(from)) throw new Error(`${name} does not hold what was to be changed`);
    const copy = join(folder, basename(name));
    writeFileSync(copy, text.replace(from, to));
    return pathToFileURL(copy).href;
  },
  async tensorflow() {
    const require = createRequire(path('package.json'));
    const tf = require('@tensorflow/tfjs-core');
    require('@tensorflow/tfjs-backend-wasm').setWasmPaths(path('@tensorflow/tfjs-backend-wasm/dist/'));
    return tf;
  },
  limits: () => openLimits(Object.fromEntries(Object.entries(places.limits).map(([set, file]) => [set, readFileSync(file)])), now),
};

const answer = await (job.native ? nativeContest : job.case.kind === 'decoder' ? decoderContest : contest)(job, host);
answer.peakMemory = process.resourceUsage().maxRSS * 1024;
process.stdout.write(`\n${JSON.stringify(answer)}\n`, () => process.exit(0));
