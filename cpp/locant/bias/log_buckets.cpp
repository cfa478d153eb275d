#include "locant/bias/log_buckets.hpp"

#include <algorithm>
#include <cmath>
#include <compare>
#include <numeric>
#include <vector>

namespace locant {
namespace {

// A whole number of any size, lowest 32 bits first, without leading zeros.
using Big = std::vector<std::uint32_t>;

void multiply(Big& x, std::uint64_t by) {
  std::uint64_t carry = 0;
  for (std::uint32_t& digit : x) {
    carry += digit * by;
    digit = static_cast<std::uint32_t>(carry);
    carry >>= 32;
  }
  if (carry != 0) x.push_back(static_cast<std::uint32_t>(carry));
}

Big product(std::int64_t a, std::int32_t a_power, std::int64_t b, std::int32_t b_power) {
  Big x{1};
  for (std::int32_t i = 0; i < a_power; ++i) multiply(x, static_cast<std::uint64_t>(a));
  for (std::int32_t i = 0; i < b_power; ++i) multiply(x, static_cast<std::uint64_t>(b));
  return x;
}

std::strong_ordering compare(const Big& a, const Big& b) {
  if (a.size() != b.size()) return a.size() <=> b.size();
  for (std::size_t i = a.size(); i-- > 0;) {
    if (a[i] != b[i]) return a[i] <=> b[i];
  }
  return std::strong_ordering::equal;
}

}  // namespace

std::int64_t log_threshold(std::int64_t e, std::int64_t D, std::int32_t n, std::int32_t m, Threshold threshold) {
  const double real = static_cast<double>(e) *
                      std::exp(static_cast<double>(m) / n * std::log(static_cast<double>(D) / static_cast<double>(e)));
  const auto near = static_cast<std::int64_t>(std::llround(real));
  // The double is within 1e-14 of the true number, relatively; only next to a whole number can it mislead.
  if (std::abs(real - static_cast<double>(near)) > 1e-12 * real) return static_cast<std::int64_t>(std::ceil(real));
  const std::int32_t common = std::gcd(n, m);
  const std::int32_t root = n / common, power = m / common;
  // near^root * e^power  against  D^power * e^root
  const auto order = compare(product(near, root, e, power), product(D, power, e, root));
  const bool enough = threshold == Threshold::kReaches ? order >= 0 : order > 0;
  return enough ? near : near + 1;
}

}  // namespace locant
