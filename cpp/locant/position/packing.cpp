#include "locant/position/packing.hpp"

#include <unordered_set>
#include <utility>

namespace locant {

Positions positions_from_cu_seqlens(std::span<const std::int32_t> cu_seqlens, PackedPositions positions) {
  constexpr const char* kCall = "positions_from_cu_seqlens";
  if (cu_seqlens.empty()) {
    throw Error(ErrorCode::kArgument,
                sentence(kCall, ": cu_seqlens holds no number, expected at least the 0 it begins with"), 0, 1);
  }
  if (cu_seqlens.front() != 0) {
    throw Error(ErrorCode::kArgument, sentence(kCall, ": cu_seqlens begins with ", cu_seqlens.front(), ", expected 0"),
                cu_seqlens.front(), 0);
  }
  std::vector<std::int32_t> lengths;
  for (std::size_t i = 1; i < cu_seqlens.size(); ++i) {
    if (cu_seqlens[i] < cu_seqlens[i - 1]) {
      throw Error(ErrorCode::kArgument,
                  sentence(kCall, ": number ", i, " of cu_seqlens is ", cu_seqlens[i], ", below the ",
                           cu_seqlens[i - 1], " before it"),
                  cu_seqlens[i], cu_seqlens[i - 1]);
    }
    lengths.push_back(cu_seqlens[i] - cu_seqlens[i - 1]);
  }
  return Positions::packed(lengths, positions);
}

Positions positions_from_segment_ids(std::int64_t rows, std::int64_t columns, std::span<const std::int32_t> segment_ids,
                                     std::optional<std::int32_t> padding_id, PackedPositions positions) {
  constexpr const char* kCall = "positions_from_segment_ids";
  require_range(kCall, "rows", rows, 0, kMaxPosition);
  require_range(kCall, "columns", columns, 0, kMaxPosition);
  const std::size_t tokens = checked_product(kCall, "the segment ids", {rows, columns});
  require_size(kCall, "segment ids", segment_ids.size(), tokens, sentence(rows, " rows x ", columns, " columns"));
  PositionArrays arrays = PositionArrays::with_room(kCall, static_cast<std::size_t>(rows), static_cast<std::int64_t>(tokens));
  arrays.row_lengths.assign(static_cast<std::size_t>(rows), static_cast<std::int32_t>(columns));
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto ids = segment_ids.subspan(static_cast<std::size_t>(r * columns), static_cast<std::size_t>(columns));
    std::unordered_set<std::int32_t> ended;
    std::optional<std::int32_t> current;
    std::int32_t in_segment = 0, in_row = 0;
    for (std::size_t c = 0; c < ids.size(); ++c) {
      const std::int32_t id = ids[c];
      const bool padding = padding_id && id == *padding_id;
      if (!padding && id < 0) {
        throw Error(ErrorCode::kArgument,
                    sentence(kCall, ": the segment id of row ", r, ", column ", c, " is ", id, ", expected 0 or more"),
                    id, 0);
      }
      if (!padding && current != id) {
        if (current) ended.insert(*current);
        if (ended.contains(id)) {
          throw Error(ErrorCode::kArgument,
                      sentence(kCall, ": segment ", id, " of row ", r, " comes back at column ", c, ", after segment ",
                               *current),
                      id);
        }
        current = id;
        in_segment = 0;
      }
      arrays.valid.push_back(padding ? 0 : 1);
      arrays.segment.push_back(padding ? -1 : id);
      arrays.order.push_back(padding ? -1 : in_segment);
      arrays.position[0].push_back(padding ? 0 : positions == PackedPositions::kRestart ? in_segment : in_row);
      if (!padding) {
        ++in_segment;
        ++in_row;
      }
    }
  }
  return Positions::from_arrays(std::move(arrays));
}

std::vector<std::int32_t> cu_seqlens_of(const Positions& positions, std::int32_t row) {
  require_range("cu_seqlens_of", "row", row, 0, positions.rows() - 1);
  std::vector<std::int32_t> out{0};
  const std::size_t begin = positions.row_begin(row), end = positions.row_end(row);
  for (std::size_t t = begin; t < end; ++t) {
    if (positions.valid()[t] == 0) {
      fail(ErrorCode::kUnsupported, "cu_seqlens_of: token ", t - begin, " of row ", row,
           " is padding, which cu_seqlens cannot express");
    }
    if (t > begin && positions.segment()[t] != positions.segment()[t - 1])
      out.push_back(static_cast<std::int32_t>(t - begin));
  }
  if (end > begin) out.push_back(static_cast<std::int32_t>(end - begin));
  return out;
}

}  // namespace locant
