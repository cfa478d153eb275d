// Door 3 against reference vectors: biases and buckets, term by term. Whole attentions: bias_attention_test.cpp.
#include <bit>
#include <cmath>
#include <optional>

#include "bias_tile.hpp"
#include "locant/bias/alibi.hpp"
#include "locant/bias/cope.hpp"
#include "locant/bias/deberta.hpp"
#include "locant/bias/decay.hpp"
#include "locant/bias/fire.hpp"
#include "locant/bias/t5.hpp"
#include "locant/bias/transformer_xl.hpp"
#include "locant/position/positions.hpp"
#include "vectors.hpp"

using namespace locant;
using namespace locant::test;

namespace {

Json cases_of(const std::string& name) { return load_vectors(name).at("cases"); }

std::vector<std::int32_t> count(std::int32_t first, std::int64_t n) {
  std::vector<std::int32_t> out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back(first + static_cast<std::int32_t>(i));
  return out;
}

// The term of all heads over one tile, [heads, queries, keys].
std::vector<float> all_heads(const ScoreTerm& term, std::int32_t heads, const std::vector<std::int32_t>& queries,
                             const std::vector<std::int32_t>& keys) {
  std::vector<float> out;
  for (std::int32_t h = 0; h < heads; ++h) {
    const auto part = TileCase(queries, keys, h).run(term);
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

void check_close(std::span<const float> ours, const std::vector<double>& exact, double relative, double absolute = 0) {
  REQUIRE(ours.size() == exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    INFO("value " << i);
    CHECK(std::abs(ours[i] - exact[i]) <= relative * std::abs(exact[i]) + absolute);
  }
}

constexpr double kHalfStep = 6e-8;  // of float32, relative

}  // namespace

TEST_CASE("vectors: ALiBi slopes of 1 to 128 heads, and of MPT's other bias_max") {
  for (const Json& item : cases_of("bias_alibi_slopes")) {
    INFO(item.at("name").get<std::string>());
    const Json& p = item.at("parameters");
    if (p.contains("first_heads")) {
      std::vector<double> all;
      for (int heads = p.at("first_heads"); heads <= p.at("last_heads").get<int>(); ++heads) {
        const auto slopes = alibi_slopes(heads);
        all.insert(all.end(), slopes.begin(), slopes.end());
      }
      const auto source = doubles_of(item.at("expected").at("slopes"));
      REQUIRE(all.size() == source.size());
      const double error = item.at("source_error").get<double>() + 6e-8;  // and half a step of what is stored
      for (std::size_t i = 0; i < all.size(); ++i) CHECK(std::abs(all[i] - source[i]) <= error * source[i]);
      continue;
    }
    const auto slopes = alibi_slopes(p.at("heads"), p.at("bias_max"));
    const auto exact = doubles_of(item.at("exact").at("slopes"));
    REQUIRE(slopes.size() == exact.size());
    for (std::size_t i = 0; i < exact.size(); ++i) CHECK(slopes[i] == doctest::Approx(exact[i]).epsilon(1e-15));
  }
}

TEST_CASE("vectors: ALiBi biases of Bloom, Falcon, MPT and x-transformers") {
  int checked = 0;
  for (const Json& item : cases_of("bias_alibi")) {
    INFO(item.at("name").get<std::string>());
    const Json& p = item.at("parameters");
    const std::int32_t heads = p.at("heads");
    const std::string form = p.at("form");
    auto slopes = alibi_slopes(heads);
    const auto expected = doubles_of(item.at("expected").at("bias"));
    if (form.starts_with("key only")) {
      // Keys stand at the count of valid tokens; padding is 0 there and hidden anyway.
      const auto mask = values_of<std::uint8_t>(item.at("inputs").at("attention_mask"));
      const std::int64_t columns = shape_of(item.at("inputs").at("attention_mask"))[1];
      const bool bfloat = form.find("bfloat16") != std::string::npos;
      if (bfloat) {
        for (double& slope : slopes) {  // round to the nearest of 8 bits, ties to even
          auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(slope));
          bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
          slope = std::bit_cast<float>(bits);
        }
      }
      const Positions positions = Positions::from_padding_mask(static_cast<std::int64_t>(mask.size()) / columns, columns, mask);
      std::vector<float> ours;
      for (std::int32_t row = 0; row < positions.rows(); ++row) {
        const auto keys = positions.position().subspan(positions.row_begin(row), positions.row_length(row));
        const auto part = all_heads(Alibi(slopes, AlibiForm::kKeyOnly), heads, {0}, {keys.begin(), keys.end()});
        ours.insert(ours.end(), part.begin(), part.end());
      }
      // The whole bias is in bfloat16 in Falcon's case: 2^-8 of its size.
      check_close(ours, expected, bfloat ? 1.0 / 256 : 2e-7);
    } else if (form.starts_with("key - ")) {
      const std::int64_t length = p.at("length");
      const Alibi alibi(slopes, AlibiForm::kKeyOnly, length - 1);
      check_close(all_heads(alibi, heads, {0}, count(0, length)), expected, 2e-7);
    } else {
      const Alibi alibi(slopes, AlibiForm::kSymmetric);
      std::vector<std::int32_t> queries, keys;
      if (item.at("inputs").contains("positions")) {
        queries = keys = ints_of(item.at("inputs").at("positions"));
      } else {
        const std::int64_t n = p.at("queries"), m = p.at("keys");
        queries = count(static_cast<std::int32_t>(m - n), n);
        keys = count(0, m);
      }
      const auto ours = all_heads(alibi, heads, queries, keys);
      check_close(ours, expected, 1e-6);  // float32 slopes of the source
      if (item.contains("exact")) check_close(ours, doubles_of(item.at("exact").at("bias")), kHalfStep);
    }
    ++checked;
  }
  CHECK(checked == 8);
}

TEST_CASE("vectors: T5 buckets equal the source at every displacement, and biases at cached steps") {
  for (const Json& item : cases_of("bias_t5")) {
    INFO(item.at("name").get<std::string>());
    const Json& p = item.at("parameters");
    const T5Buckets buckets(p.at("bidirectional").get<bool>() ? T5Direction::kBidirectional : T5Direction::kUnidirectional,
                            p.at("buckets"), p.at("max_distance"));
    if (!p.contains("heads")) {
      const auto displacement = ints_of(item.at("inputs").at("displacement"));
      const auto exact = ints_of(item.at("exact").at("bucket")), source = ints_of(item.at("expected").at("bucket"));
      for (std::size_t i = 0; i < displacement.size(); ++i) {
        CHECK(buckets.bucket(displacement[i]) == exact[i]);
        CHECK(buckets.bucket(displacement[i]) == source[i]);
      }
      continue;
    }
    const std::int32_t heads = p.at("heads");
    const T5Bias bias(buckets, heads, floats_of(item.at("inputs").at("table")));
    const auto ours = all_heads(bias, heads, count(p.at("query_start"), p.at("queries")), count(0, p.at("keys")));
    CHECK(ours == floats_of(item.at("expected").at("bias")));
  }
}

TEST_CASE("vectors: DeBERTa's log buckets equal the source at every distance the table can tell") {
  for (const Json& item : cases_of("bias_deberta_buckets")) {
    INFO(item.at("name").get<std::string>());
    const DebertaBuckets buckets({item.at("parameters").at("buckets"), item.at("parameters").at("max_position"),
                                  DebertaFar::kHuggingFace});
    const auto distance = ints_of(item.at("inputs").at("query_minus_key"));
    const auto expected = ints_of(item.at("expected").at("bucket"));
    const std::int64_t span = buckets.span();
    for (std::size_t i = 0; i < distance.size(); ++i) {
      CHECK(buckets.bucket(distance[i]) == std::clamp<std::int64_t>(expected[i], -span, span));
      CHECK(buckets.index(-std::int64_t{distance[i]}) == std::clamp<std::int64_t>(expected[i] + span, 0, 2 * span - 1));
    }
  }
}

TEST_CASE("DeBERTa: at 256 buckets over 512, Hugging Face reaches row 0 from -512 on and Microsoft never does") {
  const DebertaBuckets face({256, 512, DebertaFar::kHuggingFace}), microsoft({256, 512, DebertaFar::kMicrosoft});
  CHECK(face.index(511) == 1);
  CHECK(face.index(512) == 0);      // query - key = -512
  CHECK(microsoft.index(512) == 1);
  CHECK(microsoft.index(kMaxDisplacement) == 1);
  for (std::int64_t d = -511; d <= 511; ++d) CHECK(face.index(d) == microsoft.index(d));
  CHECK(face.index(-100000) == 511);
  CHECK(microsoft.index(-100000) == 511);
}

TEST_CASE("DeBERTa: runs cover every displacement once and agree with index()") {
  for (const DebertaBucketConfig& c : {DebertaBucketConfig{256, 512, DebertaFar::kHuggingFace},
                                       DebertaBucketConfig{256, 512, DebertaFar::kMicrosoft},
                                       DebertaBucketConfig{0, 4, DebertaFar::kHuggingFace},
                                       DebertaBucketConfig{9, 40, DebertaFar::kHuggingFace}}) {
    const DebertaBuckets buckets(c);
    const auto runs = buckets.runs();
    CHECK(runs.front().first == -kMaxDisplacement);
    CHECK(runs.back().last == kMaxDisplacement);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (i > 0) CHECK(runs[i].first == runs[i - 1].last + 1);
      for (const std::int64_t d : {runs[i].first, (runs[i].first + runs[i].last) / 2, runs[i].last}) {
        CHECK(buckets.index(d) == runs[i].entry);
      }
    }
  }
  // Without buckets: clipping at 4 on the left, 3 on the right of the query's own row.
  CHECK(DebertaBuckets({0, 4, DebertaFar::kHuggingFace}).runs().front() == DisplacementRun{7, -kMaxDisplacement, -3});
  CHECK(DebertaBuckets({0, 4, DebertaFar::kHuggingFace}).runs().back() == DisplacementRun{0, 4, kMaxDisplacement});
}

TEST_CASE("vectors: KERPLE, both kernels") {
  for (const Json& item : cases_of("bias_kerple")) {
    INFO(item.at("name").get<std::string>());
    const Json& p = item.at("parameters");
    const Kerple kerple(p.at("kind").get<std::string>() == "power" ? KerpleKernel::kPower : KerpleKernel::kLogarithmic,
                        {p.at("r1").get<double>()}, {p.at("r2").get<double>()});
    const auto exact = doubles_of(item.at("exact").at("bias"));
    const auto distance = ints_of(item.at("inputs").at("distance"));
    check_close(TileCase({0}, distance).run(kerple), exact, kHalfStep);
    for (std::size_t i = 0; i < distance.size(); ++i) {  // and to the left
      check_close(TileCase({distance[i]}, {0}).run(kerple), {exact[i]}, kHalfStep);
    }
  }
}

TEST_CASE("vectors: Sandwich") {
  for (const Json& item : cases_of("bias_sandwich")) {
    INFO(item.at("name").get<std::string>());
    const Json& p = item.at("parameters");
    const std::int32_t heads = p.at("heads");
    const Sandwich sandwich(heads, p.at("width"), p.at("base"));
    const auto ours = all_heads(sandwich, heads, count(0, p.at("length")), count(0, p.at("length")));
    check_close(ours, doubles_of(item.at("exact").at("bias")), kHalfStep, 1e-9);
    check_close(ours, doubles_of(item.at("expected").at("bias")), kHalfStep, item.at("source_error").get<double>() * 1.001);
  }
}

TEST_CASE("vectors: FIRE, for every key that is not after its query") {
  for (const Json& item : cases_of("bias_fire")) {
    INFO(item.at("name").get<std::string>());
    const Json& p = item.at("parameters");
    FireConfig config;
    config.c = p.at("c");
    config.threshold = p.at("threshold");
    config.epsilon = p.at("epsilon");
    const Json& in = item.at("inputs");
    config.w1 = doubles_of(in.at("w1"));
    config.b1 = doubles_of(in.at("b1"));
    config.w2 = doubles_of(in.at("w2"));
    config.b2 = doubles_of(in.at("b2"));
    const auto heads = static_cast<std::int32_t>(config.b2.size());
    const Fire fire(config);
    const std::int64_t length = p.at("length");
    const auto ours = all_heads(fire, heads, count(0, length), count(0, length));
    const auto exact = doubles_of(item.at("exact").at("bias"));
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const auto t = static_cast<std::int64_t>(i) / length % length, j = static_cast<std::int64_t>(i) % length;
      if (j <= t) CHECK(std::abs(ours[i] - exact[i]) <= 1e-6 * std::abs(exact[i]) + 1e-7);
    }
    CHECK(!fire.shift_invariant());
    // And it is not: the same displacement, further on.
    CHECK(TileCase({1000}, {997}).run(fire) != TileCase({2000}, {1997}).run(fire));
  }
}

TEST_CASE("vectors: CoPE") {
  for (const Json& item : cases_of("bias_cope")) {
    INFO(item.at("name").get<std::string>());
    const auto shape = shape_of(item.at("inputs").at("q"));
    CopeConfig config;
    config.heads = config.kv_heads = static_cast<std::int32_t>(shape[1]);
    config.head_dim = static_cast<std::int32_t>(shape[2]);
    config.max_positions = item.at("parameters").at("max_pos");
    config.scale = item.at("parameters").at("scale");
    std::vector<std::uint8_t> visible;
    for (std::int64_t t = 0; t < shape[0]; ++t) {
      for (std::int64_t j = 0; j < shape[0]; ++j) visible.push_back(j <= t);
    }
    const auto ours = cope_bias(config, floats_of(item.at("inputs").at("q")), shape[0], floats_of(item.at("inputs").at("k")),
                                shape[0], floats_of(item.at("inputs").at("table")), visible);
    check_close(ours, doubles_of(item.at("exact").at("bias")), kHalfStep, 1e-8);
    check_close(ours, doubles_of(item.at("expected").at("bias")), kHalfStep, item.at("source_error").get<double>() * 1.001 + 1e-8);
  }
}

TEST_CASE("CoPE: NaN in one query stays in its row, and bad input is answered by its code") {
  CopeConfig config{2, 1, 3, 4, 0.5};
  auto q = random_values(2 * 2 * 3, 1);
  const auto k = random_values(2 * 3, 2), table = random_values(4 * 3, 3);
  const std::vector<std::uint8_t> visible(4, 1);
  const auto clean = cope_bias(config, q, 2, k, 2, table, visible);
  q[0] = NAN;  // query 0, head 0
  const auto spoilt = cope_bias(config, q, 2, k, 2, table, visible);
  CHECK(std::isnan(spoilt[0]));
  for (std::size_t i = 2; i < 8; ++i) CHECK(spoilt[i] == clean[i]);
  check_error(ErrorCode::kShape, "2 x 1 heads x 3 = 6", [&] { cope_bias(config, q, 2, std::span(k).first(3), 2, table, visible); });
  config.kv_heads = 2;
  config.heads = 3;
  check_error(ErrorCode::kArgument, "kv_heads is 2, expected a divisor of 3", [&] { cope_bias(config, q, 2, k, 2, table, visible); });
}

TEST_CASE("H18: the shift of a 3 x 3 counter drops the first row, not the last; and vectors of both shifts") {
  CHECK(relative_shift(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9}, 3, 3) == std::vector<float>{3, 0, 4, 5, 6, 0, 7, 8, 9});
  int checked = 0;
  for (const Json& item : cases_of("bias_transformer_xl")) {
    if (!item.at("inputs").contains("x")) continue;
    INFO(item.at("name").get<std::string>());
    const auto shape = shape_of(item.at("inputs").at("x"));
    const auto x = floats_of(item.at("inputs").at("x"));
    const bool xlnet = item.at("parameters").at("method").get<std::string>() == "XLNet";
    const auto ours = xlnet ? relative_shift_xlnet(x, shape[0], shape[1], item.at("parameters").at("keys"))
                            : relative_shift(x, shape[0], shape[1]);
    CHECK(ours == floats_of(item.at("expected").at("shifted")));
    ++checked;
  }
  CHECK(checked >= 4);
}

TEST_CASE("vectors: Transformer-XL's and XLNet's distance vectors, kept or computed when met") {
  int checked = 0;
  for (const Json& item : cases_of("bias_transformer_xl")) {
    const Json& in = item.at("inputs");
    if (!in.contains("r") || !in.contains("projection")) continue;
    INFO(item.at("name").get<std::string>());
    const auto shape = shape_of(in.at("r"));  // [distances, heads, head_dim]
    TransformerXlConfig config;
    config.heads = static_cast<std::int32_t>(shape[1]);
    config.head_dim = static_cast<std::int32_t>(shape[2]);
    config.model_width = item.at("parameters").at("table_width");
    if (has_number(item.at("parameters"), "clamp")) config.clamp = item.at("parameters").at("clamp").get<std::int32_t>();
    TransformerXlConfig keeping = config;
    keeping.kept_before = 3;
    keeping.kept_after = 1;
    const auto projection = floats_of(in.at("projection")), u = floats_of(in.at("content_bias")), v = floats_of(in.at("position_bias"));
    const TransformerXl term(config, projection, u, v), kept(keeping, projection, u, v);
    const auto distances = ints_of(in.at("distances"));
    const auto r = floats_of(in.at("r"));
    std::vector<float> ours(static_cast<std::size_t>(config.head_dim)), again(ours.size());
    for (std::size_t n = 0; n < distances.size(); ++n) {
      for (std::int32_t h = 0; h < config.heads; ++h) {
        term.distance_vector(h, distances[n], ours.data());
        kept.distance_vector(h, distances[n], again.data());
        CHECK(ours == again);
        for (std::size_t c = 0; c < ours.size(); ++c) {
          const float expected = r[(n * static_cast<std::size_t>(config.heads) + static_cast<std::size_t>(h)) * ours.size() + c];
          CHECK(std::abs(ours[c] - expected) <= 2e-6);  // the source's float32 sinusoid and product of width 8
        }
      }
    }
    ++checked;
  }
  CHECK(checked >= 3);
}

TEST_CASE("H20: the sinusoid of a negative distance has its sines negated and its cosines kept") {
  // A projection that copies R: r is R itself.
  std::vector<float> identity(64, 0.0f);
  for (std::size_t i = 0; i < 8; ++i) identity[i * 8 + i] = 1;
  const std::vector<float> zeros(8);
  const TransformerXl term({.heads = 1, .head_dim = 8, .model_width = 8}, identity, zeros, zeros);
  float ahead[8], behind[8];
  for (const std::int64_t n : {1, 7, 1000, 2147483647}) {
    term.distance_vector(0, n, behind);
    term.distance_vector(0, -n, ahead);
    for (int i = 0; i < 4; ++i) {
      CHECK(ahead[i] == -behind[i]);
      CHECK(ahead[4 + i] == behind[4 + i]);
      CHECK(behind[i] != 0.0f);
    }
  }
}

TEST_CASE("Transformer-XL: a tile equals the formula, in kept, close and scattered tiles, clamped or not") {
  for (const bool clamp : {false, true}) {
    TransformerXlConfig config{.heads = 3, .head_dim = 6, .model_width = 10};
    if (clamp) config.clamp = 5;
    config.kept_before = 20;
    config.kept_after = 10;
    const TransformerXl term(config, random_values(3 * 6 * 10, 1), random_values(18, 2), random_values(18, 3));
    const auto u = random_values(18, 2), v = random_values(18, 3);
    for (TileCase tile : tile_cases(2, 31)) {
      tile.fill(6, 9);
      tile.scale = 0.5f;
      const auto scores = tile.run(term);
      std::vector<float> r(6);
      for (std::size_t row = 0; row < tile.query_position.size(); ++row) {
        for (std::size_t k = 0; k < tile.key_position.size(); ++k) {
          term.distance_vector(2, std::int64_t{tile.query_position[row]} - tile.key_position[k], r.data());
          double expected = 0;
          for (std::size_t c = 0; c < 6; ++c) {
            expected += u[12 + c] * static_cast<double>(tile.key_row(k)[c]) +
                        (static_cast<double>(tile.query_row(row)[c]) + v[12 + c]) * r[c];
          }
          CHECK(std::abs(scores[row * tile.key_position.size() + k] - 0.5 * expected) <= 5e-6);
        }
      }
    }
    CHECK(check_shift_invariant(term, 1, 6) >= 10);
  }
}

TEST_CASE("Transformer-XL: tells which displacements its clamp merges") {
  using Runs = std::vector<DisplacementRun>;
  const auto runs = [](std::optional<std::int32_t> clamp) {
    return TransformerXl({.heads = 1, .head_dim = 1, .model_width = 2, .clamp = clamp}, std::vector<float>(2),
                         std::vector<float>(1), std::vector<float>(1)).merged_runs();
  };
  CHECK(runs(std::nullopt).empty());
  CHECK(runs(0) == Runs{{0, -kMaxDisplacement, kMaxDisplacement}});
  CHECK(runs(5) == Runs{{5, -kMaxDisplacement, -5}, {-5, 5, kMaxDisplacement}});
}

TEST_CASE("L10: heads * head_dim need not be the width of the model") {
  // 48 heads of 128 under a hidden width of 4096 (here 3 heads of 6 under 10): the projection says both.
  const TransformerXl term({.heads = 3, .head_dim = 6, .model_width = 10}, random_values(180, 1), random_values(18, 2), random_values(18, 3));
  term.require_fits(3, 1, 6);
}

TEST_CASE("Sandwich: kept and computed sums agree at the edge of what is kept") {
  const Sandwich sandwich(2, 8);
  for (const std::int32_t d : {4095, 4096, 100000}) {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += std::cos(d * std::pow(10000.0, -2.0 * i / 8));
    check_close(TileCase({d}, {0}, 1).run(sandwich), {sum * 2 / 16}, kHalfStep, 1e-9);
    CHECK(TileCase({d}, {0}).run(sandwich) == TileCase({0}, {d}).run(sandwich));
  }
}

TEST_CASE("door 3, second group: shift invariance where promised, and errors by code") {
  CHECK(check_shift_invariant(Kerple(KerpleKernel::kLogarithmic, {1, 2}, {0.5, 3}), 1) >= 10);
  CHECK(check_shift_invariant(Kerple(KerpleKernel::kPower, {1, 2}, {0.5, 2}), 1) >= 10);
  CHECK(check_shift_invariant(Sandwich(4, 16), 3) >= 10);
  const DebertaBuckets buckets({8, 20, DebertaFar::kHuggingFace});
  CHECK(check_shift_invariant(Deberta(buckets, 2, 4, random_values(2 * 16 * 4, 1), random_values(2 * 16 * 4, 2)), 1, 4) >= 10);

  check_error(ErrorCode::kArgument, "a value of r2 is 2.5, expected at most 2", [] { Kerple(KerpleKernel::kPower, {1}, {2.5}); });
  check_error(ErrorCode::kArgument, "a value of r1 is 0", [] { Kerple(KerpleKernel::kLogarithmic, {0}, {1}); });
  check_error(ErrorCode::kShape, "r2 hold 2 values", [] { Kerple(KerpleKernel::kLogarithmic, {1}, {1, 1}); });
  check_error(ErrorCode::kShape, "made for 1 heads, the attention has 2",
              [] { Kerple(KerpleKernel::kLogarithmic, {1}, {1}).require_fits(2, 2, 4); });
  check_error(ErrorCode::kArgument, "width is 5, expected an even number", [] { Sandwich(2, 5); });
  check_error(ErrorCode::kShape, "w2 hold 3 values", [] { Fire({.w1 = {1, 2}, .b1 = {0, 0}, .w2 = {1, 2, 3}, .b2 = {0}}); });
  check_error(ErrorCode::kArgument, "epsilon is -1", [] { Fire({.epsilon = -1, .w1 = {1}, .b1 = {0}, .w2 = {1}, .b2 = {0}}); });
  check_error(ErrorCode::kArgument, "buckets is 3", [] { DebertaBuckets({3, 512, DebertaFar::kHuggingFace}); });
  check_error(ErrorCode::kArgument, "max_position is 129, expected 130", [] { DebertaBuckets({256, 129, DebertaFar::kHuggingFace}); });
  check_error(ErrorCode::kArgument, "neither part has values", [&] { Deberta(buckets, 2, 4, {}, {}); });
  check_error(ErrorCode::kShape, "2 heads x 16 rows x 4 = 128", [&] { Deberta(buckets, 2, 4, random_values(100, 1), {}); });
  check_error(ErrorCode::kShape, "2 heads of 4, the attention has 2 of 8",
              [&] { Deberta(buckets, 2, 4, random_values(128, 1), {}).require_fits(2, 2, 8); });
  check_error(ErrorCode::kArgument, "model_width is 5", [] {
    TransformerXl({.heads = 1, .head_dim = 1, .model_width = 5}, random_values(5, 1), std::vector<float>(1), std::vector<float>(1));
  });
  check_error(ErrorCode::kShape, "the position bias values hold 2 values", [] {
    TransformerXl({.heads = 1, .head_dim = 1, .model_width = 4}, random_values(4, 1), std::vector<float>(1), std::vector<float>(2));
  });
  check_error(ErrorCode::kArgument, "keys is 3, expected 0 to 2", [] { relative_shift_xlnet(std::vector<float>(6), 2, 3, 3); });
}
