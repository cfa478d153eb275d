#include "locant/method.hpp"

#include <charconv>

namespace locant {

std::string number_text(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return std::string(buffer, end);
}

MethodParameter parameter(std::string name, double value) { return {std::move(name), number_text(value)}; }

}  // namespace locant
