#include "locant/bias/alibi.hpp"

#include <bit>
#include <cmath>

#include "locant/position/positions.hpp"

namespace locant {

std::vector<double> alibi_slopes(std::int32_t heads, double bias_max) {
  require_range("alibi_slopes", "heads", heads, 1, 1 << 16);
  require_factor("alibi_slopes", "bias_max", bias_max);
  const auto n = static_cast<std::uint32_t>(heads);
  const std::uint32_t whole = std::bit_floor(n);
  std::vector<double> slopes;
  slopes.reserve(n);
  for (std::uint32_t k = 1; k <= whole; ++k) slopes.push_back(std::exp2(-bias_max * k / whole));
  for (std::uint32_t k = 1; slopes.size() < n; k += 2) slopes.push_back(std::exp2(-bias_max * k / (2.0 * whole)));
  return slopes;
}

Alibi::Alibi(std::vector<double> slopes, AlibiForm form, std::int64_t origin)
    : slopes_(std::move(slopes)), form_(form), origin_(static_cast<double>(origin)) {
  if (slopes_.empty()) throw Error(ErrorCode::kArgument, "Alibi: there are no slopes, expected one for each head", 0, 1);
  for (const double slope : slopes_) require_magnitude("Alibi", "a slope", slope);
  require_range("Alibi", "origin", origin, 0, kMaxPosition);
}

void Alibi::add(const ScoreTile& tile, float* scores, std::size_t stride) const {
  const double slope = slopes_[static_cast<std::size_t>(tile.head)];
  const std::int32_t* key = tile.key_position;
  for (std::size_t row = 0; row < tile.query_rows; ++row) {
    float* to = scores + row * stride;
    // Differences of int32 are exact in double.
    const double from = form_ == AlibiForm::kKeyOnly ? origin_ : tile.query_position[row];
    if (form_ == AlibiForm::kSymmetric) {
      for (std::size_t k = 0; k < tile.keys; ++k) to[k] -= static_cast<float>(slope * std::abs(key[k] - from));
    } else {
      for (std::size_t k = 0; k < tile.keys; ++k) to[k] += static_cast<float>(slope * (key[k] - from));
    }
  }
}

void Alibi::require_fits(std::int32_t heads, std::int32_t, std::int32_t) const {
  if (static_cast<std::size_t>(heads) == slopes_.size()) return;
  throw Error(ErrorCode::kShape, sentence("Alibi: there are ", slopes_.size(), " slopes, the attention has ", heads,
              " heads"), static_cast<double>(slopes_.size()), heads);
}

MethodDescription Alibi::describe() const {
  MethodDescription d;
  d.door = Door::kScore;
  d.reference = Reference::kRelative;
  d.parameters.push_back(parameter("heads", static_cast<double>(slopes_.size())));
  std::string list;
  for (const double slope : slopes_) list += (list.empty() ? "" : ", ") + number_text(slope);
  d.parameters.push_back({"slopes", list});
  switch (form_) {
    case AlibiForm::kCausal:
      d.name = "ALiBi, causal";
      d.formula = "slope * (j - t)";
      break;
    case AlibiForm::kSymmetric:
      d.name = "ALiBi, symmetric";
      d.formula = "-slope * |j - t|";
      break;
    case AlibiForm::kKeyOnly:
      d.name = "ALiBi, key only";
      d.formula = "slope * (j - origin), the causal form but for a number that a row shares";
      d.reference = Reference::kAbsolute;
      d.parameters.push_back(parameter("origin", origin_));
      break;
  }
  d.source = "Press, Smith, Lewis 2022, section 3";
  d.origin = form_ == AlibiForm::kKeyOnly ? sentence("0 at key position ", origin_) : "displacement 0 is the query itself";
  d.direction = "displacement = key - query";
  d.past_end = "no end: the line goes on";
  return d;
}

}  // namespace locant
