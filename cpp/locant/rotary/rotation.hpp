// Rotation: turns queries and keys by a plan (formula, pairings and laws: plan.hpp).
//
// Angles, sines and cosines are computed in double from the true position and rounded once to float32; the
// turn itself is float32, two multiplications and one addition per coordinate, each rounded, so that native
// and WebAssembly builds agree to the bit wherever their sines do. The angle's own error is at most
// |p| f_i 2^-52 radians: below 10^-9 up to position 2^22, 5 x 10^-7 at 2^31-1.
//
// Rows of the table for positions 0 .. prepared()-1 are kept; any other position is computed when met, to the
// same bits. Values outside the rotated slice are copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "locant/position/positions.hpp"
#include "locant/rotary/plan.hpp"

namespace locant {

// Queries and keys are turned alike except under xPos, where their scales are inverses.
enum class RotationRole { kQuery, kKey };

namespace detail {
enum class StoreMode;
}

class Rotation {
public:
  // Throws kArgument unless require_plan holds.
  Rotation(RotaryPlan plan, std::int32_t head_dim);

  const RotaryPlan& plan() const noexcept { return plan_; }
  std::int32_t head_dim() const noexcept { return head_dim_; }

  // The farthest a position may lie from the centre of xPos before the scale of a query or key leaves
  // the normal float32 range (about 36000 at width 64, gamma 0.4 and scale base 512); infinite without xPos.
  double xpos_reach() const noexcept { return xpos_reach_; }

  // Builds the rows of positions 0 .. count-1, count * pairs * 8 bytes (twice that with xPos), and keeps the ones
  // it has. Only this call allocates. Errors, nothing changed: kArgument unless 0 <= count <= 2^31;
  // kPositionRange past xpos_reach(); kOutOfMemory with the bytes asked for.
  void prepare(std::int64_t count);
  std::int64_t prepared() const noexcept { return prepared_; }

  // x, out: [positions.tokens(), heads, head_dim]; out may be x itself, but not overlap it otherwise. Padded
  // tokens are copied as they are. Errors, nothing written: kShape; kArgument where the positions have fewer
  // axes than the plan or the buffers overlap; kPositionRange past xpos_reach().
  void apply(std::span<const float> x, const Positions& positions, std::int32_t heads, RotationRole role,
             std::span<float> out) const;

  // The same with the turn undone: R(-p), the attention factor and xPos scale divided out again. Two
  // roundings more than apply() where the attention factor is not 1 or xPos is used.
  void apply_inverse(std::span<const float> x, const Positions& positions, std::int32_t heads, RotationRole role,
                     std::span<float> out) const;

  // Turns one head vector [head_dim] of a cached key in place by `delta` more positions on axis 0: R(delta), norm
  // kept, attention factor not applied again. kUnsupported for plans with xPos or several axes; kShape;
  // kPositionRange unless |delta| <= 2^31-1.
  void advance_key(std::span<float> key, std::int64_t delta) const;

  // For kernels that turn a part of the tokens at a time, close to where they use them: apply() is the first, then
  // the second over all tokens.
  //
  // kArgument where the positions have fewer axes than the plan; kPositionRange past xpos_reach().
  void require_positions(const char* call, const Positions& positions) const;
  // Tokens [first, first + count) of positions that passed it, into groups of heads that lie together.
  // x: [count, heads, head_dim]; out: [heads / group, count, group, head_dim], apart from x; group divides heads.
  void turn_tokens(const float* x, const Positions& positions, std::size_t first, std::size_t count,
                   std::int32_t heads, std::int32_t group, RotationRole role, float* out) const noexcept;

  // For kernels that turn many vectors alike, or fuse the turn with their own loads. cos and sin: [pairs] each.
  //
  // The row of one token, with attention factor and xPos scale in it. `position_of_axis` holds at least
  // plan().axes() numbers. Same errors as apply().
  void row(std::span<const std::int32_t> position_of_axis, RotationRole role, float* cos, float* sin) const;
  // The row of advance_key(), with its errors.
  void advance_row(std::int64_t delta, float* cos, float* sin) const;
  // Turns one head vector [head_dim] in place by a row.
  void turn(float* head, const float* cos, const float* sin) const noexcept;

private:
  enum class Sense { kForward, kBackward };
  // Tokens [first, first + count), in groups of heads, written in the way that suits the size of the output.
  struct Range {
    std::size_t first, count, heads, group;
    detail::StoreMode mode;
  };
  // Pairs [first, first + count) of a token whose positions, one per axis, lie at position[axis].
  struct Token {
    const std::int32_t* const* axis;
    std::size_t index;
  };

  void apply(const char* call, std::span<const float> x, const Positions& positions, std::int32_t heads,
             RotationRole role, Sense sense, std::span<float> out) const;
  void turn_range(const float* x, const Positions& positions, const Range& range, RotationRole role, Sense sense,
                  float* out) const noexcept;
  void require_reach(const char* call, std::int32_t axis, std::int32_t position) const;
  const std::vector<float>& table(RotationRole role) const noexcept;
  void compute(double position, std::size_t pair, RotationRole role, float& cos, float& sin) const noexcept;
  void fill(const Token& token, RotationRole role, std::size_t first, std::size_t count, float* cos,
            float* sin) const noexcept;
  std::size_t axis_of(std::size_t pair) const noexcept {
    return plan_.axis_of_pair.empty() ? 0 : plan_.axis_of_pair[pair];
  }

  RotaryPlan plan_;
  std::int32_t head_dim_;
  std::vector<double> offset_;    // [pairs]: the offset of the pair's axis
  std::vector<double> log_zeta_;  // [pairs]: ln zeta_i / scale_base; empty without xPos
  double xpos_reach_;
  std::int64_t prepared_ = 0;
  std::vector<float> query_table_;  // [prepared][2][pairs]: cos row, then sin row; of keys too without xPos
  std::vector<float> key_table_;    // the same for keys under xPos, else empty
};

}  // namespace locant
