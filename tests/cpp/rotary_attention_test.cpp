// What rotation promises of attention as a whole: rules that depend on the length beside a cache, and the permutation
// laws.
#include <numeric>

#include "locant/attention/attention.hpp"
#include "locant/attention/cache.hpp"
#include "locant/rotary/axes.hpp"
#include "locant/rotary/rules.hpp"
#include "support.hpp"
#include "vectors.hpp"

using namespace locant;
using namespace locant::test;

namespace {

using Floats = std::vector<float>;

constexpr std::int32_t kWidth = 8;
// Scores are sums of 8 products of values near 1, weights sum to 1: a few dozen float32 roundings.
constexpr double kTolerance = 2e-6;

struct Tokens {
  Floats q, k, v;
  explicit Tokens(std::size_t count)
      : q(random_values(count * kWidth, 1)), k(random_values(count * kWidth, 2)), v(random_values(count * kWidth, 3)) {}
};

std::span<const float> part(const Floats& x, std::size_t first, std::size_t count) {
  return std::span<const float>(x).subspan(first * kWidth, count * kWidth);
}

Attention attention_under(const RotaryPlan& plan, Direction direction = Direction::kCausal) {
  AttentionConfig config;
  config.shape = {1, 1, kWidth, kWidth};
  config.mask.direction = direction;
  config.rotation = std::make_shared<Rotation>(plan, kWidth);
  return Attention(std::move(config));
}

Floats full_forward(const RotaryPlan& plan, const Tokens& tokens, std::size_t count) {
  Floats out(count * kWidth);
  attention_under(plan).attend(part(tokens.q, 0, count), part(tokens.k, 0, count), part(tokens.v, 0, count),
                               Positions::range(static_cast<std::int64_t>(count)), out);
  return out;
}

Floats step(const Attention& attention, Cache& cache, const Tokens& tokens, std::size_t first, std::size_t count) {
  Floats out(count * kWidth);
  const std::int32_t added = static_cast<std::int32_t>(count);
  const CacheStep s = cache.begin(cache.next(std::span(&added, 1)));
  attention.attend(part(tokens.q, first, count), part(tokens.k, first, count), part(tokens.v, first, count), cache, s,
                   0, out);
  return out;
}

Cache cache_of(KeyStorage keys) {
  CacheConfig config;
  config.shape = {1, 1, kWidth, kWidth};
  config.keys = keys;
  return Cache(config);
}

// Rules whose plan changes at length 9, that is within a generation of 20 tokens.
std::vector<RotaryRule> rules_by_length() {
  LongRopeRule longrope;
  longrope.short_factors = {1, 1.1, 1.2, 1.3};
  longrope.long_factors = {1, 2, 4, 8};
  longrope.original_length = 8;
  longrope.factor = 4;
  return {DynamicNtkRule{2, 8}, longrope};
}

}  // namespace

TEST_CASE("E41, E43: one plan for the whole generation: cached = full under that plan, across the trained length") {
  const Tokens tokens(20);
  for (const RotaryRule& rule : rules_by_length()) {
    INFO(name_of(rule));
    const RotaryPlan plan = resolve(RotaryShape{kWidth}, rule, 20);  // the length it may reach
    const Attention attention = attention_under(plan);
    Cache cache = cache_of(KeyStorage::kRotated);
    const Floats expected = full_forward(plan, tokens, 20);
    for (std::size_t first = 0; first < 20;) {
      const std::size_t count = first == 0 ? 5 : 1;
      CHECK(max_difference(step(attention, cache, tokens, first, count), part(expected, first, count)) <= kTolerance);
      first += count;
    }
    // Another plan in the middle is refused, not mixed.
    const Attention other = attention_under(resolve(RotaryShape{kWidth}, rule, 8));
    check_error(ErrorCode::kPlanMismatch, "layer 0", [&] { step(other, cache, tokens, 0, 1); });
  }
}

TEST_CASE("E39, E41, E43: unrotated keys: every step equals the full forward under the plan of its own length") {
  const Tokens tokens(20);
  for (const RotaryRule& rule : rules_by_length()) {
    INFO(name_of(rule));
    Cache cache = cache_of(KeyStorage::kUnrotated);
    for (std::size_t first = 0; first < 20; ++first) {
      const RotaryPlan plan = resolve(RotaryShape{kWidth}, rule, static_cast<std::int64_t>(first) + 1);
      const Floats expected = full_forward(plan, tokens, first + 1);
      CHECK(max_difference(step(attention_under(plan), cache, tokens, first, 1), part(expected, first, 1)) <=
            kTolerance);
    }
  }
}

TEST_CASE("rotation: content and positions permuted together permute the output; content alone does not") {
  const std::size_t count = 12;
  const Tokens tokens(count);
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 random(4);
  RotaryPlan scaled = resolve(RotaryShape{kWidth, 10000, Pairing::kInterleaved});
  scaled.attention_factor = 1.2;
  RotaryPlan xpos = resolve(RotaryShape{kWidth});
  xpos.xpos = XPos{0.4, 16, 3};
  for (const RotaryPlan& plan :
       {resolve(RotaryShape{kWidth}), scaled, xpos, resolve(RotaryShape{4, 100, Pairing::kHalfSplit, 2}),
        resolve(RotaryShape{kWidth}, LinearRule{4}), resolve(RotaryShape{kWidth}, NtkRule{4}),
        resolve(RotaryShape{kWidth}, DynamicNtkRule{4, 64}, 1000), resolve(RotaryShape{kWidth}, YarnRule{.factor = 4, .original_length = 256}),
        resolve(RotaryShape{kWidth}, LongRopeRule{{1, 1, 1, 1}, {1, 2, 3, 4}, 64, 4.0}, 1000),
        resolve(RotaryShape{kWidth}, Llama3Rule{8, 1, 4, 64}), resolve(RotaryShape{kWidth}, ProportionalRule{0.5}),
        axial_plan(AxialConvention::kQwen2Vl, kWidth), axial_plan(AxialConvention::kRows, kWidth),
        with_axes(resolve(RotaryShape{kWidth}), chunked_axes(std::array<std::int32_t, 3>{2, 1, 1}))}) {
    const Attention attention = attention_under(plan, Direction::kBidirectional);
    std::shuffle(order.begin(), order.end(), random);
    PositionArrays arrays, permuted_arrays;
    arrays.row_lengths = permuted_arrays.row_lengths = {static_cast<std::int32_t>(count)};
    for (int axis = 0; axis < 3; ++axis) {
      auto& numbers = arrays.position.emplace_back();
      for (std::size_t t = 0; t < count; ++t) numbers.push_back(static_cast<std::int32_t>(random() % 1000));
      auto& moved = permuted_arrays.position.emplace_back();
      for (const std::size_t t : order) moved.push_back(numbers[t]);
    }
    if (plan.xpos) {
      // Within a reach that float32 can hold at a scale base of 16.
      for (auto* both : {&arrays, &permuted_arrays}) {
        for (auto& axis : both->position) {
          for (auto& number : axis) number %= 50;
        }
      }
    }
    const Positions positions = Positions::from_arrays(arrays), permuted = Positions::from_arrays(permuted_arrays);
    const auto permute = [&](const Floats& x) {
      Floats out;
      for (const std::size_t t : order) out.insert(out.end(), part(x, t, 1).begin(), part(x, t, 1).end());
      return out;
    };
    Floats plain(count * kWidth), together(count * kWidth), alone(count * kWidth);
    attention.attend(tokens.q, tokens.k, tokens.v, positions, plain);
    attention.attend(permute(tokens.q), permute(tokens.k), permute(tokens.v), permuted, together);
    attention.attend(permute(tokens.q), permute(tokens.k), permute(tokens.v), positions, alone);
    CHECK(max_difference(together, permute(plain)) <= kTolerance * 4);
    CHECK(max_difference(alone, permute(plain)) > 1e-3);
  }
}

TEST_CASE("temperature: scores are stretched by position as running code stretches them") {
  const Json vectors = load_vectors("attention_temperature");
  REQUIRE(!vectors.at("cases").empty());
  for (const Json& c : vectors.at("cases")) {
    INFO(c.at("name").get<std::string>());
    const Json& p = c.at("parameters");
    AttentionConfig config;
    config.mask.direction = Direction::kBidirectional;
    config.scale = 1.0;
    config.temperature = Temperature{p.at("attn_scale"), p.at("floor_scale"), p.at("position_offset")};
    PositionArrays arrays;
    arrays.position = {ints_of(c.at("inputs").at("positions"))};
    const std::size_t count = arrays.position[0].size();
    arrays.row_lengths = {static_cast<std::int32_t>(count)};
    // Queries and the one key are 1, so a score is the temperature itself.
    const Floats q(count, 1.0f), k(1, 1.0f);
    std::vector<WeightRequest> requests;
    for (std::size_t t = 0; t < count; ++t) requests.push_back({0, t});
    const auto parts =
        Attention(config).explain(q, Positions::from_arrays(std::move(arrays)), k, Positions::range(1), requests);
    const auto exact = doubles_of(c.at("exact").at("temperature"));
    REQUIRE(parts.size() == exact.size());
    for (std::size_t t = 0; t < count; ++t) CHECK(std::abs(parts[t].score[0] - exact[t]) <= 2e-7 * exact[t]);
  }
}
