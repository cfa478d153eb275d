// T5's relative attention bias: one learned number for each bucket of displacements and head (Raffel et al.
// 2020, section 2.1; the bucket rule is that of the published code).
//
//   term(t, j) = table[bucket(j - t)][head]
//
//   unidirectional   r = max(t - j, 0), n = buckets              later keys share bucket 0 with the query itself
//   bidirectional    r = |j - t|, n = buckets / 2                + n where j > t
//   bucket           r                                           for r < e = floor(n / 2)
//                    e + floor((n - e) * ln(r/e) / ln(D/e))      else, at most n - 1; D = max_distance
//
// With 32 buckets and D = 128, bidirectional buckets start at 0..8, 12, 16, 23, 32, 46, 64, 91 and
// unidirectional ones at 0..16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113. Distances 16, 32
// and 64 lie exactly on bidirectional edges; thresholds are therefore derived in integer arithmetic.
//
// The term is not multiplied by the attention scale (T5 itself has scale 1). T5 uses one table, that of layer 0,
// in all layers of a stack, UMT5 one a layer; neither uses any in cross-attention.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "locant/bias/displacement.hpp"
#include "locant/bias/score_term.hpp"
#include "locant/error.hpp"

namespace locant {

enum class T5Direction { kUnidirectional, kBidirectional };

// The rule that puts a displacement into a bucket.
class T5Buckets {
 public:
  // kArgument unless buckets is 2 to 8192 (bidirectional: even and at least 4) and max_distance, up to 2^31-1,
  // is above the number of exact buckets of a side.
  explicit T5Buckets(T5Direction direction, std::int32_t buckets = 32, std::int32_t max_distance = 128);

  T5Direction direction() const noexcept { return direction_; }
  std::int32_t buckets() const noexcept { return buckets_; }
  std::int32_t max_distance() const noexcept { return max_distance_; }

  // Any displacement, not only those of int32 positions.
  std::int32_t bucket(std::int64_t displacement) const noexcept;
  // Smallest distance of each bucket of a side.
  std::span<const std::int64_t> starts() const noexcept { return starts_; }
  // Which displacements each bucket merges, in increasing order of displacement. A bucket that no displacement
  // reaches (bidirectional: n, which would be distance 0 to the right) is not listed.
  std::vector<DisplacementRun> runs() const;

 private:
  T5Direction direction_;
  std::int32_t buckets_, max_distance_;
  std::vector<std::int64_t> starts_;
};

class T5Bias final : public ScoreTerm {
 public:
  // table: [buckets, heads], as the embedding of a checkpoint stores it. kShape, kArgument.
  T5Bias(T5Buckets buckets, std::int32_t heads, std::span<const float> table);

  const T5Buckets& buckets() const noexcept { return buckets_; }

  void add(const ScoreTile& tile, float* scores, std::size_t stride) const override;
  bool shift_invariant() const noexcept override { return true; }
  // kShape unless heads is that of the table.
  void require_fits(std::int32_t heads, std::int32_t kv_heads, std::int32_t head_dim) const override;
  MethodDescription describe() const override;

 private:
  T5Buckets buckets_;
  std::int32_t heads_;
  std::vector<float> by_head_;   // [heads][buckets]
  // Where it stays small: the bias of every displacement -reach_ .. reach_ or -reach_ .. 0, [heads][...].
  std::vector<float> lines_;
  std::int64_t first_ = 0, last_ = 0;
};

}  // namespace locant
