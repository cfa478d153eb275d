// The one exception type of the library, and the few helpers that make its sentences.
//
// Every public call checks what it is given before it changes anything, and answers bad input with an
// `Error`: a code that programs can branch on, a sentence that names the call, the value and the limit,
// and those two numbers again as data. The core never prints, aborts, clamps or truncates in silence.
// At the WebAssembly boundary the exception is caught and thrown again in JavaScript with the same code
// and message.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

namespace locant {

enum class ErrorCode {
  kShape,          // a buffer holds another number of values than the shapes say
  kArgument,       // a scalar parameter, choice or combination that the call does not take
  kPositionRange,  // a position, order or segment outside 0 .. 2^31-1, or outside a method's range
  kTableEnd,       // a position past the last row of a learned table
  kOrder,          // tokens that do not continue what a cache already holds
  kCacheFull,      // a cache of fixed capacity has no row left
  kCacheState,     // a cache or step that cannot do this now (no such row, layer not written, ...)
  kPlanMismatch,   // keys rotated under one plan would meet queries rotated under another
  kUnsupported,    // the method is defined, but not for this (a shift of baked-in positions, ...)
  kFormat,         // a file or its header does not say what its format requires
  kOutOfMemory,    // memory could not be had; everything is as it was before the call
};

// The code as JavaScript and messages spell it: "shape", "position-range", ...
const char* to_string(ErrorCode code) noexcept;

class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message,
        double value = std::numeric_limits<double>::quiet_NaN(),
        double limit = std::numeric_limits<double>::quiet_NaN());

  const char* what() const noexcept override { return message_.c_str(); }
  ErrorCode code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }
  // The offending value and the limit it broke; NaN where the fault is not a number.
  double value() const noexcept { return value_; }
  double limit() const noexcept { return limit_; }

 private:
  ErrorCode code_;
  std::string message_;
  double value_, limit_;
};

namespace detail {
// One word or number of a sentence. A plain value, so that every call of sentence() shares one join(): as
// templates of its arguments, sentences were a quarter of the WebAssembly module.
class Part {
 public:
  Part(const char* value) : text_(value) {}
  Part(const std::string& value) : text_(value) {}
  Part(std::string_view value) : text_(value) {}
  Part(double value) : kind_(Kind::kNumber), number_(value) {}
  Part(float value) : Part(static_cast<double>(value)) {}
  template <class Integer>
    requires std::numeric_limits<Integer>::is_integer
  Part(Integer value)
      : kind_(std::numeric_limits<Integer>::is_signed ? Kind::kSigned : Kind::kUnsigned),
        bits_(static_cast<std::uint64_t>(value)) {}

  void append_to(std::string& out) const;

 private:
  enum class Kind : std::uint8_t { kText, kNumber, kSigned, kUnsigned };
  Kind kind_ = Kind::kText;
  std::string_view text_;
  union {
    double number_;
    std::uint64_t bits_ = 0;
  };
};
std::string join(const Part* parts, std::size_t count);
[[noreturn]] void fail(ErrorCode code, const Part* parts, std::size_t count);
}  // namespace detail

// Joins words and numbers into one sentence: sentence("rotate: head_dim is ", 7, ", expected an even number").
template <class... Parts>
std::string sentence(const Parts&... parts) {
  const detail::Part list[] = {detail::Part(parts)...};
  return detail::join(list, sizeof...(parts));
}

// Throws Error(code, sentence(parts...)).
template <class... Parts>
[[noreturn]] void fail(ErrorCode code, const Parts&... parts) {
  const detail::Part list[] = {detail::Part(parts)...};
  detail::fail(code, list, sizeof...(parts));
}

// How many values of four bytes the factors make. kArgument where one is negative; kOutOfMemory, with the bytes,
// where the count or the bytes do not fit a std::size_t: no array of that size can be.
std::size_t checked_product(std::string_view call, std::string_view what,
                            std::initializer_list<std::int64_t> factors);

// kShape unless `held == expected`; `shape` says in words where the expected number comes from
// ("4 heads x 16 positions x 16").
void require_size(std::string_view call, std::string_view what, std::size_t held, std::size_t expected,
                  std::string_view shape);

// kArgument unless `value` is finite (and, for require_positive, above zero).
void require_finite(std::string_view call, std::string_view what, double value);
void require_positive(std::string_view call, std::string_view what, double value);

// kArgument unless `value` is a factor that keeps clear of where float32 ends: 1e-6 to 1e6.
void require_factor(std::string_view call, std::string_view what, double value);

// kArgument unless `value` is at most 2^60 in size: what multiplies or is added to scores leaves float32 room for products
// and sums.
inline constexpr double kLargestFactor = 1152921504606846976.0;  // 2^60
void require_magnitude(std::string_view call, std::string_view what, double value);

// kArgument unless low <= value <= high. Where high < low there is nothing to choose from, and the sentence says so.
void require_range(std::string_view call, std::string_view what, std::int64_t value, std::int64_t low,
                   std::int64_t high);

}  // namespace locant
