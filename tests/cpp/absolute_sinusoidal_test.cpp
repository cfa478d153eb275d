#include <doctest/doctest.h>

#include <cmath>
#include <numbers>
#include <random>
#include <set>
#include <vector>

#include "locant/absolute/sinusoidal.hpp"

using namespace locant;

namespace {

std::vector<float> row_of(const Sinusoidal& encoding, std::int32_t position) {
  std::vector<float> row(static_cast<std::size_t>(encoding.width()));
  encoding.row(position, row);
  return row;
}

SinusoidalConfig config(std::int32_t width, SinusoidLayout layout = SinusoidLayout::kInterleaved) {
  SinusoidalConfig c;
  c.width = width;
  c.layout = layout;
  return c;
}

template <class Call>
ErrorCode code_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  FAIL("no error was thrown");
  return ErrorCode::kFormat;
}

constexpr SinusoidLayout kLayouts[] = {SinusoidLayout::kInterleaved, SinusoidLayout::kConcatenated,
                                       SinusoidLayout::kTensor2Tensor, SinusoidLayout::kMlx};

}  // namespace

TEST_CASE("sinusoidal: width 8, positions 0 to 3, equal the formula of the paper in every column") {
  const Sinusoidal encoding(config(8));
  for (std::int32_t p = 0; p < 4; ++p) {
    const auto row = row_of(encoding, p);
    for (int i = 0; i < 4; ++i) {
      const double angle = p / std::pow(10000.0, 2.0 * i / 8);
      CHECK(row[2 * i] == static_cast<float>(std::sin(angle)));
      CHECK(row[2 * i + 1] == static_cast<float>(std::cos(angle)));
    }
  }
}

TEST_CASE("sinusoidal: concatenated holds the interleaved columns in another order") {
  for (const std::int32_t width : {2, 6, 7, 64, 65}) {
    const Sinusoidal inter(config(width)), concat(config(width, SinusoidLayout::kConcatenated));
    const auto a = row_of(inter, 77), b = row_of(concat, 77);
    for (std::int32_t i = 0; i < (width + 1) / 2; ++i) {
      CHECK(a[static_cast<std::size_t>(2 * i)] == b[static_cast<std::size_t>(i)]);
      if (2 * i + 1 < width) {
        CHECK(a[static_cast<std::size_t>(2 * i + 1)] == b[static_cast<std::size_t>((width + 1) / 2 + i)]);
      }
    }
  }
}

TEST_CASE("sinusoidal: tensor2tensor's frequencies run from 1 to exactly 1/base, and its odd column is 0") {
  const Sinusoidal even(config(8, SinusoidLayout::kTensor2Tensor));
  CHECK(even.frequencies().size() == 4);
  CHECK(even.frequencies().front() == 1.0);
  CHECK(even.frequencies().back() == doctest::Approx(1e-4).epsilon(1e-15));
  const Sinusoidal odd(config(7, SinusoidLayout::kTensor2Tensor));
  const auto row = row_of(odd, 5);
  CHECK(odd.frequencies().size() == 3);
  CHECK(row[0] == static_cast<float>(std::sin(5.0)));
  CHECK(row[3] == static_cast<float>(std::cos(5.0)));
  CHECK(row[6] == 0.0f);
  // Width 2 is defined by max(half - 1, 1); Whisper's formula would divide by zero.
  const auto narrow = row_of(Sinusoidal(config(2, SinusoidLayout::kTensor2Tensor)), 3);
  CHECK(narrow[0] == static_cast<float>(std::sin(3.0)));
  CHECK(narrow[1] == static_cast<float>(std::cos(3.0)));
  // Width 1 has no pair at all: its only column is the zero column.
  CHECK(row_of(Sinusoidal(config(1, SinusoidLayout::kTensor2Tensor)), 3)[0] == 0.0f);
}

TEST_CASE("sinusoidal: MLX's form is tensor2tensor's times sqrt(2 / width)") {
  const Sinusoidal t2t(config(16, SinusoidLayout::kTensor2Tensor)), mlx(config(16, SinusoidLayout::kMlx));
  CHECK(mlx.scale() == std::sqrt(2.0 / 16));
  const auto a = row_of(t2t, 9), b = row_of(mlx, 9);
  // Two roundings against one: a float32 step of a value below 0.36.
  for (std::size_t c = 0; c < 16; ++c) CHECK(std::abs(b[c] - mlx.scale() * a[c]) <= 3e-8);
  auto cosine_first = config(16, SinusoidLayout::kMlx);
  cosine_first.order = SinusoidOrder::kCosineFirst;
  const auto swapped = row_of(Sinusoidal(cosine_first), 9);
  for (std::size_t c = 0; c < 8; ++c) {
    CHECK(swapped[c] == b[8 + c]);
    CHECK(swapped[8 + c] == b[c]);
  }
}

TEST_CASE("sinusoidal: an odd width keeps the sine of the last pair, and its exponents are over the odd width") {
  const Sinusoidal encoding(config(5));
  CHECK(encoding.frequencies().size() == 3);
  CHECK(encoding.frequencies()[2] == std::pow(10000.0, -4.0 / 5));
  CHECK(row_of(encoding, 11)[4] == static_cast<float>(std::sin(11 * std::pow(10000.0, -4.0 / 5))));
}

TEST_CASE("L04: width 29 is defined in the published layouts, and refused where no published code defines it") {
  for (const auto layout : {SinusoidLayout::kInterleaved, SinusoidLayout::kConcatenated, SinusoidLayout::kTensor2Tensor}) {
    Sinusoidal encoding(config(29, layout));
    encoding.prepare(10000);
    for (const float value : row_of(encoding, 9999)) CHECK(std::abs(value) <= 1.0f);
  }
  CHECK(code_of([] { Sinusoidal(config(29, SinusoidLayout::kMlx)); }) == ErrorCode::kArgument);
  auto cosine_first = config(29);
  cosine_first.order = SinusoidOrder::kCosineFirst;
  CHECK(code_of([&] { Sinusoidal{cosine_first}; }) == ErrorCode::kArgument);
}

TEST_CASE("L05: both halves of a pair share one frequency, so a dot product depends on the distance alone") {
  std::mt19937 random(5);
  for (const auto layout : kLayouts) {
    const Sinusoidal encoding(config(64, layout));
    for (int trial = 0; trial < 50; ++trial) {
      const auto p = static_cast<std::int32_t>(random() % 100000), q = static_cast<std::int32_t>(random() % 100000);
      const auto k = static_cast<std::int32_t>(random() % 1000);
      const auto dot = [&](std::int32_t a, std::int32_t b) {
        const auto x = row_of(encoding, a), y = row_of(encoding, b);
        double sum = 0;
        for (std::size_t c = 0; c < x.size(); ++c) sum += static_cast<double>(x[c]) * y[c];
        return sum;
      };
      // 64 products of float32 values below 1, each off by half a step: below 64 * 1.2e-7.
      CHECK(std::abs(dot(p, p + k) - dot(q, q + k)) <= 8e-6 * encoding.scale() * encoding.scale());
    }
  }
}

TEST_CASE("sinusoidal: |PE(p)|^2 = scale^2 * width / 2 at every position, to 2^31-1") {
  for (const auto layout : kLayouts) {
    for (const std::int32_t width : {4, 10, 768}) {
      const Sinusoidal encoding(config(width, layout));
      for (const std::int32_t p : {0, 1, 511, 1 << 20, kMaxPosition}) {
        double sum = 0;
        for (const float value : row_of(encoding, p)) sum += static_cast<double>(value) * value;
        CHECK(sum == doctest::Approx(encoding.scale() * encoding.scale() * width / 2).epsilon(2e-7));
      }
    }
  }
}

TEST_CASE("sinusoidal: PE(p + k) is PE(p) turned by R(k), pair by pair") {
  std::mt19937 random(6);
  for (const auto layout : kLayouts) {
    const Sinusoidal encoding(config(32, layout));
    for (int trial = 0; trial < 30; ++trial) {
      const auto p = static_cast<std::int32_t>(random() % 1000000), k = static_cast<std::int32_t>(random() % 1000000);
      const auto from = row_of(encoding, p), to = row_of(encoding, p + k);
      for (std::int32_t i = 0; i < 16; ++i) {
        const auto s = static_cast<std::size_t>(encoding.sine_column(i)), c = static_cast<std::size_t>(encoding.cosine_column(i));
        const double angle = k * encoding.frequencies()[static_cast<std::size_t>(i)];
        // Three float32 roundings of values up to the scale.
        CHECK(std::abs(to[s] - (from[s] * std::cos(angle) + from[c] * std::sin(angle))) <= 2e-7);
        CHECK(std::abs(to[c] - (from[c] * std::cos(angle) - from[s] * std::sin(angle))) <= 2e-7);
      }
    }
  }
}

TEST_CASE("sinusoidal: prepared rows and rows computed when met have the same bits") {
  for (const auto layout : kLayouts) {
    Sinusoidal kept(config(48, layout));
    const Sinusoidal fresh(config(48, layout));
    kept.prepare(100);
    kept.prepare(300);  // grown, not rebuilt differently
    kept.prepare(20);   // never shrinks
    CHECK(kept.prepared() == 300);
    for (std::int32_t p = 0; p < 310; ++p) CHECK(row_of(kept, p) == row_of(fresh, p));
  }
}

TEST_CASE("F01, F02, F03: a position past the prepared rows is computed, never read from memory that is not the table's") {
  Sinusoidal encoding(config(16));
  encoding.prepare(4096);
  for (const std::int32_t p : {4095, 4096, 40959, 262143, kMaxPosition}) {
    const auto row = row_of(encoding, p);
    CHECK(row[0] == static_cast<float>(std::sin(static_cast<double>(p))));
    CHECK(row[1] == static_cast<float>(std::cos(static_cast<double>(p))));
  }
}

TEST_CASE("F04: a table longer than the input is accepted, and F08: rows fewer than the width keep all columns") {
  Sinusoidal encoding(config(128));
  encoding.prepare(4096);
  std::vector<float> out(17 * 128);
  encoding.encode(Positions::range(17), out);
  CHECK(out[16 * 128 + 127] == row_of(encoding, 16)[127]);
  std::vector<float> sixty_four(64 * 128);
  encoding.encode(Positions::range(64), sixty_four);
  CHECK(sixty_four[63 * 128 + 127] == static_cast<float>(std::cos(63 * std::pow(10000.0, -126.0 / 128))));
  std::vector<float> cut(64 * 64);
  CHECK(code_of([&] { encoding.encode(Positions::range(64), cut); }) == ErrorCode::kShape);
}

TEST_CASE("G02, G03, G12: no two of the first 8192 positions share a row") {
  const Sinusoidal encoding(config(64));
  std::set<std::vector<float>> distinct;
  for (std::int32_t p = 0; p < 8192; ++p) distinct.insert(row_of(encoding, p));
  CHECK(distinct.size() == 8192);
  CHECK(row_of(encoding, 15962)[1] == doctest::Approx(-0.90802).epsilon(1e-5));
}

TEST_CASE("G04, G05: the phase at the end of a long context is exact to float32's own rounding") {
  const Sinusoidal encoding(config(128));
  // Independent: the same angle in long double.
  for (const std::int32_t p : {511, 2047, 4095, 131071}) {
    const auto row = row_of(encoding, p);
    for (int i = 0; i < 64; ++i) {
      const long double angle = p * std::pow(10000.0L, -2.0L * i / 128);
      CHECK(std::abs(row[static_cast<std::size_t>(2 * i)] - static_cast<double>(std::sin(angle))) <= 3.1e-8);
    }
  }
}

TEST_CASE("G10: sines and cosines of large angles stay within 1 and on the circle") {
  auto c = config(2);
  for (const double angle : {51981.5, 103963.5, 1e6, 16793388.0}) {
    c.max_frequency = angle;
    const auto row = row_of(Sinusoidal(c), 1);
    CHECK(std::abs(row[0]) <= 1.0f);
    CHECK(row[0] == static_cast<float>(std::sin(angle)));
    CHECK(row[1] == static_cast<float>(std::cos(angle)));
  }
}

TEST_CASE("sinusoidal: add works in place, shares rows across the batch and leaves padding alone") {
  Sinusoidal encoding(config(6));
  encoding.prepare(3);
  const std::int32_t lengths[] = {3, 5}, offsets[] = {2, 0};
  const Positions positions = Positions::padded(lengths, 5, PaddingSide::kLeft, offsets);
  std::vector<float> x(60);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  std::vector<float> encoded(60), out(60), in_place = x;
  encoding.encode(positions, encoded);
  encoding.add(x, positions, out);
  encoding.add(in_place, positions, in_place);
  for (std::size_t i = 0; i < 60; ++i) CHECK(out[i] == x[i] + encoded[i]);
  CHECK(in_place == out);
  for (std::size_t i = 0; i < 12; ++i) {  // two padded tokens
    CHECK(encoded[i] == 0.0f);
    CHECK(out[i] == x[i]);
  }
  // Row 0's first valid token and row 1's third stand at position 2.
  for (std::size_t c = 0; c < 6; ++c) CHECK(encoded[2 * 6 + c] == encoded[7 * 6 + c]);
}

TEST_CASE("sinusoidal: a position offset moves the origin and nothing else") {
  auto moved = config(10);
  moved.position_offset = 2;
  CHECK(row_of(Sinusoidal(moved), 5) == row_of(Sinusoidal(config(10)), 7));
}

TEST_CASE("sinusoidal: bad input is answered by its code, and the object stays usable") {
  for (const std::int32_t width : {0, -1, (1 << 20) + 1}) {
    CHECK(code_of([&] { Sinusoidal(config(width)); }) == ErrorCode::kArgument);
  }
  for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    auto c = config(8);
    c.base = bad;
    CHECK(code_of([&] { Sinusoidal{c}; }) == ErrorCode::kArgument);
    c = config(8);
    c.max_frequency = bad;
    CHECK(code_of([&] { Sinusoidal{c}; }) == ErrorCode::kArgument);
  }
  auto c = config(8);
  c.base = 1e-300;
  c.max_frequency = 1e300;
  CHECK(code_of([&] { Sinusoidal{c}; }) == ErrorCode::kArgument);
  c = config(8);
  c.scale = std::nan("");
  CHECK(code_of([&] { Sinusoidal{c}; }) == ErrorCode::kArgument);
  Sinusoidal encoding(config(8));
  std::vector<float> out(8);
  CHECK(code_of([&] { encoding.row(-1, out); }) == ErrorCode::kPositionRange);
  CHECK(code_of([&] { encoding.row(0, std::span(out).first(7)); }) == ErrorCode::kShape);
  CHECK(code_of([&] { encoding.prepare(-1); }) == ErrorCode::kArgument);
  CHECK(code_of([&] { encoding.prepare(std::int64_t{1} << 32); }) == ErrorCode::kArgument);
  CHECK(code_of([&] { encoding.add(out, Positions::range(2), out); }) == ErrorCode::kShape);
  encoding.add(out, Positions::range(1), out);
  CHECK(out[1] == 1.0f);
}

TEST_CASE("sinusoidal: describes itself") {
  const MethodDescription d = Sinusoidal(config(8, SinusoidLayout::kTensor2Tensor)).describe();
  CHECK(d.name == "sinusoidal, tensor2tensor");
  CHECK(d.door == Door::kInput);
  CHECK(d.reference == Reference::kAbsolute);
  CHECK(d.parameters[1].name == "base");
  CHECK(d.parameters[1].value == "10000");
  CHECK(d.direction == "none");
}
