#include "locant/bias/custom.hpp"

#include <algorithm>
#include <utility>

#include "locant/bias/tile_products.hpp"
#include "locant/position/positions.hpp"

namespace locant {
namespace {

void require_heads(const char* call, std::int32_t held, std::int32_t heads) {
  if (held == heads) return;
  throw Error(ErrorCode::kShape, sentence(call, ": there are values for ", held, " heads, the attention has ", heads),
              held, heads);
}

}  // namespace

FunctionBias::FunctionBias(Function function, std::string formula)
    : function_(std::move(function)), formula_(std::move(formula)) {
  if (!function_) throw Error(ErrorCode::kArgument, "FunctionBias: there is no function");
}

void FunctionBias::add(const ScoreTile& tile, float* scores, std::size_t stride) const {
  detail::add_function(tile, [&](std::int64_t d) { return function_(tile.head, d); }, scores, stride);
}

MethodDescription FunctionBias::describe() const {
  MethodDescription d;
  d.name = "own bias, function of displacement";
  d.door = Door::kScore;
  d.reference = Reference::kRelative;
  d.formula = formula_;
  d.source = "the caller";
  d.origin = "displacement 0 is the query itself";
  d.direction = "displacement = key - query";
  d.past_end = "as the function says";
  return d;
}

DisplacementTable::DisplacementTable(std::int32_t heads, std::int64_t first, std::int64_t last,
                                     std::span<const float> values, BeyondTable beyond)
    : heads_(heads), first_(first), last_(last), beyond_(beyond) {
  constexpr const char* kCall = "DisplacementTable";
  require_range(kCall, "heads", heads, 1, 1 << 16);
  require_range(kCall, "first", first, -kMaxDisplacement, kMaxDisplacement);
  require_range(kCall, "last", last, first, kMaxDisplacement);
  require_size(kCall, "the table values", values.size(), checked_product(kCall, "the table", {heads, last - first + 1}),
               sentence(heads, " heads x ", last - first + 1, " displacements"));
  values_.assign(values.begin(), values.end());
}

std::vector<DisplacementRun> DisplacementTable::runs() const {
  std::vector<DisplacementRun> runs = clipped_runs(first_, last_);
  if (beyond_ == BeyondTable::kClamp) return runs;
  runs.front().first = first_;
  runs.back().last = last_;
  if (beyond_ == BeyondTable::kError) return runs;
  if (first_ > -kMaxDisplacement) runs.insert(runs.begin(), {-1, -kMaxDisplacement, first_ - 1});
  if (last_ < kMaxDisplacement) runs.push_back({-1, last_ + 1, kMaxDisplacement});
  return runs;
}

void DisplacementTable::add(const ScoreTile& tile, float* scores, std::size_t stride) const {
  const float* line = values_.data() + static_cast<std::size_t>(tile.head) * static_cast<std::size_t>(last_ - first_ + 1);
  if (beyond_ == BeyondTable::kClamp) {
    add_clamped_line(tile, line, first_, last_, scores, stride);
    return;
  }
  for (std::size_t row = 0; row < tile.query_rows; ++row) {
    for (std::size_t k = 0; k < tile.keys; ++k) {
      const std::int64_t d = displacement(tile, row, k);
      if (d >= first_ && d <= last_) {
        scores[row * stride + k] += line[d - first_];
      } else if (beyond_ == BeyondTable::kError) {
        throw Error(ErrorCode::kPositionRange, sentence("DisplacementTable: the displacement ", d, " lies outside ",
                    first_, " to ", last_), static_cast<double>(d), static_cast<double>(d < first_ ? first_ : last_));
      }
    }
  }
}

void DisplacementTable::require_fits(std::int32_t heads, std::int32_t, std::int32_t) const {
  require_heads("DisplacementTable", heads_, heads);
}

MethodDescription DisplacementTable::describe() const {
  MethodDescription d;
  d.name = "own bias, table over displacements";
  d.door = Door::kScore;
  d.reference = Reference::kRelative;
  d.parameters = {parameter("heads", heads_), parameter("first", static_cast<double>(first_)),
                  parameter("last", static_cast<double>(last_))};
  d.formula = sentence("table [", heads_, ", ", last_ - first_ + 1, "]");
  d.source = "the caller";
  d.origin = sentence("entry 0 is displacement ", first_);
  d.direction = "displacement = key - query";
  switch (beyond_) {
    case BeyondTable::kClamp: d.past_end = "displacements beyond the table read its end"; break;
    case BeyondTable::kZero: d.past_end = "nothing is added beyond the table"; break;
    case BeyondTable::kError: d.past_end = "an error beyond the table"; break;
  }
  return d;
}

MatrixBias::MatrixBias(std::int32_t heads, std::int64_t queries, std::int64_t keys, std::span<const float> values,
                       std::int32_t first_query, std::int32_t first_key)
    : heads_(heads), queries_(queries), keys_(keys), first_query_(first_query), first_key_(first_key) {
  constexpr const char* kCall = "MatrixBias";
  require_range(kCall, "heads", heads, 1, 1 << 16);
  require_range(kCall, "queries", queries, 1, kMaxPosition);
  require_range(kCall, "keys", keys, 1, kMaxPosition);
  require_range(kCall, "first_query", first_query, 0, kMaxPosition);
  require_range(kCall, "first_key", first_key, 0, kMaxPosition);
  require_size(kCall, "the matrix values", values.size(), checked_product(kCall, "the matrix", {heads, queries, keys}),
               sentence(heads, " heads x ", queries, " queries x ", keys, " keys"));
  values_.assign(values.begin(), values.end());
}

void MatrixBias::add(const ScoreTile& tile, float* scores, std::size_t stride) const {
  const auto require = [](const char* what, std::int64_t at, std::int64_t size, std::int64_t first) {
    if (at >= 0 && at < size) return;
    throw Error(ErrorCode::kPositionRange, sentence("MatrixBias: the ", what, " position is ", at + first,
                ", the matrix covers ", first, " to ", first + size - 1), static_cast<double>(at + first),
                static_cast<double>(at < 0 ? first : first + size - 1));
  };
  for (std::size_t k = 0; k < tile.keys; ++k) {
    require("key", std::int64_t{tile.key_position[k]} - first_key_, keys_, first_key_);
  }
  const std::int64_t head = heads_ == 1 ? 0 : tile.head;
  for (std::size_t row = 0; row < tile.query_rows; ++row) {
    const std::int64_t t = std::int64_t{tile.query_position[row]} - first_query_;
    require("query", t, queries_, first_query_);
    const float* line = values_.data() + (head * queries_ + t) * keys_;
    for (std::size_t k = 0; k < tile.keys; ++k) scores[row * stride + k] += line[tile.key_position[k] - first_key_];
  }
}

void MatrixBias::require_fits(std::int32_t heads, std::int32_t, std::int32_t) const {
  if (heads_ != 1) require_heads("MatrixBias", heads_, heads);
}

MethodDescription MatrixBias::describe() const {
  MethodDescription d;
  d.name = "own bias, matrix";
  d.door = Door::kScore;
  d.reference = Reference::kAbsolute;
  d.parameters = {parameter("heads", heads_), parameter("queries", static_cast<double>(queries_)),
                  parameter("keys", static_cast<double>(keys_))};
  d.formula = sentence("matrix [", heads_, ", ", queries_, ", ", keys_, "]");
  d.source = "the caller";
  d.origin = sentence("entry [0, 0] is query position ", first_query_, " and key position ", first_key_);
  d.direction = "rows are queries, columns keys";
  d.past_end = "an error at a position outside the matrix";
  return d;
}

}  // namespace locant
