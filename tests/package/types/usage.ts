// Compiled, never run: how the types are used, and what they refuse (each @ts-expect-error must be one).
import { load, ShapeError, type FindingCode, type LayerPlans, type Locant, type Positions, type PositionRun, type RotaryPlan } from 'locant';
import { load as loadExternal, supportsRelaxed } from 'locant/external';

export async function use(): Promise<Float32Array> {
  const locant: Locant = await load({ kernel: 'auto' });
  const positions: Positions = locant.positions.padded([2, 3], { columns: 3, side: 'left' });
  const plan: RotaryPlan = locant.rotaryPlan({ rule: 'yarn', headDim: 64, factor: 4, originalLength: 32768 });
  using rotation = locant.rotation(plan, { headDim: 64 });
  const attention = locant.attention({ heads: 4, headDim: 64, rotation: plan, terms: [locant.alibi({ heads: 4 })] });
  const cache = locant.cache({ kvHeads: 4, headDim: 64, capacity: { fixed: 128 } });
  const step = cache.begin(positions);
  const q = rotation.apply(new Float32Array(6 * 256), positions, { heads: 4, role: 'query' });
  try {
    return attention.attend({ q, k: q, v: q, cache, step });
  } catch (error) {
    if (error instanceof ShapeError) throw new Error(`${error.code} ${error.value} ${error.limit}`);
    throw error;
  }
}

export async function speak(locant: Locant): Promise<string> {
  const config = locant.llamaConfig({ vocab_size: 64, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2, num_attention_heads: 4,
    rope: { rule: 'llama3', factor: 8, originalLength: 8192 } });
  using decoder = locant.decoder(config, { seed: 1 });
  using generation = decoder.generation({ prompts: [[1, 2]] });
  while (!generation.ended) generation.step();
  const cache = decoder.cache();
  const { signal } = new AbortController();
  const logits: Float32Array = await decoder.prefillAsync({ prompts: [Int32Array.of(1)], cache, signal });
  const [row] = await decoder.generateAsync({ prompts: [[logits.length]], onProgress: ({ phase }) => (phase === 'decode' ? 'stop' : undefined) });
  return row?.reason ?? 'none';
}

export function second(locant: Locant, positions: Positions): string {
  const plan = locant.scaleAxes(locant.axialPlan({ convention: 'rows', headDim: 8 }), [1, 0.5]);
  const plans: LayerPlans = locant.layerPlans({ layers: 4, interval: 4, which: 'last-of-group', special: null, other: plan });
  using latent = locant.decoupledRotation(plan, { plainDim: 8, rotaryDim: 8 });
  const key: Float32Array = latent.joinKey(new Float32Array(8), new Float32Array(8), positions, { heads: 1 });
  const { interleaved, halfSplit } = locant.comparePairings({ plan, headDim: 8, heads: 1, x: key, rotated: key, positions });
  const runs: PositionRun[] = locant.positions.runsOfTokens(['text', 'image'], { images: [{ height: 1, width: 1 }], merge: 1 });
  const { findings, row } = locant.positions.interpret({ shape: [1, 2], positionIds: [0, 1], paddingMask: [true, true] });
  const counts: Float64Array = locant.learnedTable({ table: key, rows: 1, width: key.length }).count(positions);
  const grid = locant.interpolateGrid(key, { from: { height: 1, width: 1 }, to: { height: 2, width: 2 }, channels: 8, prefixRows: 0 });
  const cells = locant.detrSinusoidal({ featuresPerAxis: 4 }).encode([1, 1], { height: 1, width: 2, out: grid });
  const bias = locant.cope({ heads: 1, headDim: 8, maxPositions: 1, table: key }).bias({ q: key, k: key, queries: 1, keys: 1, visible: [1] });
  const difference: string | null = locant.planDifference(plan, plan);
  return [plans.plans.length, interleaved, halfSplit, runs.length, findings[0]?.code, row[0]?.nextPosition, counts[0], cells[0], bias[0], difference].join();
}

export async function misuse(locant: Locant, positions: Positions): Promise<void> {
  // @ts-expect-error there is no such kernel
  await load({ kernel: 'fast' });
  // @ts-expect-error the module must be given
  await loadExternal({});
  await loadExternal({ wasm: fetch(supportsRelaxed() ? 'relaxed.wasm' : 'deterministic.wasm') });
  // @ts-expect-error a side is needed
  locant.positions.padded([1], { columns: 3 });
  // @ts-expect-error a factor belongs to rules that scale
  locant.rotaryPlan({ rule: 'default', headDim: 64, factor: 4 });
  // @ts-expect-error dynamic NTK needs the length
  locant.rotaryPlan({ rule: 'dynamic-ntk', headDim: 64, factor: 4, trainedLength: 4096 });
  // @ts-expect-error the shape of a rule comes from the model
  locant.llamaConfig({ vocab_size: 1, hidden_size: 1, intermediate_size: 1, num_hidden_layers: 1, num_attention_heads: 1, rope: { rule: 'linear', factor: 2, headDim: 8 } });
  // @ts-expect-error tensors are Float32Array
  locant.sinusoidal({ width: 4 }).add([1, 2, 3, 4], positions);
  // @ts-expect-error positions cannot be replaced
  positions.order = new Int32Array(0);
  // @ts-expect-error which layer of a group is special has to be said
  locant.layerPlans({ layers: 4, interval: 2, special: null, other: null });
  // @ts-expect-error there is no such filter
  locant.interpolateGrid(new Float32Array(4), { from: { height: 1, width: 1 }, to: { height: 1, width: 1 }, channels: 1, filter: 'nearest' });
  // @ts-expect-error tokens are text, image or video
  locant.positions.runsOfTokens(['sound'], { merge: 1 });
  // @ts-expect-error the ids are needed
  locant.positions.interpret({ shape: [4] });
  // @ts-expect-error a latent head has two widths
  locant.decoupledRotation(locant.rotaryPlan({ rule: 'default', headDim: 4 }), { headDim: 8 });
  // @ts-expect-error a finding's code is one of a list
  const code: FindingCode = 'padding';
  // @ts-expect-error a capacity is fixed or growing
  locant.cache({ kvHeads: 1, headDim: 4, capacity: { rows: 5 } });
}
