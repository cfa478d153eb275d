#include "locant/attention/aligned.hpp"

#include <cstring>
#include <limits>

#include "locant/memory.hpp"

namespace locant {

template <class Value>
std::unique_ptr<Value[], FreeAligned> aligned_zeros(std::string_view call, std::size_t count) {
  if (count == 0) return nullptr;
  constexpr std::size_t kBorder = 64;
  void* p = nullptr;
  if (count <= (std::numeric_limits<std::size_t>::max() - kBorder) / sizeof(Value)) {
    const std::size_t bytes = (count * sizeof(Value) + kBorder - 1) / kBorder * kBorder;
    p = std::aligned_alloc(kBorder, bytes);
    if (p != nullptr) std::memset(p, 0, bytes);
  }
  if (p == nullptr) out_of_memory(call, static_cast<double>(count) * sizeof(Value));
  return std::unique_ptr<Value[], FreeAligned>(static_cast<Value*>(p));
}

template AlignedFloats aligned_zeros<float>(std::string_view, std::size_t);
template AlignedBytes aligned_zeros<std::uint8_t>(std::string_view, std::size_t);

}  // namespace locant
