// DeBERTa's disentangled attention (He et al. 2021, eq. 4; v2/v3's log buckets from its code).
//
//   score(t, j) = scale * ( q_t . k_j  +  q_t . Kr[index(t, j)]  +  k_j . Qr[index'(t, j)] )
//                                         content to position       position to content
//   index(t, j) = clamp(bucket(t - j) + S, 0, 2S - 1)          note: query - key, the opposite of displacement
//
// The term is everything but q_t . k_j. scale is 1 / sqrt(head_dim * (1 + number of the two terms used)): give
// it to the attention. Kr and Qr are the relative embeddings after the model's own projections, [heads, 2S,
// head_dim].
//
//   bucket, no log buckets (v1)   t - j                                       S = max_position
//   bucket, log buckets (v2, v3)  t - j                                       up to mid = floor(buckets / 2)
//                                 +- (mid + ceil(ln(|t-j| / mid) / ln((M-1) / mid) * (mid - 1)))   beyond
//                                                                             S = buckets, M = max_position
//
// What engines disagree about, as data:
//   far          Microsoft clamps t - j to +-(M - 1) before it is put into a bucket, Hugging Face does not, so
//                that index 0 is reached at t - j <= -M by Hugging Face alone.
//   index'       the paper has index(j, t); both published codes use index(t, j), which checkpoints know.
//
// Thresholds are derived in integer arithmetic (log_buckets.hpp); no logarithm at run time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "locant/bias/displacement.hpp"
#include "locant/bias/score_term.hpp"
#include "locant/error.hpp"

namespace locant {

enum class DebertaFar { kHuggingFace, kMicrosoft };
enum class DebertaPositionToContent { kCode, kPaper };

struct DebertaBucketConfig {
  std::int32_t buckets = 256;       // position_buckets; 0: none, as in v1
  std::int32_t max_position = 512;  // max_relative_positions
  DebertaFar far = DebertaFar::kHuggingFace;
};

class DebertaBuckets {
 public:
  // kArgument unless buckets is 0 or 4 to 8192, max_position 1 to 2^20 and, with buckets, above mid + 1.
  explicit DebertaBuckets(DebertaBucketConfig config);

  const DebertaBucketConfig& config() const noexcept { return config_; }
  std::int64_t span() const noexcept { return span_; }          // S
  std::int64_t entries() const noexcept { return 2 * span_; }

  // The signed bucket of query - key, before it is moved and clamped into the table. Log
  // buckets stop at +-S, since the table tells nothing apart beyond that.
  std::int64_t bucket(std::int64_t query_minus_key) const noexcept;
  // The row of Kr for a displacement (key - query).
  std::int64_t index(std::int64_t displacement) const noexcept;
  // Which displacements share a row.
  std::vector<DisplacementRun> runs() const;

 private:
  DebertaBucketConfig config_;
  std::int64_t span_, mid_;
  std::vector<std::int64_t> starts_;  // smallest distance of bucket mid + 1 + m
  std::int64_t reach_ = 0;            // displacements beyond +-reach_ read the row of +-reach_
  std::vector<std::int32_t> index_;   // of displacements -reach_ .. reach_
};

class Deberta final : public ScoreTerm {
 public:
  // content_to_position (Kr) and position_to_content (Qr): [heads, 2S, head_dim], or empty where the model does
  // not use that part; at least one is given. kShape, kArgument.
  Deberta(DebertaBuckets buckets, std::int32_t heads, std::int32_t head_dim, std::span<const float> content_to_position,
          std::span<const float> position_to_content,
          DebertaPositionToContent convention = DebertaPositionToContent::kCode);

  const DebertaBuckets& buckets() const noexcept { return buckets_; }
  // 1 / sqrt(head_dim * (1 + parts used)).
  double scale() const noexcept;

  void add(const ScoreTile& tile, float* scores, std::size_t stride) const override;
  bool needs_content() const noexcept override { return true; }
  bool shift_invariant() const noexcept override { return true; }
  void require_fits(std::int32_t heads, std::int32_t kv_heads, std::int32_t head_dim) const override;
  MethodDescription describe() const override;

 private:
  DebertaBuckets buckets_;
  std::int32_t heads_, head_dim_;
  std::vector<float> keys_, queries_;
  DebertaPositionToContent convention_;
};

}  // namespace locant
