// Builds the page into dist/: the bundle, then the first picture of the first view, drawn in Node by the same code and the
// same library, so that something true is there before the library is loaded, and where it cannot be.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'vite';

const root = fileURLToPath(new URL('.', import.meta.url));
process.chdir(root);
await build({ root, logLevel: 'warn' });

// The server's bundle is needed once and kept nowhere; it lies in this folder so that Node finds the packages.
const folder = mkdtempSync(join(root, '.first-picture-'));
try {
  await build({ root, logLevel: 'warn', publicDir: false, build: { ssr: 'src/first-picture.ts', outDir: folder, emptyOutDir: true } });
  const { firstPicture } = await import(pathToFileURL(join(folder, 'first-picture.js')).href);
  const index = join(root, 'dist/index.html');
  const html = readFileSync(index, 'utf8');
  const place = '<!--first-picture-->';
  if (!html.includes(place)) throw new Error(`build: ${index} has no ${place}`);
  writeFileSync(index, html.replace(place, () => firstPicture.trim()));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
