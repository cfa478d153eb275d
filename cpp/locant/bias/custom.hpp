// A caller's own score bias: a function of displacement, a table over displacements, or a whole matrix.
//
//   FunctionBias       term(t, j) = f(head, j - t)
//   DisplacementTable  term(t, j) = table[head][clamp(j - t, first, last)], or 0 or an error beyond the ends
//   MatrixBias         term(t, j) = matrix[head][t - first_query][j - first_key]      t, j: positions
//
// None is multiplied by the attention scale. A matrix is read by position, not by slot, so it means the same
// in a prefill, in a cached step and after an eviction.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "locant/bias/displacement.hpp"
#include "locant/bias/score_term.hpp"
#include "locant/error.hpp"

namespace locant {

class FunctionBias final : public ScoreTerm {
 public:
  using Function = std::function<double(std::int32_t head, std::int64_t displacement)>;

  // Called from add(), once for each displacement of a tile or once for each cell; must give the same result for
  // the same arguments. Displacements between those of the tile may be asked for too. Its result is rounded to float32. What it throws passes
  // through. `formula` is for describe(). kArgument where there is no function.
  explicit FunctionBias(Function function, std::string formula = "a function of displacement");

  void add(const ScoreTile& tile, float* scores, std::size_t stride) const override;
  bool shift_invariant() const noexcept override { return true; }
  void require_fits(std::int32_t, std::int32_t, std::int32_t) const override {}
  MethodDescription describe() const override;

 private:
  Function function_;
  std::string formula_;
};

enum class BeyondTable { kClamp, kZero, kError };

class DisplacementTable final : public ScoreTerm {
 public:
  // values: [heads, last - first + 1], for the displacements first .. last. kShape; kArgument unless
  // -(2^31-1) <= first <= last <= 2^31-1.
  DisplacementTable(std::int32_t heads, std::int64_t first, std::int64_t last, std::span<const float> values,
                    BeyondTable beyond = BeyondTable::kClamp);

  // Which displacements share an entry; entry -1 is "nothing is added" under kZero.
  std::vector<DisplacementRun> runs() const;

  // kPositionRange under kError where a cell of the tile lies beyond the table, whether a mask hides it or not.
  void add(const ScoreTile& tile, float* scores, std::size_t stride) const override;
  bool shift_invariant() const noexcept override { return true; }
  void require_fits(std::int32_t heads, std::int32_t kv_heads, std::int32_t head_dim) const override;
  MethodDescription describe() const override;

 private:
  std::int32_t heads_;
  std::int64_t first_, last_;
  BeyondTable beyond_;
  std::vector<float> values_;
};

class MatrixBias final : public ScoreTerm {
 public:
  // values: [heads, queries, keys], for query positions first_query .. and key positions first_key .. . One
  // matrix (heads = 1) serves every head. kShape, kArgument.
  MatrixBias(std::int32_t heads, std::int64_t queries, std::int64_t keys, std::span<const float> values,
             std::int32_t first_query = 0, std::int32_t first_key = 0);

  // kPositionRange where a position of the tile lies outside the matrix.
  void add(const ScoreTile& tile, float* scores, std::size_t stride) const override;
  void require_fits(std::int32_t heads, std::int32_t kv_heads, std::int32_t head_dim) const override;
  MethodDescription describe() const override;

 private:
  std::int32_t heads_;
  std::int64_t queries_, keys_;
  std::int32_t first_query_, first_key_;
  std::vector<float> values_;
};

}  // namespace locant
