#include "locant/attention/mask.hpp"

#include <algorithm>


namespace locant {

void require_mask(std::string_view call, const Mask& mask) {
  if (mask.window) {
    const bool counts = mask.window->convention == WindowConvention::kCountsCurrent;
    require_range(call, "the window", mask.window->size, counts ? 1 : 0, kMaxPosition);
    require_range(call, "sinks", mask.window->sinks, 0, kMaxPosition);
  }
  if (mask.chunk) require_range(call, "the chunk", *mask.chunk, 1, kMaxPosition);
  for (const std::int32_t prefix : mask.prefix) require_range(call, "a prefix", prefix, 0, kMaxPosition);
}

Mask merged_mask(std::string_view call, const Mask& mask, const CallMask& added, std::int32_t rows) {
  const std::span<const std::int32_t> prefix = added.prefix.empty() ? std::span(mask.prefix) : added.prefix;
  Mask merged{mask.direction, mask.window, mask.chunk, {prefix.begin(), prefix.end()}, {}};
  require_mask(call, merged);
  if (merged.prefix.size() > 1) {
    require_size(call, "prefixes", merged.prefix.size(), static_cast<std::size_t>(rows), "one for each row");
  }
  return merged;
}

std::span<const std::uint8_t> visible_of(const Mask& mask, const CallMask& added) noexcept {
  return added.visible.empty() ? std::span(mask.visible) : added.visible;
}

std::vector<std::span<const std::uint8_t>> split_visible(std::string_view call, std::span<const std::uint8_t> visible,
                                                         std::span<const std::size_t> queries,
                                                         std::span<const std::size_t> keys) {
  std::vector<std::span<const std::uint8_t>> parts(queries.size());
  if (visible.empty()) return parts;
  std::size_t total = 0;
  for (std::size_t r = 0; r < queries.size(); ++r) total += queries[r] * keys[r];
  require_size(call, "the mask's rows", visible.size(), total, "the sum over rows of queries x keys");
  std::size_t at = 0;
  for (std::size_t r = 0; r < queries.size(); ++r) {
    parts[r] = visible.subspan(at, queries[r] * keys[r]);
    at += queries[r] * keys[r];
  }
  return parts;
}

TokenView view_of(const Positions& positions, std::int32_t row) {
  const std::size_t first = positions.row_begin(row), count = positions.row_length(row);
  return {positions.order().subspan(first, count), positions.segment().subspan(first, count),
          positions.valid().subspan(first, count)};
}

Visibility::Visibility(const Mask& mask, std::int32_t row, TokenView queries, TokenView keys,
                       std::span<const std::uint8_t> visible)
    : Visibility(mask, row, queries, keys, std::span<const TokenSummary>(), visible) {
  key_blocks_ = own_blocks_.of(keys_);
}

Visibility::Visibility(const Mask& mask, std::int32_t row, TokenView queries, TokenView keys,
                       std::span<const TokenSummary> key_blocks, std::span<const std::uint8_t> visible)
    : mask_(&mask), queries_(queries), keys_(keys), visible_(visible), key_blocks_(key_blocks) {
  if (!visible_.empty()) {
    require_size("attend", "the mask of a row", visible_.size(), queries.size() * keys.size(),
                 sentence(queries.size(), " queries x ", keys.size(), " keys"));
  }
  if (!mask.prefix.empty()) {
    prefix_ = mask.prefix[mask.prefix.size() == 1 ? 0 : static_cast<std::size_t>(row)];
  }
}

Visibility::Reach Visibility::reach(std::int32_t order) const noexcept {
  const auto clamped = [](std::int64_t x) {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(x, -std::int64_t{kMaxPosition}, kMaxPosition));
  };
  const bool causal = mask_->direction == Direction::kCausal;
  Reach r{-kMaxPosition, causal ? std::max(order, prefix_ - 1) : kMaxPosition, -kMaxPosition, kMaxPosition, 0};
  if (mask_->window) {
    const std::int64_t most = std::int64_t{mask_->window->size} -
                              (mask_->window->convention == WindowConvention::kCountsCurrent ? 1 : 0);
    r.window_low = clamped(order - most);
    if (!causal) r.window_high = clamped(order + most);
    r.sinks = mask_->window->sinks;
  }
  if (mask_->chunk) {
    const std::int64_t first = std::int64_t{order} / *mask_->chunk * *mask_->chunk;
    r.low = clamped(first);
    r.high = std::min(r.high, clamped(first + *mask_->chunk - 1));
  }
  return r;
}

bool Visibility::sees(std::size_t query, std::size_t key) const noexcept {
  if (!queries_.valid[query] || !keys_.valid[key]) return false;
  if (queries_.segment[query] != keys_.segment[key]) return false;
  if (!visible_.empty() && visible_[query * keys_.size() + key] == 0) return false;
  return reach(queries_.order[query]).holds(keys_.order[key]);
}

Visibility::Coverage Visibility::coverage(const TokenSummary& q, std::size_t k0, std::size_t k1) const noexcept {
  TokenSummary k = TokenSummary::none();
  std::size_t at = k0;
  while (at < k1) {
    const std::size_t edge = std::min((at / kKeyBlock + 1) * kKeyBlock, keys_.size());
    if (at % kKeyBlock == 0 && edge <= k1) {
      k.merge(key_blocks_[at / kKeyBlock]);
      at = edge;
    } else {
      const std::size_t stop = std::min(edge, k1);
      k.merge(TokenSummary::of(keys_, at, stop));
      at = stop;
    }
  }
  if (!q.any_valid || !k.any_valid) return Coverage::kNone;
  if (q.segment_high < k.segment_low || k.segment_high < q.segment_low) return Coverage::kNone;

  // Each rule either hides the whole tile, or may hide a part of it, or hides nothing of it.
  bool all = q.all_valid && k.all_valid && visible_.empty() && q.segment_low == q.segment_high &&
             k.segment_low == k.segment_high;
  const std::int64_t q_low = q.order_low, q_high = q.order_high, k_low = k.order_low, k_high = k.order_high;
  if (mask_->direction == Direction::kCausal) {
    if (k_low > q_high && k_low >= prefix_) return Coverage::kNone;
    if (k_high > q_low && k_high >= prefix_) all = false;
  }
  if (mask_->window) {
    const bool causal = mask_->direction == Direction::kCausal;
    const std::int64_t most = std::int64_t{mask_->window->size} -
                              (mask_->window->convention == WindowConvention::kCountsCurrent ? 1 : 0);
    // The smallest and largest distance back within the tile.
    std::int64_t nearest = q_low - k_high, farthest = q_high - k_low;
    if (!causal) {
      const std::int64_t ahead = k_high - q_low, behind = q_high - k_low;
      nearest = std::max<std::int64_t>({0, k_low - q_high, q_low - k_high});
      farthest = std::max(std::abs(ahead), std::abs(behind));
    }
    const bool no_sinks = k_low >= mask_->window->sinks;
    if (nearest > most && no_sinks) return Coverage::kNone;
    if (farthest > most && k_high >= mask_->window->sinks) all = false;
  }
  if (mask_->chunk) {
    const std::int64_t c = *mask_->chunk;
    if (q_high / c < k_low / c || k_high / c < q_low / c) return Coverage::kNone;
    if (q_low / c != q_high / c || k_low / c != k_high / c || q_low / c != k_low / c) all = false;
  }
  return all ? Coverage::kAll : Coverage::kSome;
}

void Visibility::row(std::size_t query, std::size_t k0, std::size_t k1, std::uint8_t* out) const noexcept {
  if (!queries_.valid[query]) {
    std::fill(out, out + (k1 - k0), std::uint8_t{0});
    return;
  }
  // Without a branch, for compilers that make vectors of it.
  const Reach r = reach(queries_.order[query]);
  const std::int32_t query_segment = queries_.segment[query];
  const std::int32_t *const order = keys_.order.data() + k0, *const segment = keys_.segment.data() + k0;
  const std::uint8_t* const valid = keys_.valid.data() + k0;
  std::uint8_t* const __restrict seen = out;
  for (std::size_t i = 0; i < k1 - k0; ++i) {
    seen[i] = static_cast<std::uint8_t>(r.holds(order[i]) & (segment[i] == query_segment) & (valid[i] != 0));
  }
  if (visible_.empty()) return;
  const std::uint8_t* const visible = visible_.data() + query * keys_.size();
  for (std::size_t k = k0; k < k1; ++k) out[k - k0] = static_cast<std::uint8_t>(out[k - k0] & (visible[k] != 0));
}

}  // namespace locant
