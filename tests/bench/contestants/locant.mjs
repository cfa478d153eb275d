// Ours, through the package as any user would: mode "relaxed" or "deterministic".
import { base } from '../cases.mjs';

export async function open(mode, host) {
  const { load } = await host.locant();
  const locant = await load({ kernel: mode });

  function prepare(c, x) {
    const { heads, kvHeads, headDim, tokens, length } = c;
    const plan = locant.rotaryPlan({ rule: 'default', headDim, base });
    const out = new Float32Array(tokens * heads * headDim);
    if (c.kind === 'rotation') {
      const rotation = locant.rotation(plan, { headDim });
      rotation.prepare(tokens);
      const positions = locant.positions.range(tokens);
      return {
        run: () => rotation.apply(x.q, positions, { heads, role: 'query', out }),
        output: () => out,
        dispose: () => rotation.dispose(),
      };
    }
    const mask = c.window ? { window: { size: c.window } } : {};
    const attention = locant.attention({ heads, kvHeads, headDim, rotation: plan, mask });
    attention.prepare(tokens + (length ?? 0));
    if (c.kind === 'prefill') {
      const positions = c.packed
        ? locant.positions.packed(new Array(c.packed).fill(tokens / c.packed), { positions: 'restart' })
        : locant.positions.range(tokens);
      return {
        run: () => attention.attend({ q: x.q, k: x.k, v: x.v, positions, out }),
        output: () => out,
        dispose: () => attention.dispose(),
      };
    }
    // The cache is filled by attention that looks at one token alone: the filling is not what is timed.
    const cache = locant.cache({ kvHeads, headDim, capacity: { initial: length + (length >> 6) + 1 } });
    const filler = locant.attention({ heads: kvHeads, kvHeads, headDim, rotation: plan, mask: { window: { size: 1 } } });
    const chunk = 4096, width = kvHeads * headDim;
    for (let at = 0; at < length; at += chunk) {
      const count = Math.min(chunk, length - at);
      const part = (a) => a.subarray(at * width, (at + count) * width);
      filler.attend({ q: part(x.pastRaw), k: part(x.pastRaw), v: part(x.pastRawValues), cache, step: cache.begin(cache.next([count])) });
    }
    filler.dispose();
    // The cache grows step by step, as it does in use, and is taken back now and then so that it stays within
    // a sixty-fourth of the length asked for.
    const most = length + Math.max(1, length >> 6);
    let rows = length;
    const rewind = () => cache.truncate((rows = length));
    const run = () => {
      if (rows >= most) rewind();
      attention.attend({ q: x.q, k: x.k, v: x.v, cache, step: cache.begin(cache.next([1])), out });
      rows++;
    };
    return {
      run,
      output() {
        rewind();
        run();
        return out;
      },
      dispose() {
        attention.dispose();
        cache.dispose();
      },
    };
  }

  const info = locant.buildInfo();
  return {
    version: `${info.version}, ${info.simd}`,
    untimed: 'rotary table; a decode step: the cache filled',
    memory: () => locant.buildInfo().memory,
    prepare,
  };
}
