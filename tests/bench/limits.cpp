// The machine's limits in WebAssembly: a module without imports. JavaScript times the calls.
#include <emscripten/emscripten.h>

#include "limits_body.hpp"

extern "C" {
extern unsigned char __heap_base;

EMSCRIPTEN_KEEPALIVE int lanes() { return static_cast<int>(locant::simd::kLanes); }
EMSCRIPTEN_KEEPALIVE float multiply_add(int sums, int steps, float x, float y, float z) {
  return multiply_add_of(static_cast<std::size_t>(sums), static_cast<std::size_t>(steps), x, y, z);
}
// Bytes [from, from + bytes) of the memory, on from its free end.
EMSCRIPTEN_KEEPALIVE float read(int from, int bytes) {
  const auto at = (reinterpret_cast<std::size_t>(&__heap_base) + 63) / 64 * 64 + static_cast<std::size_t>(from);
  return read_all(reinterpret_cast<const float*>(at), static_cast<std::size_t>(bytes) / sizeof(float));
}
EMSCRIPTEN_KEEPALIVE float read_side_by_side(int from, int bytes) {
  const auto at = (reinterpret_cast<std::size_t>(&__heap_base) + 63) / 64 * 64 + static_cast<std::size_t>(from);
  return read_streams(reinterpret_cast<const float*>(at), static_cast<std::size_t>(bytes) / sizeof(float));
}
}
