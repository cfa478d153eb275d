// The package gate: packs the npm package, installs the tarball in an empty folder and looks at it as a user would.
// Expects the package to be built (npm test and `npm run build` do that).
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { main, readOptions, Refusal, root, which } from './lib/command.mjs';
import { serve } from './lib/serve.mjs';
import { vectorInstructions } from './lib/wasm-code.mjs';

const help = `
Usage: node build-scripts/package-gate.mjs [--only=WORD]

Packs web/package, installs it in an empty folder and checks contents, sizes, types, the README's examples (in Node, built
by Vite and by webpack, in Chromium under a strict content security policy) and the vector instructions of the hot
functions. Closes with "N passed, N failed".
  --only   run only the checks whose name holds this word
`;

const packageFolder = join(root, 'web/package');
const budgets = JSON.parse(readFileSync(join(packageFolder, 'budgets.json'), 'utf8'));

/** Runs a program to its end; throws what it printed if it fails. */
function program(argv, options = {}) {
  const { status, stdout, stderr, error } = spawnSync(argv[0], argv.slice(1), { encoding: 'utf8', ...options });
  if (error) throw error;
  if (status !== 0) throw new Error(`${argv.join(' ')} ended with ${status}:\n${stdout}${stderr}`);
  return stdout;
}
const node = (script, ...rest) => [process.execPath, script, ...rest];
const tool = (path) => join(root, 'node_modules', path);

function expect(condition, message) {
  if (!condition) throw new Error(message);
}

/** The README's examples: fenced code after a line <!-- example: NAME -->. */
function examples() {
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  return new Map([...readme.matchAll(/<!-- example: (\S+) -->\s*```\w+\n([\s\S]*?)```/g)].map(([, name, code]) => [name, code]));
}

/** What the comments "// => TEXT" of an example say that it prints. */
const promised = (code) => [...code.matchAll(/\/\/ => (.*)$/gm)].map(([, line]) => line.trim());

let browser;  // started once, and again should it have ended

/** Opens a served folder in Chromium; resolves to what the page logs until it logs "done", and throws on any error. */
async function inChromium(folder) {
  const { chromium } = await import('playwright-core');
  if (!browser?.isConnected()) browser = await chromium.launch({ executablePath: which('chromium'), args: ['--no-sandbox'], timeout: 120_000 });
  const server = await serve(folder);
  const page = await browser.newPage();
  let timer;
  try {
    const lines = [];
    const end = new Promise((resolve, reject) => {
      timer = setTimeout(() => reject(new Error(`no end after 120 s; logged ${lines}`)), 120_000);
      page.on('pageerror', (error) => reject(new Error(`the page threw ${error.message}`)));
      page.on('console', (message) => {
        if (message.text() === 'done') resolve(lines);
        else if (message.type() === 'log') lines.push(message.text());
        else if (message.type() === 'error' && !message.location().url.endsWith('/favicon.ico')) reject(new Error(`the page reported ${message.text()}`));
      });
    });
    end.catch(() => {});  // it may come before it is waited for
    await page.goto(server.url, { waitUntil: 'commit', timeout: 120_000 });
    return await end;
  } finally {
    clearTimeout(timer);
    await page.close();
    await server.close();
  }
}

/** A folder of its own under the work folder, with a page that runs main.js and the files given. */
function site(work, name, files) {
  const folder = join(work, name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'index.html'), '<!doctype html><meta charset="utf-8"><title>gate</title><script type="module" src="./main.js"></script>\n');
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text);
  return folder;
}

async function viteBuild(folder) {
  const { build } = await import('vite');
  await build({ root: folder, logLevel: 'error', base: './', build: { outDir: 'out', emptyOutDir: true }, worker: { format: 'es' }, configFile: false });
  return join(folder, 'out');
}

async function webpackBuild(folder) {
  const { default: webpack } = await import('webpack');
  const stats = await new Promise((resolve, reject) => webpack({
    mode: 'production', context: folder, entry: './main.js', output: { path: join(folder, 'out'), filename: 'main.js' },
    performance: false,
  }, (error, result) => (error ? reject(error) : resolve(result))));
  expect(!stats.hasErrors() && !stats.hasWarnings(), stats.toString({ all: false, errors: true, warnings: true }));
  cpSync(join(folder, 'index.html'), join(folder, 'out/index.html'));
  return join(folder, 'out');
}

const gzipped = (...files) => files.reduce((sum, file) => sum + gzipSync(readFileSync(file), { level: 9 }).length, 0);

main(async () => {
  const { values } = readOptions('package-gate', help, { only: { type: 'string' } });
  if (!existsSync(join(packageFolder, 'dist/index.js'))) throw new Refusal('package-gate: web/package/dist is not built; run "npm run build -- package" first.');
  const work = mkdtempSync(join(tmpdir(), 'locant-gate-'));
  let passed = 0;
  let failed = 0;
  const check = async (name, body) => {
    if (values.only && !name.includes(values.only)) return;
    try {
      const note = await body();
      passed += 1;
      console.log(`ok      ${name}${note ? `: ${note}` : ''}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED  ${name}\n        ${String(error.message ?? error).trim().replaceAll('\n', '\n        ')}`);
    }
  };

  // ---- what is in the tarball ----
  const [{ filename, files, size }] = JSON.parse(program(['npm', 'pack', '--json', '--ignore-scripts', '--pack-destination', work], { cwd: packageFolder, stdio: ['ignore', 'pipe', 'ignore'] }));
  const tarball = join(work, filename);
  const user = join(work, 'user');
  mkdirSync(user);
  writeFileSync(join(user, 'package.json'), '{ "name": "user", "private": true, "type": "module" }\n');
  program(['npm', 'install', '--offline', '--no-audit', '--no-fund', '--ignore-scripts', tarball], { cwd: user });
  const installed = join(user, 'node_modules/locant');
  const manifest = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
  const at = (name) => join(installed, 'dist', name);
  const scripts = readdirSync(join(installed, 'dist')).filter((name) => name.endsWith('.js'));

  await check('contents: what users need and nothing else', () => {
    const paths = files.map(({ path }) => path).sort();
    expect(JSON.stringify(paths) === JSON.stringify(budgets.files), `the tarball holds ${paths.join(' ')}, expected ${budgets.files.join(' ')}`);
    expect(Object.keys(manifest.dependencies ?? {}).length === 0, 'the package has dependencies');
    expect(manifest.sideEffects === false && manifest.type === 'module', 'sideEffects or type are not as they must be');
    for (const [name, entry] of Object.entries(manifest.exports)) {
      if (typeof entry === 'object') expect(Object.keys(entry)[0] === 'types', `types do not come first in ${name}`);
    }
    return `${paths.length} files`;
  });
  for (const [name, { files: parts, most }] of Object.entries(budgets.gzip)) {
    await check(`size: ${name}`, () => {
      const bytes = gzipped(...parts.map(at));
      expect(bytes <= most, `${bytes} bytes gzipped, the budget is ${most}`);
      return `${bytes} bytes gzipped of at most ${most}`;
    });
  }
  await check('size: the tarball', () => {
    expect(size <= budgets.tarball, `${size} bytes, the budget is ${budgets.tarball}`);
    return `${size} bytes of at most ${budgets.tarball}`;
  });
  for (const word of ['node:', 'require(', 'createRequire', 'new Function', 'eval(', 'import.meta', '.wasm"', 'SharedArrayBuffer(']) {
    await check(`scripts: no ${word}`, () => {
      const found = scripts.filter((name) => readFileSync(at(name), 'utf8').includes(word));
      expect(found.length === 0, `found in ${found}`);
    });
  }
  await check('scripts: no top-level await', () => {
    // Inside a function that is not async, `await` at the top would not parse; imports and exports cannot be there.
    for (const name of scripts) {
      const body = readFileSync(at(name), 'utf8').replace(/\bimport\s*\{[^}]*\}\s*from\s*["'][^"']+["'];?/g, '').replace(/\bexport\s*\{[^}]*\}(\s*from\s*["'][^"']+["'])?;?/g, '').replace(/\bexport\s+default\s+\w+;?/g, '');
      program(node('--check', '--input-type=commonjs', '-'), { input: `'use strict'; (function () {${body}\n})` });
    }
  });

  // ---- types ----
  for (const [module, moduleResolution] of [['node16', 'node16'], ['nodenext', 'nodenext'], ['esnext', 'bundler']]) {
    for (const lib of [['es2022', 'dom'], ['es2022']]) {
      await check(`types: a consumer under ${moduleResolution}, lib ${lib.join(' ')}`, () => {
        const project = join(user, `types-${moduleResolution}-${lib.length}`);
        mkdirSync(project, { recursive: true });
        writeFileSync(join(project, 'consumer.ts'), `import { load, ShapeError, type Positions } from 'locant';
import { load as external } from 'locant/external';
export async function use(bytes: Uint8Array): Promise<number> {
  const locant = await load({ kernel: 'deterministic' });
  using encoding = (await external({ wasm: bytes })).sinusoidal({ width: 4 });
  const positions: Positions = locant.positions.range(3);
  const codes: Float32Array = encoding.encode(positions);
  try { return codes.length; } catch (error) { return error instanceof ShapeError ? error.limit ?? 0 : 0; }
}
`);
        writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({
          compilerOptions: { target: 'es2022', module, moduleResolution, lib, types: [], strict: true, noEmit: true, skipLibCheck: false, exactOptionalPropertyTypes: true },
          files: ['consumer.ts'],
        }));
        program(node(tool('typescript/bin/tsc'), '-p', project));
      });
    }
  }
  await check('types: publint', () => {
    program(node(tool('publint/src/cli.js'), tarball, '--strict'), { cwd: work });
  });
  await check('types: are the types wrong?', () => {
    program(node(tool('@arethetypeswrong/cli/dist/index.js'), tarball, '--profile', 'esm-only', '--exclude-entrypoints', './deterministic.wasm', './relaxed.wasm'), { cwd: work });
  });

  // ---- the README's examples ----
  const texts = examples();
  for (const name of ['node', 'cache', 'generate', 'worker-main', 'worker', 'external', 'self-hosted']) {
    await check(`README: there is an example ${name}`, () => expect(texts.has(name), 'not found'));
  }
  const own = (name) => `${texts.get(name)}\nconsole.log('done');\n`;
  const same = (lines, code) => expect(JSON.stringify(lines) === JSON.stringify(promised(code)), `logged ${JSON.stringify(lines)}, the example promises ${JSON.stringify(promised(code))}`);
  for (const name of ['node', 'cache', 'generate']) {
    await check(`README: ${name}, in Node`, () => {
      const file = join(user, `${name}.mjs`);
      writeFileSync(file, texts.get(name));
      for (const flags of [[], ['--disallow-code-generation-from-strings']]) same(program(node(...flags, file)).trim().split('\n'), texts.get(name));
    });
    await check(`README: ${name}, built by Vite, under a strict policy in Chromium`, async () => {
      same(await inChromium(await viteBuild(site(user, `vite-${name}`, { 'main.js': own(name) }))), texts.get(name));
    });
    await check(`README: ${name}, built by webpack, under a strict policy in Chromium`, async () => {
      same(await inChromium(await webpackBuild(site(user, `webpack-${name}`, { 'main.js': own(name) }))), texts.get(name));
    });
  }
  for (const [bundler, build] of [['Vite', viteBuild], ['webpack', webpackBuild]]) {
    await check(`README: a worker, built by ${bundler}`, async () => {
      const main = texts.get('worker-main').replace(/(console\.log\(.*?\);)/, "$1 console.log('done');");
      same(await inChromium(await build(site(user, `${bundler}-worker`, { 'main.js': main, 'worker.js': texts.get('worker') }))), texts.get('worker-main'));
    });
  }
  await check('README: the module on its own, built by Vite', async () => {
    const out = await viteBuild(site(user, 'vite-external', { 'main.js': own('external') }));
    expect(readdirSync(join(out, 'assets')).some((name) => name.endsWith('.wasm')), 'no .wasm among the assets');
    same(await inChromium(out), texts.get('external'));
  });
  await check('README: served as it is, without a bundler', async () => {
    const folder = site(user, 'self-hosted', { 'main.js': own('self-hosted') });
    cpSync(join(installed, 'dist'), join(folder, 'locant'), { recursive: true });
    same(await inChromium(folder), texts.get('self-hosted'));
  });
  await check("Vite's own worker format", async () => {
    // Its default, iife, cannot split code: the main entry must be one that needs no splitting.
    const folder = site(user, 'vite-iife', { 'main.js': texts.get('worker-main').replace(/(console\.log\(.*?\);)/, "$1 console.log('done');"), 'worker.js': texts.get('worker') });
    const { build } = await import('vite');
    await build({ root: folder, logLevel: 'error', base: './', build: { outDir: 'out' }, configFile: false });
    same(await inChromium(join(folder, 'out')), texts.get('worker-main'));
  });

  // ---- vector instructions ----
  for (const [kernel, variant] of [['deterministic', 'simd'], ['relaxed', 'relaxed']]) {
    const code = vectorInstructions(readFileSync(at(`${kernel}.wasm`)), join(root, 'build/wasm', variant, 'locant.mjs.symbols'));
    for (const [name, pattern] of Object.entries(budgets.hotFunctions)) {
      await check(`vectors: ${name}, ${kernel}`, () => {
        const found = code.filter((entry) => new RegExp(pattern).test(entry.name));
        const vector = found.reduce((sum, entry) => sum + entry.vector, 0);
        const relaxed = found.reduce((sum, entry) => sum + entry.relaxed, 0);
        expect(found.length > 0, `no function is named like ${pattern}`);
        expect(vector > 0, `${found.map((entry) => entry.name)} hold no vector instruction`);
        return `${vector} vector instructions, ${relaxed} of them relaxed, in ${found.length} functions`;
      });
    }
    await check(`vectors: fused multiply-add in the ${kernel} kernel`, () => {
      const relaxed = code.reduce((sum, entry) => sum + entry.relaxed, 0);
      expect(kernel === 'relaxed' ? relaxed > 0 : relaxed === 0, `it holds ${relaxed}`);
      const other = code.filter((entry) => entry.otherRelaxed > 0).map((entry) => entry.name);
      expect(other.length === 0, `relaxed instructions other than the fused multiply-add in ${other}`);
      return String(relaxed);
    });
  }

  await browser?.close();
  rmSync(work, { recursive: true, force: true });
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0 && passed > 0 ? 0 : 1;
});
