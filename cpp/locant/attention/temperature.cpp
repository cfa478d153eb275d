#include "locant/attention/temperature.hpp"

#include <cmath>

#include "locant/position/angle.hpp"
#include "locant/position/positions.hpp"

namespace locant {

double Temperature::at(std::int32_t position) const noexcept {
  return 1 + slope * std::log(1 + std::floor((position + shift) / period));
}

void require_temperature(std::string_view call, const Temperature& temperature) {
  require_magnitude(call, "the temperature's slope", temperature.slope);
  require_positive(call, "the temperature's period", temperature.period);
  // 1 + floor((p + shift) / period) must stay above 0 for every position from 0 on.
  require_offset(call, "the temperature's shift", temperature.shift);
  if (temperature.shift < 0) {
    throw Error(ErrorCode::kArgument,
                sentence(call, ": the temperature's shift is ", temperature.shift, ", expected 0 or more"),
                temperature.shift, 0);
  }
  require_magnitude(call, "the temperature at the last position", temperature.at(kMaxPosition));
}

MethodDescription describe(const Temperature& temperature) {
  MethodDescription d;
  d.name = "attention temperature";
  d.door = Door::kScore;
  d.reference = Reference::kAbsolute;
  d.parameters = {parameter("slope", temperature.slope), parameter("period", temperature.period),
                  parameter("shift", temperature.shift)};
  d.formula = "scores of a query * (1 + slope * ln(1 + floor((position + shift) / period)))";
  d.source = "Nakanishi 2025 (scalable softmax), as Llama 4 and Ministral 3 have it";
  d.origin = "position 0 is the first token";
  d.direction = "reads the position of the query alone";
  d.past_end = "no end: the logarithm goes on";
  return d;
}

}  // namespace locant
