// What a mask needs to know of many tokens at once: the range of their orders and segments, in blocks of 64.
//
// With it a mask says of a whole tile, without looking at its tokens, that nothing or all of it is seen. A cache keeps
// the summaries of what it holds from step to step and for all layers, so that a step costs what it brings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace locant {

// What a mask reads of one side of one row. The spans must outlive what is made of them.
struct TokenView {
  std::span<const std::int32_t> order, segment;
  std::span<const std::uint8_t> valid;
  std::size_t size() const noexcept { return order.size(); }
};

// Of the valid tokens of a run; of none, the lowest are above the highest.
struct TokenSummary {
  std::int32_t order_low, order_high, segment_low, segment_high;
  bool any_valid, all_valid;

  static TokenSummary none() noexcept;
  static TokenSummary of(const TokenView& tokens, std::size_t first, std::size_t last) noexcept;
  void merge(const TokenSummary& other) noexcept;
};

// The summaries of a row's blocks, kept while tokens come and go.
class BlockSummaries {
 public:
  static constexpr std::size_t kBlock = 64;

  // One for each block of `tokens`; only what changed since the last call is made anew. Error kOutOfMemory.
  std::span<const TokenSummary> of(const TokenView& tokens);
  // Tokens from this one on came, went or are others now.
  void changed_from(std::size_t token) noexcept;

 private:
  std::vector<TokenSummary> blocks_;
  std::size_t known_ = 0;  // blocks that hold
};

}  // namespace locant
