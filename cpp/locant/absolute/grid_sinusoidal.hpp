// Sinusoidal encoding of two axes, as vision and detection models do it: half of the features encode one
// coordinate, half the other.
//
// Grid models (ViT-MAE, MoCo v3, plain ViT baselines, OmDet): a quarter of the features each for
//
//   [sin, cos of one coordinate, sin, cos of the other]     angle = coordinate * base^(-e_i), i < features/4
//
//   order           first half         who
//   row first       row                transformers' shared function since 5.x
//   column first    column             MAE, MoCo v3, OmDet: their "height" half is fed the column
//
//   steps           e_i
//   quarter         i / (features/4)          MAE, MoCo v3
//   ends at base    i / (features/4 - 1)      the simple ViT baseline (Beyer et al. 2022)
//
// Positions give the coordinates: axis 0 is the row, axis 1 the column, so the order of the patches is the
// order of the tokens (Positions::from_arrays). Class tokens: MAE's is a row of zeros; mark it as padding.
//
// DETR counts the unmasked cells of each column and row (from 1), may divide by the last count and multiply by
// 2 pi, and interleaves sine and cosine (features_per_axis F, base^(-2i/F)): [row part, column part], each
// sin, cos, sin, cos, ... . Its coordinates are not whole numbers, so it has a function of its own.
//
// Computed in double, rounded once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "locant/absolute/interpolation.hpp"
#include "locant/error.hpp"
#include "locant/method.hpp"
#include "locant/position/positions.hpp"

namespace locant {

enum class GridOrder { kRowFirst, kColumnFirst };
enum class GridSteps { kQuarter, kEndsAtBase };

struct GridSinusoidalConfig {
  std::int32_t features = 0;  // in all, a multiple of 4
  GridOrder order = GridOrder::kRowFirst;
  GridSteps steps = GridSteps::kQuarter;
  double base = 10000;
};

class GridSinusoidal {
 public:
  // kArgument unless features is a multiple of 4 from 4 (kEndsAtBase: from 8) to 2^20 and base is above 0.
  explicit GridSinusoidal(GridSinusoidalConfig config);

  const GridSinusoidalConfig& config() const noexcept { return config_; }
  std::span<const double> frequencies() const noexcept { return frequencies_; }

  // out: [positions.tokens(), features]; padded tokens get zeros. kArgument where positions have one axis.
  void encode(const Positions& positions, std::span<float> out) const;
  // out = x + encode(positions); out may be x itself. Allocates nothing.
  void add(std::span<const float> x, const Positions& positions, std::span<float> out) const;

  MethodDescription describe() const;

 private:
  void require(const char* call, const Positions& positions, std::size_t held) const;
  template <class Put>
  void visit(std::int32_t row, std::int32_t column, Put put) const;

  GridSinusoidalConfig config_;
  std::vector<double> frequencies_;
};

// The positions of a grid's patches, line by line from the top left: axis 0 the row, axis 1 the column.
Positions grid_positions(GridSize grid);

enum class DetrNormalize { kNo, kYes };

struct DetrConfig {
  std::int32_t features_per_axis = 0;
  double base = 10000;
  DetrNormalize normalize = DetrNormalize::kYes;
  double scale = 6.283185307179586;  // read where normalized
  double epsilon = 1e-6;
};

MethodDescription describe(const DetrConfig& config);

// mask: [height, width], non-zero = a cell of the image; out: [height, width, 2 * features_per_axis]. Masked
// cells get the encoding of the count so far, as in the source. kShape, kArgument.
void detr_encode(const DetrConfig& config, GridSize grid, std::span<const std::uint8_t> mask, std::span<float> out);

}  // namespace locant
