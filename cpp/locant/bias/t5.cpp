#include "locant/bias/t5.hpp"

#include <algorithm>
#include <cstdlib>

#include "locant/bias/log_buckets.hpp"
#include "locant/position/positions.hpp"

namespace locant {

T5Buckets::T5Buckets(T5Direction direction, std::int32_t buckets, std::int32_t max_distance)
    : direction_(direction), buckets_(buckets), max_distance_(max_distance) {
  constexpr const char* kCall = "T5Buckets";
  const bool both = direction == T5Direction::kBidirectional;
  require_range(kCall, "buckets", buckets, both ? 4 : 2, 8192);
  if (both && buckets % 2 != 0) {
    throw Error(ErrorCode::kArgument,
                sentence(kCall, ": buckets is ", buckets, ", expected an even number, half for each direction"), buckets);
  }
  const std::int32_t side = both ? buckets / 2 : buckets, exact = side / 2;
  require_range(kCall, "max_distance", max_distance, exact + 1, kMaxPosition);
  for (std::int32_t b = 0; b < exact; ++b) starts_.push_back(b);
  for (std::int32_t m = 0; m < side - exact; ++m) {
    starts_.push_back(log_threshold(exact, max_distance, side - exact, m, Threshold::kReaches));
  }
}

std::int32_t T5Buckets::bucket(std::int64_t displacement) const noexcept {
  const bool both = direction_ == T5Direction::kBidirectional;
  const std::int64_t distance = both ? std::abs(displacement) : std::max<std::int64_t>(-displacement, 0);
  // The last bucket that starts at or before the distance: several may start together where max_distance is small.
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), distance);
  const auto of_side = static_cast<std::int32_t>(after - starts_.begin()) - 1;
  return both && displacement > 0 ? of_side + buckets_ / 2 : of_side;
}

std::vector<DisplacementRun> T5Buckets::runs() const {
  std::vector<DisplacementRun> runs;
  const auto side = static_cast<std::int64_t>(starts_.size());
  for (std::int64_t b = side - 1; b >= 0; --b) {
    const std::int64_t nearest = starts_[static_cast<std::size_t>(b)];
    const std::int64_t farthest = b + 1 < side ? starts_[static_cast<std::size_t>(b) + 1] - 1 : kMaxDisplacement;
    if (farthest < nearest) continue;
    runs.push_back({b, -farthest, -nearest});
  }
  if (direction_ == T5Direction::kUnidirectional) {
    runs.back().last = kMaxDisplacement;  // all later keys
    return runs;
  }
  for (std::int64_t b = 0; b < side; ++b) {
    const std::int64_t nearest = std::max<std::int64_t>(starts_[static_cast<std::size_t>(b)], 1);
    const std::int64_t farthest = b + 1 < side ? starts_[static_cast<std::size_t>(b) + 1] - 1 : kMaxDisplacement;
    if (farthest < nearest) continue;
    runs.push_back({b + side, nearest, farthest});
  }
  return runs;
}

T5Bias::T5Bias(T5Buckets buckets, std::int32_t heads, std::span<const float> table)
    : buckets_(std::move(buckets)), heads_(heads) {
  constexpr const char* kCall = "T5Bias";
  require_range(kCall, "heads", heads, 1, 1 << 16);
  const auto n = static_cast<std::size_t>(buckets_.buckets()), h = static_cast<std::size_t>(heads);
  require_size(kCall, "the table values", table.size(), checked_product(kCall, "the table", {buckets_.buckets(), heads}),
               sentence(n, " buckets x ", h, " heads"));
  by_head_.resize(n * h);
  for (std::size_t b = 0; b < n; ++b) {
    for (std::size_t head = 0; head < h; ++head) by_head_[head * n + b] = table[b * h + head];
  }
  // Past the start of the last bucket nothing changes any more.
  const std::int64_t reach = std::max<std::int64_t>(buckets_.starts().back(), 1);
  first_ = -reach;
  last_ = buckets_.direction() == T5Direction::kBidirectional ? reach : 0;
  constexpr std::int64_t kMostLineValues = std::int64_t{1} << 22;  // 16 MB over all heads
  const std::int64_t length = last_ - first_ + 1;
  if (length > kMostLineValues / heads) return;
  lines_.reserve(static_cast<std::size_t>(length) * h);
  for (std::size_t head = 0; head < h; ++head) {
    for (std::int64_t d = first_; d <= last_; ++d) {
      lines_.push_back(by_head_[head * n + static_cast<std::size_t>(buckets_.bucket(d))]);
    }
  }
}

void T5Bias::add(const ScoreTile& tile, float* scores, std::size_t stride) const {
  const auto head = static_cast<std::size_t>(tile.head);
  if (!lines_.empty()) {
    const float* line = lines_.data() + head * static_cast<std::size_t>(last_ - first_ + 1);
    add_clamped_line(tile, line, first_, last_, scores, stride);
    return;
  }
  const float* values = by_head_.data() + head * static_cast<std::size_t>(buckets_.buckets());
  for (std::size_t row = 0; row < tile.query_rows; ++row) {
    for (std::size_t k = 0; k < tile.keys; ++k) {
      scores[row * stride + k] += values[buckets_.bucket(displacement(tile, row, k))];
    }
  }
}

void T5Bias::require_fits(std::int32_t heads, std::int32_t, std::int32_t) const {
  if (heads == heads_) return;
  throw Error(ErrorCode::kShape, sentence("T5Bias: the table has ", heads_, " heads, the attention has ", heads),
              heads_, heads);
}

MethodDescription T5Bias::describe() const {
  const bool both = buckets_.direction() == T5Direction::kBidirectional;
  MethodDescription d;
  d.name = both ? "T5 buckets, bidirectional" : "T5 buckets, unidirectional";
  d.door = Door::kScore;
  d.reference = Reference::kRelative;
  d.parameters = {parameter("buckets", buckets_.buckets()), parameter("largest distance", buckets_.max_distance()),
                  parameter("heads", heads_)};
  d.formula = sentence("table [", buckets_.buckets(), ", ", heads_, "]");
  d.source = "Raffel et al. 2020, section 2.1, and its code";
  d.origin = "bucket 0 is the query itself";
  d.direction = both ? "displacement = key - query; positive displacements read the second half of the table"
                     : "displacement = key - query; positive displacements read bucket 0";
  d.past_end = sentence("all distances from ", buckets_.starts().back(), " on share a bucket");
  return d;
}

}  // namespace locant
