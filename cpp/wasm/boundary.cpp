#include "boundary.hpp"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>

namespace locant::wasm {
namespace {

struct Fault {
  std::uint32_t raised = 0;
  std::string code, message;
  double value = 0, limit = 0;
};
Fault fault;

// The last reply, in words; valid until the next one.
std::vector<std::int32_t> reply_words;

void raise(const char* code, std::string message, double value, double limit) noexcept {
  fault.code = code;
  fault.message = std::move(message);
  fault.value = value;
  fault.limit = limit;
  fault.raised = 1;
}

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

}  // namespace

void record_fault() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    raise(to_string(error.code()), error.message(), error.value(), error.limit());
  } catch (const std::bad_alloc&) {
    raise(to_string(ErrorCode::kOutOfMemory), "memory could not be had", kNone, kNone);
  } catch (const std::length_error&) {  // a vector of more bytes than there are addresses
    raise(to_string(ErrorCode::kOutOfMemory), "memory could not be had", kNone, kNone);
  } catch (const std::exception& error) {
    raise("internal", error.what(), kNone, kNone);
  }
}

Address fault_flag() noexcept { return reinterpret_cast<Address>(&fault.raised); }

val take_fault() {
  Object object;
  object.set("code", fault.code);
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
  const auto rows = static_cast<std::size_t>(words[0]), axes = static_cast<std::size_t>(words[1]),
             tokens = static_cast<std::size_t>(words[2]);
  words += 3;
  const auto take = [&](std::size_t count) {
    std::vector<std::int32_t> out(words, words + count);
    words += count;
    return out;
  };
  PositionArrays arrays;
  arrays.row_lengths = take(rows);
  arrays.position.reserve(axes);
  for (std::size_t axis = 0; axis < axes; ++axis) arrays.position.push_back(take(tokens));
  arrays.order = take(tokens);
  arrays.segment = take(tokens);
  const auto* valid = reinterpret_cast<const std::uint8_t*>(words);
  arrays.valid.assign(valid, valid + tokens);
  return Positions::from_arrays(std::move(arrays));
}

Address reply(const Positions& positions) {
  const auto rows = static_cast<std::size_t>(positions.rows()), axes = static_cast<std::size_t>(positions.axes());
  const std::size_t tokens = positions.tokens();
  reply_words.clear();
  reply_words.reserve(3 + rows + (axes + 2) * tokens + (tokens + 3) / 4);
  const auto put = [&](std::span<const std::int32_t> words) {
    reply_words.insert(reply_words.end(), words.begin(), words.end());
  };
  const std::int32_t head[] = {positions.rows(), positions.axes(), static_cast<std::int32_t>(tokens)};
  put(head);
  for (std::int32_t r = 0; r < positions.rows(); ++r)
    reply_words.push_back(static_cast<std::int32_t>(positions.row_length(r)));
  for (std::int32_t axis = 0; axis < positions.axes(); ++axis) put(positions.position(axis));
  put(positions.order());
  put(positions.segment());
  const std::size_t at = reply_words.size();
  reply_words.resize(at + (tokens + 3) / 4);
  if (tokens > 0) std::memcpy(&reply_words[at], positions.valid().data(), tokens);
  return reinterpret_cast<Address>(reply_words.data());
}

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
