// y = x W^T for the linear layers of a decoder: weights packed once, any number of rows of x.
//
// Layout: W [outputs, inputs] row-major goes in, and is kept as panels of 16 outputs, transposed
// (simd/tiles.hpp); x [rows, inputs], y [rows, outputs] row-major. One row (a decode step) streams the weights
// once at the speed of memory; many rows are taken in tiles, weights in blocks that stay in the first-level
// cache. y of one row does not depend on how many other rows there are beyond rounding: sums run over inputs
// in an order that depends on the number of rows in its tile.
//
// A bias: fill y with it and multiply with Write::kAdd; a residual likewise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "locant/attention/aligned.hpp"
#include "locant/simd/tiles.hpp"

namespace locant::simd {

// Work memory of products, kept between calls; one for any number of matrices, one call at a time.
class Workspace {
 public:
  // At least `count` floats on a 64-byte border, contents undefined. kOutOfMemory.
  float* floats(std::size_t count);

 private:
  AlignedFloats floats_;
  std::size_t size_ = 0;
};

class PackedMatrix {
 public:
  PackedMatrix() = default;  // 0 x 0
  // w: [outputs, inputs]. kArgument for sizes below 1, kShape, kOutOfMemory.
  PackedMatrix(std::span<const float> w, std::int64_t outputs, std::int64_t inputs);

  std::size_t outputs() const noexcept { return outputs_; }
  std::size_t inputs() const noexcept { return inputs_; }
  std::size_t bytes() const noexcept { return panels_ * depth_ * kPanelWidth * sizeof(float); }

  // W[output, :] to the bit, for embedding tables that are the output layer too. output < outputs().
  void read_row(std::size_t output, std::span<float> row) const;

  // y = x W^T, or y += x W^T. kShape unless x is [rows, inputs] and y [rows, outputs]; kOutOfMemory.
  void multiply(std::span<const float> x, std::size_t rows, std::span<float> y, Workspace& work,
                Write write = Write::kReplace) const;

 private:
  std::size_t outputs_ = 0, inputs_ = 0;
  std::size_t panels_ = 0, depth_ = 0;  // inputs, padded with zeros to a multiple of kDepthStep
  AlignedFloats w_;                     // [panels][depth][kPanelWidth]
};

}  // namespace locant::simd
