#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "locant/decoder/functions.hpp"
#include "locant/decoder/random.hpp"

using namespace locant;

TEST_CASE("exact_exp: within 2 units of the last place from -87.3 to 88.37, defined everywhere") {
  double worst = 0;
  for (int i = 0; i <= 2'000'000; ++i) {
    const float x = -87.3f + 175.67f * static_cast<float>(i) / 2'000'000.0f;
    const double exact = std::exp(static_cast<double>(x));
    const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::abs(exact_exp(x) - exact) / unit);
  }
  CAPTURE(worst);
  CHECK(worst < 2.0);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(exact_exp(0.0f) == 1.0f);
  CHECK(exact_exp(-kInfinity) == 0.0f);
  CHECK(exact_exp(-100.0f) == 0.0f);
  CHECK(exact_exp(1000.0f) == exact_exp(88.37f));
  CHECK(std::isfinite(exact_exp(kInfinity)));
  CHECK(std::isnan(exact_exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("functions: the same bits in every build") {
  // Any change of order, fusion or library shows here; the number was made once and holds natively and as WebAssembly.
  CounterRandom random(3);
  std::vector<float> x(5 * 77), weight(77), bias(77), y(x.size());
  std::uint64_t i = 0;
  for (float& v : x) v = 6.0f * random.symmetric(i++);
  for (float& v : weight) v = random.symmetric(i++);
  for (float& v : bias) v = random.symmetric(i++);
  std::uint64_t hash = 0;
  const auto take = [&](const std::vector<float>& values) {
    for (const float v : values) hash = mix_bits(hash + std::bit_cast<std::uint32_t>(v));
  };
  rms_norm(x.data(), 5, 77, weight.data(), 1e-5f, y.data());
  take(y);
  layer_norm(x.data(), 5, 77, weight.data(), bias.data(), 1e-5f, y.data());
  take(y);
  y = x;
  activate(Activation::kSilu, y.data(), y.size());
  take(y);
  y = x;
  activate_gated(Activation::kGeluTanh, y.data(), x.data(), y.size());
  take(y);
  CHECK(hash == 1511936005549232984ull);
}

TEST_CASE("functions: norms and activations agree with their definitions in double") {
  CounterRandom random(4);
  constexpr std::size_t kWidth = 61;
  std::vector<float> x(kWidth), weight(kWidth), bias(kWidth), y(kWidth);
  for (std::size_t i = 0; i < kWidth; ++i) {
    x[i] = 3.0f * random.symmetric(i) + 1.0f;
    weight[i] = random.symmetric(100 + i);
    bias[i] = random.symmetric(200 + i);
  }
  double mean = 0, squares = 0;
  for (const float v : x) mean += v / static_cast<double>(kWidth);
  for (const float v : x) squares += static_cast<double>(v) * v / kWidth;
  const double variance = squares - mean * mean;
  // Two or three roundings of float32 each: 4e-7 of the size of the terms.
  rms_norm(x.data(), 1, kWidth, weight.data(), 1e-5f, y.data());
  for (std::size_t i = 0; i < kWidth; ++i) CHECK(std::abs(y[i] - x[i] / std::sqrt(squares + 1e-5) * weight[i]) < 1e-6);
  layer_norm(x.data(), 1, kWidth, weight.data(), bias.data(), 1e-5f, y.data());
  for (std::size_t i = 0; i < kWidth; ++i) CHECK(std::abs(y[i] - ((x[i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + bias[i])) < 1e-6);
  layer_norm(x.data(), 1, kWidth, weight.data(), nullptr, 1e-5f, y.data());
  for (std::size_t i = 0; i < kWidth; ++i) CHECK(std::abs(y[i] - (x[i] - mean) / std::sqrt(variance + 1e-5) * weight[i]) < 1e-6);

  for (float v = -20.0f; v <= 20.0f; v += 0.03125f) {
    const double d = v, cube = 0.7978845608028654 * (d + 0.044715 * d * d * d);
    const double expected[] = {d / (1 + std::exp(-d)), d / 2 * (1 + std::erf(d / std::sqrt(2.0))), d / 2 * (1 + std::tanh(cube)), std::max(d, 0.0)};
    const Activation kinds[] = {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu};
    for (int k = 0; k < 4; ++k) {
      float one = v, gate = v;
      const float up = -0.5f;
      activate(kinds[k], &one, 1);
      activate_gated(kinds[k], &gate, &up, 1);
      CAPTURE(v);
      CAPTURE(k);
      CHECK(std::abs(one - expected[k]) <= 4e-7 * std::max(1.0, std::abs(expected[k])));
      CHECK(gate == one * up);
    }
  }
}

TEST_CASE("functions: a row of zeros is normalised to zeros, NaN stays in its row") {
  std::vector<float> x = {0, 0, 0, 1, std::numeric_limits<float>::quiet_NaN(), 2, 1, 2, 3}, y(9);
  const std::vector<float> weight(3, 1.0f);
  rms_norm(x.data(), 3, 3, weight.data(), 1e-6f, y.data());
  for (int i = 0; i < 3; ++i) CHECK(y[static_cast<std::size_t>(i)] == 0.0f);
  for (int i = 3; i < 6; ++i) CHECK(std::isnan(y[static_cast<std::size_t>(i)]));
  for (int i = 6; i < 9; ++i) CHECK(std::isfinite(y[static_cast<std::size_t>(i)]));
}

TEST_CASE("random: value i is the same whether or not those before it were made, and streams differ") {
  constexpr CounterRandom random(1, stream_of("model.norm.weight"));
  static_assert(random.bits(5) == CounterRandom(1, stream_of("model.norm.weight")).bits(5));
  CHECK(random.bits(0) != CounterRandom(1, stream_of("model.norm.bias")).bits(0));
  CHECK(random.bits(0) != CounterRandom(2, stream_of("model.norm.weight")).bits(0));
  // SplitMix64 from state 1234567 (its published first outputs) when the key is 1234567.
  CHECK(mix_bits(1234567ull + 0x9E3779B97F4A7C15ull) == 6457827717110365317ull);
  CHECK(mix_bits(1234567ull + 2 * 0x9E3779B97F4A7C15ull) == 3203168211198807973ull);
  double sum = 0, squares = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const float v = random.symmetric(i);
    REQUIRE(v >= -1.0f);
    REQUIRE(v < 1.0f);
    sum += v, squares += static_cast<double>(v) * v;
  }
  CHECK(std::abs(sum / 1e5) < 0.01);             // five standard errors of the mean are 0.009
  CHECK(std::abs(squares / 1e5 - 1.0 / 3) < 0.005);
}
