// Small decoders with seeded random weights, one for every way that position can enter.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "locant/bias/alibi.hpp"
#include "locant/bias/shaw.hpp"
#include "locant/bias/t5.hpp"
#include "locant/decoder/decoder.hpp"
#include "locant/decoder/random.hpp"
#include "locant/rotary/rules.hpp"
#include "support.hpp"

namespace locant::test {

struct Model {
  std::string name;
  DecoderConfig config;
};

inline DecoderConfig small_config(std::size_t layers = 3) {
  DecoderConfig config;
  config.vocabulary = 61;
  config.width = 32;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 8;
  config.feed_forward_width = 48;
  config.layers.resize(layers);
  return config;
}

inline RotaryPlan small_plan(Pairing pairing = Pairing::kHalfSplit, const RotaryRule& rule = DefaultRule{}) {
  return resolve({.width = 8, .base = 1000, .pairing = pairing}, rule, 64);
}

inline SinusoidalConfig waves(std::int32_t width) {
  SinusoidalConfig config;
  config.width = width;
  return config;
}

inline TableConfig learned(std::int32_t rows, std::int32_t width, TableIndexing indexing = TableIndexing::from_zero(),
                           PastEnd past_end = PastEnd::kError) {
  TableConfig config;
  config.rows = rows, config.width = width, config.indexing = indexing, config.past_end = past_end;
  return config;
}

inline YarnRule yarn(double factor, double original_length) {
  YarnRule rule;
  rule.factor = factor, rule.original_length = original_length;
  return rule;
}

// The same in every build, which the library's own distributions of random_values() are not.
inline std::vector<float> table_values(std::size_t count, std::uint64_t seed) {
  const CounterRandom random(seed);
  std::vector<float> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(1.7f * random.symmetric(i));
  return out;
}

template <class Change>
Model model(std::string name, Change&& change) {
  Model out{std::move(name), small_config()};
  change(out.config);
  return out;
}

// The positional methods, alone and mixed. All have tables for at least 128 positions.
inline std::vector<Model> models() {
  const auto each = [](DecoderConfig& config, auto&& change) {
    for (LayerConfig& layer : config.layers) change(layer);
  };
  std::vector<Model> out;
  out.push_back(model("rotary, half-split", [&](auto& c) { each(c, [](auto& l) { l.rotation = small_plan(); }); }));
  out.push_back(model("rotary, interleaved, YaRN", [&](auto& c) {
    each(c, [](auto& l) { l.rotation = small_plan(Pairing::kInterleaved, yarn(4, 16)); });
  }));
  out.push_back(model("rotary, partial, Llama 3", [&](auto& c) {
    each(c, [](auto& l) {
      l.rotation = resolve({.width = 4, .base = 1000, .start = 2}, Llama3Rule{.factor = 4, .original_length = 16});
    });
  }));
  out.push_back(model("xPos", [&](auto& c) {
    each(c, [](auto& l) { l.rotation = small_plan(), l.rotation->xpos = XPos{.gamma = 0.4, .scale_base = 64}; });
  }));
  out.push_back(model("sinusoidal", [](auto& c) { c.input_position = waves(c.width); }));
  out.push_back(model("learned table", [](auto& c) { c.input_position = learned(130, c.width, TableIndexing::opt()); }));
  out.push_back(model("ALiBi", [&](auto& c) {
    each(c, [](auto& l) { l.score_terms = {std::make_shared<Alibi>(alibi_slopes(4))}; });
  }));
  out.push_back(model("T5 buckets, unscaled scores", [&](auto& c) {
    const T5Buckets buckets(T5Direction::kUnidirectional, 8, 20);
    const auto table = table_values(8 * 4, 70);
    each(c, [&](auto& l) { l.score_terms = {std::make_shared<T5Bias>(buckets, 4, table)}, l.scale = 1; });
  }));
  out.push_back(model("Shaw, keys and values", [&](auto& c) {
    const ShawTableConfig table{.max_distance = 6, .heads = 1, .width = 8};
    each(c, [&](auto& l) {
      l.score_terms = {std::make_shared<ShawKeys>(ShawTable(table, table_values(13 * 8, 71)))};
      l.value_term = std::make_shared<ShawValues>(ShawTable(table, table_values(13 * 8, 72)));
    });
  }));
  out.push_back(model("all three doors, one a layer", [](auto& c) {
    c.input_position = waves(c.width);
    c.layers[0].rotation = small_plan();
    c.layers[1].score_terms = {std::make_shared<Alibi>(alibi_slopes(4))};
  }));
  out.push_back(model("local and global rotary, one layer without", [](auto& c) {
    c.layers[0].rotation = small_plan();
    c.layers[0].mask.window = Window{.size = 5, .sinks = 1};
    c.layers[1].rotation = small_plan(Pairing::kHalfSplit, LinearRule{.factor = 2});
    c.layers[1].mask.chunk = 8;
    c.layers[2].temperature = Temperature{.slope = 0.3, .period = 4};
  }));
  out.push_back(model("GPT-2 shape: LayerNorm, biases, plain GELU, learned table", [](auto& c) {
    c.norm = Norm::kLayer, c.biases = Biases::kAll, c.kv_heads = c.heads;
    c.feed_forward = FeedForward::kPlain, c.activation = Activation::kGeluTanh;
    c.input_position = learned(128, c.width);
  }));
  out.push_back(model("separate unembedding, GELU gate, query biases, soft cap", [&](auto& c) {
    c.embeddings = Embeddings::kSeparate, c.activation = Activation::kGelu, c.biases = Biases::kQueryKeyValue;
    each(c, [](auto& l) { l.rotation = small_plan(), l.soft_cap = 3, l.scale = 0.5; });
  }));
  out.push_back(model("Gemma 2 shape: norms on both sides, scaled embeddings, soft caps, alternating windows", [&](auto& c) {
    c.norm = Norm::kRmsFromOne, c.norm_placement = NormPlacement::kBeforeAndAfter, c.activation = Activation::kGeluTanh;
    c.embedding_scale = std::sqrt(32.0), c.logit_soft_cap = 3;
    each(c, [](auto& l) { l.rotation = small_plan(), l.soft_cap = 5, l.scale = 0.3; });
    c.layers[0].mask.window = Window{.size = 6}, c.layers[2].mask.window = Window{.size = 6};
  }));
  return out;
}

inline Decoder make(const DecoderConfig& config, std::uint64_t seed = 1) { return Decoder(config, random_weights(config, seed)); }

inline std::vector<std::int32_t> random_tokens(std::size_t count, std::uint64_t seed, std::int32_t vocabulary = 61) {
  const CounterRandom random(seed, stream_of("tokens"));
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(static_cast<std::int32_t>(random.bits(i) % static_cast<std::uint64_t>(vocabulary)));
  return out;
}

// Logits of all valid tokens, row after row.
inline std::vector<float> full_logits(Decoder& decoder, std::span<const std::int32_t> tokens, const Positions& positions) {
  const auto wanted = valid_tokens(positions);
  std::vector<float> out(wanted.size() * static_cast<std::size_t>(decoder.config().vocabulary));
  decoder.forward(tokens, positions, wanted, out);
  return out;
}
inline std::vector<float> step_logits(Decoder& decoder, std::span<const std::int32_t> tokens, const Positions& positions, Cache& cache) {
  const auto wanted = valid_tokens(positions);
  std::vector<float> out(wanted.size() * static_cast<std::size_t>(decoder.config().vocabulary));
  decoder.forward(tokens, positions, cache, wanted, out);
  return out;
}

// The same through a cache, in steps of `split` tokens.
inline std::vector<float> split_logits(Decoder& decoder, std::span<const std::int32_t> tokens, const Positions& positions,
                                       std::span<const std::int32_t> split, Cache& cache) {
  std::vector<float> out;
  std::int32_t at = 0;
  for (const std::int32_t count : split) {
    const auto logits = step_logits(decoder, tokens.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)), positions.slice(at, count), cache);
    out.insert(out.end(), logits.begin(), logits.end());
    at += count;
  }
  return out;
}

// test(model, its decoder), for every model.
template <class Test>
void each_model(Test&& test) {
  for (const Model& m : models()) {
    CAPTURE(m.name);
    Decoder decoder = make(m.config);
    test(m, decoder);
  }
}

}  // namespace locant::test
