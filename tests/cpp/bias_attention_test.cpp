// Doors 1 and 3 inside attention: whole attentions against reference vectors, the kernel against the plain
// definition for every term, and the laws of order.
//
// Tolerance of the vectors: inputs of size 1 to 4, at most 12 keys; float32 scores are off by a few steps of
// their size (about 1e-6), which the softmax hands on to weights and outputs. kClose leaves a factor of five.
#include <functional>
#include <memory>
#include <numeric>

#include "bias_tile.hpp"
#include "locant/absolute/grid_sinusoidal.hpp"
#include "locant/absolute/learned_table.hpp"
#include "locant/absolute/sinusoidal.hpp"
#include "locant/attention/attention.hpp"
#include "locant/bias/alibi.hpp"
#include "locant/bias/cope.hpp"
#include "locant/bias/custom.hpp"
#include "locant/bias/deberta.hpp"
#include "locant/bias/decay.hpp"
#include "locant/bias/fire.hpp"
#include "locant/bias/shaw.hpp"
#include "locant/bias/t5.hpp"
#include "locant/bias/transformer_xl.hpp"
#include "vectors.hpp"

using namespace locant;
using namespace locant::test;

namespace {

constexpr double kClose = 5e-6;

Json cases_of(const std::string& name) { return load_vectors(name).at("cases"); }

double largest_difference(std::span<const float> ours, const std::vector<double>& exact) {
  REQUIRE(ours.size() == exact.size());
  double largest = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double difference = std::abs(ours[i] - exact[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

// Runs the kernel and the definition, and holds both against the exact output; then the weights of every head
// and query against the exact weights. Rows of queries that see nothing are left out (they are 0 here).
void check_attention(const AttentionConfig& config, const Json& item, std::span<const float> q, std::span<const float> k,
                     std::span<const float> v, const Positions& queries, const Positions& keys, const CallMask& mask = {},
                     const std::vector<std::uint8_t>& blind = {}) {
  auto output = doubles_of(item.at("exact").at("output"));
  const auto weights = doubles_of(item.at("exact").at("weights"));
  const std::size_t row = static_cast<std::size_t>(config.shape.heads) * static_cast<std::size_t>(config.shape.value_dim);
  std::vector<float> out(queries.tokens() * row), plain(out.size());
  const Attention attention(config);
  attention.attend(q, queries, k, v, keys, out, mask);
  reference_attend(config, q, queries, k, v, keys, plain, mask);
  for (std::size_t t = 0; t < blind.size(); ++t) {
    if (!blind[t]) continue;
    for (std::size_t i = t * row; i < (t + 1) * row; ++i) {
      CHECK(out[i] == 0.0f);
      output[i] = 0;
    }
  }
  CHECK(largest_difference(out, output) <= kClose);
  CHECK(largest_difference(plain, output) <= kClose);

  std::vector<WeightRequest> requests;
  for (std::int32_t h = 0; h < config.shape.heads; ++h) {
    for (std::size_t t = 0; t < queries.tokens(); ++t) requests.push_back({h, t});
  }
  const auto parts = attention.explain(q, queries, k, keys, requests, mask);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!blind.empty() && blind[requests[i].query]) continue;
    const std::vector<double> expected(weights.begin() + static_cast<std::ptrdiff_t>(i * keys.tokens()),
                                       weights.begin() + static_cast<std::ptrdiff_t>((i + 1) * keys.tokens()));
    CHECK(largest_difference(parts[i].weight, expected) <= kClose);
  }
}

struct Whole {
  AttentionConfig config;
  std::vector<float> q, k, v;
  Positions queries, keys;
};

// Shapes, scale, direction and positions of a case whose queries are the last of its keys.
Whole whole_of(const Json& item) {
  Whole w;
  const Json& in = item.at("inputs");
  const auto q_shape = shape_of(in.at("q")), v_shape = shape_of(in.at("v"));
  w.config.shape = {static_cast<std::int32_t>(q_shape[1]), static_cast<std::int32_t>(q_shape[1]),
                    static_cast<std::int32_t>(q_shape[2]), static_cast<std::int32_t>(v_shape[2])};
  w.config.scale = item.at("parameters").at("scale").get<double>();
  w.config.mask.direction = item.at("parameters").at("causal").get<bool>() ? Direction::kCausal : Direction::kBidirectional;
  w.q = floats_of(in.at("q"));
  w.k = floats_of(in.at("k"));
  w.v = floats_of(in.at("v"));
  w.keys = Positions::range(v_shape[0]);
  w.queries = Positions::range(q_shape[0], v_shape[0] - q_shape[0]);
  return w;
}

}  // namespace

TEST_CASE("vectors: T5's attention, which adds its bias to unscaled scores, whole and behind a cache") {
  int checked = 0;
  for (const Json& item : cases_of("bias_t5_attention")) {
    INFO(item.at("name").get<std::string>());
    Whole w = whole_of(item);
    const Json& p = item.at("parameters");
    CHECK(w.config.scale == 1.0);
    const T5Buckets buckets(p.at("bidirectional").get<bool>() ? T5Direction::kBidirectional : T5Direction::kUnidirectional,
                            p.at("buckets"), p.at("max_distance"));
    w.config.score_terms = {std::make_shared<T5Bias>(buckets, w.config.shape.heads, floats_of(item.at("inputs").at("table")))};
    check_attention(w.config, item, w.q, w.k, w.v, w.queries, w.keys);
    ++checked;
  }
  CHECK(checked == 6);
}

TEST_CASE("vectors: Shaw's keys and values inside attention, tensor2tensor's and BERT's") {
  int checked = 0;
  for (const Json& item : cases_of("bias_shaw")) {
    INFO(item.at("name").get<std::string>());
    Whole w = whole_of(item);
    const Json& p = item.at("parameters");
    const Json& in = item.at("inputs");
    const std::int32_t dim = w.config.shape.head_dim;
    if (p.contains("clip")) {
      const ShawTableConfig table{p.at("clip"), 1, dim, ShawSides::kBoth};
      w.config.score_terms = {std::make_shared<ShawKeys>(ShawTable(table, floats_of(in.at("key_table"))))};
      w.config.value_term = std::make_shared<ShawValues>(ShawTable(table, floats_of(in.at("value_table"))));
    } else {
      // BERT indexes by query - key: its rows backwards.
      const auto rows = floats_of(in.at("distance_table"));
      const std::int32_t reach = p.at("max_positions").get<std::int32_t>() - 1;
      std::vector<float> reversed;
      for (std::int64_t r = 2 * reach; r >= 0; --r) reversed.insert(reversed.end(), rows.begin() + r * dim, rows.begin() + (r + 1) * dim);
      const bool both = p.at("kind").get<std::string>() == "relative_key_query";
      w.config.score_terms = {std::make_shared<ShawKeys>(ShawTable({reach, 1, dim, ShawSides::kBoth}, reversed),
                                                         both ? ShawContent::kBoth : ShawContent::kQuery)};
    }
    check_attention(w.config, item, w.q, w.k, w.v, w.queries, w.keys);
    ++checked;
  }
  CHECK(checked == 9);
}

TEST_CASE("vectors: Transformer-XL and XLNet inside attention, with memory, clamped, both directions") {
  int checked = 0;
  for (const Json& item : cases_of("bias_transformer_xl")) {
    const Json& in = item.at("inputs");
    if (!in.contains("q")) continue;
    INFO(item.at("name").get<std::string>());
    Whole w = whole_of(item);
    TransformerXlConfig config;
    config.heads = w.config.shape.heads;
    config.head_dim = w.config.shape.head_dim;
    config.model_width = item.at("parameters").at("table_width");
    config.kept_before = 8;
    config.kept_after = 8;
    if (has_number(item.at("parameters"), "clamp")) config.clamp = item.at("parameters").at("clamp").get<std::int32_t>();
    w.config.score_terms = {std::make_shared<TransformerXl>(config, floats_of(in.at("projection")),
                                                            floats_of(in.at("content_bias")), floats_of(in.at("position_bias")))};
    check_attention(w.config, item, w.q, w.k, w.v, w.queries, w.keys);
    ++checked;
  }
  CHECK(checked == 7);
}

TEST_CASE("vectors: DeBERTa's disentangled attention, each part alone, with and without buckets, padded") {
  int checked = 0;
  for (const Json& item : cases_of("bias_deberta")) {
    INFO(item.at("name").get<std::string>());
    const Json& p = item.at("parameters");
    const Json& in = item.at("inputs");
    const std::int32_t heads = p.at("heads"), dim = p.at("dim");
    const std::size_t width = static_cast<std::size_t>(heads * dim);
    // rows W^T + b, [rows, width].
    const auto project = [&](const std::vector<float>& x, const std::string& part) {
      const auto weight = floats_of(in.at(part + "_weight")), bias = floats_of(in.at(part + "_bias"));
      std::vector<float> out;
      for (std::size_t r = 0; r < x.size() / width; ++r) {
        for (std::size_t o = 0; o < width; ++o) {
          double sum = bias[o];
          for (std::size_t c = 0; c < width; ++c) sum += static_cast<double>(x[r * width + c]) * weight[o * width + c];
          out.push_back(static_cast<float>(sum));
        }
      }
      return out;
    };
    // [2S, heads, dim] -> [heads, 2S, dim]
    const auto by_head = [&](const std::vector<float>& x) {
      std::vector<float> out;
      for (std::int32_t h = 0; h < heads; ++h) {
        for (std::size_t r = 0; r < x.size() / width; ++r) {
          const auto from = x.begin() + static_cast<std::ptrdiff_t>(r * width) + h * dim;
          out.insert(out.end(), from, from + dim);
        }
      }
      return out;
    };
    const bool shared = p.at("shared_projections");
    const auto table = floats_of(in.at("relative_table"));
    std::vector<float> c2p, p2c;
    for (const Json& type : p.at("types")) {
      if (type.get<std::string>() == "c2p") c2p = by_head(project(table, shared ? "key" : "position_key"));
      if (type.get<std::string>() == "p2c") p2c = by_head(project(table, shared ? "query" : "position_query"));
    }
    const DebertaBuckets buckets({std::max(p.at("buckets").get<std::int32_t>(), 0), p.at("max_position"), DebertaFar::kHuggingFace});
    CHECK(buckets.span() == p.at("span").get<std::int64_t>());
    const auto term = std::make_shared<Deberta>(buckets, heads, dim, c2p, p2c);
    CHECK(term->scale() == doctest::Approx(p.at("scale").get<double>()).epsilon(1e-15));
    AttentionConfig config;
    config.shape = {heads, heads, dim, dim};
    config.scale = term->scale();
    config.mask.direction = Direction::kBidirectional;
    config.score_terms = {term};
    const auto x = floats_of(in.at("x"));
    const auto visible = values_of<std::uint8_t>(in.at("visible"));
    const std::size_t tokens = x.size() / width;
    std::vector<std::uint8_t> blind(tokens, 1);
    for (std::size_t t = 0; t < tokens; ++t) {
      for (std::size_t j = 0; j < tokens; ++j) blind[t] = blind[t] && !visible[t * tokens + j];
    }
    const Positions positions = Positions::range(static_cast<std::int64_t>(tokens));
    check_attention(config, item, project(x, "query"), project(x, "key"), project(x, "value"), positions, positions,
                    {.prefix = {}, .visible = visible}, blind);
    ++checked;
  }
  CHECK(checked == 6);
}

namespace {

constexpr std::int32_t kHeads = 4, kKvHeads = 2, kDim = 8;

// One way of giving attention an order: what it does to the input, and to the configuration.
struct Method {
  std::string name;
  std::function<void(AttentionConfig&)> configure;
  std::function<void(std::vector<float>&, const Positions&)> encode = {};  // x: [tokens, heads * head_dim]
  bool has_position = true;
};

template <class Term, class... Arguments>
std::function<void(AttentionConfig&)> with_term(Arguments... arguments) {
  const auto term = std::make_shared<Term>(arguments...);
  return [term](AttentionConfig& config) { config.score_terms.push_back(term); };
}

std::vector<Method> methods() {
  const auto nothing = [](AttentionConfig&) {};
  std::vector<Method> all;
  all.push_back({"none", nothing, {}, false});
  for (const auto layout : {SinusoidLayout::kInterleaved, SinusoidLayout::kConcatenated, SinusoidLayout::kTensor2Tensor,
                            SinusoidLayout::kMlx}) {
    const auto encoding = std::make_shared<Sinusoidal>(SinusoidalConfig{.width = kHeads * kDim, .layout = layout});
    all.push_back({encoding->describe().name, nothing,
                   [encoding](std::vector<float>& x, const Positions& p) { encoding->add(x, p, x); }});
  }
  const auto table = std::make_shared<LearnedTable>(TableConfig{64, kHeads * kDim, {}, PastEnd::kError, 0},
                                                    random_values(64 * kHeads * kDim, 41));
  const auto grid = std::make_shared<GridSinusoidal>(GridSinusoidalConfig{kHeads * kDim});
  all.push_back({"sinusoidal, two axes", nothing, [grid](std::vector<float>& x, const Positions& p) {
                   // The text's positions as those of a grid of rows of 7.
                   PositionArrays cells;
                   cells.row_lengths = {static_cast<std::int32_t>(p.tokens())};
                   cells.position.resize(2);
                   for (const std::int32_t at : p.position()) {
                     cells.position[0].push_back(at / 7);
                     cells.position[1].push_back(at % 7);
                   }
                   grid->add(x, Positions::from_arrays(std::move(cells)), x);
                 }});
  all.push_back({"temperature", [](AttentionConfig& c) { c.temperature = Temperature{1, 4, 1}; }});
  all.push_back({"learned table", nothing, [table](std::vector<float>& x, const Positions& p) { table->add(x, p, x); }});
  all.push_back({"ALiBi, symmetric", with_term<Alibi>(alibi_slopes(kHeads), AlibiForm::kSymmetric)});
  all.push_back({"ALiBi, causal", with_term<Alibi>(alibi_slopes(kHeads))});
  all.push_back({"T5, bidirectional", with_term<T5Bias>(T5Buckets(T5Direction::kBidirectional), kHeads, random_values(32 * kHeads, 1))});
  all.push_back({"T5, unidirectional", with_term<T5Bias>(T5Buckets(T5Direction::kUnidirectional), kHeads, random_values(32 * kHeads, 2))});
  all.push_back({"displacement table", with_term<DisplacementTable>(kHeads, -3, 3, random_values(7 * kHeads, 3))});
  all.push_back({"function", with_term<FunctionBias>([](std::int32_t h, std::int64_t d) { return std::sin(0.7 * static_cast<double>(d) + h); })});
  all.push_back({"matrix", with_term<MatrixBias>(kHeads, 64, 64, random_values(kHeads * 64 * 64, 4))});
  all.push_back({"KERPLE", with_term<Kerple>(KerpleKernel::kLogarithmic, std::vector<double>{1, 2, 3, 4}, std::vector<double>{1, 1, 2, 2})});
  all.push_back({"Sandwich", with_term<Sandwich>(kHeads, 16)});
  all.push_back({"FIRE", with_term<Fire>(FireConfig{.w1 = {1, -1}, .b1 = {0.1, 0.5}, .w2 = {3, -2, 1, 2, -1, 5, 2, 2}, .b2 = {0, 1, 2, 3}})});
  const auto shaw = [](std::int32_t tables, unsigned seed) {
    return ShawTable({3, tables, kDim, ShawSides::kBoth}, random_values(static_cast<std::size_t>(tables) * 7 * kDim, seed));
  };
  all.push_back({"Shaw", [keys = std::make_shared<ShawKeys>(shaw(1, 5)), values = std::make_shared<ShawValues>(shaw(kHeads, 6))](AttentionConfig& c) {
                   c.score_terms = {keys};
                   c.value_term = values;
                 }});
  all.push_back({"Transformer-XL", with_term<TransformerXl>(TransformerXlConfig{.heads = kHeads, .head_dim = kDim, .model_width = 12},
                                                            random_values(kHeads * kDim * 12, 7), random_values(kHeads * kDim, 8),
                                                            random_values(kHeads * kDim, 9))});
  all.push_back({"DeBERTa", with_term<Deberta>(DebertaBuckets({8, 20, DebertaFar::kHuggingFace}), kHeads, kDim,
                                               random_values(kHeads * 16 * kDim, 10), random_values(kHeads * 16 * kDim, 11))});
  return all;
}

AttentionConfig config_of(const Method& method, Direction direction) {
  AttentionConfig config;
  config.shape = {kHeads, kKvHeads, kDim, kDim};
  config.mask.direction = direction;
  method.configure(config);
  return config;
}

// q, k and v are parts of one encoded input, as if the projections were the identity.
std::vector<float> run(const Method& method, Direction direction, std::vector<float> x, const Positions& positions) {
  if (method.encode) method.encode(x, positions);
  std::vector<float> k, v, out(x.size());
  for (std::size_t t = 0; t < positions.tokens(); ++t) {
    const float* row = x.data() + t * kHeads * kDim;
    k.insert(k.end(), row, row + kKvHeads * kDim);
    v.insert(v.end(), row + kKvHeads * kDim, row + 2 * kKvHeads * kDim);
  }
  Attention(config_of(method, direction)).attend(x, k, v, positions, out);
  return out;
}

std::vector<float> permuted(const std::vector<float>& x, const std::vector<std::size_t>& order) {
  std::vector<float> out;
  for (const std::size_t from : order) {
    out.insert(out.end(), x.begin() + static_cast<std::ptrdiff_t>(from * kHeads * kDim),
               x.begin() + static_cast<std::ptrdiff_t>((from + 1) * kHeads * kDim));
  }
  return out;
}

}  // namespace

TEST_CASE("law: content permuted together with its positions and orders permutes the output, for every method") {
  std::mt19937 random(77);
  for (const Method& method : methods()) {
    for (const Direction direction : {Direction::kCausal, Direction::kBidirectional}) {
      INFO(method.name);
      const std::size_t tokens = 2 + random() % 30;
      const auto x = random_values(tokens * kHeads * kDim, random());
      std::vector<std::size_t> order(tokens);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      PositionArrays arrays;
      arrays.row_lengths = {static_cast<std::int32_t>(tokens)};
      arrays.position.resize(1);
      for (const std::size_t from : order) {
        arrays.position[0].push_back(static_cast<std::int32_t>(from) + 5);
        arrays.order.push_back(static_cast<std::int32_t>(from) + 5);
      }
      const auto straight = run(method, direction, x, Positions::range(static_cast<std::int64_t>(tokens), 5));
      const auto shuffled = run(method, direction, permuted(x, order), Positions::from_arrays(arrays));
      CHECK(max_difference(shuffled, permuted(straight, order)) <= 2e-5);  // another order of summation
    }
  }
}

TEST_CASE("law: content permuted alone permutes the output only where there is no position") {
  std::mt19937 random(78);
  for (const Method& method : methods()) {
    INFO(method.name);
    const std::size_t tokens = 6 + random() % 20;
    const auto x = random_values(tokens * kHeads * kDim, random());
    std::vector<std::size_t> order(tokens);
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + 1, order.end());
    std::swap(order[0], order[2]);
    const Positions positions = Positions::range(static_cast<std::int64_t>(tokens));
    const auto straight = run(method, Direction::kBidirectional, x, positions);
    const auto shuffled = run(method, Direction::kBidirectional, permuted(x, order), positions);
    const double difference = max_difference(shuffled, permuted(straight, order));
    if (method.has_position) {
      CHECK(difference > 1e-2);
    } else {
      CHECK(difference <= 2e-5);
    }
    // A causal mask alone breaks the symmetry too, and supplies no distance.
    if (!method.has_position) {
      const auto causal = run(method, Direction::kCausal, x, positions);
      CHECK(max_difference(run(method, Direction::kCausal, permuted(x, order), positions), permuted(causal, order)) > 1e-2);
      CHECK(run(method, Direction::kCausal, x, Positions::range(static_cast<std::int64_t>(tokens), 1000)) == causal);
    }
  }
}

TEST_CASE("law: moving the whole text changes nothing where the method promises it, and something where it does not") {
  for (const Method& method : methods()) {
    INFO(method.name);
    const auto x = random_values(12 * kHeads * kDim, 4);
    const bool relative = !method.encode && [&] {
      const AttentionConfig config = config_of(method, Direction::kCausal);
      return !config.temperature && std::all_of(config.score_terms.begin(), config.score_terms.end(), [](const auto& term) { return term->shift_invariant(); });
    }();
    const auto here = run(method, Direction::kCausal, x, Positions::range(12));
    const auto there = run(method, Direction::kCausal, x, Positions::range(12, 40));
    if (relative) {
      CHECK(here == there);
    } else if (method.name == "FIRE") {
      // FIRE's threshold of 512 keeps the divisor the same for early queries; past it the shares change.
      CHECK(max_difference(run(method, Direction::kCausal, x, Positions::range(12, 3000)), here) > 1e-4);
    } else {
      CHECK(max_difference(here, there) > 1e-3);
    }
  }
}

TEST_CASE("every term inside the kernel equals the plain definition, over several tiles, packed and padded") {
  std::mt19937 random(79);
  for (const Method& method : methods()) {
    if (method.encode) continue;
    INFO(method.name);
    const bool small = method.name == "matrix";  // covers 64 positions
    const std::int32_t lengths[] = {small ? 50 : 150, 37};
    const Positions padded = Positions::padded(lengths, small ? 60 : 160, PaddingSide::kLeft);
    const std::int32_t parts[] = {30, 5, small ? 20 : 90};
    const Positions packed = Positions::packed(parts, PackedPositions::kRestart);
    for (const Positions& positions : {padded, packed}) {
      const Direction direction = random() % 2 == 0 ? Direction::kCausal : Direction::kBidirectional;
      const std::size_t tokens = positions.tokens();
      const auto q = random_values(tokens * kHeads * kDim, random()), k = random_values(tokens * kKvHeads * kDim, random()),
                 v = random_values(tokens * kKvHeads * kDim, random());
      std::vector<float> out(q.size()), plain(q.size());
      const AttentionConfig config = config_of(method, direction);
      Attention(config).attend(q, k, v, positions, out);
      reference_attend(config, q, positions, k, v, positions, plain);
      // As the kernel's own tests: float32 scores against double ones.
      CHECK(max_difference(out, plain) <= 4e-5);
    }
  }
}

TEST_CASE("CoPE inside attention: its matrix as a bias, masked content does not count") {
  const std::int64_t tokens = 9;
  const auto q = random_values(tokens * kHeads * kDim, 1), k = random_values(tokens * kKvHeads * kDim, 2),
             v = random_values(tokens * kKvHeads * kDim, 3), table = random_values(5 * kDim, 4);
  std::vector<std::uint8_t> visible;
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t j = 0; j < tokens; ++j) visible.push_back(j <= t);
  }
  const CopeConfig cope{kHeads, kKvHeads, kDim, 5, 1 / std::sqrt(8.0)};
  const auto attend = [&](const std::vector<float>& keys) {
    AttentionConfig config;
    config.shape = {kHeads, kKvHeads, kDim, kDim};
    config.score_terms = {std::make_shared<MatrixBias>(kHeads, tokens, tokens, cope_bias(cope, q, tokens, keys, tokens, table, visible))};
    std::vector<float> out(q.size());
    Attention(config).attend(q, keys, v, Positions::range(tokens), out);
    return out;
  };
  const auto before = attend(k);
  auto changed = k;
  for (std::size_t c = 0; c < kKvHeads * kDim; ++c) changed[5 * kKvHeads * kDim + c] += 1;
  const auto after = attend(changed);
  // Queries before the changed key see nothing of it; its own and later ones do.
  const auto begin = [](const std::vector<float>& x, std::size_t t) { return std::span(x).subspan(t * kHeads * kDim, kHeads * kDim); };
  for (std::size_t t = 0; t < 5; ++t) CHECK(max_difference(begin(before, t), begin(after, t)) == 0);
  for (std::size_t t = 5; t < 9; ++t) CHECK(max_difference(begin(before, t), begin(after, t)) > 1e-4);
}
