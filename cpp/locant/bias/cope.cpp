#include "locant/bias/cope.hpp"

#include <algorithm>
#include <cmath>

#include "locant/position/positions.hpp"

namespace locant {

std::vector<float> cope_bias(const CopeConfig& config, std::span<const float> q, std::int64_t queries,
                             std::span<const float> k, std::int64_t keys, std::span<const float> table,
                             std::span<const std::uint8_t> visible) {
  constexpr const char* kCall = "cope_bias";
  require_range(kCall, "heads", config.heads, 1, 1 << 16);
  require_range(kCall, "kv_heads", config.kv_heads, 1, config.heads);
  if (config.heads % config.kv_heads != 0) {
    throw Error(ErrorCode::kArgument, sentence(kCall, ": kv_heads is ", config.kv_heads, ", expected a divisor of ",
                config.heads, " heads"), config.kv_heads, config.heads);
  }
  require_range(kCall, "head_dim", config.head_dim, 1, 1 << 16);
  require_range(kCall, "max_positions", config.max_positions, 1, kMaxPosition);
  require_range(kCall, "queries", queries, 0, kMaxPosition);
  require_range(kCall, "keys", keys, 0, kMaxPosition);
  require_finite(kCall, "scale", config.scale);
  const auto require = [&](const char* what, std::size_t held, std::initializer_list<std::int64_t> sizes,
                           const std::string& words) {
    require_size(kCall, what, held, checked_product(kCall, what, sizes), words);
  };
  require("the queries", q.size(), {queries, config.heads, config.head_dim},
          sentence(queries, " x ", config.heads, " heads x ", config.head_dim));
  require("the keys", k.size(), {keys, config.kv_heads, config.head_dim},
          sentence(keys, " x ", config.kv_heads, " heads x ", config.head_dim));
  require("the table values", table.size(), {config.max_positions, config.head_dim},
          sentence(config.max_positions, " positions x ", config.head_dim));
  require("the mask values", visible.size(), {queries, keys}, sentence(queries, " queries x ", keys, " keys"));

  const auto width = static_cast<std::size_t>(config.head_dim), heads = static_cast<std::size_t>(config.heads);
  const auto kv_heads = static_cast<std::size_t>(config.kv_heads);
  const auto key_count = static_cast<std::size_t>(keys), query_count = static_cast<std::size_t>(queries);
  std::vector<float> out(checked_product(kCall, "the result", {config.heads, queries, keys}));
  const auto product = [&](const float* a, const float* b) {
    double sum = 0;
    for (std::size_t c = 0; c < width; ++c) sum += static_cast<double>(a[c]) * b[c];
    return sum;
  };
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t t = 0; t < query_count; ++t) {
      const float* query = q.data() + (t * heads + h) * width;
      double position = 0;
      for (std::size_t j = key_count; j-- > 0;) {
        if (visible[t * key_count + j] == 0) continue;
        const float* key = k.data() + (j * kv_heads + h / (heads / kv_heads)) * width;
        position += 1 / (1 + std::exp(-config.scale * product(query, key)));
        const double at = std::min(position, static_cast<double>(config.max_positions - 1));
        // NaN in a query or key makes its own bias NaN and must not become an index.
        const double floor = at >= 0 ? std::floor(at) : 0, part = at - floor;
        const auto row = static_cast<std::size_t>(floor);
        const double low = product(query, table.data() + row * width);
        const double high = part > 0 ? product(query, table.data() + (row + 1) * width) : low;
        out[(h * query_count + t) * key_count + j] = static_cast<float>(low + part * (high - low));
      }
    }
  }
  return out;
}

MethodDescription describe(const CopeConfig& config) {
  MethodDescription d;
  d.name = "CoPE";
  d.door = Door::kScore;
  d.reference = Reference::kRelative;
  d.parameters = {parameter("heads", config.heads), parameter("key heads", config.kv_heads),
                  parameter("head size", config.head_dim), parameter("positions", config.max_positions),
                  parameter("scale", config.scale)};
  d.formula = sentence("q . e[sum of sigmoid gates from the key on], table [", config.max_positions, ", ",
                       config.head_dim, "]");
  d.source = "Golovneva et al. 2024, eq. 3 to 5";
  d.origin = "row 0 is a key whose gates sum to 0";
  d.direction = "counted back from the query; reads no position number";
  d.past_end = sentence("contextual positions from ", config.max_positions - 1, " on share the last row");
  return d;
}

}  // namespace locant
