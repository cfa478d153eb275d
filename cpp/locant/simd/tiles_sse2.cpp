#include "locant/simd/tiles_body.hpp"

namespace locant::simd {
LOCANT_TILES(tiles_sse2, InstructionSet::kSse2)
}  // namespace locant::simd
