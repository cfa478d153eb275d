// The kernel against the plain definition in double, over random shapes, masks and batches, under every
// instruction set that the machine has.
//
// Tolerance. Scores are float32 sums of head_dim products (relative error about 2^-24 sqrt(head_dim)) and so
// carry an absolute error of about |s| 2^-22, which the softmax turns into a relative error of the weights; the
// weights sum to 1, so outputs are off by that times the largest value. With |s| < 10 and |v| < 5 this is under
// 1e-5; kTolerance leaves a factor of two.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "locant/attention/attention.hpp"
#include "instruction_sets.hpp"

using namespace locant;
using locant::test::under_every_set;

namespace {

constexpr double kTolerance = 2e-5;

using Floats = std::vector<float>;

Floats random_floats(std::mt19937& random, std::size_t count, float size = 1) {
  std::normal_distribution<float> normal(0, size);
  Floats x(count);
  for (float& value : x) value = normal(random);
  return x;
}

std::size_t values(std::size_t tokens, std::int32_t heads, std::int32_t width) {
  return tokens * static_cast<std::size_t>(heads) * static_cast<std::size_t>(width);
}

struct Inputs {
  Floats q, k, v;
};

Inputs random_inputs(std::mt19937& random, const AttentionShape& shape, std::size_t queries, std::size_t keys,
                     float size = 1) {
  return {random_floats(random, values(queries, shape.heads, shape.head_dim), size),
          random_floats(random, values(keys, shape.kv_heads, shape.head_dim), size),
          random_floats(random, values(keys, shape.kv_heads, shape.value_dim))};
}

double largest_difference(const Floats& a, const Floats& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - b[i]);
    if (std::isnan(a[i]) != std::isnan(b[i])) return std::numeric_limits<double>::infinity();
    if (d > most) most = d;
  }
  return most;
}

Positions random_positions(std::mt19937& random, std::int32_t kind, std::int32_t rows) {
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(rows));
  std::int32_t longest = 1;
  for (auto& n : lengths) {
    const std::int32_t awkward[] = {0, 1, 2, 7, 15, 16, 17, 31, 63, 64, 65, 97, 130};
    n = awkward[random() % std::size(awkward)];
    longest = std::max(longest, n);
  }
  switch (kind) {
    case 0: return Positions::ragged(lengths);
    case 1: return Positions::padded(lengths, longest + 3, PaddingSide::kLeft);
    case 2: return Positions::padded(lengths, longest + 3, PaddingSide::kRight);
    case 3: return Positions::packed(lengths, PackedPositions::kRestart);
    default: {
      std::vector<std::uint8_t> mask(static_cast<std::size_t>(rows * longest));
      for (auto& m : mask) m = random() % 4 != 0;
      return Positions::from_padding_mask(rows, longest, mask);
    }
  }
}

Mask random_mask(std::mt19937& random, const Positions& positions) {
  Mask mask;
  if (random() % 3 == 0) mask.direction = Direction::kBidirectional;
  if (random() % 3 == 0) {
    mask.window = Window{static_cast<std::int32_t>(1 + random() % 70),
                         random() % 2 ? WindowConvention::kCountsCurrent : WindowConvention::kBeforeCurrent,
                         static_cast<std::int32_t>(random() % 4)};
  }
  if (random() % 4 == 0) mask.chunk = static_cast<std::int32_t>(1 + random() % 90);
  if (random() % 4 == 0) mask.prefix = {static_cast<std::int32_t>(random() % 40)};
  if (random() % 4 == 0) {
    for (std::int32_t r = 0; r < positions.rows(); ++r) {
      const std::size_t pairs = positions.row_length(r) * positions.row_length(r);
      for (std::size_t i = 0; i < pairs; ++i) mask.visible.push_back(random() % 5 != 0);
    }
  }
  return mask;
}

AttentionShape random_shape(std::mt19937& random) {
  const std::int32_t dims[] = {1, 3, 8, 15, 16, 17, 32, 48, 64, 65, 80, 128};
  AttentionShape shape;
  shape.kv_heads = static_cast<std::int32_t>(1 + random() % 3);
  shape.heads = shape.kv_heads * static_cast<std::int32_t>(1 + random() % 8);
  shape.head_dim = dims[random() % std::size(dims)];
  shape.value_dim = random() % 2 ? shape.head_dim : dims[random() % std::size(dims)];
  return shape;
}

}  // namespace

TEST_CASE("attention: equals the definition over random shapes, masks and batches, under every instruction set") {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    AttentionConfig config;
    config.shape = random_shape(random);
    const Positions positions = random_positions(random, round % 5, static_cast<std::int32_t>(1 + random() % 3));
    config.mask = random_mask(random, positions);
    if (random() % 4 == 0) config.soft_cap = 5.0;
    if (random() % 4 == 0) config.scale = 0.7;
    if (random() % 4 == 0) config.temperature = Temperature{0.3, 16, 1};
    if (random() % 4 == 0) config.sink_logits = random_floats(random, static_cast<std::size_t>(config.shape.heads));
    const Inputs x = random_inputs(random, config.shape, positions.tokens(), positions.tokens());
    Floats expected(values(positions.tokens(), config.shape.heads, config.shape.value_dim)), out(expected.size());
    reference_attend(config, x.q, positions, x.k, x.v, positions, expected);
    const Attention attention(config);
    CAPTURE(round);
    under_every_set([&] {
      std::fill(out.begin(), out.end(), -7.0f);
      attention.attend(x.q, x.k, x.v, positions, out);
      CHECK(largest_difference(out, expected) < kTolerance);
    });
  }
}

TEST_CASE("attention: queries of their own equal the definition, and every tile size every other, under every set") {
  std::mt19937 random(17);
  for (int round = 0; round < 30; ++round) {
    AttentionConfig config;
    config.shape = random_shape(random);
    const auto rows = static_cast<std::int32_t>(1 + random() % 3);
    std::vector<std::int32_t> keys(static_cast<std::size_t>(rows)), queries(keys.size()), offsets(keys.size());
    for (std::size_t r = 0; r < keys.size(); ++r) {
      const std::int32_t awkward[] = {0, 1, 5, 6, 7, 11, 12, 13, 63, 64, 65, 129};
      keys[r] = awkward[random() % std::size(awkward)];
      queries[r] = awkward[random() % std::size(awkward)];
      offsets[r] = static_cast<std::int32_t>(random() % 80);
    }
    const Positions asking = Positions::ragged(queries, offsets), held = Positions::ragged(keys);
    config.mask = random_mask(random, Positions::ragged({}));
    const Inputs x = random_inputs(random, config.shape, asking.tokens(), held.tokens());
    Floats expected(values(asking.tokens(), config.shape.heads, config.shape.value_dim)), out(expected.size()), first;
    reference_attend(config, x.q, asking, x.k, x.v, held, expected);
    const Attention attention(config);
    CAPTURE(round);
    // 6 rows of queries a tile in SSE2 and AVX2, 12 in AVX-512, with vectors of 4, 8 and 16 keys.
    under_every_set([&] {
      std::fill(out.begin(), out.end(), -7.0f);
      attention.attend(x.q, asking, x.k, x.v, held, out);
      CHECK(largest_difference(out, expected) < kTolerance);
      if (first.empty()) first = out;
      CHECK(largest_difference(out, first) < kTolerance);
    });
  }
}
