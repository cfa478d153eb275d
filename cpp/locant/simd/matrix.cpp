#include "locant/simd/matrix.hpp"

#include <algorithm>

#include "locant/error.hpp"
#include "locant/simd/transpose.hpp"

namespace locant::simd {
namespace {

// Inputs that one pass goes over at most: 16 outputs x 320 x 4 bytes = 20 KB of weights stay in the first-level
// cache while the rows pass by. Passes are of nearly equal depth: 576 is better off as 288 + 288 than as 320 + 256.
constexpr std::size_t kPassDepth = 320;
// Rows whose packed numbers stay in the second-level cache: 192 x 320 x 4 bytes = 240 KB.
constexpr std::size_t kPassRows = 192;
// Few rows read every weight once, as fast as memory gives it: a processor fetches ahead within each 4 KB page, so one
// stream waits at every page and several do not wait at the same time. Bursts are a quarter of a page.
constexpr std::size_t kStreams = 8, kBurst = 16;

// 2^31 - 1: what a size in a model file can be.
constexpr std::int64_t kMostOutputsOrInputs = 2147483647;

std::size_t round_up(std::size_t x, std::size_t step) { return (x + step - 1) / step * step; }

// Inputs [first, first + depth) of `rows` rows, interleaved; zeros past the end of the inputs.
void pack(const float* x, std::size_t stride, std::size_t inputs, std::size_t first, std::size_t depth, std::size_t rows,
          float* packed) {
  const std::size_t there = std::min(depth, inputs - first);
  lay_side_by_side(x + first, stride, rows, there, nullptr, packed, rows);
  std::fill(packed + there * rows, packed + depth * rows, 0.0f);
}

}  // namespace

float* Workspace::floats(std::size_t count) {
  if (count > size_) {
    floats_ = nullptr;
    size_ = 0;
    floats_ = aligned_zeros<float>("multiply", count);
    size_ = count;
  }
  return floats_.get();
}

PackedMatrix::PackedMatrix(std::span<const float> w, std::int64_t outputs, std::int64_t inputs) {
  constexpr const char* kCall = "packed matrix";
  require_range(kCall, "outputs", outputs, 1, kMostOutputsOrInputs);
  require_range(kCall, "inputs", inputs, 1, kMostOutputsOrInputs);
  require_size(kCall, "weights", w.size(), checked_product(kCall, "weights", {outputs, inputs}),
               sentence(outputs, " outputs x ", inputs, " inputs"));
  outputs_ = static_cast<std::size_t>(outputs);
  inputs_ = static_cast<std::size_t>(inputs);
  panels_ = (outputs_ + kPanelWidth - 1) / kPanelWidth;
  depth_ = round_up(inputs_, kDepthStep);
  w_ = aligned_zeros<float>(kCall, checked_product(kCall, "packed weights",
                                                   {static_cast<std::int64_t>(panels_), static_cast<std::int64_t>(depth_),
                                                    static_cast<std::int64_t>(kPanelWidth)}));
  for (std::size_t o = 0; o < outputs_; o += kPanelWidth) {
    lay_side_by_side(w.data() + o * inputs_, inputs_, std::min(kPanelWidth, outputs_ - o), inputs_, nullptr,
                     w_.get() + o * depth_, kPanelWidth);
  }
}

void PackedMatrix::read_row(std::size_t output, std::span<float> row) const {
  require_range("read_row", "the output", static_cast<std::int64_t>(output), 0, static_cast<std::int64_t>(outputs_) - 1);
  require_size("read_row", "the row", row.size(), inputs_, "inputs");
  const float* lane = w_.get() + output / kPanelWidth * depth_ * kPanelWidth + output % kPanelWidth;
  for (std::size_t d = 0; d < inputs_; ++d) row[d] = lane[d * kPanelWidth];
}

void PackedMatrix::multiply(std::span<const float> x, std::size_t rows, std::span<float> y, Workspace& work,
                            Write write) const {
  constexpr const char* kCall = "multiply";
  const auto count = static_cast<std::int64_t>(rows);
  require_size(kCall, "x", x.size(), checked_product(kCall, "x", {count, static_cast<std::int64_t>(inputs_)}),
               sentence(rows, " rows x ", inputs_, " inputs"));
  require_size(kCall, "y", y.size(), checked_product(kCall, "y", {count, static_cast<std::int64_t>(outputs_)}),
               sentence(rows, " rows x ", outputs_, " outputs"));
  if (rows == 0 || outputs_ == 0) return;
  const Tiles& set = tiles();
  const std::size_t whole = outputs_ / kPanelWidth, rest = outputs_ % kPanelWidth;
  const std::size_t pass_rows = std::min(rows, kPassRows / set.rows * set.rows);
  const std::size_t passes = rows <= set.rows ? 1 : (depth_ + kPassDepth - 1) / kPassDepth;
  const std::size_t pass_depth = round_up((depth_ + passes - 1) / passes, kDepthStep);
  float* packed = work.floats(pass_rows * pass_depth);
  float last[kTileRows * kPanelWidth];  // the panel that is not full

  for (std::size_t r0 = 0; r0 < rows; r0 += pass_rows) {
    // Full tiles, and the last two of nearly equal size: 8 rows are better off as 4 + 4 than as 6 + 2.
    const std::size_t held = std::min(pass_rows, rows - r0), count_of_tiles = (held + set.rows - 1) / set.rows;
    const std::size_t full_tiles = count_of_tiles - std::min<std::size_t>(count_of_tiles, 2);
    const auto tile_begin = [&](std::size_t t) {
      if (t <= full_tiles) return t * set.rows;
      return full_tiles * set.rows + (t - full_tiles) * (held - full_tiles * set.rows) / (count_of_tiles - full_tiles);
    };
    for (std::size_t d0 = 0; d0 < depth_; d0 += pass_depth) {
      const std::size_t depth = std::min(pass_depth, depth_ - d0);
      const Write now = d0 == 0 ? write : Write::kAdd;
      for (std::size_t t = 0; t < count_of_tiles; ++t) {
        const std::size_t first = tile_begin(t);
        pack(x.data() + (r0 + first) * inputs_, inputs_, inputs_, d0, depth, tile_begin(t + 1) - first,
             packed + first * depth);
      }
      // Few rows: the weights come from memory, and several panels are read side by side. Many: each panel meets all
      // rows while it is near.
      const std::size_t together = count_of_tiles == 1 ? kStreams : 1, burst = count_of_tiles == 1 ? kBurst : depth;
      for (std::size_t p = 0; p < whole; p += together) {
        for (std::size_t d = 0; d < depth; d += burst) {
          const float* w = w_.get() + (p * depth_ + d0 + d) * kPanelWidth;
          for (std::size_t t = 0; t < count_of_tiles; ++t) {
            const std::size_t first = tile_begin(t), tile_rows = tile_begin(t + 1) - first;
            set.product(tile_rows, packed + first * depth + d * tile_rows, w, depth_ * kPanelWidth,
                        std::min(together, whole - p), std::min(burst, depth - d),
                        y.data() + (r0 + first) * outputs_ + p * kPanelWidth, outputs_, d == 0 ? now : Write::kAdd, {});
          }
        }
      }
      if (rest == 0) continue;
      const float* w = w_.get() + (whole * depth_ + d0) * kPanelWidth;
      for (std::size_t t = 0; t < count_of_tiles; ++t) {
        const std::size_t first = tile_begin(t), tile_rows = tile_begin(t + 1) - first;
        set.product(tile_rows, packed + first * depth, w, depth_ * kPanelWidth, 1, depth, last, kPanelWidth,
                    Write::kReplace, {});
        for (std::size_t r = 0; r < tile_rows; ++r) {
          float* out = y.data() + (r0 + first + r) * outputs_ + whole * kPanelWidth;
          for (std::size_t c = 0; c < rest; ++c) {
            out[c] = last[r * kPanelWidth + c] + (now == Write::kAdd ? out[c] : 0.0f);
          }
        }
      }
    }
  }
}

}  // namespace locant::simd
