#include "locant/decoder/weights.hpp"

#include <algorithm>
#include <utility>

namespace locant {

std::string shape_text(std::span<const std::int64_t> shape) {
  if (shape.empty()) return "(one value)";
  std::string text;
  for (const std::int64_t length : shape) {
    if (!text.empty()) text += " x ";
    text += std::to_string(length);
  }
  return text;
}

std::size_t tensor_size(std::string_view call, const TensorInfo& tensor) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / sizeof(float) / 2;
  std::size_t size = 1;
  for (const std::int64_t length : tensor.shape) {
    if (length < 0) {
      throw Error(ErrorCode::kArgument, sentence(call, ": tensor ", tensor.name, " has a length of ", length,
                  ", expected 0 or more"), static_cast<double>(length), 0);
    }
    if (length > 0 && size > kMost / static_cast<std::uint64_t>(length)) {
      fail(ErrorCode::kArgument, call, ": tensor ", tensor.name, " of ", shape_text(tensor.shape),
           " would pass the largest size, ", kMost, " values");
    }
    size *= static_cast<std::size_t>(length);
  }
  return size;
}

std::span<float> Weights::add(TensorInfo tensor) {
  constexpr const char* kCall = "Weights::add";
  const std::size_t size = tensor_size(kCall, tensor);
  if (has(tensor.name)) fail(ErrorCode::kArgument, kCall, ": there is a tensor ", tensor.name, " already");
  Entry entry{std::move(tensor), aligned_zeros<float>(kCall, size), size};
  entries_.reserve(entries_.size() + 1);
  index_.emplace(entry.info.name, entries_.size());
  entries_.push_back(std::move(entry));
  return values(entries_.size() - 1);
}

std::span<const float> Weights::require(std::string_view call, std::string_view name,
                                        std::span<const std::int64_t> shape) const {
  const auto found = index_.find(std::string(name));
  if (found == index_.end()) {
    fail(ErrorCode::kArgument, call, ": there is no tensor ", name, ", expected one of ", shape_text(shape));
  }
  const Entry& entry = entries_[found->second];
  if (!std::equal(shape.begin(), shape.end(), entry.info.shape.begin(), entry.info.shape.end())) {
    fail(ErrorCode::kShape, call, ": tensor ", name, " is ", shape_text(entry.info.shape), ", expected ", shape_text(shape));
  }
  return values(found->second);
}

void Weights::drop(std::string_view name) noexcept {
  const auto found = index_.find(std::string(name));
  if (found == index_.end()) return;
  const std::size_t at = found->second;
  index_.erase(found);
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(at));
  for (auto& [other, index] : index_) index -= index > at;
}

std::size_t Weights::parameters() const noexcept {
  std::size_t total = 0;
  for (const Entry& entry : entries_) total += entry.size;
  return total;
}

Weights Weights::clone() const {
  Weights copy;
  for (const Entry& entry : entries_) {
    const std::span<float> to = copy.add(entry.info);
    std::copy_n(entry.values.get(), entry.size, to.begin());
  }
  return copy;
}

}  // namespace locant
