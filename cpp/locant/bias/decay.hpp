// Biases that fall with distance, without learned tables.
//
//   KERPLE, logarithmic   term = -r1 * ln(1 + r2 * |j - t|)     r1, r2 > 0             (Chi et al. 2022, eq. 3)
//   KERPLE, power         term = -r1 * |j - t|^r2               r1 > 0, 0 < r2 <= 2    (eq. 4)
//   Sandwich              term = heads / (8 (h + 1)) * sum_i cos((j - t) * base^(-2i/width)),  i < width/2
//                         (Chi et al. 2023: the sinusoids' own dot product, compressed by h's ratio)
//
// Sandwich keeps its sum for the first 4096 distances; others are computed when met, to the same bits.
//
// r1 and r2 are learned, one of each a head. Computed in double for each displacement and rounded once. None
// is multiplied by the attention scale.
#pragma once

#include <cstdint>
#include <vector>

#include "locant/bias/score_term.hpp"
#include "locant/error.hpp"

namespace locant {

enum class KerpleKernel { kLogarithmic, kPower };

class Kerple final : public ScoreTerm {
 public:
  // r1, r2: one a head. kShape where their numbers differ, kArgument outside the ranges above or past 2^60.
  Kerple(KerpleKernel kernel, std::vector<double> r1, std::vector<double> r2);

  void add(const ScoreTile& tile, float* scores, std::size_t stride) const override;
  bool shift_invariant() const noexcept override { return true; }
  void require_fits(std::int32_t heads, std::int32_t kv_heads, std::int32_t head_dim) const override;
  MethodDescription describe() const override;

 private:
  KerpleKernel kernel_;
  std::vector<double> r1_, r2_;
};

class Sandwich final : public ScoreTerm {
 public:
  // kArgument unless heads is 1 to 65536, width even and 2 to 65536, base above 0 and every angle
  // up to 2^31-1 finite.
  explicit Sandwich(std::int32_t heads, std::int32_t width = 128, double base = 10000);

  void add(const ScoreTile& tile, float* scores, std::size_t stride) const override;
  bool shift_invariant() const noexcept override { return true; }
  void require_fits(std::int32_t heads, std::int32_t kv_heads, std::int32_t head_dim) const override;
  MethodDescription describe() const override;

 private:
  std::int32_t heads_, width_;
  double base_;
  double sum(std::int64_t displacement) const noexcept;

  std::vector<double> frequencies_;
  std::vector<double> kept_;  // sum(d) for d = 0, 1, ...
};

}  // namespace locant
