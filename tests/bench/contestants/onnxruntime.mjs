// ONNX Runtime, one thread: in WebAssembly ("web shipped"; "web plain", with GroupQueryAttention's flash path, which
// is slow in WebAssembly, switched off by the variable that applications cannot set) and natively ("native").
//
// A decode step keeps the cache in place: past keys and values are constants of the model, so no cache crosses
// the boundary; the kernel still copies past to present.
import { rotaryTables } from '../cases.mjs';
import { attentionModel, rotationModel } from './onnx-model.mjs';

const flashOff = 'ORT_GQA_DISABLE_FLASH_ATTENTION';

export async function open(mode, host) {
  const [where, path = 'shipped'] = mode.split(' ');
  const ort = where === 'native' ? await host.package('onnxruntime-node/dist/index.js') : await openWeb(path, host);
  ort.env.logLevel = 'error';
  const options = where === 'native'
    ? { executionProviders: ['cpu'], intraOpNumThreads: 1, interOpNumThreads: 1 }
    : { executionProviders: ['wasm'] };
  const tensor = (type, data, dims) => new ort.Tensor(type, data, dims);

  async function prepare(c, x) {
    const { heads, kvHeads, headDim, tokens, length = 0 } = c;
    const total = length + tokens, tables = rotaryTables(total, headDim);
    let model, feeds, wanted = ['out'];
    if (c.kind === 'rotation') {
      model = rotationModel({ heads, headDim, tokens, tables });
      feeds = {
        x: tensor('float32', x.q, [1, tokens, heads * headDim]),
        positions: tensor('int64', BigInt64Array.from({ length: tokens }, (_, i) => BigInt(i)), [1, tokens]),
      };
    } else {
      const held = c.kind === 'decode' ? { length, keys: x.pastKeys, values: x.pastValues } : undefined;
      model = attentionModel({ heads, kvHeads, headDim, positions: total, tables, held });
      feeds = {
        q: tensor('float32', x.q, [1, tokens, heads * headDim]),
        k: tensor('float32', x.k, [1, tokens, kvHeads * headDim]),
        v: tensor('float32', x.v, [1, tokens, kvHeads * headDim]),
        last: tensor('int32', Int32Array.of(total - 1), [1]),
        total: tensor('int32', Int32Array.of(total), []),
      };
      if (!held) {
        const nothing = () => tensor('float32', new Float32Array(0), [1, kvHeads, 0, headDim]);
        Object.assign(feeds, { past_k: nothing(), past_v: nothing() });
        wanted = ['out', 'present_k', 'present_v'];
      }
    }
    const session = await ort.InferenceSession.create(model, options);
    let result;
    return {
      run: async () => { result = await session.run(feeds, wanted); },
      output: () => result.out.data,
      dispose: () => session.release?.(),
    };
  }

  return {
    version: where === 'native' ? ort.env.versions.node : ort.env.versions.web,
    untimed: 'model and session, rotary tables; a decode step: the cache inside the model',
    prepare,
  };
}

async function openWeb(path, host) {
  // One copy of the module for each path: its settings hold for good.
  const ort = await host.package(host.name === 'node' ? 'onnxruntime-web/dist/ort.node.min.mjs' : 'onnxruntime-web/dist/ort.wasm.min.mjs', path);
  const glue = 'onnxruntime-web/dist/ort-wasm-simd-threaded';
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmPaths = {
    wasm: host.address(`${glue}.wasm`),
    mjs: path === 'plain' ? await host.changed(`${glue}.mjs`, 'USER:"web_user"', `${flashOff}:"1",USER:"web_user"`) : host.address(`${glue}.mjs`),
  };
  return ort;
}
