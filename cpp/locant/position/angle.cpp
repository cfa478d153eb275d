#include "locant/position/angle.hpp"

#include <cmath>

#include "locant/position/positions.hpp"

namespace locant {

void require_offset(std::string_view call, std::string_view what, double offset) {
  require_finite(call, what, offset);
  if (std::abs(offset) <= kLargestOffset) return;
  throw Error(ErrorCode::kArgument,
              sentence(call, ": ", what, " is ", offset, ", expected at most 2^52 in size, so that positions stay apart"),
              offset, kLargestOffset);
}

void require_frequency(std::string_view call, std::string_view what, double frequency, double offset) {
  const double largest = frequency * (kMaxPosition + std::abs(offset));
  if (std::isfinite(frequency) && std::isfinite(largest)) return;
  throw Error(ErrorCode::kArgument,
              sentence(call, ": ", what, " is ", frequency, ", expected one whose angles are finite up to position ",
                       kMaxPosition),
              frequency);
}

}  // namespace locant
