// What the frequencies of sinusoids and rotations must hold to, so that every angle they make is a number.
#pragma once

#include <string_view>

namespace locant {

// Added to a position, a number up to this size leaves positions that differ by 1 apart in double.
inline constexpr double kLargestOffset = 4503599627370496.0;  // 2^52

// kArgument unless `offset` is at most kLargestOffset in size.
void require_offset(std::string_view call, std::string_view what, double offset);

// kArgument unless `frequency` (radians per position) times every position 0 .. 2^31-1, moved by `offset`, is finite.
// `what` names the frequency: "the frequency of pair 3".
void require_frequency(std::string_view call, std::string_view what, double frequency, double offset = 0);

}  // namespace locant
