// Rotation: turns queries and keys by a plan.
//
// Angles, sines and cosines are computed in double from the true position and rounded once to float32; the
// turn itself is float32 (one multiply and one multiply-add per coordinate). Rows of the table for
// positions 0 .. prepared()-1 are kept; any other position up to 2^31-1 is computed when met, to the same
// bits. Values outside the rotated slice are copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "locant/position/positions.hpp"
#include "locant/rotary/plan.hpp"

namespace locant {

// Queries and keys are turned alike except under xPos, where their scales are inverses.
enum class RotationRole { kQuery, kKey };

class Rotation {
 public:
  // Throws kArgument unless require_plan holds.
  Rotation(RotaryPlan plan, std::int32_t head_dim);

  const RotaryPlan& plan() const noexcept { return plan_; }
  std::int32_t head_dim() const noexcept { return head_dim_; }

  // Builds the rows of positions 0 .. count-1 (count * pairs * 8 bytes). Only this call allocates them.
  void prepare(std::int64_t count);
  std::int64_t prepared() const noexcept { return prepared_; }

  // x, out: [positions.tokens(), heads, head_dim]; out may be x itself, but not overlap it otherwise.
  // Padded tokens are turned by position 0. Errors: kShape; kPositionRange where xPos leaves float32;
  // kArgument where the positions have fewer axes than the plan.
  void apply(std::span<const float> x, const Positions& positions, std::int32_t heads, RotationRole role,
             std::span<float> out) const;

  // The same with the turn undone: R(-p), the attention factor and xPos scale divided out again.
  void apply_inverse(std::span<const float> x, const Positions& positions, std::int32_t heads, RotationRole role,
                     std::span<float> out) const;

  // Turns one head vector [head_dim] of a cached key in place by `delta` more positions: R(delta), norm kept,
  // attention factor not applied again. kUnsupported for plans with xPos or several axes.
  void advance_key(std::span<float> key, std::int64_t delta) const;

  // cos and sin of one token, [pairs] each, with the attention factor and xPos scale in them, for kernels
  // that fuse the turn with their own loads. `position_of_axis` holds axes() numbers.
  void row(std::span<const std::int32_t> position_of_axis, RotationRole role, float* cos, float* sin) const;

 private:
  RotaryPlan plan_;
  std::int32_t head_dim_;
  std::int64_t prepared_ = 0;
  std::vector<float> table_;  // [prepared][2][pairs]: cos row, then sin row
};

}  // namespace locant
