// Transformer-XL's and XLNet's relative attention (Dai et al. 2019, section 3.3; Yang et al. 2019).
//
//   score(t, j) = scale * ( (q_t + u_h) . k_j  +  (q_t + v_h) . r_h(t - j) )
//   r_h(n)      = W_h R(n),   R(n) = [sin(n f_i), cos(n f_i)],   f_i = base^(-2i/model_width)
//
// The term is everything but q_t . k_j: scale * (u_h . k_j + (q_t + v_h) . r_h(t - j)). R is the concatenated
// sinusoid of the signed distance query - key, so R(-n) has its sines negated.
//
// The published codes make a matrix (q_t + v) . r(n) over all distances and shift its rows into place: pad a
// column, reshape, drop the first row. For query i at key index keys - queries + i the shifted entry (i, j) is
// that of distance query - key. Transformer-XL has no rows for later keys: its entries above the diagonal are
// leftovers that the mask hides. Here every distance means itself. The shift itself is at hand for those
// who port code (relative_shift).
//
// XLNet stores W as [model_width, heads, head_dim]; it is read here as the weight of a linear layer,
// [heads * head_dim, model_width]. XLNet's third term, that of segments, is not positional and not here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "locant/bias/displacement.hpp"
#include "locant/bias/score_term.hpp"
#include "locant/error.hpp"

namespace locant {

struct TransformerXlConfig {
  std::int32_t heads = 1, head_dim = 1;
  std::int32_t model_width = 2;        // of R; even
  double base = 10000;
  std::optional<std::int32_t> clamp = std::nullopt;   // clamp_len: distances beyond +-clamp read that of +-clamp
  // Vectors r kept from the start, for distances -kept_after .. kept_before, (kept_before + kept_after + 1) *
  // heads * head_dim * 4 bytes. Others are computed when met, to the same bits: right, and slow.
  std::int32_t kept_before = 0, kept_after = 0;
};

class TransformerXl final : public ScoreTerm {
 public:
  // projection: [heads * head_dim, model_width], content_bias (u) and position_bias (v): [heads, head_dim].
  // kShape; kArgument unless the widths are as said, clamp 0 or more and kept_* 0 to 2^24.
  TransformerXl(TransformerXlConfig config, std::span<const float> projection, std::span<const float> content_bias,
                std::span<const float> position_bias);

  const TransformerXlConfig& config() const noexcept { return config_; }

  // The two runs of displacements that the clamp merges, entry = the distance they read; empty without a clamp.
  std::vector<DisplacementRun> merged_runs() const;

  // out: [head_dim], r of one head for the distance query - key (before clamping).
  void distance_vector(std::int32_t head, std::int64_t distance, float* out) const;

  void add(const ScoreTile& tile, float* scores, std::size_t stride) const override;
  bool needs_content() const noexcept override { return true; }
  bool shift_invariant() const noexcept override { return true; }
  void require_fits(std::int32_t heads, std::int32_t kv_heads, std::int32_t head_dim) const override;
  MethodDescription describe() const override;

 private:
  std::int64_t clamped(std::int64_t distance) const noexcept;
  void compute(std::int32_t head, std::int64_t distance, float* out) const;
  const float* kept(std::int32_t head, std::int64_t distance) const noexcept;

  TransformerXlConfig config_;
  std::vector<double> frequencies_;
  std::vector<float> projection_, content_bias_, position_bias_;
  std::vector<float> kept_;  // [heads][kept distances][head_dim], distance -kept_after first
};

// The shift of Transformer-XL's code: x [rows, columns] gets a zero column on its left, is read as
// [columns + 1, rows], loses its first row and is read as [rows, columns] again. kShape, kArgument.
std::vector<float> relative_shift(std::span<const float> x, std::int64_t rows, std::int64_t columns);

// XLNet's: no padding; x [rows, columns] loses its first `rows` values, is read as [rows, columns - 1], and the
// first `keys` columns stay: [rows, keys]. kArgument unless keys <= columns - 1.
std::vector<float> relative_shift_xlnet(std::span<const float> x, std::int64_t rows, std::int64_t columns,
                                        std::int64_t keys);

}  // namespace locant
