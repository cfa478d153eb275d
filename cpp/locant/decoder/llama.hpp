// Llama-shaped checkpoints: what their config.json says, as typed parameters, to a decoder's configuration; and
// their safetensors files to its weights.
//
// Field names are those of config.json, defaults Hugging Face's LlamaConfig. Reading the JSON itself, with its many
// spellings, is the caller's (in C++ and JavaScript alike) or the audit's. The shape also fits what differs from
// Llama in these fields alone: Mistral (sliding_window), Qwen2 (query_key_value_bias), SmolLM, TinyLlama.
//
// Rotary pairing is Hugging Face's half-split: its conversion scripts permute the rows of q_proj and k_proj. Weights
// in Meta's own order need the interleaved pairing instead.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "locant/decoder/config.hpp"
#include "locant/decoder/safetensors.hpp"
#include "locant/rotary/rules.hpp"

namespace locant {

struct LlamaParameters {
  std::int32_t vocab_size = 32000;
  std::int32_t hidden_size = 4096;
  std::int32_t intermediate_size = 11008;
  std::int32_t num_hidden_layers = 32;
  std::int32_t num_attention_heads = 32;
  std::optional<std::int32_t> num_key_value_heads;  // none: num_attention_heads
  std::optional<std::int32_t> head_dim;             // none: hidden_size / num_attention_heads
  double rms_norm_eps = 1e-6;
  Embeddings embeddings = Embeddings::kSeparate;    // tie_word_embeddings
  Biases biases = Biases::kNone;                    // attention_bias: kAttention; attention_bias and mlp_bias: kAll
  double rope_theta = 10000;
  RotaryRule rope_rule;                             // rope_scaling or rope_parameters
  double partial_rotary_factor = 1;
  Pairing pairing = Pairing::kHalfSplit;
  // For rules that depend on a length: the number of positions that the generation may reach.
  std::optional<std::int64_t> length;
  std::optional<std::int32_t> sliding_window;       // tokens that a query sees, itself included; all layers
};

// kArgument where a number is out of range, or hidden_size does not divide by num_attention_heads and head_dim is
// not given.
DecoderConfig llama_config(const LlamaParameters& parameters);

// The weights that a decoder of `config` reads, from the files of one checkpoint. Left aside, by name: the output
// matrix of tied embeddings, and buffers of older files (".rotary_emb.inv_freq", ".masked_bias", ".attn.bias").
// Errors, kFormat: a tensor is missing, is there twice, has another shape, or is none that the decoder reads;
// kUnsupported for dtypes other than float32, float16 and bfloat16.
Weights load_weights(const DecoderConfig& config, std::span<const Safetensors> files);

}  // namespace locant
