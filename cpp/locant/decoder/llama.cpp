#include "locant/decoder/llama.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>

namespace locant {
namespace {

bool left_aside(const DecoderConfig& config, std::string_view name) {
  if (name == "lm_head.weight") return config.embeddings == Embeddings::kTied;
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".masked_bias") || name.ends_with(".attn.bias");
}

}  // namespace

DecoderConfig llama_config(const LlamaParameters& parameters) {
  constexpr const char* kCall = "llama_config";
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  require_range(kCall, "num_hidden_layers", parameters.num_hidden_layers, 1, 65536);
  // By the names that the file has, before the configuration is asked, which has its own.
  require_range(kCall, "vocab_size", parameters.vocab_size, 1, kMost);
  require_range(kCall, "hidden_size", parameters.hidden_size, 1, kMost);
  require_range(kCall, "intermediate_size", parameters.intermediate_size, 1, kMost);
  require_range(kCall, "num_attention_heads", parameters.num_attention_heads, 1, kMost);
  require_range(kCall, "num_key_value_heads", parameters.num_key_value_heads.value_or(parameters.num_attention_heads), 1,
                parameters.num_attention_heads);
  require_finite(kCall, "rms_norm_eps", parameters.rms_norm_eps);
  if (parameters.rms_norm_eps < 0) {
    throw Error(ErrorCode::kArgument, sentence(kCall, ": rms_norm_eps is ", parameters.rms_norm_eps, ", expected 0 or more"),
                parameters.rms_norm_eps, 0);
  }
  require_positive(kCall, "rope_theta", parameters.rope_theta);
  DecoderConfig config;
  config.vocabulary = parameters.vocab_size;
  config.width = parameters.hidden_size;
  config.heads = parameters.num_attention_heads;
  config.kv_heads = parameters.num_key_value_heads.value_or(config.heads);
  if (config.heads % config.kv_heads != 0) {
    throw Error(ErrorCode::kArgument, sentence(kCall, ": num_attention_heads is ", config.heads,
                ", expected a multiple of num_key_value_heads, ", config.kv_heads), config.heads, config.kv_heads);
  }
  if (!parameters.head_dim && config.width % config.heads != 0) {
    throw Error(ErrorCode::kArgument, sentence(kCall, ": hidden_size ", config.width, " does not divide by ", config.heads,
                " heads, and head_dim is not given"), config.width, config.heads);
  }
  config.head_dim = parameters.head_dim.value_or(config.width / config.heads);
  require_range(kCall, "head_dim", config.head_dim, 1, 65536);
  config.feed_forward_width = parameters.intermediate_size;
  config.norm_epsilon = parameters.rms_norm_eps;
  config.embeddings = parameters.embeddings;
  config.biases = parameters.biases;

  if (!(parameters.partial_rotary_factor > 0 && parameters.partial_rotary_factor <= 1)) {
    throw Error(ErrorCode::kArgument, sentence(kCall, ": partial_rotary_factor is ", parameters.partial_rotary_factor,
                ", expected a number above 0 and at most 1"), parameters.partial_rotary_factor, 1);
  }
  RotaryShape shape;
  shape.width = static_cast<std::int32_t>(config.head_dim * parameters.partial_rotary_factor);
  shape.base = parameters.rope_theta;
  shape.pairing = parameters.pairing;
  LayerConfig layer;
  layer.rotation = resolve(shape, parameters.rope_rule, parameters.length);
  if (parameters.sliding_window) layer.mask.window = Window{*parameters.sliding_window, WindowConvention::kCountsCurrent, 0};
  config.layers.assign(static_cast<std::size_t>(parameters.num_hidden_layers), layer);
  require_config(kCall, config);
  return config;
}

Weights load_weights(const DecoderConfig& config, std::span<const Safetensors> files) {
  constexpr const char* kCall = "load_weights";
  require_config(kCall, config);
  std::vector<TensorInfo> tensors = decoder_tensors(config);
  std::unordered_map<std::string_view, bool> found;  // by name of a tensor that is read
  for (const TensorInfo& info : tensors) found.emplace(info.name, false);
  // Everything is checked before memory is asked for.
  for (std::size_t f = 0; f < files.size(); ++f) {
    for (const StoredTensor& stored : files[f].tensors()) {
      const auto entry = found.find(stored.info.name);
      if (entry == found.end()) {
        if (left_aside(config, stored.info.name)) continue;
        fail(ErrorCode::kFormat, kCall, ": file ", f, " holds the tensor ", stored.info.name, ", which this configuration does not read");
      }
      if (std::exchange(entry->second, true)) fail(ErrorCode::kFormat, kCall, ": the tensor ", stored.info.name, " comes twice");
    }
  }
  const auto stored = [&](const TensorInfo& info) -> std::pair<const Safetensors*, const StoredTensor*> {
    for (const Safetensors& file : files) {
      if (const StoredTensor* tensor = file.find(info.name)) return {&file, tensor};
    }
    fail(ErrorCode::kFormat, kCall, ": there is no tensor ", info.name, ", expected one of ", shape_text(info.shape));
  };
  for (const TensorInfo& info : tensors) {
    const StoredTensor& tensor = *stored(info).second;
    if (tensor.info.shape == info.shape) continue;
    fail(ErrorCode::kFormat, kCall, ": the tensor ", info.name, " is ", shape_text(tensor.info.shape), ", expected ", shape_text(info.shape));
  }
  Weights weights;
  for (TensorInfo& info : tensors) {
    const auto [file, tensor] = stored(info);
    file->read(*tensor, weights.add(std::move(info)));
  }
  return weights;
}

}  // namespace locant
