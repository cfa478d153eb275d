// Small decoders, one for each way that position can enter: what the audit tests are printed for, and what is tested
// through the package.

export const shape = { vocabulary: 61, width: 32, heads: 4, kvHeads: 2, headDim: 8, feedForwardWidth: 48 };

/** Every decoder: its name, door 1, and doors 2 and 3 of its layers. Tables serve at least 128 positions. */
export function decoders(locant) {
  const layers = (layer) => [layer, layer, layer];
  const plan = (rule) => locant.rotaryPlan({ headDim: 8, base: 1000, ...rule });
  const numbers = (count, stream) => locant.random({ seed: 1, stream, count }).map((x) => 1.7 * x);
  const rotary = (name, rule) => [name, null, layers({ rotation: plan(rule) })];
  const score = (name, term, more = {}) => [name, null, layers({ terms: [term], ...more })];
  const rotation = plan({ rule: 'default' });
  const alibi = locant.alibi({ heads: 4 });
  const shaw = { maxDistance: 6, heads: 1 };
  return [
    ['no position', null, layers({})],
    ...['interleaved', 'concatenated', 'tensor2tensor', 'mlx'].map((layout) => [`sinusoidal, ${layout}`, { sinusoidal: { layout } }, layers({})]),
    ['learned table', { learnedTable: { rows: 128 } }, layers({})],
    rotary('rotary', { rule: 'default' }),
    rotary('rotary, interleaved', { rule: 'default', pairing: 'interleaved' }),
    rotary('rotary, partial', { rule: 'default', rotatedWidth: 4, start: 2 }),
    rotary('linear', { rule: 'linear', factor: 4 }),
    rotary('NTK static', { rule: 'ntk', factor: 4 }),
    rotary('NTK of vLLM', { rule: 'vllm-ntk', factor: 4 }),
    rotary('dynamic NTK', { rule: 'dynamic-ntk', factor: 2, trainedLength: 16, length: 128 }),
    rotary('YaRN', { rule: 'yarn', factor: 4, originalLength: 16 }),
    rotary('LongRoPE', { rule: 'longrope', shortFactors: [1, 1.1, 1.3, 2], longFactors: [1, 2, 4, 8], originalLength: 16, factor: 4, length: 128 }),
    rotary('Llama 3', { rule: 'llama3', factor: 4, originalLength: 16 }),
    rotary('p-RoPE', { rule: 'proportional', fraction: 0.5 }),
    rotary('xPos', { rule: 'default', xpos: { gamma: 0.4, scaleBase: 64, center: 0 } }),
    score('ALiBi', alibi),
    score('ALiBi, key only', locant.alibi({ heads: 4, form: 'key-only' })),
    score('T5', locant.t5Bias({ heads: 4, direction: 'unidirectional', buckets: 8, maxDistance: 20, table: numbers(32, 't5') }), { scale: 1 }),
    score('Shaw', locant.shawKeys({ ...shaw, headDim: 8, table: numbers(13 * 8, 'keys') }),
      { valueTerm: locant.shawValues({ ...shaw, valueDim: 8, table: numbers(13 * 8, 'values') }) }),
    score('Transformer-XL', locant.transformerXl({ heads: 4, headDim: 8, modelWidth: 16, projection: numbers(32 * 16, 'projection'),
      contentBias: numbers(32, 'u'), positionBias: numbers(32, 'v'), keptBefore: 32 })),
    score('DeBERTa', locant.deberta({ heads: 4, headDim: 8, buckets: 8, maxPosition: 32, contentToPosition: numbers(4 * 16 * 8, 'c2p'),
      positionToContent: numbers(4 * 16 * 8, 'p2c') }), { scale: 1 / Math.sqrt(3 * 8) }),
    score('KERPLE', locant.kerple({ kernel: 'logarithmic', r1: [1, 0.5, 2, 0.3], r2: [1, 2, 0.5, 3] })),
    score('Sandwich', locant.sandwich({ heads: 4, width: 16 })),
    score('FIRE', locant.fire({ threshold: 8, w1: [1.5, -2, 0.7], b1: [0.1, 1, -0.2], w2: [-2, 1, 3, 1, -3, 2, -1, 2, 2, -2, -2, 1], b2: [0, 0.2, -0.1, 0.3] })),
    score('own table', locant.displacementBias({ heads: 4, first: -10, last: 0, table: numbers(44, 'own') })),
    ['temperature', null, layers({ rotation, temperature: { slope: 0.5, period: 3, shift: 1 } })],
    ['all three doors', { sinusoidal: {} }, [{ rotation }, { terms: [alibi] }, {}]],
    ['windows, and a layer without position', null, [{ rotation, mask: { window: { size: 6 } } }, { rotation }, {}]],
  ];
}

export const faults = ['offset-restarted', 'off-by-one', 'upper-layers-ahead', 'rows-taken-for-positions', 'padding-counted',
  'reset-without-document-mask'];
