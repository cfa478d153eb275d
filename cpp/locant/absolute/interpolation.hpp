// Resampling of learned position tables to another length or grid.
//
// Every output sample reads the source at the centre of its cell (torch's align_corners = false):
//
//   source(i) = (i + 0.5) * old / new - 0.5
//
// and weights its neighbours, edge samples repeated beyond the border:
//
//   linear, bilinear   1 - |t|                           (2 neighbours an axis; clamped below 0 as torch does)
//   bicubic            cubic convolution, a = -0.75      (4 neighbours an axis), what ViT, DeiT and BEiT code call
//
// A table that keeps its size comes back bit for bit. Weights are computed in double, sums in double, rounded
// once: torch computes in float32, so its results differ by a few float32 steps of the largest value met.
//
// An interpolated table is no longer the trained one anywhere, and a vector depends on the length it was
// stretched to: stretch once for the length that a generation may reach, not again for every step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "locant/error.hpp"

namespace locant {

// values: [rows, width] -> [new_rows, width], linear, as torch.nn.functional.interpolate(mode="linear",
// align_corners=False) does over the rows. kShape, kArgument (a size below 1).
std::vector<float> interpolate_rows(std::span<const float> values, std::int64_t rows, std::int32_t width,
                                    std::int64_t new_rows);

enum class GridFilter { kBilinear, kBicubic };
// Whether a shrinking grid is smoothed first (filter widened by old/new, as torch's antialias=True and PIL do;
// bicubic then uses a = -0.5): DINOv2 with registers, timm's resample_abs_pos_embed. Enlarging: the kernel of
// the same family without widening.
enum class GridSmoothing { kNone, kAntialias };

struct GridSize {
  std::int32_t height = 0, width = 0;
  friend bool operator==(const GridSize&, const GridSize&) = default;
};

// values: [prefix_rows + old.height * old.width, channels], grid rows from top left, line by line; the first
// prefix_rows (class and register tokens) are copied. -> [prefix_rows + to.height * to.width, channels].
std::vector<float> interpolate_grid(std::span<const float> values, GridSize from, GridSize to, std::int32_t channels,
                                    GridFilter filter, std::int32_t prefix_rows = 1,
                                    GridSmoothing smoothing = GridSmoothing::kNone);

}  // namespace locant
