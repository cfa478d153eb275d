// Buffers on 64-byte borders whose failure to be had is an error with the bytes asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "locant/error.hpp"

namespace locant {

struct FreeAligned {
  void operator()(void* p) const noexcept { std::free(p); }
};
using AlignedFloats = std::unique_ptr<float[], FreeAligned>;
using AlignedBytes = std::unique_ptr<std::uint8_t[], FreeAligned>;

// `count` zeroed values on a 64-byte border, or kOutOfMemory naming `call`. 0 values give null.
template <class Value>
std::unique_ptr<Value[], FreeAligned> aligned_zeros(std::string_view call, std::size_t count);
extern template AlignedFloats aligned_zeros<float>(std::string_view, std::size_t);
extern template AlignedBytes aligned_zeros<std::uint8_t>(std::string_view, std::size_t);

// Work memory that is kept from call to call and grows when one needs more.
class WorkFloats {
 public:
  // At least `count` floats; what stood there is lost where it has to grow, and it is empty after kOutOfMemory.
  float* grow(std::string_view call, std::size_t count) {
    if (count > size_) {
      floats_ = nullptr;  // let go first: the old and the new need not be had together
      size_ = 0;
      floats_ = aligned_zeros<float>(call, count);
      size_ = count;
    }
    return floats_.get();
  }
  float* get() const noexcept { return floats_.get(); }

 private:
  AlignedFloats floats_;
  std::size_t size_ = 0;
};

}  // namespace locant
