// Resampling of learned position tables to another length or grid.
//
// Where output sample i of `new` reads the source of `old`:
//
//   half pixel       (i + 0.5) * old / new - 0.5      torch's align_corners = false; nearly every model
//   align corners    i * (old - 1) / (new - 1)        align_corners = true, 0 where new is 1; Qwen3-VL
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
#include "locant/method.hpp"

namespace locant {

enum class SampleCenters { kHalfPixel, kAlignCorners };

// values: [rows, width] -> [new_rows, width], linear, as torch.nn.functional.interpolate(mode="linear") does over
// the rows. kShape, kArgument (a size below 1).
std::vector<float> interpolate_rows(std::span<const float> values, std::int64_t rows, std::int32_t width,
                                    std::int64_t new_rows, SampleCenters centers = SampleCenters::kHalfPixel);

enum class GridFilter { kBilinear, kBicubic };
// Whether a shrinking grid is smoothed first (filter widened by old/new, as torch's antialias=True and PIL do;
// bicubic then uses a = -0.5): DINOv2 with registers, SigLIP 2, timm's resample_abs_pos_embed. Enlarging: the
// kernel of the same family without widening, and weights renormalized at the border.
enum class GridSmoothing { kNone, kAntialias };

struct GridResampling {
  GridFilter filter = GridFilter::kBicubic;
  GridSmoothing smoothing = GridSmoothing::kNone;
  SampleCenters centers = SampleCenters::kHalfPixel;  // kAlignCorners is defined without smoothing only
};

struct GridSize {
  std::int32_t height = 0, width = 0;
  friend bool operator==(const GridSize&, const GridSize&) = default;
};

// values: [prefix_rows + old.height * old.width, channels], grid rows from top left, line by line; the first
// prefix_rows (class and register tokens) are copied. -> [prefix_rows + to.height * to.width, channels].
// kShape; kArgument (a side below 1 or above 32768, smoothing with aligned corners).
std::vector<float> interpolate_grid(std::span<const float> values, GridSize from, GridSize to, std::int32_t channels,
                                    std::int32_t prefix_rows = 1, GridResampling resampling = {});

// What a grid table that was stretched so says of itself.
MethodDescription describe(GridSize from, GridSize to, std::int32_t channels, std::int32_t prefix_rows = 1,
                           GridResampling resampling = {});

}  // namespace locant
