// The tile functions by themselves, for every number of rows that a tile may have, under every instruction set: against
// sums in double, and to the bit against themselves where they fetch what is read next.
//
// Tolerance: a float32 sum of n products of numbers about 1 is off by about 2^-24 n.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "instruction_sets.hpp"
#include "locant/attention/aligned.hpp"
#include "locant/simd/tiles.hpp"

using namespace locant;
using locant::test::under_every_set;
using simd::kPanelWidth;
using simd::kTileKeys;
using simd::Write;

namespace {

AlignedFloats random_floats(std::mt19937& random, std::size_t count) {
  AlignedFloats x = aligned_zeros<float>("test", count);
  std::uniform_real_distribution<float> number(-1, 1);
  for (std::size_t i = 0; i < count; ++i) x[i] = number(random);
  return x;
}

}  // namespace

TEST_CASE("a product of every number of rows is the sum that it says, whether or not it fetches ahead") {
  std::mt19937 random(1);
  under_every_set([&] {
    const simd::Tiles& set = simd::tiles();
    for (std::size_t rows = 1; rows <= set.rows; ++rows) {
      for (const std::size_t depth : {4, 12, 16, 20, 64, 68}) {
        for (const std::size_t panel_count : {1, 2, 3, 4}) {
          CAPTURE(rows);
          CAPTURE(depth);
          CAPTURE(panel_count);
          const std::size_t panel_stride = depth * kPanelWidth, stride = panel_count * kPanelWidth;
          const AlignedFloats packed = random_floats(random, depth * rows), panels = random_floats(random, panel_count * panel_stride);
          const AlignedFloats before = random_floats(random, rows * stride), next = random_floats(random, 1000);
          for (const Write write : {Write::kReplace, Write::kAdd}) {
            std::vector<float> plain(before.get(), before.get() + rows * stride), ahead = plain;
            set.product(rows, packed.get(), panels.get(), panel_stride, panel_count, depth, plain.data(), stride, write, {});
            set.product(rows, packed.get(), panels.get(), panel_stride, panel_count, depth, ahead.data(), stride, write,
                        {next.get(), 1000});
            CHECK(plain == ahead);
            double worst = 0;
            for (std::size_t r = 0; r < rows; ++r) {
              for (std::size_t c = 0; c < stride; ++c) {
                double sum = write == Write::kAdd ? static_cast<double>(before[r * stride + c]) : 0.0;
                for (std::size_t d = 0; d < depth; ++d) {
                  sum += static_cast<double>(packed[d * rows + r]) *
                         static_cast<double>(panels[c / kPanelWidth * panel_stride + d * kPanelWidth + c % kPanelWidth]);
                }
                worst = std::max(worst, std::abs(sum - static_cast<double>(plain[r * stride + c])));
              }
            }
            CHECK(worst < 1e-5);
          }
        }
      }
    }
  });
}

TEST_CASE("a mixture of every number of rows is the sum that it says, whether or not it fetches ahead") {
  std::mt19937 random(2);
  under_every_set([&] {
    const simd::Tiles& set = simd::tiles();
    for (std::size_t rows = 1; rows <= set.rows; ++rows) {
      for (const std::size_t keys : {4, 16, 20, 48, 64}) {
        for (const std::size_t width : {16, 32, 48, 80}) {
          CAPTURE(rows);
          CAPTURE(keys);
          CAPTURE(width);
          const AlignedFloats weights = random_floats(random, rows * kTileKeys), values = random_floats(random, width * kTileKeys);
          const AlignedFloats before = random_floats(random, rows * width), carry = random_floats(random, rows);
          const AlignedFloats next = random_floats(random, 4096);
          for (const float* carried : {static_cast<const float*>(nullptr), static_cast<const float*>(carry.get())}) {
            AlignedFloats plain = aligned_zeros<float>("test", rows * width), ahead = aligned_zeros<float>("test", rows * width);
            std::copy_n(before.get(), rows * width, plain.get());
            std::copy_n(before.get(), rows * width, ahead.get());
            set.mixture(rows, weights.get(), keys, values.get(), width, carried, plain.get(), {});
            set.mixture(rows, weights.get(), keys, values.get(), width, carried, ahead.get(), {next.get(), 4096});
            double worst = 0;
            bool same = true;
            for (std::size_t r = 0; r < rows; ++r) {
              for (std::size_t c = 0; c < width; ++c) {
                const std::size_t at = r * width + c;
                double sum = static_cast<double>(before[at]) * (carried != nullptr ? static_cast<double>(carry[r]) : 1.0);
                for (std::size_t j = 0; j < keys; ++j) {
                  sum += static_cast<double>(weights[r * kTileKeys + j]) *
                         static_cast<double>(values[(c / kPanelWidth * kTileKeys + j) * kPanelWidth + c % kPanelWidth]);
                }
                worst = std::max(worst, std::abs(sum - static_cast<double>(plain[at])));
                same = same && plain[at] == ahead[at];
              }
            }
            CHECK(worst < 1e-5);
            CHECK(same);
          }
        }
      }
    }
  });
}
