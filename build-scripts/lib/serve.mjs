// A static server for the built page, with the headers of a strict host.
import { createReadStream, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize, sep } from 'node:path';

const types = {
  '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.mjs': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8', '.json': 'application/json', '.map': 'application/json', '.svg': 'image/svg+xml',
  '.png': 'image/png', '.ico': 'image/x-icon', '.wasm': 'application/wasm', '.woff2': 'font/woff2',
  '.txt': 'text/plain; charset=utf-8', '.webmanifest': 'application/manifest+json',
};

/** WebAssembly may be compiled; code from strings, inline scripts and other origins may not run. */
export const headers = {
  'Content-Security-Policy':
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; " +
    "object-src 'none'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cache-Control': 'no-cache',
};

/** The file under folder that a request path names, or undefined; a folder is answered with its index.html. */
function fileFor(folder, base, address) {
  let path;
  try {
    path = decodeURIComponent(new URL(address, 'http://localhost').pathname);
  } catch {
    return undefined;
  }
  if (!path.startsWith(base) || path.includes('\0')) return undefined;
  let file = normalize(join(folder, path.slice(base.length)));
  if (file !== folder && !file.startsWith(folder + sep)) return undefined;
  try {
    if (statSync(file).isDirectory()) file = join(file, 'index.html');
    return statSync(file).isFile() ? file : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Serves a folder on this machine only. Resolves to { port, url, close() }. Port 0 is any free one; with nextFree, a
 * busy port is answered by the next one up, otherwise by a rejection. base is the path that the page is found under.
 */
export function serve(folder, { port = 0, base = '/', nextFree = false } = {}) {
  folder = normalize(folder).replace(/[/\\]$/, '');
  const server = createServer((request, response) => {
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    const file = isRead ? fileFor(folder, base, request.url) : undefined;
    if (!file) {
      response.writeHead(isRead ? 404 : 405, { ...headers, 'Content-Type': 'text/plain' }).end('Not found\n');
      return;
    }
    const type = types[extname(file)] ?? 'application/octet-stream';
    response.writeHead(200, { ...headers, 'Content-Type': type, 'Content-Length': statSync(file).size });
    if (request.method === 'HEAD') response.end();
    else createReadStream(file).on('error', () => response.destroy()).pipe(response);
  });
  return new Promise((resolve, reject) => {
    const listen = (at) => server.listen(at, '127.0.0.1');
    server.on('error', (error) => {
      if (nextFree && error.code === 'EADDRINUSE' && port < 65535) listen(++port);
      else reject(error);
    });
    server.on('listening', () => {
      port = server.address().port;
      const close = () => new Promise((closed) => { server.close(closed); server.closeAllConnections(); });
      resolve({ port, url: `http://localhost:${port}${base}`, close });
    });
    listen(port);
  });
}
