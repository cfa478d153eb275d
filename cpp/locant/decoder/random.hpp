// Random numbers with exactly specified results: a function of (seed, stream, index) and nothing else.
//
//   key           = mix(seed + mix(stream))
//   bits(index)   = mix(key + (index + 1) * 0x9E3779B97F4A7C15)        all modulo 2^64
//   uniform       = (bits >> 11) * 2^-53                               in [0, 1), exact
//
// mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014), which makes the sequence over `index` that
// generator's. Integers only, so any build on any machine gives the same bits, and value i can be had without
// those before it. Not for secrets.
#pragma once

#include <cstdint>
#include <string_view>

namespace locant {

constexpr std::uint64_t mix_bits(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// A stream number for a name (FNV-1a, 64 bits), so that what one tensor gets does not depend on the others.
constexpr std::uint64_t stream_of(std::string_view name) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001B3ull;
  return hash;
}

class CounterRandom {
 public:
  constexpr explicit CounterRandom(std::uint64_t seed, std::uint64_t stream = 0) noexcept
      : key_(mix_bits(seed + mix_bits(stream))) {}

  constexpr std::uint64_t bits(std::uint64_t index) const noexcept {
    return mix_bits(key_ + (index + 1) * 0x9E3779B97F4A7C15ull);
  }
  // In [0, 1), a multiple of 2^-53.
  constexpr double uniform(std::uint64_t index) const noexcept {
    return static_cast<double>(bits(index) >> 11) * 0x1p-53;
  }
  // In [-1, 1), a multiple of 2^-23, so exact in float32 too.
  constexpr float symmetric(std::uint64_t index) const noexcept {
    return static_cast<float>(static_cast<std::int32_t>(bits(index) >> 40) - (1 << 23)) * 0x1p-23f;
  }

 private:
  std::uint64_t key_;
};

}  // namespace locant
