// The edges of attention: what must not leak, what must be zero, what must be an error, and numbers that are
// large, tiny, equal or no numbers at all. Under every instruction set where the arithmetic is what is tested.
//
// Tolerances: outputs are mixtures of values of size 1 or so. kTolerance is float32's rounding of such sums and
// of scores below 10 (attention_kernel_test.cpp). Scores of 10^4 carry an absolute error of 10^4 * 2^-23, about
// 1e-3, whatever the algorithm, so there the differences between scores are made exact instead.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "locant/attention/attention.hpp"
#include "locant/rotary/rules.hpp"
#include "instruction_sets.hpp"

using namespace locant;
using locant::test::under_every_set;

namespace {

constexpr double kTolerance = 2e-5;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
using Floats = std::vector<float>;

Floats random_floats(std::mt19937& random, std::size_t count) {
  std::normal_distribution<float> normal;
  Floats x(count);
  for (float& value : x) value = normal(random);
  return x;
}

std::size_t size_of(std::size_t tokens, std::int32_t heads, std::int32_t width) {
  return tokens * static_cast<std::size_t>(heads) * static_cast<std::size_t>(width);
}

struct Batch {
  AttentionConfig config;
  Positions positions;
  Floats q, k, v;
  Floats attend() const {
    Floats out(size_of(positions.tokens(), config.shape.heads, config.shape.value_dim), -7.0f);
    Attention(config).attend(q, k, v, positions, out);
    return out;
  }
  Floats reference() const {
    Floats out(size_of(positions.tokens(), config.shape.heads, config.shape.value_dim), -7.0f);
    reference_attend(config, q, positions, k, v, positions, out);
    return out;
  }
};

Batch random_batch(std::mt19937& random, const AttentionShape& shape, Positions positions) {
  Batch b;
  b.config.shape = shape;
  b.q = random_floats(random, size_of(positions.tokens(), shape.heads, shape.head_dim));
  b.k = random_floats(random, size_of(positions.tokens(), shape.kv_heads, shape.head_dim));
  b.v = random_floats(random, size_of(positions.tokens(), shape.kv_heads, shape.value_dim));
  b.positions = std::move(positions);
  return b;
}

double largest_difference(const Floats& a, const Floats& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return kInfinity;
    most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return most;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The part of a token-major tensor that belongs to one token.
std::span<const float> token(const Floats& x, std::size_t t, std::int32_t heads, std::int32_t width) {
  const std::size_t each = size_of(1, heads, width);
  return {x.data() + t * each, each};
}

std::shared_ptr<const Rotation> rotation_of(std::int32_t head_dim) {
  RotaryShape shape;
  shape.width = head_dim;
  return std::make_shared<Rotation>(resolve(shape), head_dim);
}

}  // namespace

TEST_CASE("attention: with rotation, every set equals the definition, ragged rows and offsets included") {
  std::mt19937 random(31);
  const std::int32_t lengths[] = {70, 1, 17}, offsets[] = {0, 5000, 31};
  Batch b = random_batch(random, {6, 2, 64, 48}, Positions::ragged(lengths, offsets));
  b.config.rotation = rotation_of(64);
  const Floats expected = b.reference();
  under_every_set([&] { CHECK(largest_difference(b.attend(), expected) < kTolerance); });
}

TEST_CASE("attention: NaN and infinity in a value reach the rows that may see it and no other") {
  std::mt19937 random(32);
  for (const float bad : {kNaN, kInfinity, -kInfinity}) {
    for (const std::size_t at : {0u, 5u, 40u, 63u, 64u, 99u}) {
      Batch b = random_batch(random, {4, 2, 16, 20}, Positions::range(100));
      const Floats clean = b.attend();
      b.v[at * 2 * 20 + 20 + 7] = bad;  // key head 1, column 7: query heads 2 and 3
      under_every_set([&] {
        const Floats before = [&] { Batch c = b; c.v[at * 2 * 20 + 20 + 7] = 0.5f; return c.attend(); }();
        const Floats out = b.attend();
        for (std::size_t t = 0; t < 100; ++t) {
          for (std::size_t h = 0; h < 4; ++h) {
            for (std::size_t c = 0; c < 20; ++c) {
              const float y = out[(t * 4 + h) * 20 + c];
              if (t >= at && h >= 2 && c == 7) {
                CHECK_FALSE(std::isfinite(y));
              } else {
                CHECK(y == doctest::Approx(before[(t * 4 + h) * 20 + c]).epsilon(1e-4));
              }
            }
          }
        }
      });
      CHECK(clean.size() == 100 * 4 * 20);
    }
  }
}

TEST_CASE("attention: NaN and infinity in a key reach the rows that may see it and no other") {
  std::mt19937 random(33);
  for (const float bad : {kNaN, kInfinity}) {
    for (const std::size_t at : {0u, 40u, 99u}) {
      Batch b = random_batch(random, {2, 2, 16, 16}, Positions::range(100));
      Batch poisoned = b;
      poisoned.k[at * 2 * 16 + 3] = bad;  // head 0
      under_every_set([&] {
        const Floats clean = b.attend(), out = poisoned.attend();
        for (std::size_t t = 0; t < 100; ++t) {
          for (std::size_t c = 0; c < 16; ++c) {
            CHECK(out[(t * 2 + 1) * 16 + c] == clean[(t * 2 + 1) * 16 + c]);
            if (t < at) CHECK(out[t * 2 * 16 + c] == clean[t * 2 * 16 + c]);
          }
        }
        // An infinite key scores +infinity or -infinity by the query's sign: the first makes the row NaN.
        if (std::isnan(bad)) {
          for (std::size_t t = at; t < 100; ++t) CHECK(std::isnan(out[t * 2 * 16]));
        }
      });
    }
  }
}

TEST_CASE("attention: changing padded tokens, even to NaN, changes nothing else by a single bit (B)") {
  std::mt19937 random(34);
  for (const PaddingSide side : {PaddingSide::kLeft, PaddingSide::kRight}) {
    const std::int32_t lengths[] = {9, 33, 70};
    Batch b = random_batch(random, {6, 3, 24, 24}, Positions::padded(lengths, 80, side));
    b.config.mask.direction = Direction::kBidirectional;
    under_every_set([&] {
      const Floats before = b.attend();
      for (const float poison : {100.0f, kNaN}) {
        Batch poked = b;
        for (std::size_t t = 0; t < b.positions.tokens(); ++t) {
          if (b.positions.valid()[t] != 0) continue;
          std::fill_n(poked.q.begin() + static_cast<std::ptrdiff_t>(t * 6 * 24), 6 * 24, poison);
          std::fill_n(poked.k.begin() + static_cast<std::ptrdiff_t>(t * 3 * 24), 3 * 24, poison);
          std::fill_n(poked.v.begin() + static_cast<std::ptrdiff_t>(t * 3 * 24), 3 * 24, poison);
        }
        const Floats after = poked.attend();
        for (std::size_t t = 0; t < b.positions.tokens(); ++t) {
          for (std::size_t i = 0; i < 6 * 24; ++i) {
            if (b.positions.valid()[t] == 0) {
              CHECK(after[t * 6 * 24 + i] == 0.0f);  // receives nothing
            } else {
              CHECK(after[t * 6 * 24 + i] == before[t * 6 * 24 + i]);
            }
          }
        }
      }
    });
  }
}

TEST_CASE("attention: changing one packed document changes the others by exactly 0 (C)") {
  std::mt19937 random(35);
  const std::int32_t lengths[] = {5, 64, 17, 40};
  Batch b = random_batch(random, {4, 1, 32, 32}, Positions::packed(lengths, PackedPositions::kRestart));
  b.config.rotation = rotation_of(32);
  under_every_set([&] {
    const Floats before = b.attend();
    Batch poked = b;
    for (std::size_t t = 5; t < 69; ++t) {  // the second document
      poked.k[t * 32] += 1;
      poked.v[t * 32] += 1;
      poked.q[t * 4 * 32] += 1;
    }
    const Floats after = poked.attend();
    bool changed = false;
    for (std::size_t t = 0; t < b.positions.tokens(); ++t) {
      for (std::size_t i = 0; i < 4 * 32; ++i) {
        if (t < 5 || t >= 69) CHECK(after[t * 4 * 32 + i] == before[t * 4 * 32 + i]);
        else changed = changed || after[t * 4 * 32 + i] != before[t * 4 * 32 + i];
      }
    }
    CHECK(changed);
  });
}

TEST_CASE("attention: a document alone equals the same document packed, and a row alone the row of a batch") {
  std::mt19937 random(36);
  const std::int32_t lengths[] = {33, 20, 50};
  Batch b = random_batch(random, {4, 2, 16, 16}, Positions::packed(lengths, PackedPositions::kRestart));
  b.config.rotation = rotation_of(16);
  const Floats packed = b.attend();
  std::size_t at = 0;
  for (const std::int32_t length : lengths) {
    const auto count = static_cast<std::size_t>(length);
    Batch alone;
    alone.config = b.config;
    alone.positions = Positions::range(length);
    const auto part = [&](const Floats& x, std::size_t width) {
      return Floats(x.begin() + static_cast<std::ptrdiff_t>(at * width), x.begin() + static_cast<std::ptrdiff_t>((at + count) * width));
    };
    alone.q = part(b.q, 4 * 16);
    alone.k = part(b.k, 2 * 16);
    alone.v = part(b.v, 2 * 16);
    CHECK(largest_difference(alone.attend(), part(packed, 4 * 16)) < kTolerance);
    at += count;
  }
}

TEST_CASE("attention: a query that sees nothing gives zeros, with sink logits and without") {
  std::mt19937 random(37);
  Batch b = random_batch(random, {2, 1, 8, 8}, Positions::range(40));
  b.config.mask.visible.assign(40 * 40, 1);
  for (std::size_t j = 0; j < 40; ++j) b.config.mask.visible[7 * 40 + j] = 0;
  for (const bool sinks : {false, true}) {
    if (sinks) b.config.sink_logits = {0.5f, 3.0f};
    const Floats expected = b.reference();
    under_every_set([&] {
      const Floats out = b.attend();
      for (const float y : token(out, 7, 2, 8)) CHECK(y == 0.0f);
      CHECK(largest_difference(out, expected) < kTolerance);
    });
  }
}

TEST_CASE("attention: scores of 10^4, of both signs, neither overflow nor lose the largest") {
  std::mt19937 random(38);
  Batch b = random_batch(random, {1, 1, 4, 4}, Positions::range(150));
  b.config.scale = 1.0;
  // Scores are whole numbers of thousands: exact in float32, so the weights are exactly 1 or below 2^-1000.
  for (std::size_t t = 0; t < 150; ++t) {
    for (std::size_t d = 0; d < 4; ++d) b.q[t * 4 + d] = d == 0 ? 100.0f : 0.0f;
    b.k[t * 4] = static_cast<float>((t * 37) % 201) - 100.0f;
  }
  const Floats expected = b.reference();
  under_every_set([&] { CHECK(largest_difference(b.attend(), expected) < kTolerance); });
}

TEST_CASE("attention: scores that rise slowly, fall or leap from key to key equal the definition") {
  // The softmax takes scores from a base that follows the highest one late (simd/tiles.hpp): steps below, at and
  // above what it waits for, sinks of either size, rows that first see something in a later block.
  std::mt19937 random(41);
  for (const float step : {0.001f, 0.03f, 0.5f, 2.77f, 2.78f, 40.0f, -0.03f, -2.0f}) {
    for (const float sink : {-60.0f, 0.0f, 60.0f}) {
      Batch b = random_batch(random, {2, 1, 4, 5}, Positions::range(210));
      b.config.scale = 1.0;
      b.config.sink_logits = {sink, -sink};
      b.config.mask.window = Window{130, WindowConvention::kCountsCurrent, 0};
      for (std::size_t t = 0; t < 210; ++t) {
        for (std::size_t h = 0; h < 2; ++h) std::fill_n(b.q.begin() + static_cast<std::ptrdiff_t>(t * 8 + h * 4), 4, h == 0 ? 1.0f : 0.25f);
        std::fill_n(b.k.begin() + static_cast<std::ptrdiff_t>(t * 4), 4, 0.0f);
        b.k[t * 4] = step * static_cast<float>(t % 90);
      }
      const Floats expected = b.reference();
      under_every_set([&] { CHECK(largest_difference(b.attend(), expected) < kTolerance); });
    }
  }
}

TEST_CASE("attention: all scores equal gives the mean of what is seen") {
  std::mt19937 random(39);
  for (const float size : {0.0f, 1e4f, -1e4f}) {
    Batch b = random_batch(random, {1, 1, 1, 3}, Positions::range(90));
    b.config.scale = 1.0;
    std::fill(b.q.begin(), b.q.end(), 1.0f);
    std::fill(b.k.begin(), b.k.end(), size);
    under_every_set([&] {
      const Floats out = b.attend();
      double mean = 0;
      for (std::size_t t = 0; t < 90; ++t) mean += b.v[t * 3 + 1];
      CHECK(out[89 * 3 + 1] == doctest::Approx(mean / 90).epsilon(1e-5));
      CHECK(out[1] == doctest::Approx(b.v[1]));
    });
  }
}

TEST_CASE("attention: denormal inputs give the definition's result") {
  std::mt19937 random(40);
  Batch b = random_batch(random, {2, 1, 8, 8}, Positions::range(33));
  for (float& x : b.v) x *= 1e-41f;
  for (float& x : b.k) x *= 1e-40f;
  const Floats expected = b.reference();
  // Denormals have an absolute spacing of 1.4e-45; the mixture of 33 of them is off by a few of those.
  under_every_set([&] { CHECK(largest_difference(b.attend(), expected) < 33 * 1.5e-45); });
}

TEST_CASE("attention: equal calls give equal bits, and any split of the queries the same result") {
  std::mt19937 random(41);
  Batch b = random_batch(random, {8, 2, 64, 64}, Positions::range(130));
  b.config.rotation = rotation_of(64);
  under_every_set([&] {
    const Floats whole = b.attend();
    CHECK(same_bits(whole, b.attend()));
    const Attention attention(b.config);
    for (const std::size_t chunk : {1u, 7u, 64u}) {
      Floats pieces(whole.size());
      for (std::size_t at = 0; at < 130; at += chunk) {
        const std::size_t count = std::min<std::size_t>(chunk, 130 - at), end = at + count;
        const Positions queries = b.positions.slice(static_cast<std::int64_t>(at), static_cast<std::int64_t>(count));
        const Positions keys = Positions::range(static_cast<std::int64_t>(end));
        attention.attend(std::span<const float>(b.q).subspan(at * 512, count * 512), queries,
                         std::span<const float>(b.k).first(end * 128), std::span<const float>(b.v).first(end * 128), keys,
                         std::span<float>(pieces).subspan(at * 512, count * 512));
      }
      // The split changes which rows share a tile and so how sums are ordered, nothing else.
      CHECK(largest_difference(pieces, whole) < kTolerance);
    }
  });
}

TEST_CASE("attention: heads alone equal heads together (grouped-query heads share nothing but keys)") {
  std::mt19937 random(42);
  Batch b = random_batch(random, {6, 2, 16, 8}, Positions::range(50));
  const Floats together = b.attend();
  for (std::size_t h = 0; h < 6; ++h) {
    Batch one;
    one.config.shape = {1, 1, 16, 8};
    one.positions = b.positions;
    for (std::size_t t = 0; t < 50; ++t) {
      const auto take = [&](Floats& to, const Floats& from, std::size_t heads, std::size_t head, std::size_t width) {
        const auto first = from.begin() + static_cast<std::ptrdiff_t>((t * heads + head) * width);
        to.insert(to.end(), first, first + static_cast<std::ptrdiff_t>(width));
      };
      take(one.q, b.q, 6, h, 16);
      take(one.k, b.k, 2, h / 3, 16);
      take(one.v, b.v, 2, h / 3, 8);
    }
    const Floats alone = one.attend();
    for (std::size_t t = 0; t < 50; ++t) {
      for (std::size_t c = 0; c < 8; ++c) {
        CHECK(alone[t * 8 + c] == doctest::Approx(together[(t * 6 + h) * 8 + c]).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("attention: explain gives weights that mix to what attend gives, and parts that add up") {
  std::mt19937 random(43);
  Batch b = random_batch(random, {4, 2, 16, 16}, Positions::range(30));
  b.config.rotation = rotation_of(16);
  b.config.soft_cap = 20.0;
  b.config.sink_logits = {0.1f, -0.2f, 0.3f, 0.0f};
  const Attention attention(b.config);
  const Floats out = b.attend();
  const WeightRequest requests[] = {{0, 0}, {3, 29}, {2, 14}};
  const auto parts = attention.explain(b.q, b.positions, b.k, b.positions, requests);
  REQUIRE(parts.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto head = static_cast<std::size_t>(requests[i].head), query = requests[i].query;
    for (std::size_t c = 0; c < 16; ++c) {
      double mix = 0;
      for (std::size_t j = 0; j < 30; ++j) mix += static_cast<double>(parts[i].weight[j]) * b.v[(j * 2 + head / 2) * 16 + c];
      CHECK(mix == doctest::Approx(out[(query * 4 + head) * 16 + c]).epsilon(1e-3));
    }
    for (std::size_t j = 0; j < 30; ++j) {
      if (j > query) {
        CHECK(parts[i].weight[j] == 0.0f);
        CHECK(parts[i].score[j] == -kInfinity);
      } else {
        CHECK(parts[i].content[j] + parts[i].position[j] == doctest::Approx(parts[i].score[j]).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("attention: bad configurations and tensors are errors, and the object goes on") {
  const auto code_of = [](const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    FAIL("no error");
    return ErrorCode::kUnsupported;
  };
  AttentionConfig config;
  config.shape = {4, 2, 8, 8};
  CHECK(code_of([&] { auto c = config; c.shape.kv_heads = 3; Attention a(c); }) == ErrorCode::kArgument);
  CHECK(code_of([&] { auto c = config; c.shape.head_dim = 0; Attention a(c); }) == ErrorCode::kArgument);
  CHECK(code_of([&] { auto c = config; c.rotation = rotation_of(16); Attention a(c); }) == ErrorCode::kShape);
  CHECK(code_of([&] { auto c = config; c.scale = std::nan(""); Attention a(c); }) == ErrorCode::kArgument);
  CHECK(code_of([&] { auto c = config; c.soft_cap = 0.0; Attention a(c); }) == ErrorCode::kArgument);
  CHECK(code_of([&] { auto c = config; c.sink_logits = {1.0f}; Attention a(c); }) == ErrorCode::kShape);
  CHECK(code_of([&] { auto c = config; c.temperature = Temperature{0.1, 0, 1}; Attention a(c); }) == ErrorCode::kArgument);

  std::mt19937 random(44);
  Batch b = random_batch(random, config.shape, Positions::range(5));
  const Attention attention(config);
  Floats out(5 * 4 * 8), few(3);
  CHECK(code_of([&] { attention.attend(few, b.k, b.v, b.positions, out); }) == ErrorCode::kShape);
  CHECK(code_of([&] { attention.attend(b.q, few, b.v, b.positions, out); }) == ErrorCode::kShape);
  CHECK(code_of([&] { attention.attend(b.q, b.k, few, b.positions, out); }) == ErrorCode::kShape);
  CHECK(code_of([&] { attention.attend(b.q, b.k, b.v, b.positions, few); }) == ErrorCode::kShape);
  const std::uint8_t visible[3] = {1, 1, 1};
  CHECK(code_of([&] { attention.attend(b.q, b.k, b.v, b.positions, out, {{}, visible}); }) == ErrorCode::kShape);
  attention.attend(b.q, b.k, b.v, b.positions, out);
  CHECK(largest_difference(out, b.reference()) < kTolerance);
  const Positions none;
  attention.attend({}, {}, {}, none, {});
}
