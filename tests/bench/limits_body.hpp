// What the machine can do, one core, with the vectors of the including file's instruction set: multiply-adds
// in registers, and reads from memory. Called many times for a short while each, as the kernels are: an engine
// replaces its baseline code only at a call.
#pragma once

#include "locant/simd/vector.hpp"

namespace {

using locant::simd::Floats;

template <int K>
float multiply_add_chains(std::size_t steps, float x, float y, float z) {
  Floats sum[K];
  const Floats b = locant::simd::splat(y), c = locant::simd::splat(z);
#pragma GCC unroll 16
  for (int k = 0; k < K; ++k) sum[k] = locant::simd::splat(x + static_cast<float>(k) * z);
  for (std::size_t i = 0; i < steps; ++i) {
#pragma GCC unroll 16
    for (int k = 0; k < K; ++k) sum[k] = locant::simd::madd(sum[k], b, c);
  }
  Floats total = sum[0];
#pragma GCC unroll 16
  for (int k = 1; k < K; ++k) total = total + sum[k];
  return locant::simd::first_lane(locant::simd::sum_of_lanes(total));
}

// As many independent sums as asked for: 8, 10 or 12; which is fastest differs between machines.
float multiply_add_of(std::size_t sums, std::size_t steps, float x, float y, float z) {
  if (sums == 8) return multiply_add_chains<8>(steps, x, y, z);
  if (sums == 10) return multiply_add_chains<10>(steps, x, y, z);
  return multiply_add_chains<12>(steps, x, y, z);
}

// count: a multiple of 8 vectors.
float read_all(const float* p, std::size_t count) {
  constexpr std::size_t kLanes = locant::simd::kLanes;
  Floats sum[8];
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) sum[k] = locant::simd::zero();
  for (std::size_t i = 0; i + 8 * kLanes <= count; i += 8 * kLanes) {
#pragma GCC unroll 8
    for (std::size_t k = 0; k < 8; ++k) sum[k] = sum[k] + locant::simd::load(p + i + k * kLanes);
  }
  Floats total = sum[0];
#pragma GCC unroll 8
  for (int k = 1; k < 8; ++k) total = total + sum[k];
  return locant::simd::first_lane(locant::simd::sum_of_lanes(total));
}

// The same in four streams at once: a processor fetches ahead within each 4 KB page, so a single stream waits at every
// page that comes from memory. count: a multiple of 16 vectors.
float read_streams(const float* p, std::size_t count) {
  constexpr std::size_t kLanes = locant::simd::kLanes;
  const std::size_t part = count / 4;
  Floats sum[8];
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) sum[k] = locant::simd::zero();
  for (std::size_t i = 0; i + 4 * kLanes <= part; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (std::size_t stream = 0; stream < 4; ++stream) {
#pragma GCC unroll 4
      for (std::size_t k = 0; k < 4; ++k) {
        Floats& to = sum[(stream * 4 + k) % 8];
        to = to + locant::simd::load(p + stream * part + i + k * kLanes);
      }
    }
  }
  Floats total = sum[0];
#pragma GCC unroll 8
  for (int k = 1; k < 8; ++k) total = total + sum[k];
  return locant::simd::first_lane(locant::simd::sum_of_lanes(total));
}

}  // namespace
