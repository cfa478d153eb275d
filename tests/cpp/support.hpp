// Helpers that every test file may use.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "locant/error.hpp"

namespace locant::test {

// Runs `call` and checks that it throws an Error with this code whose sentence contains `part`.
template <class Call>
void check_error(ErrorCode code, const std::string& part, Call&& call) {
  try {
    call();
    FAIL_CHECK("expected the error '" << part << "', but nothing was thrown");
  } catch (const Error& error) {
    INFO("the sentence is: " << error.message());
    CHECK(std::string(to_string(error.code())) == to_string(code));
    CHECK(error.message().find(part) != std::string::npos);
  }
}

// `count` seeded values, normal with deviation 1.
inline std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Largest |a - b|; infinity where one is NaN and the other is not.
inline double max_difference(std::span<const float> a, std::span<const float> b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(difference <= largest)) largest = std::isnan(difference) ? INFINITY : difference;
  }
  return largest;
}

}  // namespace locant::test
