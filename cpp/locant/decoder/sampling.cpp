#include "locant/decoder/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "locant/decoder/functions.hpp"
#include "locant/decoder/random.hpp"

namespace locant {
namespace {

using Candidate = Sampler::Candidate;

bool ranks_before(const Candidate& a, const Candidate& b) noexcept {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

}  // namespace

std::int32_t greedy_token(std::span<const float> logits) {
  constexpr const char* kCall = "sample";
  require_range(kCall, "the number of logits", static_cast<std::int64_t>(logits.size()), 1, std::numeric_limits<std::int32_t>::max());
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::size_t best = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] < kInfinity)) {
      throw Error(ErrorCode::kArgument, sentence(kCall, ": the logit of token ", i, " is ", logits[i],
                  ", expected a number below infinity"), logits[i]);
    }
    if (logits[i] > logits[best]) best = i;
  }
  if (logits[best] == -kInfinity) fail(ErrorCode::kArgument, kCall, ": the logits of all ", logits.size(), " tokens are -infinity");
  return static_cast<std::int32_t>(best);
}

Sampler::Sampler(SamplingConfig config) : config_(config) {
  constexpr const char* kCall = "Sampler";
  require_finite(kCall, "temperature", config.temperature);
  if (config.temperature < 0) {
    throw Error(ErrorCode::kArgument, sentence(kCall, ": temperature is ", config.temperature, ", expected 0 or more"),
                config.temperature, 0);
  }
  require_range(kCall, "top_k", config.top_k, 0, std::numeric_limits<std::int32_t>::max());
  require_positive(kCall, "top_p", config.top_p);
  if (config.top_p > 1) {
    throw Error(ErrorCode::kArgument, sentence(kCall, ": top_p is ", config.top_p, ", expected at most 1"), config.top_p, 1);
  }
}

void Sampler::fill(std::span<const float> logits) {
  const auto best = static_cast<std::size_t>(greedy_token(logits));  // and all checks
  candidates_.clear();
  if (config_.temperature == 0) {
    candidates_.push_back({static_cast<std::int32_t>(best), logits[best], 1});
    return;
  }
  const double largest = logits[best];
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == -std::numeric_limits<float>::infinity()) continue;
    const float exponent = static_cast<float>((logits[i] - largest) / config_.temperature);
    candidates_.push_back({static_cast<std::int32_t>(i), logits[i], exact_exp(exponent)});
  }
  const auto k = static_cast<std::size_t>(config_.top_k);
  if (k > 0 && k < candidates_.size()) {
    std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(k - 1), candidates_.end(), ranks_before);
    candidates_.resize(k);
  }
  if (config_.top_k > 0 || config_.top_p < 1) std::sort(candidates_.begin(), candidates_.end(), ranks_before);
  const auto total = [&] {
    double sum = 0;
    for (const Candidate& candidate : candidates_) sum += candidate.share;
    return sum;
  };
  if (config_.top_p < 1) {
    const double wanted = config_.top_p * total();
    double reached = 0;
    std::size_t kept = 0;
    while (kept < candidates_.size() && (kept == 0 || reached < wanted)) reached += candidates_[kept++].share;
    candidates_.resize(kept);
  }
  const double sum = total();
  for (Candidate& candidate : candidates_) candidate.share /= sum;
}

std::int32_t Sampler::sample(std::span<const float> logits, std::uint64_t stream, std::uint64_t index) {
  fill(logits);
  const double u = CounterRandom(config_.seed, stream).uniform(index);
  double reached = 0;
  std::int32_t last = 0;
  for (const Candidate& candidate : candidates_) {
    if (candidate.share == 0) continue;
    last = candidate.token;
    reached += candidate.share;
    if (u < reached) break;
  }
  return last;
}

std::span<const Candidate> Sampler::candidates(std::span<const float> logits) {
  fill(logits);
  std::sort(candidates_.begin(), candidates_.end(), ranks_before);
  return candidates_;
}

}  // namespace locant
