// Runs one contest in a module worker of a page; browser.mjs serves the folders under these addresses.
import { contest, openLimits } from './contest.mjs';
import { decoderContest } from './decoder.mjs';

const address = (name) => new URL(`/modules/${name}`, self.location.origin).href;
const text = async (url) => (await fetch(url)).text();

const host = (places) => ({
  name: 'chromium',
  now: () => performance.now(),
  address,
  package: (name, copy = '') => import(`${address(name)}?${copy}`),
  locant: () => import('/locant/index.js'),
  async changed(name, from, to) {
    const source = await text(address(name));
    if (!source.includes(from)) throw new Error(`${name} does not hold what was to be changed`);
    return URL.createObjectURL(new Blob([source.replace(from, to)], { type: 'text/javascript' }));
  },
  async tensorflow() {
    for (const name of ['tfjs-core/dist/tf-core.min.js', 'tfjs-backend-cpu/dist/tf-backend-cpu.min.js', 'tfjs-backend-wasm/dist/tf-backend-wasm.min.js']) {
      (0, eval)(await text(address(`@tensorflow/${name}`)));
    }
    globalThis.tf.wasm.setWasmPaths(address('@tensorflow/tfjs-backend-wasm/dist/'));
    return globalThis.tf;
  },
  limits: () => openLimits(Object.fromEntries(Object.keys(places.limits).map((set) => [set,
    fetch(`/limits/${set}.wasm`).then((response) => response.arrayBuffer())])), () => performance.now()),
});

self.onmessage = async ({ data: { job, places } }) => {
  try {
    self.postMessage(await (job.case.kind === 'decoder' ? decoderContest : contest)(job, host(places)));
  } catch (error) {
    self.postMessage({ case: job.case.id, results: {}, peaks: {}, reads: [], failed: String(error?.message ?? error) });
  }
};
