#include "locant/bias/deberta.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "locant/bias/log_buckets.hpp"
#include "locant/bias/tile_products.hpp"

namespace locant {

DebertaBuckets::DebertaBuckets(DebertaBucketConfig config) : config_(config) {
  constexpr const char* kCall = "DebertaBuckets";
  if (config.buckets != 0) require_range(kCall, "buckets", config.buckets, 4, 8192);
  mid_ = config.buckets / 2;
  require_range(kCall, "max_position", config.max_position, config.buckets == 0 ? 1 : mid_ + 2, 1 << 20);
  span_ = config.buckets == 0 ? config.max_position : config.buckets;
  // ceil(x) is at least m + 1 exactly where x is above m.
  const auto steps = static_cast<std::int32_t>(mid_) - 1;
  for (std::int32_t m = 0; config.buckets != 0 && mid_ + 1 + m <= span_; ++m) {
    starts_.push_back(log_threshold(mid_, config.max_position - 1, steps, m, Threshold::kPasses));
  }
  reach_ = std::max<std::int64_t>(config.max_position, starts_.empty() ? 0 : starts_.back());
  index_.reserve(static_cast<std::size_t>(2 * reach_ + 1));
  for (std::int64_t d = -reach_; d <= reach_; ++d) {
    index_.push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(bucket(-d) + span_, 0, 2 * span_ - 1)));
  }
}

std::int64_t DebertaBuckets::bucket(std::int64_t query_minus_key) const noexcept {
  std::int64_t rel = query_minus_key;
  if (config_.buckets == 0) return rel;
  if (config_.far == DebertaFar::kMicrosoft) {
    rel = std::clamp<std::int64_t>(rel, 1 - config_.max_position, config_.max_position - 1);
  }
  const std::int64_t distance = rel < 0 ? -rel : rel;
  if (distance <= mid_) return rel;
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), distance);
  const std::int64_t size = mid_ + (after - starts_.begin());
  return rel < 0 ? -size : size;
}

std::int64_t DebertaBuckets::index(std::int64_t displacement) const noexcept {
  return index_[static_cast<std::size_t>(std::clamp(displacement, -reach_, reach_) + reach_)];
}

std::vector<DisplacementRun> DebertaBuckets::runs() const {
  std::vector<DisplacementRun> runs;
  // The index never rises with the displacement, so the end of a run can be found by halving.
  for (std::int64_t first = -kMaxDisplacement; first <= kMaxDisplacement;) {
    const std::int64_t entry = index(first);
    std::int64_t last = first, beyond = kMaxDisplacement + 1;
    while (beyond - last > 1) {
      const std::int64_t half = last + (beyond - last) / 2;
      (index(half) == entry ? last : beyond) = half;
    }
    runs.push_back({entry, first, last});
    first = last + 1;
  }
  return runs;
}

Deberta::Deberta(DebertaBuckets buckets, std::int32_t heads, std::int32_t head_dim,
                 std::span<const float> content_to_position, std::span<const float> position_to_content,
                 DebertaPositionToContent convention)
    : buckets_(std::move(buckets)), heads_(heads), head_dim_(head_dim), convention_(convention) {
  constexpr const char* kCall = "Deberta";
  require_range(kCall, "heads", heads, 1, 1 << 16);
  require_range(kCall, "head_dim", head_dim, 1, 1 << 16);
  if (content_to_position.empty() && position_to_content.empty()) {
    throw Error(ErrorCode::kArgument, sentence(kCall, ": neither part has values, expected at least one"));
  }
  const std::size_t expected = checked_product(kCall, "a table", {heads, buckets_.entries(), head_dim});
  for (const auto& [what, values] : {std::pair{"the content-to-position values", content_to_position},
                                     {"the position-to-content values", position_to_content}}) {
    if (values.empty()) continue;
    require_size(kCall, what, values.size(), expected,
                 sentence(heads, " heads x ", buckets_.entries(), " rows x ", head_dim));
  }
  keys_.assign(content_to_position.begin(), content_to_position.end());
  queries_.assign(position_to_content.begin(), position_to_content.end());
}

double Deberta::scale() const noexcept {
  const int parts = 1 + (keys_.empty() ? 0 : 1) + (queries_.empty() ? 0 : 1);
  return 1 / std::sqrt(static_cast<double>(head_dim_) * parts);
}

void Deberta::add(const ScoreTile& tile, float* scores, std::size_t stride) const {
  if (tile.keys == 0) return;
  const auto width = static_cast<std::size_t>(head_dim_);
  const std::size_t head = static_cast<std::size_t>(tile.head) * static_cast<std::size_t>(buckets_.entries()) * width;
  const auto index_of = [&](std::int64_t d) { return buckets_.index(d); };
  std::vector<float> products;
  for (std::size_t row = 0; row < tile.query_rows; ++row) {
    float* to = scores + row * stride;
    if (!keys_.empty()) {
      const auto vector_of = [&](std::int64_t i) { return keys_.data() + head + static_cast<std::size_t>(i) * width; };
      detail::add_products(tile, row, tile.query + row * tile.query_stride, width, tile.scale, index_of, vector_of,
                           products, to);
    }
    if (queries_.empty()) continue;
    for (std::size_t k = 0; k < tile.keys; ++k) {
      const std::int64_t d = displacement(tile, row, k);
      const std::int64_t i = buckets_.index(convention_ == DebertaPositionToContent::kCode ? d : -d);
      const float* r = queries_.data() + head + static_cast<std::size_t>(i) * width;
      to[k] += tile.scale * dot(tile.key + k * tile.key_stride, r, width);
    }
  }
}

void Deberta::require_fits(std::int32_t heads, std::int32_t, std::int32_t head_dim) const {
  if (heads == heads_ && head_dim == head_dim_) return;
  throw Error(ErrorCode::kShape, sentence("Deberta: it was made for ", heads_, " heads of ", head_dim_,
              ", the attention has ", heads, " of ", head_dim), heads_, heads);
}

MethodDescription Deberta::describe() const {
  const DebertaBucketConfig& c = buckets_.config();
  MethodDescription d;
  d.name = keys_.empty() ? "DeBERTa, p2c" : queries_.empty() ? "DeBERTa, c2p" : "DeBERTa, c2p and p2c";
  d.door = Door::kScore;
  d.reference = Reference::kRelative;
  d.parameters = {parameter("heads", heads_), parameter("head size", head_dim_), parameter("buckets", c.buckets),
                  parameter("largest position", c.max_position),
                  {"far", c.far == DebertaFar::kMicrosoft ? "Microsoft" : "Hugging Face"},
                  {"p2c", convention_ == DebertaPositionToContent::kCode ? "code: index(t, j)" : "paper: index(j, t)"}};
  d.formula = sentence("scale * (q . Kr[index] + k . Qr[index]), tables [", heads_, ", ", buckets_.entries(), ", ",
                       head_dim_, "]");
  d.source = "He et al. 2021, eq. 4, and its code";
  d.origin = sentence("row ", buckets_.span(), " is the query itself");
  d.direction = "indexed by query - key, the opposite of displacement";
  const std::vector<DisplacementRun> runs = buckets_.runs();
  d.past_end = sentence("displacements up to ", runs.front().last, " share row ", runs.front().entry, ", from ",
                        runs.back().first, " on row ", runs.back().entry);
  return d;
}

}  // namespace locant
