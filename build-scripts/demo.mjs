// Builds the page and serves it on this machine.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { buildPage } from './build.mjs';
import { main, readOptions, Refusal, root, which } from './lib/command.mjs';
import { serve } from './lib/serve.mjs';

const help = `
Usage: npm run demo [-- OPTIONS]

Installs what is missing, builds the WebAssembly package and the page where their sources have changed, serves the page
on this machine and prints its address. Ctrl-C ends it.
  --port=NUMBER   the port to serve on (default 8080); a busy one is answered by the next free one
  --no-open       do not open a browser
`;

function openBrowser(url) {
  const opener = process.platform === 'darwin' ? 'open' : process.env.DISPLAY || process.env.WAYLAND_DISPLAY ? 'xdg-open' : undefined;
  if (opener && which(opener)) spawn(opener, [url], { stdio: 'ignore', detached: true }).on('error', () => {}).unref();
}

main(async () => {
  const { values } = readOptions('demo', help, { port: { type: 'string' }, 'no-open': { type: 'boolean' } });
  const wanted = values.port === undefined ? 8080 : Number(values.port);
  if (!/^\d+$/.test(values.port ?? '8080') || wanted > 65535) throw new Refusal(`demo: --port is ${values.port}; it can be 0 to 65535.`);
  await buildPage();
  const { port, url, close } = await serve(join(root, 'web/page/dist'), { port: wanted, nextFree: true });
  if (wanted !== 0 && port !== wanted) console.log(`Port ${wanted} is busy, so the page is on port ${port}.`);
  console.log(`Locant is at ${url} (Ctrl-C ends it)`);
  if (!values['no-open']) openBrowser(url);
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => close().then(() => process.exit(0)));
});
