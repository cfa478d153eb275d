#include "locant/decoder/config.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "locant/decoder/random.hpp"

namespace locant {
namespace {

bool same_method(const MethodDescription& a, const MethodDescription& b) {
  const auto same_parameter = [](const MethodParameter& x, const MethodParameter& y) {
    return x.name == y.name && x.value == y.value;
  };
  return a.name == b.name && std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(), b.parameters.end(), same_parameter);
}

// "name" where a layer number is wanted: fail early with the layer that is at fault.
void require_layer(std::string_view call, const DecoderConfig& config, std::size_t i) {
  const LayerConfig& layer = config.layers[i];
  const std::string where = sentence(call, ": layer ", i);
  if (layer.mask.direction != Direction::kCausal) fail(ErrorCode::kArgument, where, ": a decoder's mask is causal");
  if (!layer.mask.prefix.empty() || !layer.mask.visible.empty()) {
    fail(ErrorCode::kArgument, where, ": prefix and explicit masks belong to a call, not to the configuration");
  }
  require_mask(where, layer.mask);
  if (layer.rotation) require_plan(where, *layer.rotation, config.head_dim);
  for (const auto& term : layer.score_terms) {
    if (!term) fail(ErrorCode::kArgument, where, ": a score term is missing");
    term->require_fits(config.heads, config.kv_heads, config.head_dim);
  }
  if (layer.value_term) layer.value_term->require_fits(config.heads, config.kv_heads, config.head_dim);
  if (layer.scale) require_scale(where, *layer.scale);
  if (layer.soft_cap) require_factor(where, "soft_cap", *layer.soft_cap);
}

}  // namespace

void require_config(std::string_view call, const DecoderConfig& config) {
  constexpr std::int64_t kMost = 1 << 24;
  require_range(call, "vocabulary", config.vocabulary, 1, kMost);
  require_range(call, "width", config.width, 1, 1 << 20);
  require_range(call, "feed_forward_width", config.feed_forward_width, 1, kMost);
  require_range(call, "the number of layers", static_cast<std::int64_t>(config.layers.size()), 1, 65536);
  require_shape(call, config.shape());
  require_finite(call, "norm_epsilon", config.norm_epsilon);
  if (config.norm_epsilon < 0) {
    throw Error(ErrorCode::kArgument, sentence(call, ": norm_epsilon is ", config.norm_epsilon, ", expected 0 or more"),
                config.norm_epsilon, 0);
  }
  require_factor(call, "embedding_scale", config.embedding_scale);
  if (config.logit_soft_cap) require_factor(call, "logit_soft_cap", *config.logit_soft_cap);
  if (const auto* sinusoidal = std::get_if<SinusoidalConfig>(&config.input_position)) {
    require_range(call, "the width of the sinusoidal encoding", sinusoidal->width, config.width, config.width);
    const Sinusoidal checks_itself(*sinusoidal);
  } else if (const auto* table = std::get_if<TableConfig>(&config.input_position)) {
    require_range(call, "the width of the position table", table->width, config.width, config.width);
    require_range(call, "rows of the position table", table->rows, 1, kMaxPosition);
    if (table->past_end == PastEnd::kTruncate) {
      fail(ErrorCode::kArgument, call, ": a position table cannot truncate a decoder's input; cut the tokens, or choose another policy");
    }
  }
  if (const auto* grid = std::get_if<GridSinusoidalConfig>(&config.input_position)) {
    require_range(call, "the features of the grid's sinusoids", grid->features, config.width, config.width);
    const GridSinusoidal checks_itself(*grid);
  }
  for (std::size_t i = 0; i < config.layers.size(); ++i) require_layer(call, config, i);
}

std::vector<TensorInfo> decoder_tensors(const DecoderConfig& config) {
  std::vector<TensorInfo> out;
  const std::int64_t width = config.width, inner = config.feed_forward_width;
  const std::int64_t queries = std::int64_t{config.heads} * config.head_dim, keys = std::int64_t{config.kv_heads} * config.head_dim;
  const auto linear = [&](const std::string& name, std::int64_t outputs, std::int64_t inputs, bool bias) {
    out.push_back({name + ".weight", {outputs, inputs}});
    if (bias) out.push_back({name + ".bias", {outputs}});
  };
  const bool after = config.norm_placement == NormPlacement::kBeforeAndAfter;
  const auto norm = [&](const std::string& name) {
    out.push_back({name + ".weight", {width}});
    if (config.norm == Norm::kLayer) out.push_back({name + ".bias", {width}});
  };
  const bool all = config.biases == Biases::kAll, attention = all || config.biases == Biases::kAttention, qkv = config.biases != Biases::kNone;
  linear("model.embed_tokens", config.vocabulary, width, false);
  if (const auto* table = std::get_if<TableConfig>(&config.input_position)) linear("model.embed_positions", table->rows, width, false);
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const std::string layer = sentence("model.layers.", i, ".");
    norm(layer + "input_layernorm");
    linear(layer + "self_attn.q_proj", queries, width, qkv);
    linear(layer + "self_attn.k_proj", keys, width, qkv);
    linear(layer + "self_attn.v_proj", keys, width, qkv);
    linear(layer + "self_attn.o_proj", width, queries, attention);
    norm(layer + "post_attention_layernorm");
    if (after) norm(layer + "pre_feedforward_layernorm");
    if (config.feed_forward == FeedForward::kGated) linear(layer + "mlp.gate_proj", inner, width, all);
    linear(layer + "mlp.up_proj", inner, width, all);
    linear(layer + "mlp.down_proj", width, inner, all);
    if (after) norm(layer + "post_feedforward_layernorm");
  }
  norm("model.norm");
  if (config.embeddings == Embeddings::kSeparate) linear("lm_head", config.vocabulary, width, false);
  return out;
}

Weights random_weights(const DecoderConfig& config, std::uint64_t seed, const RandomScale& scale) {
  constexpr const char* kCall = "random_weights";
  require_config(kCall, config);
  require_factor(kCall, "scale.embedding", scale.embedding.value_or(1));
  require_factor(kCall, "scale.query_key", scale.query_key);
  require_factor(kCall, "scale.matrix", scale.matrix);
  Weights weights;
  for (TensorInfo& info : decoder_tensors(config)) {
    const std::string name = info.name;
    const auto holds = [&](const char* part) { return name.find(part) != std::string::npos; };
    double middle = 0, deviation = 0;
    if (info.shape.size() == 1) {
      middle = name.ends_with(".bias") || config.norm == Norm::kRmsFromOne ? 0 : 1;
      deviation = 0.1 / std::sqrt(3.0);
    } else if (holds(".embed_")) {
      deviation = scale.embedding.value_or(1 / std::sqrt(static_cast<double>(config.width)));
    } else {
      const double gain = holds(".q_proj.") || holds(".k_proj.") ? scale.query_key : scale.matrix;
      deviation = gain / std::sqrt(static_cast<double>(info.shape[1]));
    }
    const auto half_range = static_cast<float>(std::sqrt(3.0) * deviation);
    const auto centre = static_cast<float>(middle);
    const CounterRandom random(seed, stream_of(name));
    std::uint64_t i = 0;
    for (float& value : weights.add(std::move(info))) value = centre + half_range * random.symmetric(i++);
  }
  return weights;
}

std::vector<MethodInLayers> describe_methods(const DecoderConfig& config) {
  require_config("describe_methods", config);
  std::vector<MethodInLayers> out;
  if (const auto* sinusoidal = std::get_if<SinusoidalConfig>(&config.input_position)) {
    out.push_back({Sinusoidal(*sinusoidal).describe(), {}});
  } else if (const auto* grid = std::get_if<GridSinusoidalConfig>(&config.input_position)) {
    out.push_back({GridSinusoidal(*grid).describe(), {}});
  } else if (const auto* table = std::get_if<TableConfig>(&config.input_position)) {
    const std::vector<float> nothing(tensor_size("describe_methods", {"the position table", {table->rows, table->width}}));
    out.push_back({LearnedTable(*table, nothing).describe(), {}});
  }
  const std::size_t at_input = out.size();
  const auto note = [&](MethodDescription method, std::size_t layer) {
    const auto found = std::find_if(out.begin() + static_cast<std::ptrdiff_t>(at_input), out.end(),
                                    [&](const MethodInLayers& m) { return same_method(m.method, method); });
    MethodInLayers& entry = found != out.end() ? *found : out.emplace_back(MethodInLayers{std::move(method), {}});
    if (entry.layers.empty() || entry.layers.back() != static_cast<std::int32_t>(layer)) entry.layers.push_back(static_cast<std::int32_t>(layer));
  };
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const LayerConfig& layer = config.layers[i];
    if (layer.rotation) note(describe(*layer.rotation), i);
    for (const auto& term : layer.score_terms) note(term->describe(), i);
    if (layer.value_term) note(layer.value_term->describe(), i);
  }
  return out;
}

}  // namespace locant
