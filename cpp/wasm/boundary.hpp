// What every call across the WebAssembly boundary shares: faults, addresses, positions, and options.
//
// Three layers: bindings.cpp lists names and nothing else; the *_adapter.cpp files turn what can cross (numbers,
// addresses, plain objects) into the library's own arguments; the facade (web/package/src) is what users see. It has
// checked types and shapes before it calls; the library checks again what memory safety rests on.
//
// Hot calls pass addresses of memory that the facade allocated and filled. Cold ones (making an attention, a plan) pass
// one plain object, whose members Options reads. Single-threaded throughout, hence the static reply.
#pragma once

#include <emscripten/val.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "locant/error.hpp"
#include "locant/method.hpp"
#include "locant/position/positions.hpp"

namespace locant::wasm {

using Address = std::uintptr_t;
using emscripten::val;

// ---- Faults: no C++ exception leaves the module -----------------------------------------------------------------------

// Keeps the exception in flight as the fault that the facade then takes and throws.
void record_fault() noexcept;
// Keeps how many bytes operator new is about to throw std::bad_alloc for.
void refuse(std::size_t bytes) noexcept;
// Address of a word that is non-zero from a fault until take_fault().
Address fault_flag() noexcept;
// { code, message, value, limit }; value and limit are NaN where the fault is not about numbers.
val take_fault();

// Runs `call`; if it throws, the fault is recorded and a default value returned.
template <class Call>
auto guarded(Call&& call) noexcept -> decltype(call()) {
  try {
    return call();
  } catch (...) {
    record_fault();
  }
  if constexpr (!std::is_void_v<decltype(call())>) return {};
}

// ---- Memory -----------------------------------------------------------------------------------------------------------

// Memory for the facade on a 64-byte border, or 0; release(0) does nothing.
Address allocate(double bytes) noexcept;
void release(Address address) noexcept;

inline std::span<float> floats(Address address, std::size_t count) {
  return {reinterpret_cast<float*>(address), count};
}
inline std::span<const std::int32_t> integers(Address address, std::size_t count) {
  return {reinterpret_cast<const std::int32_t*>(address), count};
}
inline std::span<const std::uint8_t> bytes(Address address, std::size_t count) {
  return {reinterpret_cast<const std::uint8_t*>(address), count};
}

// ---- Positions ----------------------------------------------------------------------------------------------------------
//
// Coming in, one block of words:
//   rows, axes, tokens, row lengths [rows], position [axes][tokens], order [tokens], segment [tokens],
//   valid [tokens] as bytes

Positions read_positions(Address block);

// Going out, words that say where the arrays are, so that they are copied once, by the facade:
//   rows, axes, tokens, addresses of order, of segment, of valid (bytes), of position [axes], row lengths [rows]
// All of it stays as it is until the next reply, or forget_reply().
Address reply(Positions positions);
void forget_reply() noexcept;

// ---- Objects ----------------------------------------------------------------------------------------------------------

// Reads the members of a plain object that the facade has put together.
class Options {
 public:
  explicit Options(val object) : object_(std::move(object)) {}

  bool has(const char* name) const;
  double number(const char* name) const;
  std::optional<double> maybe_number(const char* name) const;
  std::int32_t integer(const char* name) const;
  std::int64_t long_integer(const char* name) const;
  // Choices cross as the index of the word in the facade's list, which has the order of the C++ enum.
  template <class Enum>
  Enum choice(const char* name) const {
    return static_cast<Enum>(integer(name));
  }
  bool flag(const char* name) const;
  std::string text(const char* name) const;
  std::vector<float> floats(const char* name) const;
  std::vector<double> doubles(const char* name) const;
  std::vector<std::int32_t> integers(const char* name) const;
  std::vector<std::uint8_t> bytes(const char* name) const;
  val member(const char* name) const;

 private:
  val object_;
};

// Plain objects and arrays for JavaScript. Not val itself, whose set() is compiled anew wherever it is called.
class Object {
 public:
  void set(const char* name, const val& value);
  void set(const char* name, double value);
  void set(const char* name, bool value);
  void set(const char* name, const std::string& value);
  template <class Integer>
    requires std::is_integral_v<Integer>
  void set(const char* name, Integer value) {
    set(name, static_cast<double>(value));
  }
  operator const val&() const { return value_; }

 private:
  val value_ = val::object();
};

class List {
 public:
  void add(const val& value);
  operator const val&() const { return value_; }

 private:
  val value_ = val::array();
  unsigned size_ = 0;
};

// Copies, as typed arrays of their own.
val to_array(std::span<const float> values);
val to_array(std::span<const double> values);
val to_array(std::span<const std::int32_t> values);
val to_array(std::span<const std::uint8_t> values);

val to_object(const MethodDescription& description);
val to_object(const std::vector<MethodParameter>& parameters);
val to_object(const std::vector<MethodDescription>& descriptions);

}  // namespace locant::wasm
