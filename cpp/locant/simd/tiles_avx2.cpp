#include "locant/simd/tiles_body.hpp"

namespace locant::simd {
LOCANT_TILES(tiles_avx2, InstructionSet::kAvx2)
}  // namespace locant::simd
