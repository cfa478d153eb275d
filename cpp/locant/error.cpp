#include "locant/error.hpp"

#include <cstdio>
#include <utility>

namespace locant {

const char* to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kShape: return "shape";
    case ErrorCode::kArgument: return "argument";
    case ErrorCode::kPositionRange: return "position-range";
    case ErrorCode::kTableEnd: return "table-end";
    case ErrorCode::kOrder: return "order";
    case ErrorCode::kCacheFull: return "cache-full";
    case ErrorCode::kCacheState: return "cache-state";
    case ErrorCode::kPlanMismatch: return "plan-mismatch";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kFormat: return "format";
    case ErrorCode::kOutOfMemory: return "out-of-memory";
  }
  return "unknown";
}

Error::Error(ErrorCode code, std::string message, double value, double limit)
    : code_(code), message_(std::move(message)), value_(value), limit_(limit) {}

namespace detail {
void Part::append_to(std::string& out) const {
  char buffer[32];
  switch (kind_) {
    case Kind::kText: out += text_; return;
    case Kind::kNumber:  // whole numbers (bytes, mostly) with all their digits
      std::snprintf(buffer, sizeof buffer, std::floor(number_) == number_ && std::abs(number_) < 1e18 ? "%.0f" : "%.9g",
                    number_);
      break;
    case Kind::kSigned:
      std::snprintf(buffer, sizeof buffer, "%lld", static_cast<long long>(static_cast<std::int64_t>(bits_)));
      break;
    case Kind::kUnsigned: std::snprintf(buffer, sizeof buffer, "%llu", static_cast<unsigned long long>(bits_)); break;
  }
  out += buffer;
}

std::string join(const Part* parts, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) parts[i].append_to(out);
  return out;
}

void fail(ErrorCode code, const Part* parts, std::size_t count) { throw Error(code, join(parts, count)); }
}  // namespace detail

std::size_t checked_product(std::string_view call, std::string_view what,
                            std::initializer_list<std::int64_t> factors) {
  double bytes = sizeof(float);  // exact as far as it decides anything: below 2^53
  for (const std::int64_t factor : factors) {
    if (factor < 0) {
      throw Error(ErrorCode::kArgument, sentence(call, ": ", what, " has a negative factor ", factor),
                  static_cast<double>(factor), 0);
    }
    bytes *= static_cast<double>(factor);
  }
  if (bytes >= static_cast<double>(SIZE_MAX)) {
    throw Error(ErrorCode::kOutOfMemory, sentence(call, ": ", what, " would take ", bytes, " bytes, more than there are addresses"),
                bytes, static_cast<double>(SIZE_MAX));
  }
  std::size_t product = 1;
  for (const std::int64_t factor : factors) product *= static_cast<std::size_t>(factor);
  return product;
}

void require_size(std::string_view call, std::string_view what, std::size_t held, std::size_t expected,
                  std::string_view shape) {
  if (held == expected) return;
  throw Error(ErrorCode::kShape,
              sentence(call, ": ", what, " hold ", held, " values, expected ", shape, " = ", expected),
              static_cast<double>(held), static_cast<double>(expected));
}

void require_finite(std::string_view call, std::string_view what, double value) {
  if (std::isfinite(value)) return;
  throw Error(ErrorCode::kArgument, sentence(call, ": ", what, " is ", value, ", expected a finite number"), value);
}

void require_positive(std::string_view call, std::string_view what, double value) {
  require_finite(call, what, value);
  if (value > 0) return;
  throw Error(ErrorCode::kArgument, sentence(call, ": ", what, " is ", value, ", expected a number above 0"), value, 0);
}

void require_magnitude(std::string_view call, std::string_view what, double value) {
  require_finite(call, what, value);
  if (std::abs(value) <= kLargestFactor) return;
  throw Error(ErrorCode::kArgument,
              sentence(call, ": ", what, " is ", value, ", expected at most 2^60 in size, so that scores stay within float32"),
              value, kLargestFactor);
}

void require_factor(std::string_view call, std::string_view what, double value) {
  require_positive(call, what, value);
  constexpr double kLeast = 1e-6, kMost = 1e6;
  if (value >= kLeast && value <= kMost) return;
  throw Error(ErrorCode::kArgument, sentence(call, ": ", what, " is ", value, ", expected ", kLeast, " to ", kMost), value,
              value < kLeast ? kLeast : kMost);
}

void require_range(std::string_view call, std::string_view what, std::int64_t value, std::int64_t low,
                   std::int64_t high) {
  if (value >= low && value <= high) return;
  if (high < low) {
    throw Error(ErrorCode::kArgument, sentence(call, ": ", what, " is ", value, ", and there is none to choose"),
                static_cast<double>(value));
  }
  throw Error(ErrorCode::kArgument, sentence(call, ": ", what, " is ", value, ", expected ", low, " to ", high),
              static_cast<double>(value), static_cast<double>(value < low ? low : high));
}

}  // namespace locant
