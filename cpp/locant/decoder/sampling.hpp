// Sampling: which token comes next, given its logits.
//
//   temperature 0   greedy: the token of the largest logit
//   temperature T   p_i proportional to e^(l_i / T), cut to the top_k most probable tokens, then to the fewest of
//                   those whose share reaches top_p; one of them is drawn with its share
//
// Ties: tokens stand in order of falling logit, equal logits in order of rising id. So greedy takes the lowest
// id among the largest, and a cut through equal logits keeps the lower ids (Hugging Face's top-k keeps all that
// equal the k-th).
//
// A draw is a function of logits, seed, stream and index alone (random.hpp), with sums in double in a stated
// order (by id where nothing is cut, else by rank) and our own exp: equal logits give the same token in every
// build. Logits come from the decoder; decoder.hpp says which builds agree on those.
//
// A logit of -infinity forbids a token. NaN or +infinity anywhere, or -infinity everywhere, is an error: a model
// that has broken down must not look as if it spoke.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "locant/error.hpp"

namespace locant {

struct SamplingConfig {
  double temperature = 0;   // 0 or more
  std::int32_t top_k = 0;   // 0: no cut; more than there are tokens: no cut either
  double top_p = 1;         // above 0, up to 1
  std::uint64_t seed = 0;
};

// The token of the largest logit. Errors as Sampler::sample.
std::int32_t greedy_token(std::span<const float> logits);

class Sampler {
 public:
  // kArgument for values outside the ranges above.
  explicit Sampler(SamplingConfig config);

  const SamplingConfig& config() const noexcept { return config_; }

  // logits: [vocabulary]. Draw number `index` of `stream` (a generation uses its row and its step).
  // kArgument where logits are empty, hold NaN or +infinity, or forbid every token.
  std::int32_t sample(std::span<const float> logits, std::uint64_t stream, std::uint64_t index);

  // The tokens that sample() chooses among and their shares, in order of rank; for pages and tests.
  struct Candidate {
    std::int32_t token = 0;
    float logit = 0;
    double share = 0;
  };
  std::span<const Candidate> candidates(std::span<const float> logits);

 private:
  void fill(std::span<const float> logits);

  SamplingConfig config_;
  std::vector<Candidate> candidates_;  // kept between calls, so that a step allocates nothing
};

}  // namespace locant
