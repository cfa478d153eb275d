// FIRE: a learned function of distance, as a share of the query's position (Li et al. 2023, eq. 9 to 11).
// Forward form: the weights are given, nothing is trained here.
//
//   term(t, j) = f_h( psi(|t - j|) / (psi(max(L, t)) + epsilon) )     psi(x) = ln(c x + 1)
//   f(x)       = w2 relu(w1 x + b1) + b2                              one hidden layer, one output a head
//
// t and j are positions counted from 0. Because the query's own position divides, the same displacement gives
// another value elsewhere: FIRE is not shift invariant. The paper is causal; for j > t the distance's size is
// used, as in its code. Not multiplied by the attention scale. Computed in double, rounded once.
#pragma once

#include <cstdint>
#include <vector>

#include "locant/bias/score_term.hpp"
#include "locant/error.hpp"

namespace locant {

struct FireConfig {
  double c = 0.1;
  double threshold = 512;             // L; models that learn a multiplier give their product
  double epsilon = 1e-6;              // of the paper's listing; 0 is the formula
  std::vector<double> w1, b1;         // [hidden]
  std::vector<double> w2, b2;         // [heads, hidden], [heads]
};

class Fire final : public ScoreTerm {
 public:
  // kShape where the weights do not fit each other; kArgument unless c and threshold are above 0, epsilon 0 or
  // more, all numbers finite, and no bias can pass 2^60.
  explicit Fire(FireConfig config);

  void add(const ScoreTile& tile, float* scores, std::size_t stride) const override;
  void require_fits(std::int32_t heads, std::int32_t kv_heads, std::int32_t head_dim) const override;
  MethodDescription describe() const override;

 private:
  FireConfig config_;
};

}  // namespace locant
