// What the terms of door 3 share: runs of displacements that read one entry, and tables over displacement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "locant/bias/score_term.hpp"

namespace locant {

// The largest displacement between two positions.
inline constexpr std::int64_t kMaxDisplacement = 2147483647;

// All displacements first .. last (both included) read the same entry of a method's table: whatever lies
// between them, the method cannot tell it apart.
struct DisplacementRun {
  std::int64_t entry = 0;
  std::int64_t first = 0, last = 0;
  friend bool operator==(const DisplacementRun&, const DisplacementRun&) = default;
};

// The runs of a table with one entry for each displacement first .. last, whose ends also serve all that lies
// beyond them, to -kMaxDisplacement and kMaxDisplacement. Entries count from 0 at `first`.
std::vector<DisplacementRun> clipped_runs(std::int64_t first, std::int64_t last);

// Key position - query position of one cell of a tile.
inline std::int64_t displacement(const ScoreTile& tile, std::size_t row, std::size_t key) noexcept {
  return std::int64_t{tile.key_position[key]} - tile.query_position[row];
}

// Whether the keys of the tile stand at consecutive positions, as those of plain text do.
bool keys_consecutive(const ScoreTile& tile) noexcept;

// scores[row * stride + key] += line[clamp(displacement, first, last) - first].
void add_clamped_line(const ScoreTile& tile, const float* line, std::int64_t first, std::int64_t last, float* scores,
                      std::size_t stride) noexcept;

// a . b over n floats in eight partial sums, so that the compiler can use vectors and the result does not
// depend on which.
float dot(const float* a, const float* b, std::size_t n) noexcept;

}  // namespace locant
