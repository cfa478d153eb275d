#include "locant/bias/alibi.hpp"

#include "bias_tile.hpp"

using namespace locant;
using namespace locant::test;

namespace {

std::vector<double> softmax(const std::vector<float>& scores) {
  double largest = -INFINITY, sum = 0;
  for (const float s : scores) largest = std::max(largest, static_cast<double>(s));
  std::vector<double> weights;
  for (const float s : scores) {
    weights.push_back(std::exp(s - largest));
    sum += weights.back();
  }
  for (double& w : weights) w /= sum;
  return weights;
}

}  // namespace

TEST_CASE("H01: twelve heads get the slopes of eight and then every other slope of sixteen") {
  const std::vector<double> expected = {0.5, .25, .125, .0625, .03125, .015625, .0078125, .00390625,
                                        std::sqrt(0.5), std::sqrt(0.125), std::sqrt(0.03125), std::sqrt(0.0078125)};
  const auto slopes = alibi_slopes(12);
  REQUIRE(slopes.size() == 12);
  for (std::size_t h = 0; h < 12; ++h) CHECK(slopes[h] == doctest::Approx(expected[h]).epsilon(1e-15));
}

TEST_CASE("H02, H10: six heads keep the reference's order, which does not fall steadily") {
  CHECK(alibi_slopes(6) == std::vector<double>{.25, .0625, .015625, .00390625, .5, .125});
  // Padding 66 heads to 72 must not change the first 66.
  const auto true_count = alibi_slopes(66), padded = alibi_slopes(72);
  CHECK(std::vector<double>(padded.begin(), padded.begin() + 66) == true_count);
  CHECK(alibi_slopes(65) != alibi_slopes(66));
}

TEST_CASE("H01: for 1 to 64 heads, the slopes are those of the recursion they were published with") {
  // Independent: the recursive form, in which n heads are c heads and every other one of 2c.
  const auto recursive = [](auto&& self, int n) -> std::vector<double> {
    std::vector<double> out;
    if ((n & (n - 1)) == 0) {
      const double start = std::pow(2.0, -std::pow(2.0, -(std::log2(n) - 3)));
      for (int i = 0; i < n; ++i) out.push_back(start * std::pow(start, i));
      return out;
    }
    int c = 1;
    while (2 * c <= n) c *= 2;
    out = self(self, c);
    const auto twice = self(self, 2 * c);
    for (std::size_t i = 0; out.size() < static_cast<std::size_t>(n); i += 2) out.push_back(twice[i]);
    return out;
  };
  for (int n = 1; n <= 64; ++n) {
    const auto slopes = alibi_slopes(n);
    const auto expected = recursive(recursive, n);
    REQUIRE(slopes.size() == expected.size());
    for (std::size_t h = 0; h < slopes.size(); ++h) CHECK(slopes[h] == doctest::Approx(expected[h]).epsilon(1e-14));
  }
}

TEST_CASE("ALiBi: bias_max is the exponent of the last slope") {
  CHECK(alibi_slopes(4, 16) == std::vector<double>{std::exp2(-4), std::exp2(-8), std::exp2(-12), std::exp2(-16)});
}

TEST_CASE("H08: the past is penalised, the nearer the less: query 5, key 0, slope 0.5 gives -2.5") {
  const Alibi alibi({0.5});
  const TileCase tile({5}, {0, 1, 4, 5});
  CHECK(tile.run(alibi) == std::vector<float>{-2.5f, -2.0f, -0.5f, 0.0f});
}

TEST_CASE("ALiBi: every cell is the slope times the displacement, rounded once, to the ends of int32") {
  const auto slopes = alibi_slopes(6);
  for (const AlibiForm form : {AlibiForm::kCausal, AlibiForm::kSymmetric, AlibiForm::kKeyOnly}) {
    const Alibi alibi(slopes, form, form == AlibiForm::kKeyOnly ? 11 : 0);
    for (const std::int32_t head : {0, 4}) {
      for (const TileCase& tile : tile_cases(head, 1)) {
        const auto scores = tile.run(alibi);
        for (std::size_t r = 0; r < tile.query_position.size(); ++r) {
          for (std::size_t k = 0; k < tile.key_position.size(); ++k) {
            const double d = static_cast<double>(tile.key_position[k]) - tile.query_position[r];
            const double slope = slopes[static_cast<std::size_t>(head)];
            const double expected = form == AlibiForm::kCausal      ? slope * d
                                    : form == AlibiForm::kSymmetric ? -slope * std::abs(d)
                                                                    : slope * (tile.key_position[k] - 11.0);
            CHECK(scores[r * tile.key_position.size() + k] == static_cast<float>(expected));
          }
        }
      }
    }
  }
}

TEST_CASE("ALiBi: causal is odd in the displacement, symmetric even, and causal equals symmetric in the past") {
  const Alibi causal({0.3}), symmetric({0.3}, AlibiForm::kSymmetric);
  std::vector<std::int32_t> keys;
  for (std::int32_t k = 0; k <= 100; ++k) keys.push_back(k);
  const TileCase tile({50}, keys);
  const auto a = tile.run(causal), b = tile.run(symmetric);
  for (std::size_t d = 0; d <= 50; ++d) {
    CHECK(a[50 + d] == -a[50 - d]);
    CHECK(b[50 + d] == b[50 - d]);
    CHECK(a[50 - d] == b[50 - d]);
  }
}

TEST_CASE("H06, H07: forms that differ by a number of the row give the same softmax") {
  std::vector<std::int32_t> keys;
  for (std::int32_t k = 0; k < 10; ++k) keys.push_back(k);
  const TileCase tile({9}, keys);
  const auto causal = softmax(tile.run(Alibi({0.25})));
  for (const std::int64_t origin : {0, 9, 10, 2047}) {
    const auto key_only = softmax(tile.run(Alibi({0.25}, AlibiForm::kKeyOnly, origin)));
    // float32 scores up to 512: a step of 6e-5 in a score is 6e-5 of a weight.
    for (std::size_t k = 0; k < 10; ++k) CHECK(key_only[k] == doctest::Approx(causal[k]).epsilon(1e-4));
  }
  CHECK(tile.run(Alibi({0.25})).back() == 0.0f);
}

TEST_CASE("H09: one term serves tiles of any length, one after another") {
  const Alibi alibi({0.5});
  for (const std::size_t length : {512u, 513u, 511u}) {
    std::vector<std::int32_t> keys(length);
    for (std::size_t k = 0; k < length; ++k) keys[k] = static_cast<std::int32_t>(k);
    const auto last = static_cast<std::int32_t>(length - 1);
    CHECK(TileCase({last}, keys).run(alibi).front() == -0.5f * static_cast<float>(last));
  }
}

TEST_CASE("ALiBi: shift invariance, to the bit") {
  CHECK(check_shift_invariant(Alibi({0.5, 0.3}), 1) >= 10);
  CHECK(check_shift_invariant(Alibi({0.5, 0.3}, AlibiForm::kSymmetric), 1) >= 10);
  CHECK(!Alibi({0.5}, AlibiForm::kKeyOnly).shift_invariant());
}

TEST_CASE("ALiBi: bad input is answered by its code") {
  check_error(ErrorCode::kArgument, "heads is 0, expected 1 to 65536", [] { alibi_slopes(0); });
  check_error(ErrorCode::kArgument, "bias_max is 0", [] { alibi_slopes(8, 0); });
  check_error(ErrorCode::kArgument, "bias_max is nan", [] { alibi_slopes(8, NAN); });
  check_error(ErrorCode::kArgument, "no slopes", [] { Alibi({}); });
  check_error(ErrorCode::kArgument, "a slope is inf", [] { Alibi({0.5, INFINITY}); });
  check_error(ErrorCode::kArgument, "origin is -1", [] { Alibi({0.5}, AlibiForm::kKeyOnly, -1); });
  check_error(ErrorCode::kShape, "2 slopes, the attention has 3 heads", [] { Alibi({0.5, 0.25}).require_fits(3, 3, 8); });
  Alibi({0.5, 0.25}).require_fits(2, 1, 8);
}

TEST_CASE("ALiBi: describes itself") {
  const auto d = Alibi(alibi_slopes(2)).describe();
  CHECK(d.name == "ALiBi, causal");
  CHECK(d.door == Door::kScore);
  CHECK(d.reference == Reference::kRelative);
  CHECK(d.parameters[1].value == "0.0625, 0.00390625");
  CHECK(d.direction == "displacement = key - query");
}
