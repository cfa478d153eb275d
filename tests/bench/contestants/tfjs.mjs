// TensorFlow.js on its WebAssembly backend, one thread. It has no attention: this is the fastest composition found,
// one head at a time with the keys transposed once, which reaches XNNPACK's matrix product ("heads"), and the
// shortest one, batched over heads ("batched"), which is faster for a single query.
import { rotaryTables } from '../cases.mjs';

export async function open(mode, host) {
  const tf = await host.tensorflow();
  tf.env().set('WASM_HAS_MULTITHREAD_SUPPORT', false);
  await tf.setBackend('wasm');
  await tf.ready();

  function prepare(c, x) {
    const { heads, kvHeads, headDim, tokens, length = 0 } = c;
    const total = length + tokens, shared = heads / kvHeads, half = headDim / 2;
    const byHead = (data, h) => tf.tidy(() => tf.transpose(tf.tensor3d(data, [tokens, h, headDim]), [1, 0, 2]));
    const tables = rotaryTables(total, headDim);
    const table = (data) => tf.tensor2d(data.slice(length * half), [tokens, half]);
    const cos = table(tables.cos), sin = table(tables.sin);
    const q = byHead(x.q, heads);
    const turn = (y, h) => {
      const a = tf.slice(y, [0, 0, 0], [h, tokens, half]), b = tf.slice(y, [0, 0, half], [h, tokens, half]);
      return tf.concat([tf.sub(tf.mul(a, cos), tf.mul(b, sin)), tf.add(tf.mul(b, cos), tf.mul(a, sin))], 2);
    };
    const held = [q, cos, sin];
    let body;
    if (c.kind === 'rotation') {
      body = () => tf.transpose(turn(q, heads), [1, 0, 2]);
    } else {
      const k = byHead(x.k, kvHeads), v = byHead(x.v, kvHeads);
      const pastK = length > 0 && tf.tensor3d(x.pastKeys, [kvHeads, length, headDim]);
      const pastV = length > 0 && tf.tensor3d(x.pastValues, [kvHeads, length, headDim]);
      held.push(k, v);
      if (pastK) held.push(pastK, pastV);
      let mask;
      if (tokens > 1) {
        const hidden = new Float32Array(tokens * tokens);
        for (let t = 0; t < tokens; t++) hidden.fill(-1e9, t * tokens + t + 1, (t + 1) * tokens);
        mask = tf.tensor2d(hidden, [tokens, tokens]);
        held.push(mask);
      }
      body = () => {
        let keys = turn(k, kvHeads), values = v;
        if (pastK) {
          keys = tf.concat([pastK, keys], 1);
          values = tf.concat([pastV, values], 1);
        }
        const queries = tf.reshape(tf.mul(turn(q, heads), 1 / Math.sqrt(headDim)), [kvHeads, shared * tokens, headDim]);
        if (mode === 'batched') {
          let scores = tf.matMul(queries, keys, false, true);
          if (mask) scores = tf.reshape(tf.add(tf.reshape(scores, [kvHeads, shared, tokens, total]), mask), [kvHeads, shared * tokens, total]);
          return tf.transpose(tf.reshape(tf.matMul(tf.softmax(scores), values), [heads, tokens, headDim]), [1, 0, 2]);
        }
        const transposed = tf.transpose(keys, [0, 2, 1]), parts = [];
        for (let h = 0; h < heads; h++) {
          parts.push(tf.tidy(() => {
            const g = Math.floor(h / shared);
            const part = (y, at, rows, columns) => tf.reshape(tf.slice(y, at, [1, rows, columns]), [rows, columns]);
            let scores = tf.matMul(part(queries, [g, (h % shared) * tokens, 0], tokens, headDim), part(transposed, [g, 0, 0], headDim, total));
            if (mask) scores = tf.add(scores, mask);
            return tf.reshape(tf.matMul(tf.softmax(scores), part(values, [g, 0, 0], total, headDim)), [1, tokens, headDim]);
          }));
        }
        return tf.transpose(tf.concat(parts, 0), [1, 0, 2]);
      };
    }
    let result, data;
    return {
      run() {
        result?.dispose();
        result = tf.tidy(body);
        data = result.dataSync();
      },
      output: () => data,
      dispose() {
        result?.dispose();
        held.forEach((y) => y.dispose());
      },
    };
  }

  return {
    version: tf.version_core ?? tf.version?.['tfjs-core'],
    untimed: 'inputs turned head by head onto the backend, rotary tables, mask',
    prepare,
  };
}
