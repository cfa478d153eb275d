#include "locant/attention/mask.hpp"

#include <algorithm>

#include "locant/memory.hpp"

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
    : mask_(&mask), queries_(queries), keys_(keys), visible_(visible) {
  if (!visible_.empty()) {
    require_size("attend", "the mask of a row", visible_.size(), queries.size() * keys.size(),
                 sentence(queries.size(), " queries x ", keys.size(), " keys"));
  }
  if (!mask.prefix.empty()) {
    prefix_ = mask.prefix[mask.prefix.size() == 1 ? 0 : static_cast<std::size_t>(row)];
  }
  const std::size_t blocks = (keys_.size() + kKeyBlock - 1) / kKeyBlock;
  with_memory("attend", static_cast<double>(blocks * sizeof(Summary)), [&] { key_blocks_.reserve(blocks); });
  for (std::size_t k = 0; k < keys_.size(); k += kKeyBlock) {
    key_blocks_.push_back(summarise(keys_, k, std::min(k + kKeyBlock, keys_.size())));
  }
}

bool Visibility::sees(std::size_t query, std::size_t key) const noexcept {
  if (!queries_.valid[query] || !keys_.valid[key]) return false;
  if (queries_.segment[query] != keys_.segment[key]) return false;
  if (!visible_.empty() && visible_[query * keys_.size() + key] == 0) return false;
  const std::int64_t o_q = queries_.order[query], o_k = keys_.order[key];
  if (mask_->direction == Direction::kCausal && o_k > o_q && o_k >= prefix_) return false;
  if (mask_->window) {
    const std::int64_t back = mask_->direction == Direction::kCausal ? o_q - o_k : std::abs(o_q - o_k);
    const std::int64_t most = std::int64_t{mask_->window->size} -
                              (mask_->window->convention == WindowConvention::kCountsCurrent ? 1 : 0);
    if (back > most && o_k >= mask_->window->sinks) return false;
  }
  if (mask_->chunk && o_q / *mask_->chunk != o_k / *mask_->chunk) return false;
  return true;
}

Visibility::Summary Visibility::summarise(const TokenView& tokens, std::size_t first, std::size_t last) noexcept {
  Summary s{kMaxPosition, -1, kMaxPosition, -1, false, true};
  for (std::size_t i = first; i < last; ++i) {
    if (!tokens.valid[i]) {
      s.all_valid = false;
      continue;
    }
    s.any_valid = true;
    s.order_low = std::min(s.order_low, tokens.order[i]);
    s.order_high = std::max(s.order_high, tokens.order[i]);
    s.segment_low = std::min(s.segment_low, tokens.segment[i]);
    s.segment_high = std::max(s.segment_high, tokens.segment[i]);
  }
  return s;
}

void Visibility::merge(Summary& into, const Summary& other) noexcept {
  into.order_low = std::min(into.order_low, other.order_low);
  into.order_high = std::max(into.order_high, other.order_high);
  into.segment_low = std::min(into.segment_low, other.segment_low);
  into.segment_high = std::max(into.segment_high, other.segment_high);
  into.any_valid = into.any_valid || other.any_valid;
  into.all_valid = into.all_valid && other.all_valid;
}

Visibility::Coverage Visibility::coverage(std::size_t q0, std::size_t q1, std::size_t k0,
                                          std::size_t k1) const noexcept {
  if (q0 >= q1 || k0 >= k1) return Coverage::kNone;
  const Summary q = summarise(queries_, q0, q1);
  Summary k{kMaxPosition, -1, kMaxPosition, -1, false, true};
  std::size_t at = k0;
  while (at < k1) {
    const std::size_t edge = std::min((at / kKeyBlock + 1) * kKeyBlock, keys_.size());
    if (at % kKeyBlock == 0 && edge <= k1) {
      merge(k, key_blocks_[at / kKeyBlock]);
      at = edge;
    } else {
      const std::size_t stop = std::min(edge, k1);
      merge(k, summarise(keys_, at, stop));
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
  for (std::size_t k = k0; k < k1; ++k) out[k - k0] = sees(query, k) ? 1 : 0;
}

}  // namespace locant
