// Positions: what stands where, for every token of a batch.
//
// A position is not a slot in an array, not a cache row and not a mask. For every token this type says
//
//   position  one number per axis (one axis for text, three for M-RoPE, two for an image): what the
//             encoders, rotations and biases read;
//   order     what comes before what inside its segment: what masks read. Arrival order (0, 1, 2, ...
//             over the valid tokens of the segment) unless given. Tokens may share a position (those of
//             an image do), they never share an order unless the caller says so;
//   segment   the document the token belongs to, 0 or more; attention never crosses segments;
//   valid     false for padding. Padding has position 0, order -1, segment -1, and neither receives nor
//             influences anything.
//
// Tokens lie row after row (`row` = one sequence of the batch); rows may differ in length. Positions and
// orders are int32 in 0 .. 2^31-1; anything else is an error, also when it would only be reached by
// counting on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "locant/error.hpp"

namespace locant {

inline constexpr std::int32_t kMaxPosition = 2147483647;

// On which side of a row its padding lies.
enum class PaddingSide { kLeft, kRight };

// Whether the positions of packed segments start again at 0 or run through the row.
enum class PackedPositions { kRestart, kRunning };

// The arrays of Positions::from_arrays. All but `row_lengths` and `position` may be left empty.
struct PositionArrays {
  std::vector<std::int32_t> row_lengths;            // tokens of each row; their sum is `tokens`
  std::vector<std::vector<std::int32_t>> position;  // [axes][tokens]
  std::vector<std::int32_t> order;                  // [tokens]; empty: arrival order in the segment
  std::vector<std::int32_t> segment;                // [tokens]; empty: all 0
  std::vector<std::uint8_t> valid;                  // [tokens]; empty: all valid

  // Empty arrays with room for that many rows, tokens and axes, all of which Positions then takes over. kOutOfMemory
  // with the bytes, before any of them is touched.
  static PositionArrays with_room(const char* call, std::size_t rows, std::int64_t tokens, std::int32_t axes = 1);
};

class Positions {
 public:
  // No rows at all.
  Positions() = default;

  // One row of `count` tokens at offset, offset+1, ...; their orders count from `offset` too, so that the
  // row continues a sequence of `offset` tokens.
  static Positions range(std::int64_t count, std::int64_t offset = 0);

  // One row per length, row r at offsets[r], offsets[r]+1, ... (no offsets: all 0). Lengths may be 0.
  static Positions ragged(std::span<const std::int32_t> lengths, std::span<const std::int32_t> offsets = {});

  // Rows of `columns` tokens of which lengths[r] are valid and stand at offsets[r], ...; the rest is
  // padding on `side`. kArgument where a length passes `columns`.
  static Positions padded(std::span<const std::int32_t> lengths, std::int64_t columns, PaddingSide side,
                          std::span<const std::int32_t> offsets = {});

  // mask: [rows, columns], non-zero = valid, padding anywhere. The valid tokens of a row count on from
  // offsets[r] (no offsets: all 0).
  static Positions from_padding_mask(std::int64_t rows, std::int64_t columns, std::span<const std::uint8_t> mask,
                                     std::span<const std::int32_t> offsets = {});

  // One row that holds the segments (documents) one after another. Orders start again at 0 in each
  // segment; positions do, or run on, as said. Segments of length 0 keep their number and have no token.
  static Positions packed(std::span<const std::int32_t> segment_lengths, PackedPositions positions);

  // Everything given by the caller; what is left empty gets the defaults described at PositionArrays.
  // Errors: kShape (arrays of different lengths), kPositionRange (a valid token with a negative number).
  static Positions from_arrays(PositionArrays arrays);

  std::int32_t rows() const noexcept { return static_cast<std::int32_t>(row_begin_.size()) - 1; }
  std::int32_t axes() const noexcept { return static_cast<std::int32_t>(position_.size()); }
  std::size_t tokens() const noexcept { return static_cast<std::size_t>(row_begin_.back()); }

  // Row r holds the tokens row_begin(r) .. row_end(r)-1. r is not checked.
  std::size_t row_begin(std::int32_t r) const noexcept { return row_begin_[static_cast<std::size_t>(r)]; }
  std::size_t row_end(std::int32_t r) const noexcept { return row_begin_[static_cast<std::size_t>(r) + 1]; }
  std::size_t row_length(std::int32_t r) const noexcept { return row_end(r) - row_begin(r); }
  std::size_t longest_row() const noexcept;
  // The length of every row.
  std::vector<std::size_t> row_lengths() const;

  // [tokens] each.
  std::span<const std::int32_t> position(std::int32_t axis = 0) const;
  std::span<const std::int32_t> order() const noexcept { return order_; }
  std::span<const std::int32_t> segment() const noexcept { return segment_; }
  std::span<const std::uint8_t> valid() const noexcept { return valid_; }
  bool all_valid() const noexcept { return all_valid_; }

  // The largest position over the valid tokens of all rows and axes; nothing where no token is valid.
  std::optional<std::int32_t> largest_position() const noexcept;

  // Row r alone, as a batch of one row.
  Positions row(std::int32_t r) const;

  // Tokens first .. first+count-1 of every row (a chunk of a prefill). kArgument where a row is shorter.
  Positions slice(std::int64_t first, std::int64_t count) const;

  // counts[r] further tokens for row r: they continue the last segment of the row at the largest position
  // of that segment + 1 (over all axes, and the same on every axis) and its largest order + 1. A row
  // without a valid token continues at 0. kPositionRange where that passes 2^31-1.
  Positions next(std::span<const std::int32_t> counts) const;

  friend bool operator==(const Positions&, const Positions&) = default;

 private:
  // Copies tokens first .. first+count-1 of all rows as one further row of `to`.
  void append(PositionArrays& to, std::size_t first, std::size_t count) const;

  std::vector<std::size_t> row_begin_{0};
  std::vector<std::vector<std::int32_t>> position_{1};
  std::vector<std::int32_t> order_, segment_;
  std::vector<std::uint8_t> valid_;
  bool all_valid_ = true;
};

}  // namespace locant
