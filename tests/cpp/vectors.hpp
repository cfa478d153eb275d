// Reads the reference vectors of tests/vectors (format: build-scripts/vectors/README.md).
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace locant::test {

using Json = nlohmann::json;

// The whole file "<name>.json".
Json load_vectors(const std::string& name);

// The bytes of a file there ("tiny_llama_f32.safetensors").
std::vector<std::uint8_t> load_bytes(const std::string& file_name);

// The values of a tensor {"dtype", "shape", "data"}, flat.
template <class Value>
std::vector<Value> values_of(const Json& tensor) {
  std::vector<Value> out;
  for (const Json& value : tensor.at("data")) {
    if (value.is_string()) {
      const auto text = value.get<std::string>();
      const double number = text == "NaN"        ? std::numeric_limits<double>::quiet_NaN()
                            : text == "Infinity" ? std::numeric_limits<double>::infinity()
                                                 : -std::numeric_limits<double>::infinity();
      out.push_back(static_cast<Value>(number));
    } else if (value.is_boolean()) {
      out.push_back(static_cast<Value>(value.get<bool>()));
    } else {
      out.push_back(value.get<Value>());
    }
  }
  return out;
}
inline std::vector<float> floats_of(const Json& tensor) { return values_of<float>(tensor); }
inline std::vector<double> doubles_of(const Json& tensor) { return values_of<double>(tensor); }
inline std::vector<std::int32_t> ints_of(const Json& tensor) { return values_of<std::int32_t>(tensor); }
inline std::vector<std::int64_t> shape_of(const Json& tensor) {
  return tensor.at("shape").get<std::vector<std::int64_t>>();
}

// A number of a case's parameters, or `otherwise` where it is absent or null.
template <class Value>
Value number_or(const Json& parameters, const char* key, Value otherwise) {
  const auto found = parameters.find(key);
  return found == parameters.end() || found->is_null() ? otherwise : found->get<Value>();
}
inline bool has_number(const Json& parameters, const char* key) {
  const auto found = parameters.find(key);
  return found != parameters.end() && !found->is_null();
}

}  // namespace locant::test
