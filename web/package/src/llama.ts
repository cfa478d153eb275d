// Llama-shaped checkpoints: the values of their config.json as a decoder's configuration.
import type { DecoderConfig, LlamaParameters } from '../types/locant.js';
import { argumentFault, finite, integer, flag, maxPosition, mostHeads, options, positive } from './check.js';
import type { Context } from './context.js';
import { pairingOf, readPlan, ruleOf } from './rotary.js';

export function llamaConfig({ memory }: Context, given: LlamaParameters): DecoderConfig {
  const call = 'llamaConfig';
  const read = options(call, given, ['vocab_size', 'hidden_size', 'intermediate_size', 'num_hidden_layers', 'num_attention_heads',
    'num_key_value_heads', 'head_dim', 'rms_norm_eps', 'tie_word_embeddings', 'attention_bias', 'mlp_bias', 'rope_theta',
    'partial_rotary_factor', 'sliding_window', 'rope', 'pairing', 'length']);
  const size = (name: 'vocab_size' | 'hidden_size' | 'intermediate_size' | 'num_hidden_layers' | 'num_attention_heads', most: number): number =>
    integer(call, name, read[name], 1, most);
  const maybe = (name: 'num_key_value_heads' | 'head_dim' | 'sliding_window' | 'length', most: number): number | undefined =>
    read[name] === undefined || read[name] === null ? undefined : integer(call, name, read[name], 1, most);
  const tied = flag(call, 'tie_word_embeddings', read.tie_word_embeddings ?? false);
  const attentionBias = flag(call, 'attention_bias', read.attention_bias ?? false);
  const mlpBias = flag(call, 'mlp_bias', read.mlp_bias ?? false);
  const biases = mlpBias ? 'all' : attentionBias ? 'attention' : 'none';
  if (mlpBias && !attentionBias) argumentFault(`${call}: mlp_bias is true and attention_bias is not, expected both`);
  const checked = {
    vocab_size: size('vocab_size', maxPosition),
    hidden_size: size('hidden_size', maxPosition),
    intermediate_size: size('intermediate_size', maxPosition),
    num_hidden_layers: size('num_hidden_layers', 65536),
    num_attention_heads: size('num_attention_heads', mostHeads),
    num_key_value_heads: maybe('num_key_value_heads', mostHeads),
    head_dim: maybe('head_dim', mostHeads),
    rms_norm_eps: finite(call, 'rms_norm_eps', read.rms_norm_eps ?? 1e-6),
    embeddings: tied ? 0 : 1,
    biases: biases === 'all' ? 3 : biases === 'attention' ? 2 : 0,
    rope_theta: positive(call, 'rope_theta', read.rope_theta ?? 10000),
    partial_rotary_factor: positive(call, 'partial_rotary_factor', read.partial_rotary_factor ?? 1),
    pairing: pairingOf(call, read.pairing),
    length: maybe('length', maxPosition + 1),
    sliding_window: maybe('sliding_window', maxPosition),
    rope: ruleOf(`${call}: rope`, read.rope ?? { rule: 'default' }, []).checked,
  };
  const { kvHeads, headDim, rotation } = memory.call(call, () => memory.done(memory.raw.llamaConfig(checked)));
  const mask = checked.sliding_window === undefined ? {} : { window: { size: checked.sliding_window } };
  const layer = { rotation: readPlan(rotation), mask };
  return {
    vocabulary: checked.vocab_size,
    width: checked.hidden_size,
    heads: checked.num_attention_heads,
    kvHeads,
    headDim,
    feedForwardWidth: checked.intermediate_size,
    norm: 'rms',
    normEpsilon: checked.rms_norm_eps,
    feedForward: 'gated',
    activation: 'silu',
    embeddings: tied ? 'tied' : 'separate',
    biases,
    layers: Array.from({ length: checked.num_hidden_layers }, () => layer),
  };
}
