// Attention, masks and the cache against what other code computed (tests/vectors), under every instruction set.
//
// Tolerance: the expected numbers are float64, or float32 with the `source_error` that the file states; ours are float32
// sums of a few dozen products of values up to 4, off by up to kTolerance. Scores of 1e4 have 1e4 * 2^-23 of absolute
// error in float32, about 1e-3, whoever computes them.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "locant/attention/cache.hpp"
#include "locant/bias/custom.hpp"
#include "locant/rotary/rules.hpp"
#include "instruction_sets.hpp"
#include "support.hpp"
#include "vectors.hpp"

using namespace locant;
using namespace locant::test;
using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

namespace {

constexpr double kTolerance = 5e-6;

AttentionShape shape_of_inputs(const Json& inputs) {
  const auto q = shape_of(inputs.at("q")), v = shape_of(inputs.at("v"));
  return {static_cast<std::int32_t>(q[1]), static_cast<std::int32_t>(v[1]), static_cast<std::int32_t>(q[2]),
          static_cast<std::int32_t>(v[2])};
}

// The mask of a case, said by rules; nothing where it has none but the matrix.
struct Said {
  Mask mask;
  Positions queries, keys;
};

std::optional<Said> said_by_rules(const Json& rule, std::int64_t queries, std::int64_t keys) {
  if (rule.at("kind") == "explicit" || queries > keys) return std::nullopt;
  Said said;
  said.mask.direction = rule.at("kind") == "causal" ? Direction::kCausal : Direction::kBidirectional;
  if (has_number(rule, "window")) said.mask.window = Window{rule.at("window").get<std::int32_t>()};
  if (has_number(rule, "chunk")) said.mask.chunk = rule.at("chunk").get<std::int32_t>();
  if (has_number(rule, "prefix")) said.mask.prefix = {rule.at("prefix").get<std::int32_t>()};
  PositionArrays arrays;
  arrays.row_lengths = {static_cast<std::int32_t>(keys)};
  arrays.position.resize(1);
  for (std::int32_t i = 0; i < keys; ++i) arrays.position[0].push_back(i);
  if (rule.contains("segments")) arrays.segment = rule.at("segments").get<Ints>();
  said.keys = Positions::from_arrays(std::move(arrays));
  said.queries = said.keys.slice(keys - queries, queries);
  return said;
}

}  // namespace

TEST_CASE("attention: equals PyTorch's and transformers' results, masks said by rules and as matrices, in every set") {
  int by_rules = 0, by_matrix = 0;
  for (const char* name : {"attention_sdpa", "attention_softcap", "attention_sinks"}) {
    const Json file = load_vectors(name);
    for (const Json& c : file.at("cases")) {
      INFO(std::string(name) << ": " << c.at("name").get<std::string>());
      const Json &inputs = c.at("inputs"), &p = c.at("parameters");
      AttentionConfig config;
      config.shape = shape_of_inputs(inputs);
      if (has_number(p, "scale")) config.scale = p.at("scale").get<double>();
      if (has_number(p, "softcap")) config.soft_cap = p.at("softcap").get<double>();
      if (inputs.contains("sinks")) config.sink_logits = floats_of(inputs.at("sinks"));
      const auto queries = shape_of(inputs.at("q"))[0], keys = shape_of(inputs.at("v"))[0];
      if (inputs.contains("bias")) {
        config.score_terms.push_back(std::make_shared<const MatrixBias>(config.shape.heads, queries, keys, floats_of(inputs.at("bias"))));
      }
      const Floats q = floats_of(inputs.at("q")), k = floats_of(inputs.at("k")), v = floats_of(inputs.at("v"));
      const Json& expected_in = c.contains("exact") && c.at("exact").contains("output") ? c.at("exact") : c.at("expected");
      const Floats expected = floats_of(expected_in.at("output"));
      const double tolerance = c.at("name").get<std::string>().find("1e4") == std::string::npos ? kTolerance : 4e-3;
      Floats out(expected.size());
      {
        AttentionConfig open = config;
        open.mask.direction = Direction::kBidirectional;
        const Attention attention(open);
        const auto visible = values_of<std::uint8_t>(inputs.at("visible"));
        under_every_set([&] {
          attention.attend(q, Positions::range(queries), k, v, Positions::range(keys), out, {{}, visible});
          CHECK(max_difference(out, expected) < tolerance);
        });
        ++by_matrix;
      }
      if (!p.contains("mask")) continue;
      if (const auto said = said_by_rules(p.at("mask"), queries, keys)) {
        config.mask = said->mask;
        const Attention attention(config);
        under_every_set([&] {
          attention.attend(q, said->queries, k, v, said->keys, out);
          CHECK(max_difference(out, expected) < tolerance);
        });
        ++by_rules;
      }
    }
  }
  CHECK(by_matrix >= 33);
  CHECK(by_rules >= 20);
}

namespace {

AttentionConfig onnxruntime_config(const Json& p) {
  AttentionConfig config;
  config.shape = {p.at("heads"), p.at("kv_heads"), p.at("head_dim"), p.at("head_dim")};
  config.scale = p.at("scale").get<double>();
  if (has_number(p, "softcap")) config.soft_cap = p.at("softcap").get<double>();
  if (has_number(p, "window")) config.mask.window = Window{p.at("window").get<std::int32_t>()};
  if (p.at("rotary").get<bool>()) {
    RotaryShape shape;
    shape.width = p.at("head_dim");
    shape.base = p.at("base");
    shape.pairing = p.at("pairing") == "interleaved" ? Pairing::kInterleaved : Pairing::kHalfSplit;
    config.rotation = std::make_shared<const Rotation>(resolve(shape), shape.width);
  }
  return config;
}

Cache cache_for(const AttentionConfig& config, std::int32_t sequences, KeyStorage keys) {
  CacheConfig c;
  c.shape = config.shape;
  c.sequences = sequences;
  c.keys = keys;
  return Cache(c);
}

std::span<const float> part(const Floats& x, std::size_t first, std::size_t count, std::int32_t width) {
  const auto each = static_cast<std::size_t>(width);
  return std::span(x).subspan(first * each, count * each);
}

}  // namespace

TEST_CASE("cache: steps equal onnxruntime's GroupQueryAttention with rotary and cache, its cached keys too, in every set") {
  const Json file = load_vectors("attention_onnxruntime");
  int single = 0, batched = 0;
  for (const Json& c : file.at("cases")) {
    INFO(c.at("name").get<std::string>());
    const Json &inputs = c.at("inputs"), &p = c.at("parameters");
    const AttentionConfig config = onnxruntime_config(p);
    const std::int32_t heads = config.shape.heads, kv_heads = config.shape.kv_heads, width = config.shape.head_dim;
    const Attention attention(config);
    for (const KeyStorage keys : {KeyStorage::kRotated, KeyStorage::kUnrotated}) {
      under_every_set([&] {
        if (p.contains("steps")) {
          const Floats q = floats_of(inputs.at("q")), k = floats_of(inputs.at("k")), v = floats_of(inputs.at("v"));
          const Floats expected = floats_of(c.at("expected").at("output"));
          Cache cache = cache_for(config, 1, keys);
          Floats out(expected.size());
          std::size_t at = 0;
          for (const std::size_t count : p.at("steps").get<std::vector<std::size_t>>()) {
            attention.attend(part(q, at, count, heads * width), part(k, at, count, kv_heads * width),
                             part(v, at, count, kv_heads * width), cache, cache.begin(cache.next(Ints{static_cast<std::int32_t>(count)})), 0,
                             std::span(out).subspan(at * static_cast<std::size_t>(heads * width), count * static_cast<std::size_t>(heads * width)));
            at += count;
          }
          CHECK(max_difference(out, expected) < kTolerance);
          if (keys == KeyStorage::kRotated) {
            const Floats cached = floats_of(c.at("expected").at("cached_keys"));
            Floats key(static_cast<std::size_t>(width)), value(key.size());
            for (std::size_t row = 0; row < at; ++row) {
              for (std::int32_t g = 0; g < kv_heads; ++g) {
                cache.read(0, 0, g, row, key, value);
                const std::size_t first = row * static_cast<std::size_t>(kv_heads) + static_cast<std::size_t>(g);
                CHECK(max_difference(key, part(cached, first, 1, width)) < kTolerance);
              }
            }
          }
          ++single;
        } else {
          const auto lengths = p.at("lengths").get<Ints>();
          const auto rows = static_cast<std::int32_t>(lengths.size());
          Cache cache = cache_for(config, rows, keys);
          const auto columns = shape_of(inputs.at("first_q"))[1];
          const Floats first = floats_of(c.at("expected").at("first_output")), next = floats_of(c.at("expected").at("next_output"));
          Floats out(first.size()), step(next.size());
          attention.attend(floats_of(inputs.at("first_q")), floats_of(inputs.at("first_k")), floats_of(inputs.at("first_v")), cache,
                           cache.begin(Positions::padded(lengths, columns, PaddingSide::kRight)), 0, out);
          CHECK(max_difference(out, first) < kTolerance);
          attention.attend(floats_of(inputs.at("next_q")), floats_of(inputs.at("next_k")), floats_of(inputs.at("next_v")), cache,
                           cache.begin(cache.next(Ints(static_cast<std::size_t>(rows), 1))), 0, step);
          CHECK(max_difference(step, next) < kTolerance);
          ++batched;
        }
      });
    }
  }
  CHECK(single >= 7 * 2);
  CHECK(batched >= 2);
}

TEST_CASE("masks: who may see whom is what transformers says, but for padded queries, which see nothing here") {
  const Json file = load_vectors("masks");
  int checked = 0;
  for (const Json& c : file.at("cases")) {
    INFO(c.at("name").get<std::string>());
    const Json &inputs = c.at("inputs"), &p = c.at("parameters");
    const std::string kind = p.at("kind");
    const Json& expected_in = c.contains("exact") && c.at("exact").contains("visible") ? c.at("exact") : c.at("expected");
    const auto visible = values_of<std::uint8_t>(expected_in.at("visible"));
    const auto rows = shape_of(expected_in.at("visible"))[0];
    const std::int64_t queries = p.at("queries"), keys = p.at("keys"), query_start = p.at("query_start"), key_start = p.at("key_start");
    Mask mask;
    if (kind == "bidirectional" || kind == "bidirectional window") mask.direction = Direction::kBidirectional;
    // |q - k| <= window is our other convention.
    if (kind == "window") mask.window = Window{p.at("window").get<std::int32_t>()};
    if (kind == "bidirectional window") mask.window = Window{p.at("window").get<std::int32_t>(), WindowConvention::kBeforeCurrent};
    if (kind == "chunked") mask.chunk = p.at("chunk").get<std::int32_t>();
    for (std::int64_t r = 0; r < rows; ++r) {
      PositionArrays arrays;
      arrays.row_lengths = {static_cast<std::int32_t>(keys)};
      arrays.position.resize(1);
      // Transformers counts columns; the order of a token is its column, padding included.
      for (std::int64_t j = 0; j < keys; ++j) {
        arrays.position[0].push_back(static_cast<std::int32_t>(j));
        arrays.order.push_back(static_cast<std::int32_t>(key_start + j));
      }
      if (inputs.contains("attention_mask")) {
        const auto all = values_of<std::uint8_t>(inputs.at("attention_mask"));
        arrays.valid.assign(all.begin() + r * keys, all.begin() + (r + 1) * keys);
        // Chunks are counted from the first valid token of a row.
        if (kind == "chunked") {
          const auto padding = p.at("left_padding").at(static_cast<std::size_t>(r)).get<std::int32_t>();
          for (auto& order : arrays.order) order = std::max(0, order - padding);
        }
      }
      if (kind == "packed") {
        const auto ids = ints_of(inputs.at("position_ids"));
        std::int32_t segment = -1, order = 0;
        for (std::size_t j = 0; j < ids.size(); ++j, ++order) {
          if (ids[j] == 0) {
            ++segment;
            order = 0;
          }
          arrays.segment.push_back(segment);
          arrays.order[j] = order;
        }
      }
      const bool blocks = kind == "blocks";
      std::vector<std::uint8_t> both_ways;
      if (blocks) {
        // Causal, or in one block: the union of two masks, said here by the matrix of what is seen.
        both_ways = visible;
        mask.direction = Direction::kBidirectional;
      }
      const Positions all = Positions::from_arrays(std::move(arrays));
      const Positions asking = all.slice(query_start - key_start, queries);
      const Visibility sight(mask, 0, view_of(asking, 0), view_of(all, 0), both_ways);
      for (std::int64_t q = 0; q < queries; ++q) {
        if (asking.valid()[static_cast<std::size_t>(q)] == 0) continue;
        for (std::int64_t k = 0; k < keys; ++k) {
          const bool expected = visible[static_cast<std::size_t>((r * queries + q) * keys + k)] != 0;
          INFO("row " << r << ", query " << q << ", key " << k);
          CHECK(sight.sees(static_cast<std::size_t>(q), static_cast<std::size_t>(k)) == expected);
          ++checked;
        }
      }
    }
  }
  CHECK(checked > 900);
}
