// CoPE, contextual position encoding: how far a key is, counted in what the query attends to rather than in
// tokens (Golovneva et al. 2024). Forward form.
//
//   gate(t, j) = sigmoid(scale * q_t . k_j)              0 where t may not see j
//   p(t, j)    = min(sum of gate(t, i) over keys i from j on, max_positions - 1)      keys in their order in memory
//   bias(t, j) = q_t . e[p(t, j)]                        e interpolated between rows floor(p) and ceil(p); q unscaled
//
// A position depends on all visible keys from j on, so no tile of keys can be computed alone: this is a
// function that makes the whole bias of one sequence, to be used as a MatrixBias (custom.hpp). It reads no
// position number; the order of the keys is that of the arrays.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "locant/error.hpp"
#include "locant/method.hpp"

namespace locant {

struct CopeConfig {
  std::int32_t heads = 1, kv_heads = 1, head_dim = 1;
  std::int32_t max_positions = 1;  // rows of the table, shared by all heads
  double scale = 1;                // the attention's
};

// q: [queries, heads, head_dim], k: [keys, kv_heads, head_dim], table: [max_positions, head_dim],
// visible: [queries, keys], non-zero = may see. Returns [heads, queries, keys], 0 where hidden. Computed in
// double, rounded once. kShape, kArgument.
std::vector<float> cope_bias(const CopeConfig& config, std::span<const float> q, std::int64_t queries,
                             std::span<const float> k, std::int64_t keys, std::span<const float> table,
                             std::span<const std::uint8_t> visible);

MethodDescription describe(const CopeConfig& config);

}  // namespace locant
