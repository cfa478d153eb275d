// ALiBi: a straight line over distance, one slope a head (Press, Smith, Lewis 2022).
//
//   causal      term(t, j) = slope_h * (j - t)        0 at the query itself, negative before it
//   symmetric   term(t, j) = -slope_h * |j - t|
//   key only    term(t, j) = slope_h * (j - origin)   Bloom (origin 0), MPT (origin = max_seq_len - 1)
//
// Causal and key-only differ by a number that is the same for the whole row of a query, so the softmax is the
// same; nothing needs updating when a cache grows. They are what was trained only under a causal mask: later
// keys, where visible, would be favoured, and symmetric is then the meaningful form. The term is not multiplied
// by the attention scale (Falcon does multiply: give it slopes divided by sqrt(head_dim), which it also rounds
// to bfloat16).
//
// Slopes for n heads (head h = 0 .. n-1), with bias_max = 8 in the paper and in most checkpoints:
//   n a power of two    2^(-bias_max * (h+1) / n)
//   else                the slopes for c = 2^floor(log2 n) heads, then every other slope of those for 2c
//                       heads (2^(-bias_max/2c), skipping one each time) until there are n. They do not fall
//                       steadily; that is the reference's rule, and checkpoints were trained with it.
// A model split over devices, or padded to more heads, keeps the slopes of its true head count.
//
// Terms are computed in double from the true displacement and rounded once.
#pragma once

#include <cstdint>
#include <vector>

#include "locant/bias/score_term.hpp"
#include "locant/error.hpp"

namespace locant {

// [heads]. kArgument unless heads is 1 to 65536 and bias_max 1e-6 to 1e6.
std::vector<double> alibi_slopes(std::int32_t heads, double bias_max = 8);

enum class AlibiForm { kCausal, kSymmetric, kKeyOnly };

class Alibi final : public ScoreTerm {
 public:
  // slopes: one a head, alibi_slopes(heads) or the caller's own. kArgument unless there is at least one and all
  // are at most 2^60 in size, and 0 <= origin <= 2^31-1 (only kKeyOnly reads it).
  explicit Alibi(std::vector<double> slopes, AlibiForm form = AlibiForm::kCausal, std::int64_t origin = 0);

  const std::vector<double>& slopes() const noexcept { return slopes_; }
  AlibiForm form() const noexcept { return form_; }

  void add(const ScoreTile& tile, float* scores, std::size_t stride) const override;
  bool shift_invariant() const noexcept override { return form_ != AlibiForm::kKeyOnly; }
  // slope * j is slope * (j - t) and what the row of t has in common.
  bool moves_weights() const noexcept override { return false; }
  // kShape unless heads is the number of slopes.
  void require_fits(std::int32_t heads, std::int32_t kv_heads, std::int32_t head_dim) const override;
  MethodDescription describe() const override;

 private:
  std::vector<double> slopes_;
  AlibiForm form_;
  double origin_;
};

}  // namespace locant
