#include "locant/attention/summary.hpp"

#include <algorithm>

#include "locant/memory.hpp"
#include "locant/position/positions.hpp"

namespace locant {

TokenSummary TokenSummary::none() noexcept { return {kMaxPosition, -1, kMaxPosition, -1, false, true}; }

TokenSummary TokenSummary::of(const TokenView& tokens, std::size_t first, std::size_t last) noexcept {
  TokenSummary s = none();
  std::size_t valid = 0;
  for (std::size_t i = first; i < last; ++i) valid += tokens.valid[i] != 0;
  s.any_valid = valid != 0;
  s.all_valid = valid == last - first;
  // Without a branch, for compilers that make vectors of it: what is not valid takes the place of none.
  for (std::size_t i = first; i < last; ++i) {
    const bool is_valid = tokens.valid[i] != 0;
    s.order_low = std::min(s.order_low, is_valid ? tokens.order[i] : kMaxPosition);
    s.order_high = std::max(s.order_high, is_valid ? tokens.order[i] : -1);
    s.segment_low = std::min(s.segment_low, is_valid ? tokens.segment[i] : kMaxPosition);
    s.segment_high = std::max(s.segment_high, is_valid ? tokens.segment[i] : -1);
  }
  return s;
}

void TokenSummary::merge(const TokenSummary& other) noexcept {
  order_low = std::min(order_low, other.order_low);
  order_high = std::max(order_high, other.order_high);
  segment_low = std::min(segment_low, other.segment_low);
  segment_high = std::max(segment_high, other.segment_high);
  any_valid = any_valid || other.any_valid;
  all_valid = all_valid && other.all_valid;
}

std::span<const TokenSummary> BlockSummaries::of(const TokenView& tokens) {
  const std::size_t count = (tokens.size() + kBlock - 1) / kBlock;
  if (count > blocks_.capacity()) {
    const std::size_t room = std::max(count, 2 * blocks_.capacity());
    with_memory("attend", static_cast<double>(room * sizeof(TokenSummary)), [&] { blocks_.reserve(room); });
  }
  blocks_.resize(count);
  for (; known_ < count; ++known_) {
    const std::size_t first = known_ * kBlock;
    blocks_[known_] = TokenSummary::of(tokens, first, std::min(first + kBlock, tokens.size()));
  }
  known_ = count;
  return blocks_;
}

void BlockSummaries::changed_from(std::size_t token) noexcept { known_ = std::min(known_, token / kBlock); }

}  // namespace locant
