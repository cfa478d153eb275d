// Checkpoints: config.json values and safetensors files through the package, against transformers' logits; files that lie.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import * as external from 'locant/external';
import { close, locant, refuses, vectors } from './helpers.mjs';

const { positions } = locant;
const file = (name) => new Uint8Array(readFileSync(new URL(`../vectors/${name}`, import.meta.url)));
// transformers computes in float32 too, in other orders; logits are of size 10.
const tolerance = 1e-4;

/** A stored config's values as llamaConfig takes them. */
function parametersOf(config, more = {}) {
  const { rope_type: type, rope_theta, ...rope } = config.rope_parameters;
  const rule = type === 'llama3'
    ? { rule: 'llama3', factor: rope.factor, lowFrequencyFactor: rope.low_freq_factor, highFrequencyFactor: rope.high_freq_factor,
        originalLength: rope.original_max_position_embeddings }
    : { rule: 'default' };
  const { vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim, rms_norm_eps, tie_word_embeddings } = config;
  return { vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim, rms_norm_eps,
    tie_word_embeddings, rope_theta, rope: rule, ...more };
}

function checkAgainst(decoder, cases) {
  for (const { name, parameters, inputs, expected } of cases) {
    const tokens = inputs.tokens.data;
    if (name.startsWith('greedy')) {
      const [{ tokens: got }] = decoder.generate({ prompts: [tokens], newTokens: parameters.new_tokens });
      assert.deepEqual(Array.from(got), expected.generated.data, name);
      continue;
    }
    const here = inputs.attention_mask ? positions.fromPaddingMask(Uint8Array.from(inputs.attention_mask.data), { rows: inputs.tokens.shape[0], columns: inputs.tokens.shape[1] })
      : name === 'packed row' ? positions.packed(parameters.lengths, { positions: 'restart' })
        : positions.range(tokens.length, { offset: inputs.positions?.data[0] ?? 0 });
    const wanted = expected.last_logits ? 'last' : 'valid';
    const reference = (expected.last_logits ?? expected.logits).data;
    close(decoder.forward({ tokens, positions: here, wanted }), reference, tolerance, name);
    const cache = decoder.cache({ sequences: here.rows });
    close(decoder.forward({ tokens, positions: here, wanted, cache }), reference, tolerance, `${name}, cached`);
    cache.dispose();
  }
}

for (const name of ['decoder_llama', 'decoder_llama_llama3', 'decoder_llama_bf16', 'decoder_llama_f16']) {
  test(`checkpoint: ${name} loads from its config's values and its file, and speaks as transformers does`, () => {
    const { config, cases } = vectors(name);
    const decoder = locant.decoder(locant.llamaConfig(parametersOf(config)), { safetensors: file(config.weights) });
    checkAgainst(decoder, cases);
    decoder.dispose();
  });
}

test("checkpoint: Gemma 2's shape is configuration, and its logits are transformers'", () => {
  const { config: c, cases } = vectors('decoder_gemma2');
  const llama = locant.llamaConfig(parametersOf(c));
  const decoder = locant.decoder({
    ...llama, norm: 'rms-from-one', normPlacement: 'before-and-after', activation: 'gelu-tanh', embeddingScale: Math.sqrt(c.hidden_size),
    logitSoftCap: c.final_logit_softcapping,
    layers: llama.layers.map(({ rotation }, i) => ({ rotation, scale: c.query_pre_attn_scalar ** -0.5, softCap: c.attn_logit_softcapping,
      mask: c.layer_types[i] === 'sliding_attention' ? { window: { size: c.sliding_window } } : {} })),
  }, { safetensors: file(c.weights) });
  checkAgainst(decoder, cases);
  assert.ok(decoder.auditTests().passed, decoder.auditTests().text);
  decoder.dispose();
});

test('checkpoint: other rotary rules, windows, temperature and layers without position', () => {
  const { config, cases } = vectors('decoder_llama_variants');
  for (const one of cases) {
    const { rope_parameters: rope, max_position_embeddings: most, sliding_window, no_rope_layers } = one.parameters;
    const original = rope.original_max_position_embeddings ?? most;
    const rule = {
      default: () => ({ rule: 'default' }),
      linear: () => ({ rule: 'linear', factor: rope.factor }),
      dynamic: () => ({ rule: 'dynamic-ntk', factor: rope.factor, trainedLength: most }),
      yarn: () => ({ rule: 'yarn', factor: rope.factor, originalLength: original, betaFast: rope.beta_fast, betaSlow: rope.beta_slow,
        rampEnds: rope.truncate === false ? 'exact' : 'whole-pairs', attentionFactor: rope.attention_factor, mscale: rope.mscale,
        mscaleAllDim: rope.mscale_all_dim }),
      longrope: () => ({ rule: 'longrope', shortFactors: rope.short_factor, longFactors: rope.long_factor, originalLength: original, factor: rope.factor }),
    }[rope.rope_type]();
    const llama = locant.llamaConfig(parametersOf({ ...config, rope_parameters: { rope_type: 'default', rope_theta: rope.rope_theta } },
      { rope: rule, length: one.inputs.tokens.data.length, sliding_window }));
    const layers = llama.layers.map((layer, i) => ({ ...layer, rotation: no_rope_layers?.[i] === 0 ? null : layer.rotation,
      ...(rope.llama_4_scaling_beta && { temperature: { slope: rope.llama_4_scaling_beta, period: original, shift: 0 } }) }));
    const decoder = locant.decoder({ ...llama, layers }, { safetensors: file(config.weights) });
    checkAgainst(decoder, [one]);
    decoder.dispose();
  }
});

test('llamaConfig: values become a configuration, or a sentence', () => {
  const p = { vocab_size: 16, hidden_size: 12, intermediate_size: 8, num_hidden_layers: 2, num_attention_heads: 3 };
  const config = locant.llamaConfig(p);
  assert.deepEqual({ ...config, layers: config.layers.length }, { vocabulary: 16, width: 12, heads: 3, kvHeads: 3, headDim: 4, feedForwardWidth: 8,
    norm: 'rms', normEpsilon: 1e-6, feedForward: 'gated', activation: 'silu', embeddings: 'separate', biases: 'none', layers: 2 });
  assert.equal(config.layers[0].rotation.base, 10000);
  const more = locant.llamaConfig({ ...p, head_dim: 6, num_key_value_heads: 1, partial_rotary_factor: 0.7, sliding_window: 5, attention_bias: true, tie_word_embeddings: true, pairing: 'interleaved' });
  assert.deepEqual([more.kvHeads, more.headDim, more.biases, more.embeddings, more.layers[1].mask.window.size], [1, 6, 'attention', 'tied', 5]);
  assert.equal(more.layers[0].rotation.inverseFrequencies.length, 2);
  assert.equal(more.layers[0].rotation.pairing, 'interleaved');
  assert.equal(locant.llamaConfig({ ...p, attention_bias: true, mlp_bias: true, sliding_window: null }).biases, 'all');
  locant.decoder(more, { seed: 1 }).dispose();
  const refused = (change, sentence) => refuses(() => locant.llamaConfig({ ...p, ...change }), 'argument', sentence);
  refused({ hidden_size: 10 }, 'llamaConfig: hidden_size 10 does not divide by 3 heads, and head_dim is not given');
  refused({ num_key_value_heads: 2 }, 'llamaConfig: num_attention_heads is 3, expected a multiple of num_key_value_heads, 2');
  refused({ num_key_value_heads: 4 }, /^llamaConfig: num_key_value_heads is 4, expected .*3/);
  refused({ rms_norm_eps: -1 }, 'llamaConfig: rms_norm_eps is -1, expected 0 or more');
  refused({ num_hidden_layers: 0 }, 'llamaConfig: num_hidden_layers is 0, expected an integer of 1 .. 65536');
  refused({ rope_theta: -1 }, 'llamaConfig: rope_theta is -1, expected a finite number above 0');
  refused({ partial_rotary_factor: 1.5 }, 'llamaConfig: partial_rotary_factor is 1.5, expected a number above 0 and at most 1');
  refused({ rope: { rule: 'dynamic-ntk', factor: 2, trainedLength: 64 } }, /^llamaConfig: .*length/);
  refused({ rope: { rule: 'linear' } }, 'llamaConfig: rope: factor is undefined, expected a finite number above 0');
  refused({ rope: { rule: 'linear', factor: 2, base: 3 } }, /^llamaConfig: rope: there is no option "base"/);
  refused({ mlp_bias: true }, 'llamaConfig: mlp_bias is true and attention_bias is not, expected both');
  refused({ rope_scaling: {} }, /^llamaConfig: there is no option "rope_scaling"/);
});

test('safetensors: what a decoder writes makes the same decoder again, and holds what its checkpoint held', () => {
  const { config, cases } = vectors('decoder_llama');
  const shaped = locant.llamaConfig(parametersOf(config));
  for (const [name, weights] of [['random', { seed: 9 }], ['float32', { safetensors: file(config.weights) }], ['bfloat16', { safetensors: file('tiny_llama_bf16.safetensors') }]]) {
    const first = locant.decoder(shaped, weights);
    const written = first.safetensors();
    assert.ok(written instanceof Uint8Array && written.length > first.parameters * 4);
    const second = locant.decoder(shaped, { safetensors: written });
    const here = { tokens: cases[0].inputs.tokens.data, positions: positions.range(13), wanted: 'valid' };
    assert.deepEqual(second.forward(here), first.forward(here), name);
    assert.deepEqual(second.safetensors(), written);
    first.dispose();
    refuses(() => first.safetensors(), 'disposed', 'safetensors: the decoder has been disposed');
    second.dispose();
  }
});

// ---- files that lie ----------------------------------------------------------------------------------------------------

const shape = { vocabulary: 4, width: 2, heads: 1, headDim: 2, feedForwardWidth: 2, layers: [{}] };
const names = ['model.embed_tokens.weight', 'model.layers.0.input_layernorm.weight',
  ...['q', 'k', 'v', 'o'].map((part) => `model.layers.0.self_attn.${part}_proj.weight`), 'model.layers.0.post_attention_layernorm.weight',
  ...['gate', 'up', 'down'].map((part) => `model.layers.0.mlp.${part}_proj.weight`), 'model.norm.weight'];
const shapeOf = (name) => (name.includes('norm') ? [2] : name.includes('embed') ? [4, 2] : [2, 2]);

/** A file of ones for `shape`, its header after a change and its bytes after another. */
function checkpoint(change = () => {}, { text = (header) => header, bytes = (whole) => whole, said = undefined } = {}) {
  const header = {};
  let at = 0;
  for (const name of names) {
    const size = shapeOf(name).reduce((a, b) => a * b) * 4;
    header[name] = { dtype: 'F32', shape: shapeOf(name), data_offsets: [at, at + size] };
    at += size;
  }
  change(header);
  const json = new TextEncoder().encode(text(JSON.stringify(header)));
  const out = new Uint8Array(8 + json.length + at);
  new DataView(out.buffer).setBigUint64(0, BigInt(said ?? json.length), true);
  out.set(json, 8);
  new Float32Array(at / 4).forEach((_, i) => new DataView(out.buffer).setFloat32(8 + json.length + 4 * i, 1, true));
  return bytes(out);
}
const load = (bytes) => locant.decoder(shape, { safetensors: bytes });

test('safetensors: files that are truncated, overlap, ask for too much or lie are refused with the place', () => {
  load(checkpoint()).dispose();
  const q = 'model.layers.0.self_attn.q_proj.weight', e = 'model.embed_tokens.weight';
  const refused = (bytes, sentence, code = 'format') => {
    const before = locant.liveObjects();
    refuses(() => load(bytes), code, sentence);
    assert.equal(locant.liveObjects(), before);
  };
  refused(new Uint8Array(0), 'decoder: the file has 0 bytes, expected at least 8');
  refused(checkpoint(undefined, { bytes: (b) => b.subarray(0, 100) }), /^decoder: bytes 0 to 7 say a header of \d+ bytes, the file has 92 after them$/);
  refused(checkpoint(undefined, { bytes: (b) => b.subarray(0, b.length - 1) }), /^decoder: tensor model\.norm\.weight \[\d+, \d+\): ends past the data, which has \d+ bytes$/);
  refused(checkpoint(undefined, { bytes: (b) => Uint8Array.from([...b, 0]) }), /^decoder: tensors take \d+ bytes of data, the file has \d+$/);
  refused(checkpoint(undefined, { said: 2n ** 63n }), /^decoder: bytes 0 to 7 say a header of 9223372036854775808 bytes, the limit is 100000000$/);
  refused(checkpoint(undefined, { said: 99_999_999 }), /^decoder: bytes 0 to 7 say a header of 99999999 bytes, the file has \d+ after them$/);
  refused(checkpoint((h) => { h[q].data_offsets = [28, 44]; }), /^decoder: tensor model\.layers\.0\.self_attn\.q_proj\.weight \[28, 44\): overlaps tensor /);
  refused(checkpoint((h) => { h[q].data_offsets = [44, 60]; }), /bytes 40 to 43 of the data belong to no tensor$/);
  refused(checkpoint((h) => { h[e].data_offsets = [32, 0]; }), 'decoder: tensor model.embed_tokens.weight [32, 0): ends before it begins');
  refused(checkpoint((h) => { h[e].shape = [2 ** 31, 2 ** 31]; }), /^decoder: tensor model\.embed_tokens\.weight \[0, 32\): /);
  refused(checkpoint((h) => { h[e].shape = [2 ** 52, 2 ** 52]; }), /is larger than any file$/);
  refused(checkpoint((h) => { h[e].shape = [5, 2]; }), 'decoder: tensor model.embed_tokens.weight [0, 32): holds 32 bytes, but F32 of 5 x 2 takes 40');
  refused(checkpoint((h) => { h[e].dtype = 'F16'; }), 'decoder: tensor model.embed_tokens.weight [0, 32): holds 32 bytes, but F16 of 4 x 2 takes 16');
  refused(checkpoint((h) => { h[e].shape = [-4, -2]; }), /^decoder: byte \d+ of the header: /);
  refused(checkpoint((h) => { h[e].shape = [4.5, 2]; }), /^decoder: byte \d+ of the header: /);
  refused(checkpoint((h) => { h[e].extra = 1; }), /^decoder: byte \d+ of the header: /);
  refused(checkpoint(undefined, { text: (header) => header.replace('{', '[') }), /^decoder: byte 0 of the header: /);
  refused(checkpoint(undefined, { text: (header) => header.slice(0, -1) }), /^decoder: byte \d+ of the header: /);
  refused(checkpoint(undefined, { text: (header) => header.replace(names[4], names[3]) }), /its name comes twice$/);
  refused(checkpoint(undefined, { text: (header) => `{"__metadata__":${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)},${header.slice(1)}` }), /^decoder: byte \d+ of the header: /);
  // A file that is honest, and not this model's.
  refused(checkpoint((h) => { h['model.layers.1.mlp.up_proj.weight'] = h[q]; delete h[q]; }), /^decoder: .*model\.layers\.1\.mlp\.up_proj\.weight, which this configuration does not read$/);
  refused(checkpoint((h) => { h[e].shape = [2, 4]; }), 'decoder: the tensor model.embed_tokens.weight is 2 x 4, expected 4 x 2');
  refused(checkpoint((h) => { h[e].dtype = 'I32'; }), /is I32, expected F32, F16 or BF16$/, 'unsupported');
  refuses(() => locant.decoder(shape, { safetensors: [checkpoint(), checkpoint()] }), 'format', /comes twice$/);
  refuses(() => locant.decoder(shape, { safetensors: [] }), 'format', /^decoder: there is no tensor /);
  load(checkpoint()).dispose();
});

test('safetensors: every truncation of a checkpoint is refused, and random bytes never do more than that', () => {
  const whole = checkpoint();
  for (let length = 0; length < whole.length; length += 7) refuses(() => load(whole.subarray(0, length)), 'format', /^decoder: /);
  let state = 12345;
  const random = (below) => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) % below;
  let read = 0;
  for (let i = 0; i < 400; ++i) {
    const bytes = whole.slice();
    for (let k = 0; k < 1 + (i % 3); ++k) bytes[random(bytes.length)] = random(256);
    try {
      load(bytes).dispose();
      read++;
    } catch (error) {
      assert.ok(['format', 'unsupported', 'argument'].includes(error.code), `${error.stack}`);
    }
  }
  assert.ok(read > 10 && read < 390, `${read} of 400 were read`);
});

test('safetensors: a number that is none is not looked for; it spreads to the logits, where sampling refuses it', () => {
  const bytes = checkpoint();
  new DataView(bytes.buffer).setFloat32(bytes.length - 4, NaN, true);  // the last norm
  const decoder = load(bytes);
  assert.ok(decoder.forward({ tokens: [1, 2], positions: positions.range(2) }).some(Number.isNaN));
  const cache = decoder.cache();
  refuses(() => decoder.generate({ prompts: [[1, 2]], cache }), 'argument', /^generate: .*nan/i);
  assert.equal(cache.rows(), 0);
  decoder.dispose();
});

test('safetensors: the module holds a checkpoint once, not the file beside it', async () => {
  const wasm = readFileSync(createRequire(import.meta.url).resolve('locant/deterministic.wasm'));
  const fresh = await external.load({ wasm });
  // 64 MB of weights, most of them one embedding.
  const big = { vocabulary: 250_000, width: 64, heads: 1, headDim: 64, feedForwardWidth: 64, layers: [{}] };
  const tensors = names.map((name) => [name, name.includes('embed') ? [250_000, 64] : name.includes('norm') ? [64] : [64, 64]]);
  const header = {};
  let at = 0;
  for (const [name, dims] of tensors) {
    const size = dims.reduce((a, b) => a * b) * 2;
    header[name] = { dtype: 'BF16', shape: dims, data_offsets: [at, at + size] };
    at += size;
  }
  const json = new TextEncoder().encode(JSON.stringify(header));
  const bytes = new Uint8Array(8 + json.length + at);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(json.length), true);
  bytes.set(json, 8);
  const before = fresh.buildInfo().memory;
  const decoder = fresh.decoder(big, { safetensors: bytes });
  const grown = fresh.buildInfo().memory - before, weights = decoder.parameters * 4;
  // Each tensor is packed from its float32 copy, which is then given back; the largest is nearly all there is.
  assert.ok(grown < 2.2 * weights, `grew by ${grown} bytes for ${weights} of weights`);
  decoder.dispose();
});
