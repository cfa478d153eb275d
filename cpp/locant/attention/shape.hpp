// The sizes of one attention layer.
#pragma once

#include <cstdint>
#include <string_view>

namespace locant {

// heads query heads share kv_heads key/value heads (grouped-query attention; kv_heads = heads is multi-head,
// kv_heads = 1 multi-query): query head h reads key head h / (heads / kv_heads).
struct AttentionShape {
  std::int32_t heads = 1;
  std::int32_t kv_heads = 1;
  std::int32_t head_dim = 1;   // width of a query and a key
  std::int32_t value_dim = 1;  // width of a value; usually head_dim
  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

// kArgument unless all are 1 or more, none passes 65536, and kv_heads divides heads.
void require_shape(std::string_view call, const AttentionShape& shape);

}  // namespace locant
