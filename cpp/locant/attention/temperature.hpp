// Position-dependent attention temperature: the scores of a query are multiplied by a number that grows with its
// position, so that attention over a long context stays as sharp as over a short one.
//
//   a_t = 1 + slope * ln(1 + floor((p_t + shift) / period))
//
//   Llama 4       slope 0.1, period 8192, shift 1, on the layers without position
//   Ministral 3   slope beta, period the original length, shift 0, on every layer
//
// It reads where the query stands, not how far the keys are: a score moves when both positions do.
#pragma once

#include <cstdint>
#include <string_view>

#include "locant/method.hpp"

namespace locant {

struct Temperature {
  double slope = 0.1;
  double period = 8192;  // above 0
  double shift = 1;      // 0 or more

  // a_t of a query at `position`, 0 or more.
  double at(std::int32_t position) const noexcept;
};

// kArgument unless the members are as said and a_t is at most 2^60 in size at every position up to 2^31-1.
void require_temperature(std::string_view call, const Temperature& temperature);

MethodDescription describe(const Temperature& temperature);

}  // namespace locant
