#include "boundary.hpp"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>

#include "locant/memory.hpp"

namespace locant::wasm {
namespace {

struct Fault {
  std::uint32_t raised = 0;
  const char* code = "";
  std::string message;
  double value = 0, limit = 0;
};
Fault fault;

// The last reply, and the words that describe it; valid until the next one.
Positions replied;
std::vector<std::int32_t> reply_words;

// What operator new could not get last.
std::size_t refused_bytes = 0;

void raise(const char* code, std::string message, double value, double limit) noexcept {
  fault.code = code;
  fault.message = std::move(message);
  fault.value = value;
  fault.limit = limit;
  fault.raised = 1;
}

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// The library says of most requests which call made them (locant/memory.hpp); this is what is left.
void raise_out_of_memory(double bytes) noexcept {
  try {
    out_of_memory("memory", bytes);
  } catch (const Error& error) {
    raise(to_string(error.code()), error.message(), error.value(), error.limit());
  } catch (...) {  // no memory for the sentence either
    raise("out-of-memory", {}, bytes, kNone);
  }
}

}  // namespace

void record_fault() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    raise(to_string(error.code()), error.message(), error.value(), error.limit());
  } catch (const std::bad_alloc&) {  // of operator new below
    raise_out_of_memory(static_cast<double>(refused_bytes));
  } catch (const std::length_error&) {  // a vector of more bytes than one object may have, 2 GB: it does not say how many
    raise_out_of_memory(static_cast<double>(std::numeric_limits<std::ptrdiff_t>::max()));
  } catch (const std::exception& error) {
    raise("internal", error.what(), kNone, kNone);
  } catch (...) {  // thrown by JavaScript while a member of its objects was read
    raise("argument", "options: a member could not be read", kNone, kNone);
  }
}

void refuse(std::size_t bytes) noexcept { refused_bytes = bytes; }

Address fault_flag() noexcept { return reinterpret_cast<Address>(&fault.raised); }

val take_fault() {
  Object object;
  object.set("code", std::string(fault.code));
  object.set("message", fault.message);
  object.set("value", fault.value);
  object.set("limit", fault.limit);
  fault.raised = 0;
  return object;
}

Address allocate(double bytes) noexcept {
  constexpr double kMost = 4294967296.0 - 65536;
  if (!(bytes >= 0) || bytes > kMost) return 0;
  const std::size_t rounded = (static_cast<std::size_t>(bytes) + 63) / 64 * 64;
  return reinterpret_cast<Address>(std::aligned_alloc(64, rounded > 0 ? rounded : 64));
}

void release(Address address) noexcept { std::free(reinterpret_cast<void*>(address)); }

Positions read_positions(Address block) {
  const auto* words = reinterpret_cast<const std::int32_t*>(block);
  const auto rows = static_cast<std::size_t>(words[0]), tokens = static_cast<std::size_t>(words[2]);
  const std::int32_t axes = words[1];
  words += 3;
  PositionArrays arrays = PositionArrays::with_room("positions", rows, static_cast<std::int64_t>(tokens), axes);
  const auto take = [&](std::vector<std::int32_t>& into, std::size_t count) {
    into.assign(words, words + count);
    words += count;
  };
  take(arrays.row_lengths, rows);
  for (auto& axis : arrays.position) take(axis, tokens);
  take(arrays.order, tokens);
  take(arrays.segment, tokens);
  const auto* valid = reinterpret_cast<const std::uint8_t*>(words);
  arrays.valid.assign(valid, valid + tokens);
  return Positions::from_arrays(std::move(arrays));
}

Address reply(Positions positions) {
  replied = std::move(positions);
  reply_words.clear();
  const auto put = [](auto word) { reply_words.push_back(static_cast<std::int32_t>(word)); };
  const auto put_address = [&](const auto* values) { put(reinterpret_cast<Address>(values)); };
  put(replied.rows());
  put(replied.axes());
  put(replied.tokens());
  put_address(replied.order().data());
  put_address(replied.segment().data());
  put_address(replied.valid().data());
  for (std::int32_t axis = 0; axis < replied.axes(); ++axis) put_address(replied.position(axis).data());
  for (std::int32_t r = 0; r < replied.rows(); ++r) put(replied.row_length(r));
  return reinterpret_cast<Address>(reply_words.data());
}

void forget_reply() noexcept { replied = Positions(); }

void Object::set(const char* name, const val& value) { value_.set(name, value); }
void Object::set(const char* name, double value) { value_.set(name, val(value)); }
void Object::set(const char* name, bool value) { value_.set(name, val(value)); }
void Object::set(const char* name, const std::string& value) { value_.set(name, val(value)); }
void List::add(const val& value) { value_.set(size_++, value); }

bool Options::has(const char* name) const {
  const val member = object_[name];
  return !member.isUndefined() && !member.isNull();
}
val Options::member(const char* name) const { return object_[name]; }
double Options::number(const char* name) const { return object_[name].as<double>(); }
std::optional<double> Options::maybe_number(const char* name) const {
  if (!has(name)) return std::nullopt;
  return number(name);
}
std::int32_t Options::integer(const char* name) const { return static_cast<std::int32_t>(number(name)); }
std::int64_t Options::long_integer(const char* name) const { return static_cast<std::int64_t>(number(name)); }
bool Options::flag(const char* name) const { return object_[name].as<bool>(); }
std::string Options::text(const char* name) const { return object_[name].as<std::string>(); }

namespace {
template <class Number>
std::vector<Number> numbers(const val& array) {
  if (array.isUndefined() || array.isNull()) return {};
  return emscripten::convertJSArrayToNumberVector<Number>(array);
}
}  // namespace

std::vector<float> Options::floats(const char* name) const { return numbers<float>(object_[name]); }
std::vector<double> Options::doubles(const char* name) const { return numbers<double>(object_[name]); }
std::vector<std::int32_t> Options::integers(const char* name) const { return numbers<std::int32_t>(object_[name]); }
std::vector<std::uint8_t> Options::bytes(const char* name) const { return numbers<std::uint8_t>(object_[name]); }

namespace {
template <class Number>
val copied(std::span<const Number> values) {
  return val(emscripten::typed_memory_view(values.size(), values.data())).template call<val>("slice");
}
}  // namespace

val to_array(std::span<const float> values) { return copied(values); }
val to_array(std::span<const double> values) { return copied(values); }
val to_array(std::span<const std::int32_t> values) { return copied(values); }
val to_array(std::span<const std::uint8_t> values) { return copied(values); }

val to_object(const std::vector<MethodParameter>& parameters) {
  List array;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Object entry;
    entry.set("name", parameters[i].name);
    entry.set("value", parameters[i].value);
    array.add(entry);
  }
  return array;
}

val to_object(const MethodDescription& description) {
  Object object;
  object.set("name", description.name);
  object.set("door", static_cast<int>(description.door));
  object.set("reference", static_cast<int>(description.reference));
  object.set("parameters", to_object(description.parameters));
  object.set("formula", description.formula);
  object.set("source", description.source);
  object.set("origin", description.origin);
  object.set("direction", description.direction);
  object.set("pastEnd", description.past_end);
  return object;
}

val to_object(const std::vector<MethodDescription>& descriptions) {
  List list;
  for (std::size_t i = 0; i < descriptions.size(); ++i) list.add(to_object(descriptions[i]));
  return list;
}

}  // namespace locant::wasm

// Replaces the library's, so that memory which could not be had is reported with its size wherever it was asked for.
void* operator new(std::size_t size) {
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  locant::wasm::refuse(size);
  throw std::bad_alloc();
}
