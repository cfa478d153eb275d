// The turn itself: all heads of one token by one row of cosines and sines. The inside of Rotation.
//
// Four pairs at a time, two products and one sum each, never fused: one result on every machine. What a rotation
// costs is memory, so values go from one buffer to another in a single pass, and where the output is larger than
// any cache it is written past the caches (x86 only: WebAssembly has no such stores).
#pragma once

#include <cstddef>

#include "locant/rotary/plan.hpp"

namespace locant::detail {

// The rotated slice of heads of head_dim coordinates.
struct TurnShape {
  Pairing pairing;
  std::size_t head_dim, start, pairs;
};

enum class StoreMode { kCached, kStreaming };

// kStreaming where `values` floats are to be written to `to` and both size and borders allow it.
StoreMode store_mode(const TurnShape& shape, const float* to, std::size_t values) noexcept;

// Pairs [first, first + count) of every head, in place; cos and sin: [count].
void turn_in_place(const TurnShape& shape, float* token, std::size_t heads, std::size_t first, std::size_t count,
                   const float* cos, const float* sin) noexcept;

// All pairs and everything beside them, from one buffer to another; cos and sin: [pairs].
void turn_apart(const TurnShape& shape, const float* from, float* to, std::size_t heads, const float* cos,
                const float* sin, StoreMode mode) noexcept;

// To be called after the last streaming store.
void finish_stores(StoreMode mode) noexcept;

}  // namespace locant::detail
