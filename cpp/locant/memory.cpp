#include "locant/memory.hpp"

#include <cstdint>
#include <limits>

#if defined(__EMSCRIPTEN__)
#include <malloc.h>
#include <unistd.h>
#endif

namespace locant {

#if defined(__EMSCRIPTEN__)
namespace {
constexpr double kPage = 65536;
// Emscripten stays one page short of 4 GB, since a size of 2^32 would be 0.
constexpr double kMost = 65536 * kPage - kPage;

double room_to_grow() noexcept { return kMost - static_cast<double>(__builtin_wasm_memory_size(0)) * kPage; }
}  // namespace

double memory_left() noexcept {
  // Beyond what malloc has taken, and what was given back to it. (mallinfo walks the heap and has signed members.)
  const double taken = static_cast<double>(reinterpret_cast<std::uintptr_t>(sbrk(0)));
  return kMost - taken + static_cast<double>(static_cast<std::uint32_t>(mallinfo().fordblks));
}
#else
namespace {
double room_to_grow() noexcept { return memory_left(); }
}  // namespace

double memory_left() noexcept { return static_cast<double>(std::numeric_limits<std::ptrdiff_t>::max()); }
#endif

void out_of_memory(std::string_view call, double bytes) {
  throw Error(ErrorCode::kOutOfMemory, sentence(call, ": could not get ", bytes, " bytes of memory"), bytes,
              memory_left());
}

void require_memory(std::string_view call, double bytes) {
  if (bytes > room_to_grow() && bytes > memory_left()) out_of_memory(call, bytes);
}

}  // namespace locant
