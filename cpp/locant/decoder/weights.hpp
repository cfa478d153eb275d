// Named tensors: what a model has learned, as float32.
//
// A matrix is [out, in], row-major, as Hugging Face and PyTorch's Linear store it: y_o = sum_i w[o][i] x_i + b_o.
// Names are those of the Hugging Face checkpoint; decoder.hpp lists the ones a decoder reads. Tensors keep the
// order in which they were added. A Weights can be moved and not copied; clone() copies, and says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "locant/attention/aligned.hpp"
#include "locant/error.hpp"

namespace locant {

struct TensorInfo {
  std::string name;
  std::vector<std::int64_t> shape;  // row-major; empty: a single value
  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

// "4 x 16", "(one value)".
std::string shape_text(std::span<const std::int64_t> shape);
// The number of values; kArgument naming `call` where a length is negative or the product does not fit.
std::size_t tensor_size(std::string_view call, const TensorInfo& tensor);

class Weights {
 public:
  Weights() = default;
  Weights(Weights&&) noexcept = default;
  Weights& operator=(Weights&&) noexcept = default;

  // A zeroed tensor, to be filled. kArgument where the name is taken or a length negative; kOutOfMemory.
  std::span<float> add(TensorInfo tensor);

  std::size_t tensors() const noexcept { return entries_.size(); }
  const TensorInfo& info(std::size_t i) const { return entries_[i].info; }
  std::span<const float> values(std::size_t i) const { return {entries_[i].values.get(), entries_[i].size}; }
  std::span<float> values(std::size_t i) { return {entries_[i].values.get(), entries_[i].size}; }

  bool has(std::string_view name) const noexcept { return index_.contains(std::string(name)); }
  // kArgument where there is no such tensor, kShape where it has another shape; `call` begins the sentence.
  std::span<const float> require(std::string_view call, std::string_view name, std::span<const std::int64_t> shape) const;

  // Gives the memory of a tensor back once its values are kept elsewhere; require() no longer finds it.
  void drop(std::string_view name) noexcept;

  // Values of all tensors together, and the memory they take.
  std::size_t parameters() const noexcept;
  std::size_t bytes() const noexcept { return parameters() * sizeof(float); }

  Weights clone() const;

 private:
  struct Entry {
    TensorInfo info;
    AlignedFloats values;
    std::size_t size = 0;
  };
  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace locant
