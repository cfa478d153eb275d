// Sinusoidal encoding: door 1 without a parameter (Vaswani et al. 2017, section 3.5).
//
// Pair i of a position p is (sin, cos) of one angle:
//
//   angle(p, i) = (p + position_offset) * max_frequency * base^(-e_i)         radians
//   value       = scale * sin(angle), scale * cos(angle)
//
// Both halves of a pair use the same frequency; that is what makes PE(p + k) a rotation of PE(p), the dot
// product of two positions a function of their distance, and |PE|^2 = scale^2 * width/2 at even width.
// What systems disagree about is e_i, where the two halves lie, and what an odd width w means:
//
//   layout          e_i                        columns of pair i              odd width
//   interleaved     2i / w                     2i, 2i+1                       last pair keeps its sine only
//   concatenated    2i / w                     i, ceil(w/2) + i               last pair keeps its sine only
//   tensor2tensor   i / max(floor(w/2)-1, 1)   i, floor(w/2) + i              last column is 0
//   MLX             i / max(w/2 - 1, 1)        i, w/2 + i; scale sqrt(2/w)    refused
//
//   interleaved: the paper, DistilBERT, XLM.   concatenated: Marian, Pegasus, Transformer-XL.
//   tensor2tensor: its get_timing_signal_1d, M2M-100, FSMT, Whisper, MusicGen (several of these divide by
//   w/2 - 1 and are undefined at width 2; the max(.., 1) is tensor2tensor's, whose min_timescale is max_frequency:
//   its code multiplies by it). MLX: nn.SinusoidalPositionalEncoding; its full_turns is max_frequency = 2 pi, its
//   min_freq is max_frequency / base.
//
// Angles, sines and cosines are computed in double from the true position and rounded once to float32. The
// rows of positions 0 .. prepared()-1 are kept; every other position up to 2^31-1 is computed when met, to
// the same bits. The double angle is within 2^-51 of its size of the exact one: below 4e-8 rad (less than
// float32's own half step next to 1) up to position 2^26, below 1e-6 rad at 2^31-1.
//
// Padded tokens get nothing: encode() gives them zeros, add() leaves them as they are.
//
// Not here: fractional positions and diffusion time steps, positions in two dimensions (grid_sinusoidal.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "locant/error.hpp"
#include "locant/method.hpp"
#include "locant/position/positions.hpp"

namespace locant {

enum class SinusoidLayout { kInterleaved, kConcatenated, kTensor2Tensor, kMlx };

// Which half of a pair comes first. Cosine first: MLX's cos_first, tensor2tensor-like code of diffusion models.
enum class SinusoidOrder { kSineFirst, kCosineFirst };

struct SinusoidalConfig {
  std::int32_t width = 0;
  SinusoidLayout layout = SinusoidLayout::kInterleaved;
  SinusoidOrder order = SinusoidOrder::kSineFirst;
  double base = 10000;          // ratio of the largest to the smallest frequency, as e_i runs from 0 to 1
  double max_frequency = 1;     // of pair 0, radians per position
  std::optional<double> scale = std::nullopt;  // none: 1, under kMlx sqrt(2 / width)
  double position_offset = 0;   // added to every position (fairseq's tables start at padding_idx + 1)
  friend bool operator==(const SinusoidalConfig&, const SinusoidalConfig&) = default;
};

class Sinusoidal {
 public:
  // kArgument unless width is 1 to 2^20 (kMlx: even), even where order is kCosineFirst, and
  // base, max_frequency (above 0), scale (at most 2^60 in size) and position_offset (2^52) are finite, and so is every
  // angle up to position 2^31-1.
  explicit Sinusoidal(SinusoidalConfig config);

  const SinusoidalConfig& config() const noexcept { return config_; }
  std::int32_t width() const noexcept { return config_.width; }
  double scale() const noexcept { return scale_; }

  // Radians per position of each pair; ceil(width/2) of them (floor under kTensor2Tensor).
  std::span<const double> frequencies() const noexcept { return frequencies_; }
  // The columns that hold the sine and the cosine of pair i; width() where there is none (odd widths).
  std::int32_t sine_column(std::int32_t pair) const noexcept;
  std::int32_t cosine_column(std::int32_t pair) const noexcept;

  // Keeps the rows of positions 0 .. count-1, count * width * 4 bytes. Never drops rows. Only this call
  // allocates. kArgument unless 0 <= count <= 2^31; kOutOfMemory, nothing changed.
  void prepare(std::int64_t count);
  std::int64_t prepared() const noexcept { return prepared_; }

  // out: [width], the row of one position (0 .. 2^31-1, else kPositionRange).
  void row(std::int32_t position, std::span<float> out) const;

  // out: [positions.tokens(), width].
  void encode(const Positions& positions, std::span<float> out) const;

  // out = x + encode(positions); x, out: [positions.tokens(), width]. out may be x itself, but not overlap it
  // otherwise. Allocates nothing.
  void add(std::span<const float> x, const Positions& positions, std::span<float> out) const;

  MethodDescription describe() const;

 private:
  template <class Put>
  void visit(std::int32_t position, Put put) const;  // put(column, value) for every column
  const float* kept(std::int32_t position) const noexcept;

  SinusoidalConfig config_;
  double scale_ = 1;
  std::vector<double> frequencies_;
  std::int64_t prepared_ = 0;
  std::vector<float> table_;  // [prepared][width]
};

}  // namespace locant
