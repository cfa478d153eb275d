#include "locant/decoder/generation.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace locant {
namespace {

constexpr const char* kCall = "generate";

GenerationConfig checked(GenerationConfig config) {
  require_range(kCall, "new_tokens", config.new_tokens, 1, std::numeric_limits<std::int32_t>::max());
  return config;
}

}  // namespace

Generation::Generation(Decoder& decoder, Cache& cache, Prompts prompts, GenerationConfig config)
    : decoder_(&decoder), cache_(&cache), config_(checked(std::move(config))), sampler_(config_.sampling),
      prefill_(kCall, decoder, cache, prompts, config_.prefill_chunk), out_(prompts.size()), active_(prompts.size()) {
  std::iota(active_.begin(), active_.end(), 0);
}

// The next token of a row, by its logits.
void Generation::take(std::int32_t row, std::span<const float> logits) {
  GeneratedRow& to = out_[static_cast<std::size_t>(row)];
  const std::int32_t token = sampler_.sample(logits, static_cast<std::uint64_t>(row), to.tokens.size());
  to.tokens.push_back(token);
  new_rows_.push_back(row);
  new_tokens_.push_back(token);
  if (std::find(config_.stop_tokens.begin(), config_.stop_tokens.end(), token) != config_.stop_tokens.end()) {
    to.reason = StopReason::kStopToken;
  } else if (to.tokens.size() == static_cast<std::size_t>(config_.new_tokens)) {
    to.reason = StopReason::kLength;
  }
}

Progress Generation::step() {
  if (ended()) fail(ErrorCode::kCacheState, kCall, ": it has ended, there is no further step");
  try {
    prefill_.require_untouched(kCall);
  } catch (...) {
    cancel();  // what others made of the cache is theirs: nothing is taken back
    throw;
  }
  Progress report;
  new_rows_.clear(), new_tokens_.clear();
  try {
    if (!prefill_.ended()) {
      for (const std::int32_t row : prefill_.step()) take(row, prefill_.logits(row));
      report = {.phase = Phase::kPrefill, .done = prefill_.done(), .total = prefill_.total(), .rows = {}, .tokens = {}};
    } else {
      const auto vocabulary = static_cast<std::size_t>(decoder_->config().vocabulary);
      tokens_.clear();
      for (const std::int32_t row : active_) tokens_.push_back(out_[static_cast<std::size_t>(row)].tokens.back());
      counts_.assign(active_.size(), 1);
      wanted_.resize(active_.size());
      std::iota(wanted_.begin(), wanted_.end(), std::size_t{0});
      logits_.resize(active_.size() * vocabulary);
      decoder_->forward(tokens_, cache_->next(counts_, active_), *cache_, wanted_, logits_, active_);
      prefill_.note();
      for (std::size_t i = 0; i < active_.size(); ++i) take(active_[i], std::span(logits_).subspan(i * vocabulary, vocabulary));
      report = {.phase = Phase::kDecode, .done = ++steps_, .total = static_cast<std::size_t>(config_.new_tokens) - 1, .rows = {}, .tokens = {}};
    }
  } catch (...) {
    prefill_.note();
    roll_back();
    throw;
  }
  std::erase_if(active_, [&](std::int32_t r) { return out_[static_cast<std::size_t>(r)].reason != StopReason::kUnfinished; });
  report.rows = new_rows_;
  report.tokens = new_tokens_;
  return report;
}

void Generation::cancel() noexcept {
  for (const std::int32_t r : active_) out_[static_cast<std::size_t>(r)].reason = StopReason::kCancelled;
  active_.clear();
}

void Generation::roll_back() {
  prefill_.require_untouched("roll_back");
  cancel();
  prefill_.roll_back();
}

std::vector<GeneratedRow> generate(Decoder& decoder, Cache& cache, Prompts prompts, const GenerationConfig& config,
                                   const OnProgress& progress) {
  Generation generation(decoder, cache, prompts, config);
  while (!generation.ended()) {
    const Progress report = generation.step();
    if (!progress) continue;
    try {
      if (progress(report) == Continue::kNo) generation.cancel();
    } catch (...) {
      generation.roll_back();
      throw;
    }
  }
  return generation.rows();
}

std::vector<GeneratedRow> generate(Decoder& decoder, Prompts prompts, const GenerationConfig& config,
                                   const OnProgress& progress) {
  require_range(kCall, "the number of prompts", static_cast<std::int64_t>(prompts.size()), 1, 1 << 20);
  Cache cache = decoder.make_cache(static_cast<std::int32_t>(prompts.size()));
  return generate(decoder, cache, prompts, config, progress);
}

}  // namespace locant
