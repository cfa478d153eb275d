#include "locant/decoder/prefill.hpp"

#include <algorithm>
#include <limits>
#include <string>

namespace locant {

Prefill::Prefill(std::string_view call, Decoder& decoder, Cache& cache, Prompts prompts, std::int32_t chunk)
    : decoder_(&decoder), cache_(&cache), chunk_(chunk), revision_(cache.revision()) {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  const CacheConfig& held = cache.config();
  require_range(call, "prefill_chunk", chunk, 1, kMost);
  require_range(call, "the number of prompts", static_cast<std::int64_t>(prompts.size()), 1, held.sequences);
  for (std::size_t r = 0; r < prompts.size(); ++r) {
    require_range(call, sentence("the length of prompt ", r), static_cast<std::int64_t>(prompts[r].size()), 1, kMost);
    for (const std::int32_t token : prompts[r]) {
      require_range(call, sentence("a token of prompt ", r), token, 0, decoder.config().vocabulary - 1);
    }
    const std::size_t before = cache.rows(static_cast<std::int32_t>(r)), after = before + prompts[r].size();
    if (held.capacity == Capacity::kFixed && after > static_cast<std::size_t>(held.rows)) {
      throw Error(ErrorCode::kCacheFull, sentence(call, ": sequence ", r, " holds ", before, " rows and its prompt ",
                  prompts[r].size(), " tokens, the cache has room for ", held.rows),
                  static_cast<double>(after), static_cast<double>(held.rows));
    }
    rows_before_.push_back(before);
    total_ += prompts[r].size();
  }
  prompts_.assign(prompts.begin(), prompts.end());
  fed_.assign(prompts.size(), 0);
  logits_.resize(checked_product(call, "logits", {static_cast<std::int64_t>(prompts.size()), decoder.config().vocabulary}));
}

void Prefill::require_untouched(std::string_view call) const {
  if (cache_->revision() == revision_) return;
  fail(ErrorCode::kCacheState, call, ": the cache was changed by another call in between; until a generation has ended its cache is its own");
}

std::span<const std::int32_t> Prefill::step() {
  require_untouched("step");
  tokens_.clear(), counts_.clear(), sequences_.clear(), wanted_.clear(), through_.clear();
  const auto vocabulary = static_cast<std::size_t>(decoder_->config().vocabulary);
  std::size_t fed = 0;
  for (std::size_t r = 0; r < prompts_.size(); ++r) {
    const std::size_t count = std::min(prompts_[r].size() - fed_[r], static_cast<std::size_t>(chunk_));
    if (count == 0) continue;
    const auto first = prompts_[r].begin() + static_cast<std::ptrdiff_t>(fed_[r]);
    tokens_.insert(tokens_.end(), first, first + static_cast<std::ptrdiff_t>(count));
    counts_.push_back(static_cast<std::int32_t>(count));
    sequences_.push_back(static_cast<std::int32_t>(r));
    fed += count;
    if (fed_[r] + count == prompts_[r].size()) {
      wanted_.push_back(tokens_.size() - 1);
      through_.push_back(static_cast<std::int32_t>(r));
    }
  }
  last_.resize(wanted_.size() * vocabulary);
  try {
    decoder_->forward(tokens_, cache_->next(counts_, sequences_), *cache_, wanted_, last_, sequences_);
  } catch (...) {
    note();  // what a step that fails does to the cache is no other's doing
    throw;
  }
  note();
  for (std::size_t i = 0; i < counts_.size(); ++i) fed_[static_cast<std::size_t>(sequences_[i])] += static_cast<std::size_t>(counts_[i]);
  done_ += fed;
  for (std::size_t i = 0; i < through_.size(); ++i) {
    std::copy_n(last_.begin() + static_cast<std::ptrdiff_t>(i * vocabulary), vocabulary,
                logits_.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(through_[i]) * vocabulary));
  }
  return through_;
}

std::span<const float> Prefill::logits(std::int32_t row) const {
  const auto vocabulary = static_cast<std::size_t>(decoder_->config().vocabulary);
  return std::span(logits_).subspan(static_cast<std::size_t>(row) * vocabulary, vocabulary);
}

void Prefill::roll_back() {
  require_untouched("roll_back");
  for (std::size_t r = 0; r < prompts_.size(); ++r) {
    const auto sequence = static_cast<std::int32_t>(r);
    if (cache_->rows(sequence) > rows_before_[r]) cache_->truncate(sequence, rows_before_[r]);
  }
  note();
}

}  // namespace locant
