// Shaw's relative positions: a learned vector for each clipped displacement, added to the key inside the score
// and, from a second table, to the value inside the mixture (Shaw, Uszkoreit, Vaswani 2018, eq. 3 and 4).
//
//   score(t, j) = scale * q_t . (k_j + aK[r])        term = scale * q_t . aK[r]
//   y_t         = sum_j w_tj (v_j + aV[r])           r = clamp(j - t, -K, K)
//
// Tables hold row r + K, 2K + 1 rows for both sides. Past only: row r + K for r = -K .. 0, K + 1 rows, later
// keys read row K (the query's own); what decoders use that never see ahead (tensor2tensor's cached step, the
// Music Transformer). One table may serve all heads (tensor2tensor) or there may be one a head.
//
// BERT's relative_key is the key term with K = max_positions - 1 and its table read backwards (BERT indexes by
// query - key); its relative_key_query adds scale * k_j . aK[r] as well (ShawContent).
//
// Clipping loses every distinction beyond K: runs() lists what is merged. Keys and values have tables of their
// own; either may be used alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "locant/bias/displacement.hpp"
#include "locant/bias/score_term.hpp"
#include "locant/error.hpp"

namespace locant {

enum class ShawSides { kBoth, kPastOnly };

// What meets the table in the score: the query (the paper), the key, or each of them.
enum class ShawContent { kQuery, kKey, kBoth };

struct ShawTableConfig {
  std::int32_t max_distance = 0;  // K
  std::int32_t heads = 1;         // tables: 1 for all heads, or one for each
  std::int32_t width = 0;         // head_dim for keys, value_dim for values
  ShawSides sides = ShawSides::kBoth;
};

// The table behind both terms.
class ShawTable {
 public:
  // values: [heads, rows(), width]. kShape; kArgument unless 0 <= K <= 2^20, heads and width 1 to 65536.
  ShawTable(ShawTableConfig config, std::span<const float> values);

  const ShawTableConfig& config() const noexcept { return config_; }
  std::int64_t rows() const noexcept;
  // The row that a displacement reads.
  std::int64_t row(std::int64_t displacement) const noexcept;
  const float* vector(std::int32_t head, std::int64_t row) const noexcept;
  std::vector<DisplacementRun> runs() const;
  // kShape unless the attention has that width and as many heads as the table, where it has more than one.
  void require_fits(const char* call, std::int32_t heads, std::int32_t width) const;
  MethodDescription describe(const char* name, const char* formula) const;

 private:
  ShawTableConfig config_;
  std::vector<float> values_;
};

class ShawKeys final : public ScoreTerm {
 public:
  explicit ShawKeys(ShawTable table, ShawContent content = ShawContent::kQuery)
      : table_(std::move(table)), content_(content) {}
  const ShawTable& table() const noexcept { return table_; }

  void add(const ScoreTile& tile, float* scores, std::size_t stride) const override;
  bool needs_content() const noexcept override { return true; }
  bool shift_invariant() const noexcept override { return true; }
  void require_fits(std::int32_t heads, std::int32_t kv_heads, std::int32_t head_dim) const override;
  MethodDescription describe() const override;

 private:
  ShawTable table_;
  ShawContent content_;
};

class ShawValues final : public ValueTerm {
 public:
  explicit ShawValues(ShawTable table) : table_(std::move(table)) {}
  const ShawTable& table() const noexcept { return table_; }

  void accumulate(const ScoreTile& tile, const float* weights, std::size_t weight_stride, float* out,
                  std::size_t out_stride) const override;
  void require_fits(std::int32_t heads, std::int32_t kv_heads, std::int32_t value_dim) const override;
  MethodDescription describe() const override;

 private:
  ShawTable table_;
};

}  // namespace locant
