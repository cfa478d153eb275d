// Writes dist/offline.js, the service worker that keeps the page usable without a network after the first visit.
import { createHash } from 'node:crypto';

const worker = (version, files) => `// Keeps the page's own files; made by the build, which names them.
const version = ${JSON.stringify(version)};
const files = ${JSON.stringify(files)};

addEventListener('install', (event) => {
  event.waitUntil(caches.open(version).then((cache) => cache.addAll(files)).then(() => skipWaiting()));
});
addEventListener('activate', (event) => {
  event.waitUntil((async () => {
    for (const name of await caches.keys()) if (name.startsWith('locant-') && name !== version) await caches.delete(name);
    await clients.claim();
  })());
});
// The network first, so that a new version is seen at once; what was kept where there is none.
addEventListener('fetch', (event) => {
  if (event.request.method !== 'GET' || new URL(event.request.url).origin !== location.origin) return;
  event.respondWith(fetch(event.request).catch(async () => (await caches.match(event.request, { ignoreSearch: true })) ?? Response.error()));
});
`;

export function offline() {
  return {
    name: 'locant-offline',
    apply: 'build',
    enforce: 'post',
    generateBundle: {
      order: 'post',
      handler(_, bundle) {
        if (this.environment?.name === 'ssr') return;
        const files = Object.keys(bundle).filter((name) => !name.endsWith('.map'));
        const hash = createHash('sha256');
        for (const name of files.sort()) hash.update(name).update(bundle[name].code ?? bundle[name].source ?? '');
        const names = ['./', ...files.map((name) => `./${name}`), './icon.svg'];
        this.emitFile({ type: 'asset', fileName: 'offline.js', source: worker(`locant-${hash.digest('hex').slice(0, 12)}`, [...new Set(names)]) });
      },
    },
  };
}
