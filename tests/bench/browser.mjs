// Chromium and a server on this machine for it: a fresh page and worker for every contest.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { dirname, extname, join, normalize } from 'node:path';
import { createRequire } from 'node:module';

const contentTypes = { '.mjs': 'text/javascript', '.js': 'text/javascript', '.wasm': 'application/wasm', '.json': 'application/json' };

/** places: modules, locant (entry file), limits (files by set), here; chromium: the browser's program. */
export async function openBrowser(places, chromium) {
  const { chromium: launcher } = createRequire(join(places.modules, 'package.json'))('playwright-core');
  const folders = { '/bench/': places.here, '/modules/': places.modules, '/locant/': dirname(places.locant) };
  const server = createServer(async (request, response) => {
    // Cross-origin isolation gives the finer clock.
    response.setHeader('Cross-Origin-Opener-Policy', 'same-origin');
    response.setHeader('Cross-Origin-Embedder-Policy', 'require-corp');
    response.setHeader('Cross-Origin-Resource-Policy', 'same-origin');
    const path = decodeURIComponent(new URL(request.url, 'http://bench').pathname);
    const limit = path.match(/^\/limits\/(\w+)\.wasm$/)?.[1];
    const mount = Object.keys(folders).find((prefix) => path.startsWith(prefix));
    const file = limit ? places.limits[limit] : mount && normalize(join(folders[mount], path.slice(mount.length)));
    if (path === '/') return void response.setHeader('Content-Type', 'text/html').end('<!doctype html><title>bench</title>');
    if (!file || (mount && !file.startsWith(folders[mount]))) return void response.writeHead(404).end();
    try {
      const bytes = await readFile(file);
      response.setHeader('Content-Type', contentTypes[extname(file)] ?? 'application/octet-stream').end(bytes);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const origin = `http://127.0.0.1:${server.address().port}`;
  const browser = await launcher.launch({ executablePath: chromium, args: ['--no-sandbox', '--disable-gpu', '--no-first-run'] });
  return {
    version: browser.version(),
    async ask(message, timeout) {
      const context = await browser.newContext();
      try {
        const page = await context.newPage();
        await page.goto(`${origin}/`);
        const failed = new Promise((_, reject) => {
          page.on('crash', () => reject(new Error('the page crashed')));
          setTimeout(() => reject(new Error(`no answer within ${timeout / 1000} s`)), timeout).unref();
        });
        const answered = page.evaluate((sent) => new Promise((resolve, reject) => {
          const worker = new Worker('/bench/worker.mjs', { type: 'module' });
          worker.onmessage = ({ data }) => resolve(data);
          worker.onerror = (event) => reject(new Error(event.message || 'the worker failed'));
          worker.postMessage(sent);
        }), message);
        return await Promise.race([answered, failed]);
      } finally {
        await context.close().catch(() => {});
      }
    },
    async close() {
      await browser.close();
      server.close();
    },
  };
}
