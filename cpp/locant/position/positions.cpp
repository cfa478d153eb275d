#include "locant/position/positions.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "locant/memory.hpp"

namespace locant {
namespace {

// Values of position and order may be at most 2^31-1: the last of `count` numbers from `first` is checked
// in 64 bits before any of them is written.
void require_run(const char* call, const char* what, std::int64_t first, std::int64_t count) {
  if (first < 0) {
    throw Error(ErrorCode::kPositionRange, sentence(call, ": ", what, " starts at ", first, ", expected 0 or more"),
                static_cast<double>(first), 0);
  }
  if (count > 0 && first > kMaxPosition - (count - 1)) {
    throw Error(ErrorCode::kPositionRange,
                sentence(call, ": ", what, " ", first, " and the ", count - 1, " after it would pass ", kMaxPosition),
                static_cast<double>(first) + static_cast<double>(count - 1), kMaxPosition);
  }
}

void require_offsets(const char* call, std::span<const std::int32_t> offsets, std::size_t rows) {
  if (!offsets.empty()) require_size(call, "offsets", offsets.size(), rows, "one for each row");
}

std::int64_t offset_of(std::span<const std::int32_t> offsets, std::size_t row) {
  return offsets.empty() ? 0 : offsets[row];
}

std::string row_name(const char* what, std::size_t r) { return sentence(what, " of row ", r); }

// The same of a row; its name is put together only where it is needed.
void require_row_run(const char* call, const char* what, std::size_t row, std::int64_t first, std::int64_t count) {
  if (first >= 0 && (count <= 0 || first <= kMaxPosition - (count - 1))) return;
  require_run(call, row_name(what, row).c_str(), first, count);
}

void require_row_range(const char* call, const char* what, std::size_t row, std::int64_t value, std::int64_t low,
                       std::int64_t high) {
  if (value < low || value > high) require_range(call, row_name(what, row), value, low, high);
}

// Appends one row whose valid tokens count on from `offset`.
void append_row(PositionArrays& out, std::int64_t columns, std::int64_t offset, auto&& is_valid) {
  std::int32_t next = static_cast<std::int32_t>(offset);
  for (std::int64_t c = 0; c < columns; ++c) {
    const bool valid = is_valid(c);
    out.position[0].push_back(valid ? next : 0);
    out.order.push_back(valid ? next : -1);
    out.segment.push_back(valid ? 0 : -1);
    out.valid.push_back(valid ? 1 : 0);
    // Wraps only after the last valid token, whose number was checked; the value is not used then.
    if (valid) next = static_cast<std::int32_t>(static_cast<std::uint32_t>(next) + 1u);
  }
  out.row_lengths.push_back(static_cast<std::int32_t>(columns));
}

std::int64_t sum_of(std::span<const std::int32_t> lengths) {
  std::int64_t sum = 0;
  for (const std::int32_t length : lengths) sum += length;
  return sum;
}

}  // namespace

PositionArrays PositionArrays::with_room(const char* call, std::size_t rows, std::int64_t tokens, std::int32_t axes) {
  const double bytes = static_cast<double>(tokens) * (sizeof(std::int32_t) * (axes + 2.0) + 1) +
                       static_cast<double>(rows) * (sizeof(std::int32_t) + sizeof(std::size_t));
  return with_memory(call, bytes, [&] {
    const auto count = static_cast<std::size_t>(tokens);
    PositionArrays arrays;
    arrays.row_lengths.reserve(rows);
    arrays.position.resize(static_cast<std::size_t>(axes));
    for (auto& axis : arrays.position) axis.reserve(count);
    arrays.order.reserve(count);
    arrays.segment.reserve(count);
    arrays.valid.reserve(count);
    return arrays;
  });
}

Positions Positions::range(std::int64_t count, std::int64_t offset) {
  require_range("Positions::range", "count", count, 0, kMaxPosition);
  require_run("Positions::range", "offset", offset, count);
  PositionArrays arrays = PositionArrays::with_room("Positions::range", 1, count);
  append_row(arrays, count, offset, [](std::int64_t) { return true; });
  return from_arrays(std::move(arrays));
}

Positions Positions::ragged(std::span<const std::int32_t> lengths, std::span<const std::int32_t> offsets) {
  require_offsets("Positions::ragged", offsets, lengths.size());
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    require_row_range("Positions::ragged", "the length", r, lengths[r], 0, kMaxPosition);
    require_row_run("Positions::ragged", "the offset", r, offset_of(offsets, r), lengths[r]);
  }
  PositionArrays arrays = PositionArrays::with_room("Positions::ragged", lengths.size(), sum_of(lengths));
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    append_row(arrays, lengths[r], offset_of(offsets, r), [](std::int64_t) { return true; });
  }
  return from_arrays(std::move(arrays));
}

Positions Positions::padded(std::span<const std::int32_t> lengths, std::int64_t columns, PaddingSide side,
                            std::span<const std::int32_t> offsets) {
  require_range("Positions::padded", "columns", columns, 0, kMaxPosition);
  require_offsets("Positions::padded", offsets, lengths.size());
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    require_row_range("Positions::padded", "the length", r, lengths[r], 0, columns);
    require_row_run("Positions::padded", "the offset", r, offset_of(offsets, r), lengths[r]);
  }
  // Fewer than 2^32 rows of at most 2^31 columns: the product fits.
  PositionArrays arrays = PositionArrays::with_room("Positions::padded", lengths.size(),
                                                    static_cast<std::int64_t>(lengths.size()) * columns);
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    const std::int64_t first = side == PaddingSide::kLeft ? columns - lengths[r] : 0;
    append_row(arrays, columns, offset_of(offsets, r),
               [&](std::int64_t c) { return c >= first && c < first + lengths[r]; });
  }
  return from_arrays(std::move(arrays));
}

Positions Positions::from_padding_mask(std::int64_t rows, std::int64_t columns, std::span<const std::uint8_t> mask,
                                       std::span<const std::int32_t> offsets) {
  require_range("Positions::from_padding_mask", "rows", rows, 0, kMaxPosition);
  require_range("Positions::from_padding_mask", "columns", columns, 0, kMaxPosition);
  const std::size_t size = checked_product("Positions::from_padding_mask", "the mask", {rows, columns});
  require_size("Positions::from_padding_mask", "mask", mask.size(), size, sentence(rows, " rows x ", columns, " columns"));
  require_offsets("Positions::from_padding_mask", offsets, static_cast<std::size_t>(rows));
  PositionArrays arrays = PositionArrays::with_room("Positions::from_padding_mask", static_cast<std::size_t>(rows),
                                                    static_cast<std::int64_t>(size));
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto row = mask.subspan(static_cast<std::size_t>(r * columns), static_cast<std::size_t>(columns));
    const auto valid = columns - std::count(row.begin(), row.end(), std::uint8_t{0});
    const std::int64_t offset = offset_of(offsets, static_cast<std::size_t>(r));
    require_row_run("Positions::from_padding_mask", "the offset", static_cast<std::size_t>(r), offset, valid);
    append_row(arrays, columns, offset, [&](std::int64_t c) { return row[static_cast<std::size_t>(c)] != 0; });
  }
  return from_arrays(std::move(arrays));
}

Positions Positions::packed(std::span<const std::int32_t> segment_lengths, PackedPositions positions) {
  std::int64_t total = 0;
  for (std::size_t s = 0; s < segment_lengths.size(); ++s) {
    require_range("Positions::packed", sentence("the length of segment ", s), segment_lengths[s], 0, kMaxPosition);
    total += segment_lengths[s];
    require_range("Positions::packed", "the sum of the lengths", total, 0, kMaxPosition);
  }
  PositionArrays arrays = PositionArrays::with_room("Positions::packed", 1, total);
  std::int32_t running = 0;
  for (std::size_t s = 0; s < segment_lengths.size(); ++s) {
    for (std::int32_t i = 0; i < segment_lengths[s]; ++i, ++running) {
      arrays.position[0].push_back(positions == PackedPositions::kRestart ? i : running);
      arrays.order.push_back(i);
      arrays.segment.push_back(static_cast<std::int32_t>(s));
    }
  }
  arrays.row_lengths.push_back(static_cast<std::int32_t>(total));
  return from_arrays(std::move(arrays));
}

Positions Positions::from_arrays(PositionArrays arrays) {
  constexpr const char* kCall = "Positions::from_arrays";
  std::int64_t total = 0;
  for (std::size_t r = 0; r < arrays.row_lengths.size(); ++r) {
    require_row_range(kCall, "the length", r, arrays.row_lengths[r], 0, kMaxPosition);
    total += arrays.row_lengths[r];
  }
  const std::size_t tokens = checked_product(kCall, "the sum of the row lengths", {total});
  require_range(kCall, "the number of axes", static_cast<std::int64_t>(arrays.position.size()), 1, 8);
  for (const auto& axis : arrays.position) require_size(kCall, "positions", axis.size(), tokens, "the sum of the row lengths");
  const bool count_orders = arrays.order.empty();
  Positions out;
  // What is left out is filled in; room that with_room() reserved serves.
  const auto missing = [](const auto& array, std::size_t count) {
    return array.capacity() >= count ? 0.0 : static_cast<double>(count * sizeof(array[0]));
  };
  with_memory(kCall, missing(arrays.segment, tokens) + missing(arrays.valid, tokens) + missing(arrays.order, tokens), [&] {
    if (arrays.segment.empty()) arrays.segment.assign(tokens, 0);
    if (arrays.valid.empty()) arrays.valid.assign(tokens, 1);
    if (count_orders) arrays.order.assign(tokens, 0);
    out.row_begin_.reserve(arrays.row_lengths.size() + 1);
  });
  require_size(kCall, "segments", arrays.segment.size(), tokens, "the sum of the row lengths");
  require_size(kCall, "valid", arrays.valid.size(), tokens, "the sum of the row lengths");
  require_size(kCall, "orders", arrays.order.size(), tokens, "the sum of the row lengths");
  for (const std::int32_t length : arrays.row_lengths) {
    out.row_begin_.push_back(out.row_begin_.back() + static_cast<std::size_t>(length));
  }

  const auto require_non_negative = [&](const char* what, std::size_t t, std::int32_t value) {
    if (value >= 0) return;
    throw Error(ErrorCode::kPositionRange, sentence(kCall, ": the ", what, " of token ", t, " is ", value,
                ", expected 0 to ", kMaxPosition), value, 0);
  };
  for (std::int32_t r = 0; r < out.rows(); ++r) {
    // Tokens so far of the segment that is being counted, and of the row's other ones.
    std::int32_t segment = -1, count = 0;
    std::unordered_map<std::int32_t, std::int32_t> arrived;
    for (std::size_t t = out.row_begin(r); t < out.row_end(r); ++t) {
      if (arrays.valid[t] == 0) {
        for (auto& axis : arrays.position) axis[t] = 0;
        arrays.order[t] = -1;
        arrays.segment[t] = -1;
        out.all_valid_ = false;
        continue;
      }
      arrays.valid[t] = 1;
      for (const auto& axis : arrays.position) require_non_negative("position", t, axis[t]);
      require_non_negative("segment", t, arrays.segment[t]);
      if (count_orders) {
        if (arrays.segment[t] != segment) {
          if (segment >= 0) arrived[segment] = count;
          segment = arrays.segment[t];
          const auto before = arrived.find(segment);
          count = before == arrived.end() ? 0 : before->second;
        }
        arrays.order[t] = count++;
      }
      require_non_negative("order", t, arrays.order[t]);
    }
  }
  out.position_ = std::move(arrays.position);
  out.order_ = std::move(arrays.order);
  out.segment_ = std::move(arrays.segment);
  out.valid_ = std::move(arrays.valid);
  return out;
}

std::size_t Positions::longest_row() const noexcept {
  std::size_t longest = 0;
  for (std::int32_t r = 0; r < rows(); ++r) longest = std::max(longest, row_length(r));
  return longest;
}

std::vector<std::size_t> Positions::row_lengths() const {
  std::vector<std::size_t> lengths(static_cast<std::size_t>(rows()));
  for (std::int32_t r = 0; r < rows(); ++r) lengths[static_cast<std::size_t>(r)] = row_length(r);
  return lengths;
}

std::span<const std::int32_t> Positions::position(std::int32_t axis) const {
  require_range("Positions::position", "axis", axis, 0, axes() - 1);
  return position_[static_cast<std::size_t>(axis)];
}

std::optional<std::int32_t> Positions::largest_position() const noexcept {
  std::optional<std::int32_t> largest;
  for (const auto& axis : position_) {
    for (std::size_t t = 0; t < tokens(); ++t) {
      if (valid_[t] && (!largest || axis[t] > *largest)) largest = axis[t];
    }
  }
  return largest;
}

Positions Positions::row(std::int32_t r) const {
  require_range("Positions::row", "row", r, 0, rows() - 1);
  PositionArrays arrays = PositionArrays::with_room("Positions::row", 1, static_cast<std::int64_t>(row_length(r)), axes());
  append(arrays, row_begin(r), row_length(r));
  return from_arrays(std::move(arrays));
}

void Positions::append(PositionArrays& to, std::size_t first, std::size_t count) const {
  const auto copy = [&](auto& into, const auto& from) {
    const auto begin = from.begin() + static_cast<std::ptrdiff_t>(first);
    into.insert(into.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
  };
  for (std::size_t a = 0; a < position_.size(); ++a) copy(to.position[a], position_[a]);
  copy(to.order, order_);
  copy(to.segment, segment_);
  copy(to.valid, valid_);
  to.row_lengths.push_back(static_cast<std::int32_t>(count));
}

Positions Positions::slice(std::int64_t first, std::int64_t count) const {
  require_range("Positions::slice", "first", first, 0, kMaxPosition);
  require_range("Positions::slice", "count", count, 0, kMaxPosition);
  for (std::int32_t r = 0; r < rows(); ++r) {
    const auto length = static_cast<std::int64_t>(row_length(r));
    if (first + count > length) {
      throw Error(ErrorCode::kArgument, sentence("Positions::slice: tokens ", first, " to ", first + count,
                  " of row ", r, ", which has ", length), static_cast<double>(first + count), static_cast<double>(length));
    }
  }
  PositionArrays arrays = PositionArrays::with_room("Positions::slice", static_cast<std::size_t>(rows()), rows() * count, axes());
  for (std::int32_t r = 0; r < rows(); ++r) {
    append(arrays, row_begin(r) + static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  }
  return from_arrays(std::move(arrays));
}

Positions Positions::next(std::span<const std::int32_t> counts) const {
  require_size("Positions::next", "counts", counts.size(), static_cast<std::size_t>(rows()), "one for each row");
  for (std::size_t r = 0; r < counts.size(); ++r) {
    require_row_range("Positions::next", "the count", r, counts[r], 0, kMaxPosition);
  }
  PositionArrays arrays = PositionArrays::with_room("Positions::next", counts.size(), sum_of(counts), axes());
  for (std::int32_t r = 0; r < rows(); ++r) {
    const std::int32_t count = counts[static_cast<std::size_t>(r)];
    std::int32_t last_segment = 0;
    for (std::size_t t = row_end(r); t-- > row_begin(r);) {
      if (!valid_[t]) continue;
      last_segment = segment_[t];
      break;
    }
    std::int64_t position = 0, order = 0;
    for (std::size_t t = row_begin(r); t < row_end(r); ++t) {
      if (!valid_[t] || segment_[t] != last_segment) continue;
      for (const auto& axis : position_) position = std::max(position, std::int64_t{axis[t]} + 1);
      order = std::max(order, std::int64_t{order_[t]} + 1);
    }
    require_row_run("Positions::next", "the position", static_cast<std::size_t>(r), position, count);
    require_row_run("Positions::next", "the order", static_cast<std::size_t>(r), order, count);
    for (std::int32_t i = 0; i < count; ++i) {
      for (auto& axis : arrays.position) axis.push_back(static_cast<std::int32_t>(position + i));
      arrays.order.push_back(static_cast<std::int32_t>(order + i));
      arrays.segment.push_back(last_segment);
    }
    arrays.row_lengths.push_back(count);
  }
  return from_arrays(std::move(arrays));
}

}  // namespace locant
