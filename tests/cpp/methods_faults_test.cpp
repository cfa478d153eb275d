// Reported faults of this room that no other file covers. Most are of configuration keys: what a reader makes of a key is
// the audit's to test; here it is shown that the rules themselves take the parameters and keep them.
#include "locant/attention/attention.hpp"
#include "locant/attention/cache.hpp"
#include "locant/bias/custom.hpp"
#include "locant/bias/shaw.hpp"
#include "locant/rotary/axes.hpp"
#include "locant/rotary/pairing.hpp"
#include "locant/rotary/rules.hpp"
#include "support.hpp"

using namespace locant;
using namespace locant::test;

TEST_CASE("E02, E03, E04: the Llama 3 rule takes its five parameters and no other, and is not the linear rule of the same factor") {
  const RotaryShape shape{.width = 128, .base = 500000};
  const Llama3Rule five{.factor = 8, .low_frequency_factor = 1, .high_frequency_factor = 4, .original_length = 8192};
  const RotaryPlan plan = resolve(shape, five), plain = resolve(shape), linear = resolve(shape, LinearRule{8});
  CHECK(plan.rule == "llama3");
  CHECK(plan.parameters.size() == 4);
  CHECK(plan.inverse_frequencies.front() == plain.inverse_frequencies.front());
  CHECK(plan.inverse_frequencies.back() == doctest::Approx(plain.inverse_frequencies.back() / 8).epsilon(1e-15));
  CHECK(!plan.same_rotation(linear));
  // What two-field readers did: the factor alone says nothing without the length.
  check_error(ErrorCode::kArgument, "the original length is 0", [&] { resolve(shape, Llama3Rule{.factor = 8}); });
}

TEST_CASE("E06: no scaling block is the default rule, which is LongRoPE with factors of 1") {
  const RotaryShape shape{.width = 64};
  const LongRopeRule ones{std::vector<double>(32, 1), std::vector<double>(32, 1), 4096, 1.0};
  for (const std::int64_t length : {1, 4096, 4097, 131072}) CHECK(resolve(shape, ones, length).same_rotation(resolve(shape)));
}

TEST_CASE("E35: a LongRoPE plan stays one: it says its rule, which factors it took and for which length") {
  const LongRopeRule rule{std::vector<double>(32, 1.05), std::vector<double>(32, 4), 4096, 32.0};
  const RotaryPlan plan = resolve({.width = 64}, rule, 8192);
  CHECK(plan.rule == "longrope");
  CHECK(plan.length == 8192);
  CHECK(!plan.same_rotation(resolve({.width = 64})));
  CHECK(plan.attention_factor == doctest::Approx(std::sqrt(1 + std::log(32.0) / std::log(4096.0))).epsilon(1e-15));
  const MethodDescription d = describe(plan);
  const auto has = [&](const char* name, const char* value) {
    return std::any_of(d.parameters.begin(), d.parameters.end(), [&](const MethodParameter& p) { return p.name == name && p.value == value; });
  };
  CHECK(has("factors", "long"));
  CHECK(has("original length", "4096"));
  CHECK(has("resolved for length", "8192"));
}

TEST_CASE("J11: a plan with sections has their axes and says so; it never turns by a single one in silence") {
  const RotaryPlan text = resolve({.width = 128, .base = 1000000});
  const RotaryPlan plan = with_axes(text, chunked_axes(std::vector<std::int32_t>{16, 24, 24}));
  CHECK(plan.axes() == 3);
  CHECK(!plan.same_rotation(text));
  CHECK(difference_of(plan, text) == "the axis of pair 16 is 1 in one and 0 in the other");
  const MethodDescription d = describe(plan);
  CHECK(d.name.find("3 axes") != std::string::npos);
  // Flat positions are refused, not turned by as if all axes were the first.
  const Rotation rotation(plan, 128);
  std::vector<float> x(2 * 128);
  check_error(ErrorCode::kArgument, "the positions have 1 axes, the plan reads 3",
              [&] { rotation.apply(x, Positions::range(2), 1, RotationRole::kQuery, x); });
}

TEST_CASE("L08: a head size that is not width / heads (32 heads of 128 in a width of 5120) is taken as it is") {
  // 5120 / 32 would be 160: no call asks for the width, so none can divide it.
  const Positions positions = Positions::range(3);
  AttentionConfig config;
  config.shape = {32, 8, 128, 128};
  config.rotation = std::make_shared<Rotation>(resolve({.width = 128}), 128);
  std::vector<float> out(3 * 32 * 128);
  Attention(config).attend(random_values(3 * 32 * 128, 1), random_values(3 * 8 * 128, 2), random_values(3 * 8 * 128, 3), positions, out);
  CHECK(std::any_of(out.begin(), out.end(), [](float x) { return x != 0; }));
  // Rows of W_q for 32 heads of 128, permuted head by head at 128, not at 160.
  const RotatedHeads heads{.heads = 32, .head_dim = 128, .start = 0, .width = 128};
  std::vector<float> bias(32 * 128), moved(bias.size());
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i);
  convert_weight(bias, heads, 1, Pairing::kInterleaved, Pairing::kHalfSplit, moved);
  for (std::size_t h = 0; h < 32; ++h) {
    CHECK(moved[h * 128 + 1] == static_cast<float>(h * 128 + 2));
    CHECK(moved[h * 128 + 64] == static_cast<float>(h * 128 + 1));
  }
}

TEST_CASE("H21: learned relative keys past the trained length clip to +-127, a table of 255 rows") {
  const ShawTable table({127, 1, 2, ShawSides::kBoth}, random_values(255 * 2, 9));
  CHECK(table.rows() == 255);
  for (const std::int64_t d : {127, 128, 199, 2147483647}) {
    CHECK(table.row(d) == 254);
    CHECK(table.row(-d) == 0);
  }
  CHECK(table.row(126) == 253);
  CHECK(table.row(-126) == 1);
  // Length 200, where the fault crashed: it runs, and distances 127 and 199 read one row.
  AttentionConfig config;
  config.shape = {1, 1, 2, 2};
  config.mask.direction = Direction::kBidirectional;
  config.score_terms = {std::make_shared<ShawKeys>(table)};
  std::vector<float> q(200 * 2, 0.5f), k(200 * 2, 0.0f), v = random_values(200 * 2, 3), out(400);
  const Attention attention(config);
  attention.attend(q, k, v, Positions::range(200), out);
  for (const float x : out) CHECK(std::isfinite(x));
  const WeightRequest last{0, 199};
  const auto parts = attention.explain(q, Positions::range(200), k, Positions::range(200), std::span(&last, 1));
  CHECK(parts[0].score[0] == parts[0].score[72]);   // displacements -199 and -127
  CHECK(parts[0].score[72] != parts[0].score[73]);  // -127 and -126
}

TEST_CASE("an error in a caller's own term passes through attention and leaves everything usable") {
  struct Stop {};
  int calls_left = 1 << 30;
  AttentionConfig config;
  config.shape = {2, 1, 4, 4};
  config.score_terms = {std::make_shared<FunctionBias>([&](std::int32_t, std::int64_t d) {
    if (calls_left-- == 0) throw Stop{};
    return -0.1 * static_cast<double>(d < 0 ? -d : d);
  })};
  const Attention attention(config);
  const std::vector<float> q = random_values(40 * 8, 1), k = random_values(40 * 4, 2), v = random_values(40 * 4, 3);
  std::vector<float> before(q.size()), out(q.size()), after(q.size());
  attention.attend(q, k, v, Positions::range(40), before);
  const int calls = (1 << 30) - calls_left;
  REQUIRE(calls > 2);
  for (const int at : {0, 1, calls / 2, calls - 1}) {
    calls_left = at;
    CHECK_THROWS_AS(attention.attend(q, k, v, Positions::range(40), out), Stop);
    calls_left = 1 << 30;
    attention.attend(q, k, v, Positions::range(40), after);
    CHECK(after == before);
  }
}

TEST_CASE("E38: a table reaches as far as positions may: 8192 rows for a factor of 4 over 2048") {
  for (const RotaryRule& rule : {RotaryRule{NtkRule{4}}, RotaryRule{DynamicNtkRule{4, 2048}}}) {
    Rotation rotation(resolve({.width = 8}, rule, 8192), 8);
    const std::vector<float> x = random_values(8, 3);
    const auto at = [&](std::int64_t position) {
      std::vector<float> out(8);
      rotation.apply(x, Positions::range(1, position), 1, RotationRole::kKey, out);
      return out;
    };
    const auto first = at(2048), last = at(8191);
    rotation.prepare(8192);
    CHECK(rotation.prepared() == 8192);
    CHECK(at(2048) == first);
    CHECK(at(8191) == last);
  }
}

TEST_CASE("G08: the cached path equals the full one past 256 tokens, where positions in half precision part them") {
  AttentionConfig config;
  config.shape = {1, 1, 8, 8};
  config.rotation = std::make_shared<Rotation>(resolve({.width = 8}), 8);
  const Attention attention(config);
  const std::vector<float> q = random_values(300 * 8, 1), k = random_values(300 * 8, 2), v = random_values(300 * 8, 3);
  std::vector<float> full(300 * 8);
  attention.attend(q, k, v, Positions::range(300), full);
  CacheConfig shape;
  shape.shape = config.shape;
  Cache cache(shape);
  for (std::int64_t first = 0; first < 300;) {
    const std::int64_t count = first == 0 ? 40 : first == 40 ? 217 : 1;
    const auto rows = [&](const std::vector<float>& x) {
      return std::span(x).subspan(static_cast<std::size_t>(first) * 8, static_cast<std::size_t>(count) * 8);
    };
    const auto counts = static_cast<std::int32_t>(count);
    std::vector<float> out(static_cast<std::size_t>(count) * 8);
    const CacheStep step = cache.begin(cache.next(std::span(&counts, 1)));
    attention.attend(rows(q), rows(k), rows(v), cache, step, 0, out);
    CHECK(max_difference(out, rows(full)) <= 1e-6);
    first += count;
  }
}
