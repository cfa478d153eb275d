// Packing: positions of documents that share a row, from the forms in which other libraries hand them over.
//
//   cu_seqlens    [documents + 1], first token of each document in one flat row, and the end: 0, 3, 4, 7
//                 (FlashAttention's variable-length calls)
//   segment ids   [rows, columns], one number per token; equal numbers that touch are one document
//                 (MaxText, Megatron, sequence ids)
//
// Orders start again at 0 in each document, so causal masks and windows count within it; positions start
// again too, or run on through the row, as said: what separates documents is the segment, not the restart.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "locant/position/positions.hpp"

namespace locant {

// One row of cu_seqlens.back() tokens. Documents may be empty. Errors, kArgument: fewer than one number, a first
// one that is not 0, or a number below the one before it.
Positions positions_from_cu_seqlens(std::span<const std::int32_t> cu_seqlens, PackedPositions positions);

// segment_ids: [rows, columns]. Where a token carries `padding_id` it is padding, anywhere in the row. Other ids may
// be any numbers of 0 or more and are kept as segments. Errors: kShape; kArgument for a negative id that is not the
// padding's, and for an id that comes back after another one (one document in two pieces).
Positions positions_from_segment_ids(std::int64_t rows, std::int64_t columns, std::span<const std::int32_t> segment_ids,
                                     std::optional<std::int32_t> padding_id, PackedPositions positions);

// The way back: where the documents of a row begin, and its end. Documents without a token do not show.
// kUnsupported where padding lies in the row, since cu_seqlens cannot say so.
std::vector<std::int32_t> cu_seqlens_of(const Positions& positions, std::int32_t row);

}  // namespace locant
