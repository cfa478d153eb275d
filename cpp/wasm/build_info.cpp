#include <emscripten/version.h>

#include <Eigen/Core>

#include "adapters.hpp"

namespace locant::wasm {

val build_info() {
#if defined(__wasm_relaxed_simd__)
  const char* simd = "WebAssembly SIMD128 + relaxed fused multiply-add";
#elif defined(__wasm_simd128__)
  const char* simd = "WebAssembly SIMD128";
#else
  const char* simd = "none (scalar)";
#endif
  Object info;
  info.set("version", std::string(LOCANT_VERSION));
  info.set("simd", std::string(simd));
  info.set("compiler", sentence("clang ", __clang_major__, ".", __clang_minor__, ".", __clang_patchlevel__,
                                ", Emscripten ", __EMSCRIPTEN_major__, ".", __EMSCRIPTEN_minor__, ".",
                                __EMSCRIPTEN_tiny__));
  info.set("eigen", sentence(EIGEN_WORLD_VERSION, ".", EIGEN_MAJOR_VERSION, ".", EIGEN_MINOR_VERSION,
                             ", SIMD of its own: ", Eigen::SimdInstructionSetsInUse()));
  return info;
}

}  // namespace locant::wasm
