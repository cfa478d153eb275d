#include "locant/method.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace locant {

// Not std::to_chars: its tables would be two thirds of the WebAssembly module.
std::string number_text(double value) {
  char buffer[32];
  if (std::floor(value) == value && std::fabs(value) < 1e15) {
    std::snprintf(buffer, sizeof buffer, "%.0f", value);
    return buffer;
  }
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
    if (std::strtod(buffer, nullptr) == value) break;
  }
  return buffer;
}

MethodParameter parameter(std::string name, double value) { return {std::move(name), number_text(value)}; }

}  // namespace locant
