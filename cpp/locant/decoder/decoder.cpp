#include "locant/decoder/decoder.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "locant/simd/matrix.hpp"

namespace locant {
namespace {

constexpr const char* kMake = "Decoder";
constexpr const char* kForward = "Decoder::forward";

struct NormWeights {
  std::vector<float> weight, bias;  // [width]; bias empty under kRms
  std::vector<float> given;         // under kRmsFromOne, where weight is 1 + given; empty otherwise
};

// y = W x + b.
struct Linear {
  simd::PackedMatrix weight;
  std::vector<float> bias;  // [outputs] or empty
};

struct Block {
  NormWeights before_attention, before_feed_forward;
  NormWeights after_attention, after_feed_forward;  // empty under NormPlacement::kBefore
  Linear query, key, value, output;
  Linear gate, up, down;  // gate is empty for a plain feed-forward
};

// The kernel's soft cap, which takes whole panels of numbers.
void soften(std::span<float> logits, float cap) {
  const std::size_t whole = logits.size() / simd::kPanelWidth * simd::kPanelWidth, rest = logits.size() - whole;
  if (whole > 0) simd::tiles().soften(logits.data(), whole, cap);
  if (rest == 0) return;
  float last[simd::kPanelWidth] = {};
  std::copy_n(logits.begin() + static_cast<std::ptrdiff_t>(whole), rest, last);
  simd::tiles().soften(last, simd::kPanelWidth, cap);
  std::copy_n(last, rest, logits.begin() + static_cast<std::ptrdiff_t>(whole));
}

// One float buffer that only grows.
class Scratch {
 public:
  float* get(std::size_t count) {
    if (count > size_) {
      values_ = aligned_zeros<float>(kForward, count);
      size_ = count;
    }
    return values_.get();
  }
  std::size_t bytes() const noexcept { return size_ * sizeof(float); }

 private:
  AlignedFloats values_;
  std::size_t size_ = 0;
};

}  // namespace

struct Decoder::State {
  explicit State(DecoderConfig given) : config(std::move(given)) {}

  DecoderConfig config;
  std::size_t parameters = 0, weight_bytes = 0;
  std::unique_ptr<Sinusoidal> sinusoidal;
  std::unique_ptr<GridSinusoidal> grid;
  std::unique_ptr<LearnedTable> table;
  std::vector<float> table_given;                    // where the table was stretched: as it was before
  std::vector<std::shared_ptr<Rotation>> rotations;  // one for each plan that turns differently
  std::vector<Attention> attentions;                 // [layers]
  std::vector<Block> blocks;                         // [layers]
  NormWeights last_norm;
  simd::PackedMatrix embedding, unembedding;  // unembedding is empty where embeddings are tied
  simd::Workspace work;

  Scratch x, normed, queries, keys, values, mixed, inner, gate;
  std::vector<LayerRoute> routes;

  void load(Weights& weights);
  void make_attentions();
  void check(std::span<const std::int32_t> tokens, const Positions& positions, std::span<const std::size_t> wanted,
             std::span<float> logits) const;
  // y: [rows, outputs] = W x + b, or y += W x + b.
  void apply(const Linear& linear, const float* in, std::size_t rows, float* out, simd::Write write = simd::Write::kReplace);
  void normalise(const NormWeights& norm, const float* from, std::size_t rows, float* to) const noexcept;
  // routes: one a layer, or none for the full forward.
  void run(std::span<const std::int32_t> tokens, const Positions& positions, std::span<const LayerRoute> routes,
           std::span<const std::size_t> wanted, std::span<float> logits, const CallMask& mask);
};

// ---- construction -------------------------------------------------------------------------------------

void Decoder::State::load(Weights& weights) {
  const std::vector<TensorInfo> tensors = decoder_tensors(config);
  for (const TensorInfo& info : tensors) weights.require(kMake, info.name, info.shape);
  if (weights.tensors() != tensors.size()) {
    for (std::size_t i = 0; i < weights.tensors(); ++i) {
      const std::string& name = weights.info(i).name;
      const auto is_it = [&](const TensorInfo& info) { return info.name == name; };
      if (std::none_of(tensors.begin(), tensors.end(), is_it)) {
        fail(ErrorCode::kArgument, kMake, ": tensor ", name, " is not one that this configuration reads");
      }
    }
  }
  parameters = weights.parameters();

  // Each tensor is given back as soon as it is laid out anew, so that the weights are never held twice.
  const auto take = [&](const std::string& name) {
    std::vector<float> out;
    if (!weights.has(name)) return out;
    for (std::size_t i = 0; i < weights.tensors(); ++i) {
      if (weights.info(i).name == name) out.assign(weights.values(i).begin(), weights.values(i).end());
    }
    weights.drop(name);
    weight_bytes += out.size() * sizeof(float);
    return out;
  };
  const auto matrix = [&](const std::string& name, std::int64_t outputs, std::int64_t inputs) {
    const std::array<std::int64_t, 2> shape = {outputs, inputs};
    simd::PackedMatrix out(weights.require(kMake, name, shape), outputs, inputs);
    weights.drop(name);
    weight_bytes += out.bytes();
    return out;
  };
  const auto linear = [&](const std::string& name, std::int64_t outputs, std::int64_t inputs) {
    return Linear{matrix(name + ".weight", outputs, inputs), take(name + ".bias")};
  };
  const auto norm = [&](const std::string& name) {
    NormWeights out{take(name + ".weight"), take(name + ".bias"), {}};
    if (config.norm == Norm::kRmsFromOne) {
      out.given = out.weight;
      weight_bytes += out.given.size() * sizeof(float);
      for (float& w : out.weight) w += 1.0f;
    }
    return out;
  };

  const std::int64_t width = config.width, inner_width = config.feed_forward_width;
  const std::int64_t q = std::int64_t{config.heads} * config.head_dim, kv = std::int64_t{config.kv_heads} * config.head_dim;
  embedding = matrix("model.embed_tokens.weight", config.vocabulary, width);
  if (const auto* learned = std::get_if<TableConfig>(&config.input_position)) {
    const std::array<std::int64_t, 2> shape = {learned->rows, width};
    const std::span<const float> values = weights.require(kMake, "model.embed_positions.weight", shape);
    table = std::make_unique<LearnedTable>(*learned, values);
    if (learned->past_end == PastEnd::kInterpolate) table_given.assign(values.begin(), values.end());
    weights.drop("model.embed_positions.weight");
    weight_bytes += (table->values().size() + table_given.size()) * sizeof(float);
  } else if (const auto* waves = std::get_if<SinusoidalConfig>(&config.input_position)) {
    sinusoidal = std::make_unique<Sinusoidal>(*waves);
  } else if (const auto* both = std::get_if<GridSinusoidalConfig>(&config.input_position)) {
    grid = std::make_unique<GridSinusoidal>(*both);
  }
  const bool after = config.norm_placement == NormPlacement::kBeforeAndAfter;
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const std::string layer = sentence("model.layers.", i, ".");
    Block block;
    block.before_attention = norm(layer + "input_layernorm");
    block.query = linear(layer + "self_attn.q_proj", q, width);
    block.key = linear(layer + "self_attn.k_proj", kv, width);
    block.value = linear(layer + "self_attn.v_proj", kv, width);
    block.output = linear(layer + "self_attn.o_proj", width, q);
    if (after) block.after_attention = norm(layer + "post_attention_layernorm");
    block.before_feed_forward = norm(layer + (after ? "pre_feedforward_layernorm" : "post_attention_layernorm"));
    if (after) block.after_feed_forward = norm(layer + "post_feedforward_layernorm");
    if (config.feed_forward == FeedForward::kGated) block.gate = linear(layer + "mlp.gate_proj", inner_width, width);
    block.up = linear(layer + "mlp.up_proj", inner_width, width);
    block.down = linear(layer + "mlp.down_proj", width, inner_width);
    blocks.push_back(std::move(block));
  }
  last_norm = norm("model.norm");
  if (config.embeddings == Embeddings::kSeparate) unembedding = matrix("lm_head.weight", config.vocabulary, width);
}

void Decoder::State::make_attentions() {
  for (const LayerConfig& layer : config.layers) {
    AttentionConfig attention;
    attention.shape = config.shape();
    attention.mask = layer.mask;
    attention.score_terms = layer.score_terms;
    attention.value_term = layer.value_term;
    attention.scale = layer.scale;
    attention.soft_cap = layer.soft_cap;
    attention.temperature = layer.temperature;
    if (layer.rotation) {
      const auto same = std::find_if(rotations.begin(), rotations.end(), [&](const auto& rotation) {
        return rotation->plan().same_rotation(*layer.rotation) &&
               rotation->plan().softmax_scale_factor == layer.rotation->softmax_scale_factor;
      });
      if (same == rotations.end()) {
        rotations.push_back(std::make_shared<Rotation>(*layer.rotation, config.head_dim));
        attention.rotation = rotations.back();
      } else {
        attention.rotation = *same;
      }
    }
    attentions.emplace_back(std::move(attention));
  }
}

Decoder::Decoder(DecoderConfig config, Weights weights) {
  require_config(kMake, config);
  state_ = std::make_unique<State>(std::move(config));
  state_->make_attentions();
  state_->load(weights);
}

Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

const DecoderConfig& Decoder::config() const noexcept { return state_->config; }
std::size_t Decoder::parameters() const noexcept { return state_->parameters; }

std::size_t Decoder::bytes() const noexcept {
  const State& s = *state_;
  std::size_t bytes = s.weight_bytes;
  for (const Scratch* scratch : {&s.x, &s.normed, &s.queries, &s.keys, &s.values, &s.mixed, &s.inner, &s.gate}) bytes += scratch->bytes();
  for (const auto& rotation : s.rotations) {
    bytes += static_cast<std::size_t>(rotation->prepared()) * static_cast<std::size_t>(rotation->plan().rotated_width()) * sizeof(float);
  }
  if (s.sinusoidal) bytes += static_cast<std::size_t>(s.sinusoidal->prepared()) * static_cast<std::size_t>(s.config.width) * sizeof(float);
  return bytes;
}

Weights Decoder::weights() const {
  const State& s = *state_;
  Weights out;
  const auto matrix = [&](const std::string& name, const simd::PackedMatrix& m) {
    const std::span<float> to = out.add({name, {static_cast<std::int64_t>(m.outputs()), static_cast<std::int64_t>(m.inputs())}});
    for (std::size_t o = 0; o < m.outputs(); ++o) m.read_row(o, to.subspan(o * m.inputs(), m.inputs()));
  };
  const auto vector = [&](const std::string& name, const std::vector<float>& values) {
    if (values.empty()) return;
    const std::span<float> to = out.add({name, {static_cast<std::int64_t>(values.size())}});
    std::copy(values.begin(), values.end(), to.begin());
  };
  const auto linear = [&](const std::string& name, const Linear& l) {
    matrix(name + ".weight", l.weight);
    vector(name + ".bias", l.bias);
  };
  const auto norm = [&](const std::string& name, const NormWeights& n) {
    vector(name + ".weight", n.given.empty() ? n.weight : n.given);
    vector(name + ".bias", n.bias);
  };
  const bool after = s.config.norm_placement == NormPlacement::kBeforeAndAfter;
  matrix("model.embed_tokens.weight", s.embedding);
  if (s.table) {
    const auto* as_given = std::get_if<TableConfig>(&s.config.input_position);
    const std::span<float> to = out.add({"model.embed_positions.weight", {as_given->rows, s.config.width}});
    std::copy_n((s.table_given.empty() ? s.table->values() : std::span<const float>(s.table_given)).begin(), to.size(), to.begin());
  }
  for (std::size_t i = 0; i < s.blocks.size(); ++i) {
    const std::string layer = sentence("model.layers.", i, ".");
    const Block& block = s.blocks[i];
    norm(layer + "input_layernorm", block.before_attention);
    linear(layer + "self_attn.q_proj", block.query);
    linear(layer + "self_attn.k_proj", block.key);
    linear(layer + "self_attn.v_proj", block.value);
    linear(layer + "self_attn.o_proj", block.output);
    if (after) norm(layer + "post_attention_layernorm", block.after_attention);
    norm(layer + (after ? "pre_feedforward_layernorm" : "post_attention_layernorm"), block.before_feed_forward);
    if (s.config.feed_forward == FeedForward::kGated) linear(layer + "mlp.gate_proj", block.gate);
    linear(layer + "mlp.up_proj", block.up);
    linear(layer + "mlp.down_proj", block.down);
    if (after) norm(layer + "post_feedforward_layernorm", block.after_feed_forward);
  }
  norm("model.norm", s.last_norm);
  if (s.config.embeddings == Embeddings::kSeparate) matrix("lm_head.weight", s.unembedding);
  return out;
}

void Decoder::prepare(std::int64_t count) {
  for (const auto& rotation : state_->rotations) rotation->prepare(count);
  if (state_->sinusoidal) state_->sinusoidal->prepare(count);
}

Cache Decoder::make_cache(std::int32_t sequences, Capacity capacity, std::int64_t rows, KeyStorage keys,
                          BackwardPositions backward) const {
  CacheConfig config;
  config.shape = state_->config.shape();
  config.layers = static_cast<std::int32_t>(state_->config.layers.size());
  config.sequences = sequences;
  config.capacity = capacity;
  config.rows = rows;
  config.keys = keys;
  config.backward = backward;
  return Cache(config);
}

// ---- forward ------------------------------------------------------------------------------------------

void Decoder::State::check(std::span<const std::int32_t> tokens, const Positions& positions,
                           std::span<const std::size_t> wanted, std::span<float> logits) const {
  require_size(kForward, "tokens", tokens.size(), positions.tokens(), "one for each position");
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    if (positions.valid()[t] == 0 || (tokens[t] >= 0 && tokens[t] < config.vocabulary)) continue;
    throw Error(ErrorCode::kArgument, sentence(kForward, ": token ", t, " has the id ", tokens[t], ", expected 0 to ",
                config.vocabulary - 1), tokens[t], config.vocabulary - 1);
  }
  for (const std::size_t t : wanted) {
    if (t < tokens.size()) continue;
    throw Error(ErrorCode::kArgument, sentence(kForward, ": logits of token ", t, " are wanted, the batch has ",
                tokens.size(), " tokens"), static_cast<double>(t), static_cast<double>(tokens.size()));
  }
  const std::size_t size = checked_product(kForward, "logits", {static_cast<std::int64_t>(wanted.size()), config.vocabulary});
  require_size(kForward, "logits", logits.size(), size, sentence(wanted.size(), " wanted x a vocabulary of ", config.vocabulary));
  if (table) table->fit(positions);  // kTableEnd before anything is computed
  if (grid && positions.tokens() > 0 && positions.axes() < 2) {
    fail(ErrorCode::kArgument, kForward, ": sinusoids of a grid need positions with two axes, these have one");
  }
}

void Decoder::State::apply(const Linear& linear, const float* in, std::size_t rows, float* out, simd::Write write) {
  const std::size_t outputs = linear.weight.outputs(), inputs = linear.weight.inputs();
  if (!linear.bias.empty()) {
    for (std::size_t r = 0; r < rows; ++r) {
      if (write == simd::Write::kAdd) {
        add(out + r * outputs, linear.bias.data(), outputs);
      } else {
        std::copy(linear.bias.begin(), linear.bias.end(), out + r * outputs);
      }
    }
    write = simd::Write::kAdd;
  }
  linear.weight.multiply({in, rows * inputs}, rows, {out, rows * outputs}, work, write);
}

void Decoder::State::normalise(const NormWeights& norm, const float* from, std::size_t rows, float* to) const noexcept {
  const auto width = static_cast<std::size_t>(config.width);
  const auto epsilon = static_cast<float>(config.norm_epsilon);
  if (config.norm != Norm::kLayer) {
    rms_norm(from, rows, width, norm.weight.data(), epsilon, to);
  } else {
    layer_norm(from, rows, width, norm.weight.data(), norm.bias.data(), epsilon, to);
  }
}

void Decoder::State::run(std::span<const std::int32_t> tokens, const Positions& positions,
                         std::span<const LayerRoute> layer_routes, std::span<const std::size_t> wanted,
                         std::span<float> logits, const CallMask& mask) {
  const std::size_t count = tokens.size();
  const auto width = static_cast<std::size_t>(config.width), inner_width = static_cast<std::size_t>(config.feed_forward_width);
  const std::size_t head_dim = static_cast<std::size_t>(config.head_dim);
  const std::size_t q_size = count * static_cast<std::size_t>(config.heads) * head_dim;
  const std::size_t kv_size = count * static_cast<std::size_t>(config.kv_heads) * head_dim;
  // [tokens, width]; at the end `normed` holds the wanted rows.
  float* residual = x.get(count * width);
  float* n = normed.get(std::max(count, wanted.size()) * width);
  float* q = queries.get(q_size);
  float* k = keys.get(kv_size);
  float* v = values.get(kv_size);
  float* y = mixed.get(q_size);
  float* up = inner.get(count * inner_width);
  float* gated = config.feed_forward == FeedForward::kGated ? gate.get(count * inner_width) : nullptr;

  for (std::size_t t = 0; t < count; ++t) {
    if (positions.valid()[t] != 0) {
      const std::span<float> row(residual + t * width, width);
      embedding.read_row(static_cast<std::size_t>(tokens[t]), row);
      if (config.embedding_scale != 1) {
        for (float& value : row) value *= static_cast<float>(config.embedding_scale);
      }
    } else {
      std::fill_n(residual + t * width, width, 0.0f);
    }
  }
  const std::span<float> all(residual, count * width);
  if (sinusoidal) sinusoidal->add(all, positions, all);
  if (grid) grid->add(all, positions, all);
  if (table) table->add(all, positions, all);

  // What a sublayer gives is added to the residual path, by way of a norm of its own where there is one.
  const auto add_result = [&](const Linear& linear, const float* in, const NormWeights& norm) {
    if (norm.weight.empty()) return apply(linear, in, count, residual, simd::Write::kAdd);
    apply(linear, in, count, n);
    normalise(norm, n, count, n);
    add(residual, n, count * width);
  };
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks[i];
    normalise(block.before_attention, residual, count, n);
    apply(block.query, n, count, q);
    apply(block.key, n, count, k);
    apply(block.value, n, count, v);
    if (layer_routes.empty()) {
      attentions[i].attend({q, q_size}, {k, kv_size}, {v, kv_size}, positions, {y, q_size}, mask);
    } else {
      const LayerRoute& route = layer_routes[i];
      attentions[i].attend({q, q_size}, {k, kv_size}, {v, kv_size}, *route.cache, *route.step, route.layer, {y, q_size}, mask);
    }
    add_result(block.output, y, block.after_attention);

    normalise(block.before_feed_forward, residual, count, n);
    apply(block.up, n, count, up);
    if (gated != nullptr) {
      apply(block.gate, n, count, gated);
      activate_gated(config.activation, gated, up, count * inner_width);
    } else {
      activate(config.activation, up, count * inner_width);
    }
    add_result(block.down, gated != nullptr ? gated : up, block.after_feed_forward);
  }

  for (std::size_t w = 0; w < wanted.size(); ++w) normalise(last_norm, residual + wanted[w] * width, 1, n + w * width);
  const simd::PackedMatrix& last = config.embeddings == Embeddings::kTied ? embedding : unembedding;
  last.multiply({n, wanted.size() * width}, wanted.size(), logits, work);
  if (config.logit_soft_cap) soften(logits, static_cast<float>(*config.logit_soft_cap));
}

void Decoder::forward(std::span<const std::int32_t> tokens, const Positions& positions,
                      std::span<const std::size_t> wanted, std::span<float> logits, const CallMask& mask) {
  state_->check(tokens, positions, wanted, logits);
  state_->run(tokens, positions, {}, wanted, logits, mask);
}

void Decoder::forward(std::span<const std::int32_t> tokens, const Positions& positions, Cache& cache,
                      std::span<const std::size_t> wanted, std::span<float> logits,
                      std::span<const std::int32_t> sequences, const CallMask& mask) {
  State& state = *state_;
  state.check(tokens, positions, wanted, logits);
  const AttentionShape& held = cache.config().shape;
  const DecoderConfig& config = state.config;
  if (held.kv_heads != config.kv_heads || held.head_dim != config.head_dim || held.value_dim != config.head_dim ||
      static_cast<std::size_t>(cache.config().layers) != config.layers.size()) {
    fail(ErrorCode::kShape, kForward, ": the cache has ", cache.config().layers, " layers of ", held.kv_heads, " heads of ",
         held.head_dim, " and ", held.value_dim, ", expected ", config.layers.size(), " of ", config.kv_heads, " of ",
         config.head_dim, " and ", config.head_dim);
  }
  const CacheStep step = cache.begin(positions, sequences);
  try {
    state.routes.clear();
    for (std::int32_t i = 0; i < cache.config().layers; ++i) state.routes.push_back({&cache, &step, i});
    state.run(tokens, positions, state.routes, wanted, logits, mask);
  } catch (...) {
    cache.cancel(step);
    throw;
  }
}

void Decoder::forward(std::span<const std::int32_t> tokens, const Positions& positions,
                      std::span<const LayerRoute> routes, std::span<const std::size_t> wanted, std::span<float> logits,
                      const CallMask& mask) {
  State& state = *state_;
  state.check(tokens, positions, wanted, logits);
  require_size(kForward, "routes", routes.size(), state.blocks.size(), "one for each layer");
  for (std::size_t i = 0; i < routes.size(); ++i) {
    if (routes[i].cache == nullptr || routes[i].step == nullptr) {
      fail(ErrorCode::kArgument, kForward, ": the route of layer ", i, " has no cache or no step");
    }
    require_size(kForward, sentence("the positions of the step of layer ", i), routes[i].step->positions().tokens(),
                 positions.tokens(), "those of the call");
  }
  state.run(tokens, positions, routes, wanted, logits, mask);
}

// ---- which tokens -------------------------------------------------------------------------------------

std::vector<std::size_t> last_tokens(const Positions& positions) {
  std::vector<std::size_t> out;
  for (std::int32_t r = 0; r < positions.rows(); ++r) {
    for (std::size_t t = positions.row_end(r); t-- > positions.row_begin(r);) {
      if (positions.valid()[t] == 0) continue;
      out.push_back(t);
      break;
    }
  }
  return out;
}

std::vector<std::size_t> valid_tokens(const Positions& positions) {
  std::vector<std::size_t> out;
  for (std::size_t t = 0; t < positions.tokens(); ++t) {
    if (positions.valid()[t] != 0) out.push_back(t);
  }
  return out;
}

}  // namespace locant
