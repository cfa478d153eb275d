// Conversion between pairings: the published permutation, and the proof that scores do not change.
#include "locant/rotary/pairing.hpp"

#include "locant/rotary/decoupled.hpp"
#include "locant/rotary/layers.hpp"
#include "locant/rotary/rotation.hpp"
#include "locant/rotary/rules.hpp"
#include "support.hpp"
#include "vectors.hpp"

using namespace locant;
using namespace locant::test;

namespace {

constexpr auto kInter = Pairing::kInterleaved;
constexpr auto kHalf = Pairing::kHalfSplit;

// [tokens, rows] = x [tokens, columns] times weight [rows, columns] transposed, plus bias.
std::vector<float> project(std::span<const float> x, std::span<const float> weight, std::span<const float> bias,
                           std::size_t columns) {
  const std::size_t rows = bias.size(), tokens = x.size() / columns;
  std::vector<float> out(tokens * rows);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t r = 0; r < rows; ++r) {
      float sum = bias[r];
      for (std::size_t c = 0; c < columns; ++c) sum += x[t * columns + c] * weight[r * columns + c];
      out[t * rows + r] = sum;
    }
  }
  return out;
}

std::vector<float> turned(const RotaryPlan& plan, std::int32_t head_dim, std::span<const float> x,
                          const Positions& positions, std::int32_t heads) {
  std::vector<float> out(x.size());
  Rotation(plan, head_dim).apply(x, positions, heads, RotationRole::kQuery, out);
  return out;
}

}  // namespace

TEST_CASE("pairing: weights are permuted as the published conversion permutes them, and back") {
  const Json vectors = load_vectors("rotary_weight_permutation");
  REQUIRE(!vectors.at("cases").empty());
  for (const Json& c : vectors.at("cases")) {
    INFO(c.at("name").get<std::string>());
    const Json& p = c.at("parameters");
    const RotatedHeads heads{p.at("heads"), p.at("head_dim"), 0, p.at("head_dim")};
    const std::int64_t columns = p.at("columns");
    const auto inter = floats_of(c.at("inputs").at("interleaved_weight"));
    const auto half = floats_of(c.at("expected").at("half_split_weight"));
    std::vector<float> ours(inter.size());
    convert_weight(inter, heads, columns, kInter, kHalf, ours);
    CHECK(ours == half);
    convert_weight(half, heads, columns, kHalf, kInter, ours);
    CHECK(ours == inter);
    convert_weight(ours, heads, columns, kInter, kHalf, ours);  // in place
    CHECK(ours == half);
  }
}

TEST_CASE(
    "D02, D04, D12, L09, L10: converted projections give the same scores, grouped keys by the kv head count, partial "
    "width too") {
  struct Shape {
    std::int32_t heads, kv_heads, head_dim, start, width;
    std::size_t columns;
  };
  // Heads times head width is not the input width in any of them.
  for (const Shape s :
       {Shape{4, 4, 8, 0, 8, 20}, Shape{8, 2, 12, 0, 12, 7}, Shape{6, 3, 10, 2, 6, 9}, Shape{16, 1, 256, 0, 64, 3}}) {
    INFO("heads ", s.heads, ", kv_heads ", s.kv_heads, ", head_dim ", s.head_dim);
    const Positions positions = Positions::range(5, 1000);
    const auto x = random_values(5 * s.columns, 1);
    const auto rows = [&](std::int32_t heads) { return static_cast<std::size_t>(heads * s.head_dim); };
    auto wq = random_values(rows(s.heads) * s.columns, 2), wk = random_values(rows(s.kv_heads) * s.columns, 3);
    auto bq = random_values(rows(s.heads), 4), bk = random_values(rows(s.kv_heads), 5);
    RotaryPlan plan = resolve(RotaryShape{s.width, 10000, kInter, s.start});
    const auto q = turned(plan, s.head_dim, project(x, wq, bq, s.columns), positions, s.heads);
    const auto k = turned(plan, s.head_dim, project(x, wk, bk, s.columns), positions, s.kv_heads);

    const RotatedHeads query_heads{s.heads, s.head_dim, s.start, s.width},
        key_heads{s.kv_heads, s.head_dim, s.start, s.width};
    const auto columns = static_cast<std::int64_t>(s.columns);
    convert_weight(wq, query_heads, columns, kInter, kHalf, wq);
    convert_weight(bq, query_heads, 1, kInter, kHalf, bq);
    convert_weight(wk, key_heads, columns, kInter, kHalf, wk);
    convert_weight(bk, key_heads, 1, kInter, kHalf, bk);
    plan.pairing = kHalf;
    const auto q2 = turned(plan, s.head_dim, project(x, wq, bq, s.columns), positions, s.heads);
    const auto k2 = turned(plan, s.head_dim, project(x, wk, bk, s.columns), positions, s.kv_heads);

    // The whole rotated q and k are the old ones in the other order, to the bit: so is every product in a score.
    std::vector<float> expected(q.size());
    convert_heads(q, 5, query_heads, kInter, kHalf, expected);
    CHECK(q2 == expected);
    expected.resize(k.size());
    convert_heads(k, 5, key_heads, kInter, kHalf, expected);
    CHECK(k2 == expected);
    convert_heads(k2, 5, key_heads, kHalf, kInter, expected);
    CHECK(expected == k);

    // And it matters: one side converted and the other not gives other scores, unless nothing turns (D08).
    const std::size_t width = static_cast<std::size_t>(s.head_dim);
    const auto dot = [&](const std::vector<float>& a, const std::vector<float>& b) {
      double sum = 0;
      for (std::size_t i = 0; i < width; ++i) sum += static_cast<double>(a[i]) * b[4 * b.size() / 5 + i];
      return sum;
    };
    CHECK(dot(q2, k2) == doctest::Approx(dot(q, k)).epsilon(1e-12));
    CHECK(std::abs(dot(q2, k) - dot(q, k)) > 1e-3);
  }
}

TEST_CASE("D07, D12: the pairing of a rotation can be told from its input and output, where anything turns") {
  const RotaryPlan plan = resolve(RotaryShape{64, 10000, kInter});
  const auto x = random_values(3 * 2 * 64, 6);
  const Positions positions = Positions::range(3, 5);
  for (const Pairing pairing : {kInter, kHalf}) {
    RotaryPlan used = plan;
    used.pairing = pairing;
    const PairingResidual residual = compare_pairings(plan, 64, x, turned(used, 64, x, positions, 2), positions, 2);
    CHECK((pairing == kInter ? residual.interleaved : residual.half_split) == 0);
    CHECK((pairing == kInter ? residual.half_split : residual.interleaved) > 0.1);
  }
  const Positions start = Positions::range(1);
  const auto head = std::span<const float>(x).first(128);
  const PairingResidual nothing = compare_pairings(plan, 64, head, turned(plan, 64, head, start, 2), start, 2);
  CHECK(nothing.interleaved == 0);
  CHECK(nothing.half_split == 0);
}

TEST_CASE("pairing: sizes that do not hold are refused") {
  std::vector<float> w(24), out(24);
  const auto refused = [&](ErrorCode code, const std::string& part, RotatedHeads heads, std::int64_t columns) {
    check_error(code, part, [&] { convert_weight(w, heads, columns, kInter, kHalf, out); });
  };
  refused(ErrorCode::kArgument, "convert_weight: heads is 0", {0, 8, 0, 8}, 3);
  refused(ErrorCode::kArgument, "the rotated width is 7, expected an even number", {1, 8, 0, 7}, 3);
  refused(ErrorCode::kArgument, "the rotated width is 8, expected 0 to 6", {1, 8, 2, 8}, 3);
  refused(ErrorCode::kArgument, "columns is 0", {1, 8, 0, 8}, 0);
  refused(ErrorCode::kShape, "the input hold 24 values, expected 2 heads x 8 x 3 = 48", {2, 8, 0, 8}, 3);
  check_error(ErrorCode::kArgument, "out overlaps the input", [&] {
    convert_weight(std::span(w).first(16), {1, 8, 0, 8}, 2, kInter, kHalf, std::span(w).subspan(8, 16));
  });
}

TEST_CASE("layers: those without position lie where running code puts them") {
  const RotaryPlan plan = resolve(RotaryShape{8});
  const Json vectors = load_vectors("layers_without_position");
  for (const Json& c : vectors.at("cases")) {
    INFO(c.at("name").get<std::string>());
    const Json& p = c.at("parameters");
    const std::int32_t layers = p.at("num_hidden_layers");
    const auto expected = c.at("expected").at("layers_without_position").get<std::vector<std::int32_t>>();
    // K16: an empty list is no list.
    if (p.contains("no_rope_layers") && !p.at("no_rope_layers").empty()) {
      std::vector<std::int32_t> kind;
      for (const Json& rotates : p.at("no_rope_layers")) kind.push_back(rotates.get<int>() != 0 ? 0 : 1);
      CHECK(LayerPlans::by_kind(kind, {plan, std::nullopt}).layers_without_position() == expected);
    } else {
      const auto interval = number_or(p, "no_rope_layer_interval", 4);
      CHECK(LayerPlans::every_nth(layers, interval, EveryNth::kLastOfGroup, std::nullopt, plan)
                .layers_without_position() == expected);
    }
  }
}

TEST_CASE("K02, K03: each kind of layer has its own base, width and scaling, as in running code") {
  const Json vectors = load_vectors("rotary_layer_types");
  for (const Json& c : vectors.at("cases")) {
    const std::string name = c.at("name");
    INFO(name);
    const Json& p = c.at("parameters");
    const Json& rule = p.at("rope_parameters");
    const bool full = p.at("layer_type") == "full_attention";
    const std::int32_t head_dim = full && p.contains("global_head_dim") ? p.at("global_head_dim") : p.at("head_dim");
    RotaryRule resolved = DefaultRule{};
    if (rule.at("rope_type") == "linear") resolved = LinearRule{rule.at("factor")};
    if (rule.at("rope_type") == "proportional") resolved = ProportionalRule{rule.at("partial_rotary_factor"), 1};
    const RotaryPlan ours = resolve(RotaryShape{head_dim, rule.at("rope_theta")}, resolved);
    const RotaryPlan other = resolve(RotaryShape{8, 77});
    const bool modern = name.starts_with("ModernBERT");
    const LayerPlans plans = LayerPlans::every_nth(p.at("num_layers"), modern ? 3 : 6,
                                                   modern ? EveryNth::kFirstOfGroup : EveryNth::kLastOfGroup,
                                                   full ? ours : other, full ? other : ours);
    std::vector<std::int32_t> here;
    for (std::int32_t l = 0; l < plans.layers(); ++l) {
      if (plans.plan(l)->same_rotation(ours)) here.push_back(l);
    }
    CHECK(here == p.at("layers_of_this_type").get<std::vector<std::int32_t>>());
    const auto exact = doubles_of(c.at("exact").at("inv_freq"));
    REQUIRE(ours.inverse_frequencies.size() == exact.size());
    for (std::size_t i = 0; i < exact.size(); ++i)
      CHECK(ours.inverse_frequencies[i] == doctest::Approx(exact[i]).epsilon(4e-15));
  }
}

TEST_CASE(
    "K06, K12, K14, K15: 36 layers with every 4th unturned: 9 of them, where a token reads alike at any position") {
  const RotaryPlan plan = resolve(RotaryShape{8, 5e6});
  const LayerPlans plans = LayerPlans::every_nth(36, 4, EveryNth::kLastOfGroup, std::nullopt, plan);
  CHECK(plans.layers_without_position() == std::vector<std::int32_t>{3, 7, 11, 15, 19, 23, 27, 31, 35});
  CHECK(plans.plan(3) == nullptr);
  CHECK(plans.plan(4)->base == 5e6);
  CHECK(plans.kinds().size() == 2);
  CHECK(plans.kind(3) != plans.kind(4));
  check_error(ErrorCode::kArgument, "layer is 36, expected 0 to 35", [&] { plans.plan(36); });
  check_error(ErrorCode::kArgument, "layers is 0", [] { LayerPlans(0, std::nullopt); });
  check_error(ErrorCode::kArgument, "interval is 0",
              [&] { LayerPlans::every_nth(4, 0, EveryNth::kLastOfGroup, std::nullopt, plan); });
  const std::int32_t kinds[] = {0, 2};
  check_error(ErrorCode::kArgument, "the kind of layer 1 is 2, expected 0 to 1",
              [&] { LayerPlans::by_kind(kinds, {plan, std::nullopt}); });
}

TEST_CASE("decoupled rotary: queries, joined keys and scores are those of running code") {
  const Json vectors = load_vectors("rotary_mla");
  for (const Json& c : vectors.at("cases")) {
    INFO(c.at("name").get<std::string>());
    const Json& p = c.at("parameters");
    const std::int32_t heads = p.at("heads"), plain = p.at("nope_dim"), rope = p.at("rope_dim");
    DecoupledRotation rotation(resolve(RotaryShape{rope, p.at("base"), kInter}), plain, rope);
    rotation.prepare(4);
    PositionArrays arrays;
    arrays.position = {ints_of(c.at("inputs").at("positions"))};
    arrays.row_lengths = {static_cast<std::int32_t>(arrays.position[0].size())};
    const Positions positions = Positions::from_arrays(std::move(arrays));
    const auto tokens = static_cast<std::int64_t>(positions.tokens());
    const auto q_in = floats_of(c.at("inputs").at("q"));
    std::vector<float> q(q_in.size()), k(q_in.size());
    rotation.apply_query(q_in, positions, heads, q);
    rotation.join_key(floats_of(c.at("inputs").at("k_nope")), floats_of(c.at("inputs").at("k_rope")), positions, heads,
                      k);
    // In the source's order too: it writes first members before second ones, which is the half-split order.
    const RotatedHeads slice{heads, plain + rope, plain, rope};
    std::vector<float> q_source(q.size()), k_source(k.size());
    convert_heads(q, tokens, slice, kInter, kHalf, q_source);
    convert_heads(k, tokens, slice, kInter, kHalf, k_source);
    const double limit = 8 * std::ldexp(1.0, -24) * 8;  // four roundings of values below 4, doubled
    for (const auto& [what, ours] :
         {std::pair{"q_in_place", &q}, {"k_in_place", &k}, {"q", &q_source}, {"k", &k_source}}) {
      INFO(what);
      const auto exact = doubles_of(c.at("exact").at(what));
      REQUIRE(ours->size() == exact.size());
      for (std::size_t i = 0; i < exact.size(); ++i) CHECK(std::abs((*ours)[i] - exact[i]) <= limit);
    }
    const auto scores = doubles_of(c.at("exact").at("scores"));  // [heads, q, k]
    const auto n = static_cast<std::size_t>(tokens), h = static_cast<std::size_t>(heads),
               d = static_cast<std::size_t>(plain + rope);
    for (std::size_t head = 0; head < h; ++head) {
      for (std::size_t t = 0; t < n; ++t) {
        for (std::size_t j = 0; j < n; ++j) {
          double sum = 0;
          for (std::size_t i = 0; i < d; ++i)
            sum += static_cast<double>(q[(t * h + head) * d + i]) * k[(j * h + head) * d + i];
          CHECK(std::abs(sum - scores[(head * n + t) * n + j]) <= 4 * limit * static_cast<double>(d));
        }
      }
    }
  }
}

TEST_CASE("decoupled rotary: sizes that do not hold are refused") {
  const DecoupledRotation rotation(resolve(RotaryShape{4}), 3, 4);
  CHECK(rotation.head_dim() == 7);
  CHECK(rotation.plain_dim() == 3);
  const Positions two = Positions::range(2);
  std::vector<float> plain(2 * 2 * 3), shared(2 * 4), out(2 * 2 * 7);
  rotation.join_key(plain, shared, two, 2, out);
  check_error(ErrorCode::kShape, "join_key: shared keys hold 7 values, expected 2 tokens x 4 = 8",
              [&] { rotation.join_key(plain, std::span(shared).first(7), two, 2, out); });
  check_error(ErrorCode::kShape, "join_key: plain keys hold 12 values, expected 2 tokens x 3 heads x 3 = 18",
              [&] { rotation.join_key(plain, shared, two, 3, out); });
  check_error(ErrorCode::kArgument, "DecoupledRotation: the plan rotates coordinates 0 to 3, a head has 2",
              [] { DecoupledRotation(resolve(RotaryShape{4}), 3, 2); });
  check_error(ErrorCode::kArgument, "the plain width is -1", [] { DecoupledRotation(resolve(RotaryShape{4}), -1, 4); });
}
