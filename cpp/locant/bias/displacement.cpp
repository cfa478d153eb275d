#include "locant/bias/displacement.hpp"

#include <algorithm>

namespace locant {

std::vector<DisplacementRun> clipped_runs(std::int64_t first, std::int64_t last) {
  std::vector<DisplacementRun> runs;
  runs.reserve(static_cast<std::size_t>(last - first + 1));
  for (std::int64_t d = first; d <= last; ++d) {
    runs.push_back({d - first, d == first ? -kMaxDisplacement : d, d == last ? kMaxDisplacement : d});
  }
  return runs;
}

bool keys_consecutive(const ScoreTile& tile) noexcept {
  const std::int32_t* p = tile.key_position;
  if (tile.keys == 0 || p[0] > kMaxDisplacement - static_cast<std::int64_t>(tile.keys)) return false;
  int odd = 0;
  for (std::size_t k = 1; k < tile.keys; ++k) odd |= (p[k] - p[0]) ^ static_cast<std::int32_t>(k);
  return odd == 0;
}

void add_clamped_line(const ScoreTile& tile, const float* line, std::int64_t first, std::int64_t last, float* scores,
                      std::size_t stride) noexcept {
  if (tile.keys == 0) return;
  const bool consecutive = keys_consecutive(tile);
  const auto keys = static_cast<std::int64_t>(tile.keys);
  const float left = line[0], right = line[last - first];
  for (std::size_t row = 0; row < tile.query_rows; ++row) {
    float* to = scores + row * stride;
    if (!consecutive) {
      for (std::size_t k = 0; k < tile.keys; ++k) to[k] += line[std::clamp(displacement(tile, row, k), first, last) - first];
      continue;
    }
    const std::int64_t start = displacement(tile, row, 0);
    const std::int64_t inner = std::clamp<std::int64_t>(first - start, 0, keys);      // keys left of the line
    const std::int64_t outer = std::clamp<std::int64_t>(last - start + 1, 0, keys);   // first key right of it
    for (std::int64_t k = 0; k < inner; ++k) to[k] += left;
    for (std::int64_t k = inner; k < outer; ++k) to[k] += line[start - first + k];
    for (std::int64_t k = outer; k < keys; ++k) to[k] += right;
  }
}

float dot(const float* a, const float* b, std::size_t n) noexcept {
  constexpr std::size_t kLanes = 8;
  float sums[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t l = 0; l < kLanes; ++l) sums[l] += a[i + l] * b[i + l];
  }
  float rest = 0;
  for (; i < n; ++i) rest += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7])) + rest;
}

}  // namespace locant
