// Learned absolute positions: door 1 as a table of parameters (x_t = e_t + P[row(t)]).
//
//   row(t) = position + first_row           valid tokens
//   row(t) = padding_row                    padded tokens, where the convention has one; else nothing is added
//
// Where position 0 lies in the stored table is a convention, and the usual source of off-by-two faults:
//
//   convention       first_row         padding_row     stored rows for L positions
//   from zero        0                 none            L            BERT, GPT-2, ViT
//   RoBERTa          padding_idx + 1   padding_idx     L + 2 at padding_idx 1 (514 for 512); XLM-R, ESM, MPNet
//   OPT              2                 1               L + 2        positions count valid tokens, padding is -1
//   BART             2                 none            L + 2        positions count every slot: give it
//                                                                  Positions::range, padding marked or not
//
// The table ends. What happens past its end is the caller's explicit choice (PastEnd); the default is an
// error at the first position without a row.
//
// Values: [rows, width] float32, row-major, as stored in the checkpoint (with its offset rows). Adding is one
// float32 addition per value.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "locant/error.hpp"
#include "locant/method.hpp"
#include "locant/position/positions.hpp"

namespace locant {

struct TableIndexing {
  std::int32_t first_row = 0;               // row of position 0
  std::optional<std::int32_t> padding_row;  // row that padded tokens read; none: nothing is added to them

  static TableIndexing from_zero() { return {}; }
  static TableIndexing roberta(std::int32_t padding_idx = 1) { return {padding_idx + 1, padding_idx}; }
  static TableIndexing opt() { return {2, 1}; }
  static TableIndexing bart() { return {2, std::nullopt}; }
  friend bool operator==(const TableIndexing&, const TableIndexing&) = default;
};

enum class PastEnd {
  kError,        // kTableEnd at the first token without a row
  kTruncate,     // tokens without a row are dropped from the input: see fit()
  kClamp,        // they read the last row, which they then share
  kInterpolate,  // the table was stretched to TableConfig::length positions; past that kTableEnd
};

struct TableConfig {
  std::int32_t rows = 0, width = 0;  // as stored
  TableIndexing indexing;
  PastEnd past_end = PastEnd::kError;
  // For kInterpolate alone: positions after stretching. Rows before first_row stay as they are; the rest is
  // resampled by interpolate_rows (interpolation.hpp). Every position then reads another vector than the one
  // that was trained there.
  std::int64_t length = 0;
};

class LearnedTable {
 public:
  // values: [rows, width]. kShape where their number differs; kArgument unless rows and width are 1 or more,
  // 0 <= first_row < rows, 0 <= padding_row < rows, and length >= 1 exactly where past_end is kInterpolate.
  LearnedTable(TableConfig config, std::span<const float> values);

  const TableConfig& config() const noexcept { return config_; }
  std::int32_t width() const noexcept { return config_.width; }
  // Rows held now (after stretching) and the positions that have one: 0 .. length()-1.
  std::int64_t rows() const noexcept { return rows_; }
  std::int64_t length() const noexcept { return rows_ - config_.indexing.first_row; }
  std::span<const float> values() const noexcept { return values_; }
  // Of the table as trained: stored rows * width.
  std::int64_t parameter_count() const noexcept;

  // For set-up time: kTableEnd unless positions 0 .. length-1 all have rows of their own. More rows than
  // needed are fine.
  void require_length(std::int64_t length) const;

  // What of the input is used: under kTruncate the batch without the tokens that have no row (rows of the
  // batch keep their number and order; padded tokens stay); under the other policies the batch as it is.
  // Throws kTableEnd under kError and kInterpolate where a token has no row.
  Positions fit(const Positions& positions) const;

  // Table row of each token of fit(positions), -1 for padded tokens without one.
  std::vector<std::int32_t> rows_of(const Positions& positions) const;

  // out: [fit(positions).tokens(), width]; padded tokens without a row get zeros.
  void encode(const Positions& positions, std::span<float> out) const;

  // out = x + encode. x: [positions.tokens(), width], out: [fit(positions).tokens(), width]. out may be (the
  // start of) x itself, but not overlap it otherwise. Allocates nothing.
  void add(std::span<const float> x, const Positions& positions, std::span<float> out) const;

  // counts[row] += 1 for every valid token of fit(positions): which rows a corpus trains. counts: [rows()].
  void count(const Positions& positions, std::span<std::uint64_t> counts) const;

  MethodDescription describe() const;

 private:
  std::int64_t row_of(std::int32_t position) const noexcept;  // rows_ or more: past the end
  std::size_t fitted_tokens(const char* call, const Positions& positions) const;
  template <class Visit>
  void visit(const Positions& positions, Visit visit) const;  // (from token, to token, row or -1)

  TableConfig config_;
  std::int64_t rows_;
  std::vector<float> values_;  // [rows_][width]
};

}  // namespace locant
