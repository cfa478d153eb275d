#include "locant/simd/tiles_body.hpp"

namespace locant::simd {
LOCANT_TILES(tiles_avx512, InstructionSet::kAvx512)
}  // namespace locant::simd
