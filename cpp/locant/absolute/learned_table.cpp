#include "locant/absolute/learned_table.hpp"

#include <algorithm>

#include "locant/absolute/interpolation.hpp"

namespace locant {

LearnedTable::LearnedTable(TableConfig config, std::span<const float> values) : config_(config), rows_(config.rows) {
  constexpr const char* kCall = "LearnedTable";
  require_range(kCall, "rows", config.rows, 1, kMaxPosition);
  require_range(kCall, "width", config.width, 1, 1 << 20);
  require_range(kCall, "first_row", config.indexing.first_row, 0, config.rows - 1);
  if (config.indexing.padding_row) {
    require_range(kCall, "padding_row", *config.indexing.padding_row, 0, config.rows - 1);
  }
  require_size(kCall, "the table values", values.size(), checked_product(kCall, "the table", {config.rows, config.width}),
               sentence(config.rows, " rows x width ", config.width));
  if (config.past_end != PastEnd::kInterpolate) {
    if (config.length != 0) {
      throw Error(ErrorCode::kArgument, sentence(kCall, ": length is ", config.length,
                  ", which only interpolation reads; expected 0"), static_cast<double>(config.length), 0);
    }
    values_.assign(values.begin(), values.end());
    return;
  }
  const std::int32_t first = config.indexing.first_row;
  require_range(kCall, "length", config.length, 1, std::int64_t{kMaxPosition} - first);
  const std::size_t head = static_cast<std::size_t>(first) * static_cast<std::size_t>(config.width);
  const std::vector<float> stretched =
      interpolate_rows(values.subspan(head), config.rows - first, config.width, config.length);
  values_.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(head));
  values_.insert(values_.end(), stretched.begin(), stretched.end());
  rows_ = first + config.length;
}

std::int64_t LearnedTable::parameter_count() const noexcept {
  return static_cast<std::int64_t>(config_.rows) * config_.width;
}

void LearnedTable::require_length(std::int64_t wanted) const {
  if (wanted <= length()) return;
  throw Error(ErrorCode::kTableEnd, sentence("LearnedTable::require_length: ", wanted,
              " positions are wanted, the table has rows for ", length()), static_cast<double>(wanted),
              static_cast<double>(length()));
}

std::int64_t LearnedTable::row_of(std::int32_t position) const noexcept {
  return std::int64_t{position} + config_.indexing.first_row;
}

// Checks before anything is written, and counts what will be.
std::size_t LearnedTable::fitted_tokens(const char* call, const Positions& positions) const {
  const auto position = positions.position();
  const auto valid = positions.valid();
  std::size_t past = 0;
  for (std::size_t t = 0; t < positions.tokens(); ++t) {
    if (!valid[t] || row_of(position[t]) < rows_) continue;
    if (config_.past_end == PastEnd::kError || config_.past_end == PastEnd::kInterpolate) {
      throw Error(ErrorCode::kTableEnd, sentence(call, ": token ", t, " stands at position ", position[t],
                  ", the table ends at position ", length() - 1), position[t], static_cast<double>(length() - 1));
    }
    ++past;
  }
  return config_.past_end == PastEnd::kTruncate ? positions.tokens() - past : positions.tokens();
}

template <class Visit>
void LearnedTable::visit(const Positions& positions, Visit visit) const {
  const auto position = positions.position();
  const auto valid = positions.valid();
  std::size_t to = 0;
  for (std::size_t t = 0; t < positions.tokens(); ++t) {
    std::int64_t row = valid[t] ? row_of(position[t]) : config_.indexing.padding_row.value_or(-1);
    if (row >= rows_) {
      if (config_.past_end == PastEnd::kTruncate) continue;
      row = rows_ - 1;  // kClamp: the other policies have thrown
    }
    visit(t, to++, row);
  }
}

Positions LearnedTable::fit(const Positions& positions) const {
  if (fitted_tokens("LearnedTable::fit", positions) == positions.tokens()) return positions;
  PositionArrays kept;
  kept.row_lengths.assign(static_cast<std::size_t>(positions.rows()), 0);
  kept.position.resize(static_cast<std::size_t>(positions.axes()));
  std::int32_t row = 0;
  visit(positions, [&](std::size_t t, std::size_t, std::int64_t) {
    while (t >= positions.row_end(row)) ++row;
    ++kept.row_lengths[static_cast<std::size_t>(row)];
    for (std::int32_t a = 0; a < positions.axes(); ++a) {
      kept.position[static_cast<std::size_t>(a)].push_back(positions.position(a)[t]);
    }
    kept.order.push_back(positions.order()[t]);
    kept.segment.push_back(positions.segment()[t]);
    kept.valid.push_back(positions.valid()[t]);
  });
  return Positions::from_arrays(std::move(kept));
}

std::vector<std::int32_t> LearnedTable::rows_of(const Positions& positions) const {
  std::vector<std::int32_t> rows(fitted_tokens("LearnedTable::rows_of", positions));
  visit(positions, [&](std::size_t, std::size_t to, std::int64_t row) { rows[to] = static_cast<std::int32_t>(row); });
  return rows;
}

void LearnedTable::encode(const Positions& positions, std::span<float> out) const {
  constexpr const char* kCall = "LearnedTable::encode";
  const auto width = static_cast<std::size_t>(config_.width);
  const std::size_t tokens = fitted_tokens(kCall, positions);
  require_size(kCall, "the output values", out.size(),
               checked_product(kCall, "the output", {static_cast<std::int64_t>(tokens), config_.width}),
               sentence(tokens, " tokens x width ", width));
  visit(positions, [&](std::size_t, std::size_t to, std::int64_t row) {
    const auto place = out.subspan(to * width, width);
    if (row < 0) {
      std::fill(place.begin(), place.end(), 0.0f);
    } else {
      const float* values = values_.data() + static_cast<std::size_t>(row) * width;
      std::copy(values, values + width, place.begin());
    }
  });
}

void LearnedTable::add(std::span<const float> x, const Positions& positions, std::span<float> out) const {
  constexpr const char* kCall = "LearnedTable::add";
  const auto width = static_cast<std::size_t>(config_.width);
  const std::size_t fitted = fitted_tokens(kCall, positions);
  const auto require = [&](std::string_view what, std::size_t held, std::size_t tokens) {
    const std::size_t expected =
        checked_product(kCall, what, {static_cast<std::int64_t>(tokens), config_.width});
    if (held == expected) return;
    require_size(kCall, what, held, expected, sentence(tokens, " tokens x width ", width));
  };
  require("the input values", x.size(), positions.tokens());
  require("the output values", out.size(), fitted);
  visit(positions, [&](std::size_t t, std::size_t to, std::int64_t row) {
    const float* from = x.data() + t * width;
    float* place = out.data() + to * width;
    if (row < 0) {
      if (place != from) std::copy(from, from + width, place);
      return;
    }
    const float* values = values_.data() + static_cast<std::size_t>(row) * width;
    for (std::size_t c = 0; c < width; ++c) place[c] = from[c] + values[c];
  });
}

void LearnedTable::count(const Positions& positions, std::span<std::uint64_t> counts) const {
  constexpr const char* kCall = "LearnedTable::count";
  require_size(kCall, "the counts", counts.size(), static_cast<std::size_t>(rows_), "one for each row");
  fitted_tokens(kCall, positions);
  visit(positions, [&](std::size_t t, std::size_t, std::int64_t row) {
    if (positions.valid()[t]) ++counts[static_cast<std::size_t>(row)];
  });
}

MethodDescription LearnedTable::describe() const {
  const TableIndexing& indexing = config_.indexing;
  MethodDescription d;
  d.name = "learned table";
  d.door = Door::kInput;
  d.reference = Reference::kAbsolute;
  d.parameters = {parameter("rows", config_.rows), parameter("width", config_.width),
                  parameter("first row", indexing.first_row),
                  {"padding row", indexing.padding_row ? std::to_string(*indexing.padding_row) : "none"},
                  parameter("parameters", static_cast<double>(parameter_count())),
                  parameter("length", static_cast<double>(length()))};
  d.formula = sentence("table [", config_.rows, ", ", config_.width, "]");
  d.source = "a learned absolute table (Gehring et al. 2017; BERT, GPT-2, RoBERTa, OPT, BART)";
  d.origin = indexing.first_row == 0 ? std::string("row = position") : sentence("row = position + ", indexing.first_row);
  d.direction = "none";
  switch (config_.past_end) {
    case PastEnd::kError: d.past_end = sentence("an error past position ", length() - 1); break;
    case PastEnd::kTruncate: d.past_end = sentence("the input is cut after position ", length() - 1); break;
    case PastEnd::kClamp: d.past_end = sentence("every position past ", length() - 1, " reads the last row"); break;
    case PastEnd::kInterpolate:
      d.past_end = sentence("the table was stretched to ", length(), " positions; an error past that");
      break;
  }
  return d;
}

}  // namespace locant
