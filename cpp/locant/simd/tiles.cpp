// Which tile functions are used; and those of machines that have one set only.
#include "locant/simd/tiles.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "locant/error.hpp"

#if !defined(__x86_64__)
#include "locant/simd/tiles_body.hpp"
#endif

namespace locant::simd {

#if defined(__x86_64__)
extern const Tiles tiles_sse2, tiles_avx2, tiles_avx512;
#elif defined(__wasm_relaxed_simd__)
LOCANT_TILES(tiles_of_build, InstructionSet::kRelaxed)
#elif defined(__wasm_simd128__)
LOCANT_TILES(tiles_of_build, InstructionSet::kSimd128)
#else
LOCANT_TILES(tiles_of_build, InstructionSet::kScalar)
#endif

namespace {

// Best first, never empty.
const std::vector<const Tiles*>& available() {
  static const std::vector<const Tiles*> found = [] {
    std::vector<const Tiles*> sets;
#if defined(__x86_64__)
    __builtin_cpu_init();
    // The compiler's own check also asks whether the system saves the wide registers.
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq")) {
      sets.push_back(&tiles_avx512);
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets.push_back(&tiles_avx2);
    sets.push_back(&tiles_sse2);
#else
    sets.push_back(&tiles_of_build);
#endif
    return sets;
  }();
  return found;
}

const Tiles*& chosen() {
  static const Tiles* set = available().front();
  return set;
}

}  // namespace

void SoftmaxRows::clear() noexcept {
  std::fill_n(base, kSoftmaxRows, 0.0f);
  std::fill_n(limit, kSoftmaxRows, -std::numeric_limits<float>::infinity());
  std::fill_n(sum, kSoftmaxRows * kMostLanes, 0.0f);
}

std::string_view to_string(InstructionSet set) noexcept {
  switch (set) {
    case InstructionSet::kScalar: return "scalar";
    case InstructionSet::kSimd128: return "simd128";
    case InstructionSet::kRelaxed: return "relaxed";
    case InstructionSet::kSse2: return "sse2";
    case InstructionSet::kAvx2: return "avx2";
    case InstructionSet::kAvx512: return "avx512";
  }
  return "";
}

const Tiles& tiles() noexcept { return *chosen(); }

std::span<const InstructionSet> available_sets() noexcept {
  static const std::vector<InstructionSet> names = [] {
    std::vector<InstructionSet> list;
    for (const Tiles* set : available()) list.push_back(set->set);
    return list;
  }();
  return names;
}

void force_set(InstructionSet set) {
  for (const Tiles* candidate : available()) {
    if (candidate->set == set) {
      chosen() = candidate;
      return;
    }
  }
  fail(ErrorCode::kUnsupported, "force_set: ", to_string(set), " is not to be had here");
}

}  // namespace locant::simd
