// Makes dist/ of src/, types/ and the modules that CMake built (node build-scripts/build.mjs package does both).
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { rolldown } from 'rolldown';
import { makeDelta } from './delta.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '../..');
const dist = join(here, 'dist');
const built = (variant, name) => join(root, 'build/wasm', variant, name);

// One glue serves both modules: it only depends on the names that cross the boundary.
const glue = readFileSync(built('simd', 'locant.mjs'), 'utf8');
if (glue !== readFileSync(built('relaxed', 'locant.mjs'), 'utf8')) {
  throw new Error('the glue of build/wasm/simd and of build/wasm/relaxed differ: they were not built from the same sources and flags');
}
const kernels = { deterministic: readFileSync(built('simd', 'locant.wasm')), relaxed: readFileSync(built('relaxed', 'locant.wasm')) };
const pack = (bytes) => gzipSync(bytes, { level: 9 }).toString('base64');
const difference = makeDelta(kernels.deterministic, kernels.relaxed);
const inlined = `export const deterministic = '${pack(kernels.deterministic)}';
export const difference = '${pack(difference)}';`;

const virtual = { 'locant:glue': glue, 'locant:kernels': inlined };
const plugin = {
  name: 'locant',
  resolveId: (id) => (id in virtual ? id : undefined),
  load: (id) => virtual[id],
};

rmSync(dist, { recursive: true, force: true });
mkdirSync(dist);
const bundle = await rolldown({
  input: { index: join(here, 'src/index.ts'), external: join(here, 'src/external.ts') },
  plugins: [plugin],
  platform: 'browser',
  // The glue would look for its .wasm beside itself, and bundlers would follow; the facade always hands the module over.
  transform: { define: { 'import.meta.url': '""' }, target: 'es2022' },
});
await bundle.write({ dir: dist, format: 'esm', minify: true, sourcemap: false, chunkFileNames: 'shared.js' });
await bundle.close();

for (const [name, bytes] of Object.entries(kernels)) writeFileSync(join(dist, `${name}.wasm`), bytes);
for (const name of ['locant.d.ts', 'index.d.ts', 'external.d.ts']) cpSync(join(here, 'types', name), join(dist, name));
for (const name of ['README.md', 'LICENSE']) cpSync(join(root, name), join(here, name));
