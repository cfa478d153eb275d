#include "locant/attention/shape.hpp"

#include "locant/error.hpp"

namespace locant {

void require_shape(std::string_view call, const AttentionShape& shape) {
  constexpr std::int64_t kMost = 65536;
  require_range(call, "heads", shape.heads, 1, kMost);
  require_range(call, "kv_heads", shape.kv_heads, 1, kMost);
  require_range(call, "head_dim", shape.head_dim, 1, kMost);
  require_range(call, "value_dim", shape.value_dim, 1, kMost);
  if (shape.heads % shape.kv_heads != 0) {
    throw Error(ErrorCode::kArgument,
                sentence(call, ": heads is ", shape.heads, ", expected a multiple of kv_heads, ", shape.kv_heads),
                shape.heads, shape.kv_heads);
  }
}

}  // namespace locant
