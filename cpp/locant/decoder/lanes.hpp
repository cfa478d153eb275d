// Two lanes of one text: the full forward of everything so far, and the cached step, side by side.
//
// Step 0 is the prompt; each further step adds the token that the full lane chose (greedy) to both lanes. The full
// lane stands at positions 0, 1, 2, ... The cached lane stands where the chosen offset says:
//
//   kTrue       the position after the last one                       what a cache must do
//   kRestarted  0 for the first new token, then 1, 2, ...             the offset of a call taken for that of the text
//   kOffByOne   one further than true                                 the new token counted before it is placed
//
// Only the positions of new tokens change; their order, and so the mask, stays true. With the true offset the
// difference is float32 rounding. A method without positions does not notice any of these, and the lanes show it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "locant/decoder/decoder.hpp"

namespace locant {

enum class Offset { kTrue, kRestarted, kOffByOne };

struct LanesConfig {
  std::int32_t steps = 16;           // after the prompt; 1 or more
  Offset offset = Offset::kTrue;
  double tolerance = 1e-3;           // on the largest difference of a logit
  std::int32_t prefill_chunk = 512;  // of the cached lane
};

struct LaneStep {
  std::int32_t full_position = 0, cached_position = 0;  // of the step's last token
  std::int32_t full_token = 0, cached_token = 0;        // chosen next, greedy
  double difference = 0;                                // largest |full logit - cached logit|
  float full_logit = 0, cached_logit = 0;               // of the full lane's choice
};

struct Lanes {
  std::vector<LaneStep> steps;  // the prompt's, then config.steps more
  double largest_difference = 0;
  std::optional<std::int32_t> first_past_tolerance;  // index into steps
  std::optional<std::int32_t> first_other_token;     // first step whose chosen tokens differ
};

// Errors: kArgument for an empty prompt or parameters out of range; those of Decoder::forward (kTableEnd where
// prompt and steps pass a learned table).
Lanes compare_lanes(Decoder& decoder, std::span<const std::int32_t> prompt, const LanesConfig& config = {});

}  // namespace locant
