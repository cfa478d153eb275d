// Masks: who may see whom.
//
// Decided by order within a segment, by validity, and by the caller's own mask; never by position numbers
// (tokens may share them) and never by array index. With o_q and o_k the orders of query and key, a query
// sees a key where all of these hold:
//
//   both valid, same segment
//   explicit mask (if any) says so
//   causal     o_k <= o_q, or o_k < prefix of the row (prefix-LM: the prefix sees itself both ways);
//              bidirectional: any o_k
//   window     o_q - o_k <  size  (kCountsCurrent: the window of `size` tokens includes the query itself:
//                                  Hugging Face, llama.cpp, MLX)
//              o_q - o_k <= size  (kBeforeCurrent: `size` tokens before the query: FlashAttention's left
//                                  bound, ONNX); bidirectional: the same of |o_q - o_k|
//   sinks      or o_k < sinks, whatever the window
//   chunk      floor(o_q / chunk) = floor(o_k / chunk)
//
// Since orders count on when a cache is continued, causal is what other libraries call bottom-right aligned.
// A query that sees nothing gets zeros from attention, by definition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "locant/attention/summary.hpp"
#include "locant/position/positions.hpp"

namespace locant {

enum class Direction { kCausal, kBidirectional };
enum class WindowConvention { kCountsCurrent, kBeforeCurrent };

struct Window {
  std::int32_t size = 0;
  WindowConvention convention = WindowConvention::kCountsCurrent;
  // Keys of the segment with an order below this stay visible (attention sinks).
  std::int32_t sinks = 0;
  friend bool operator==(const Window&, const Window&) = default;
};

struct Mask {
  Direction direction = Direction::kCausal;
  std::optional<Window> window;
  std::optional<std::int32_t> chunk;
  // Prefix length of each row (one number serves all rows); empty: no prefix.
  std::vector<std::int32_t> prefix;
  // The caller's own mask, non-zero = may see: row after row [queries of the row, keys of the row], where the
  // keys of a cached row are its stored rows with the new ones last. Empty: none.
  std::vector<std::uint8_t> visible;
};

// kArgument unless window.size >= 1 (or >= 0 before-current), sinks >= 0, chunk >= 1, prefixes >= 0.
void require_mask(std::string_view call, const Mask& mask);

// What one call adds to the mask of its configuration: a prefix and an explicit mask, as in Mask, of this
// batch. Empty ones leave the configuration's in force.
struct CallMask {
  std::span<const std::int32_t> prefix;
  std::span<const std::uint8_t> visible;
};

// The mask in force for one call over `rows` rows, but for the explicit one, which is visible_of(): it may be large and
// is not copied. kShape where a prefix is neither one number nor one a row.
Mask merged_mask(std::string_view call, const Mask& mask, const CallMask& added, std::int32_t rows);

std::span<const std::uint8_t> visible_of(const Mask& mask, const CallMask& added) noexcept;

// Cuts an explicit mask into the parts of its rows, queries[r] x keys[r] values each; empty parts where the mask
// is empty. kShape where it holds another number of values.
std::vector<std::span<const std::uint8_t>> split_visible(std::string_view call, std::span<const std::uint8_t> visible,
                                                         std::span<const std::size_t> queries,
                                                         std::span<const std::size_t> keys);

TokenView view_of(const Positions& positions, std::int32_t row);

// The mask of one row, in a form that kernels can ask cheaply about whole tiles.
class Visibility {
 public:
  static constexpr std::size_t kKeyBlock = BlockSummaries::kBlock;
  enum class Coverage { kNone, kSome, kAll };

  // `visible`: the part of mask.visible that is this row's, [queries, keys]; empty where the mask has none.
  // Errors: kShape where it has another size. `row` picks the prefix.
  Visibility(const Mask& mask, std::int32_t row, TokenView queries, TokenView keys,
             std::span<const std::uint8_t> visible = {});
  // With the summaries of the keys' blocks, which must outlive it.
  Visibility(const Mask& mask, std::int32_t row, TokenView queries, TokenView keys,
             std::span<const TokenSummary> key_blocks, std::span<const std::uint8_t> visible);

  std::size_t queries() const noexcept { return queries_.size(); }
  std::size_t keys() const noexcept { return keys_.size(); }

  // The definition, one pair.
  bool sees(std::size_t query, std::size_t key) const noexcept;

  // Queries [q0, q1), for coverage().
  TokenSummary summary(std::size_t q0, std::size_t q1) const noexcept { return TokenSummary::of(queries_, q0, q1); }
  // Of these queries against keys [k0, k1): kNone and kAll are exact promises, kSome promises nothing.
  // O((k1-k0)/kKeyBlock) where k0 and k1 lie on block edges or the end.
  Coverage coverage(const TokenSummary& queries, std::size_t k0, std::size_t k1) const noexcept;

  // out[i] = 1 where `query` sees key k0+i, else 0, for k0 <= k0+i < k1.
  void row(std::size_t query, std::size_t k0, std::size_t k1, std::uint8_t* out) const noexcept;

 private:
  // The orders that a query sees keys of: those within [low, high] that lie in its window or are sinks.
  struct Reach {
    std::int32_t low, high, window_low, window_high, sinks;
    bool holds(std::int32_t order) const noexcept {
      return ((order >= low) & (order <= high)) & (((order >= window_low) & (order <= window_high)) | (order < sinks));
    }
  };
  Reach reach(std::int32_t order) const noexcept;

  const Mask* mask_;
  TokenView queries_, keys_;
  std::span<const std::uint8_t> visible_;
  std::int32_t prefix_ = 0;
  BlockSummaries own_blocks_;  // where the caller has none
  std::span<const TokenSummary> key_blocks_;
};

}  // namespace locant
