#include "locant/bias/shaw.hpp"

#include <algorithm>

#include "locant/bias/tile_products.hpp"

namespace locant {

ShawTable::ShawTable(ShawTableConfig config, std::span<const float> values) : config_(config) {
  constexpr const char* kCall = "ShawTable";
  require_range(kCall, "max_distance", config.max_distance, 0, 1 << 20);
  require_range(kCall, "heads", config.heads, 1, 1 << 16);
  require_range(kCall, "width", config.width, 1, 1 << 16);
  require_size(kCall, "the table values", values.size(),
               checked_product(kCall, "the table", {config.heads, rows(), config.width}),
               sentence(config.heads, " tables x ", rows(), " displacements x width ", config.width));
  values_.assign(values.begin(), values.end());
}

std::int64_t ShawTable::rows() const noexcept {
  const std::int64_t k = config_.max_distance;
  return config_.sides == ShawSides::kBoth ? 2 * k + 1 : k + 1;
}

std::int64_t ShawTable::row(std::int64_t displacement) const noexcept {
  const std::int64_t k = config_.max_distance;
  return std::clamp<std::int64_t>(displacement, -k, config_.sides == ShawSides::kBoth ? k : 0) + k;
}

const float* ShawTable::vector(std::int32_t head, std::int64_t row) const noexcept {
  const std::int64_t table = config_.heads == 1 ? 0 : head;
  return values_.data() + (table * rows() + row) * config_.width;
}

std::vector<DisplacementRun> ShawTable::runs() const {
  return clipped_runs(-std::int64_t{config_.max_distance}, config_.sides == ShawSides::kBoth ? config_.max_distance : 0);
}

void ShawTable::require_fits(const char* call, std::int32_t heads, std::int32_t width) const {
  if (width != config_.width) {
    throw Error(ErrorCode::kShape, sentence(call, ": the table's width is ", config_.width, ", the attention's is ",
                width), config_.width, width);
  }
  if (config_.heads != 1 && config_.heads != heads) {
    throw Error(ErrorCode::kShape, sentence(call, ": there are tables for ", config_.heads,
                " heads, the attention has ", heads), config_.heads, heads);
  }
}

MethodDescription ShawTable::describe(const char* name, const char* formula) const {
  MethodDescription d;
  d.name = name;
  d.door = Door::kScore;
  d.reference = Reference::kRelative;
  d.parameters = {parameter("largest distance", config_.max_distance), parameter("heads", config_.heads),
                  parameter("width", config_.width)};
  d.formula = sentence(formula, ", table [", config_.heads, ", ", rows(), ", ", config_.width, "]");
  d.source = "Shaw, Uszkoreit, Vaswani 2018, eq. 3 and 4";
  d.origin = sentence("row ", config_.max_distance, " is displacement 0");
  d.direction = "displacement = key - query";
  d.past_end = config_.sides == ShawSides::kBoth
                   ? sentence("displacements beyond ", config_.max_distance, " share the row of that distance")
                   : sentence("distances beyond ", config_.max_distance, " share a row; later keys read row ",
                              config_.max_distance);
  return d;
}

void ShawKeys::add(const ScoreTile& tile, float* scores, std::size_t stride) const {
  if (tile.keys == 0) return;
  const auto width = static_cast<std::size_t>(table_.config().width);
  const auto row_of = [&](std::int64_t d) { return table_.row(d); };
  const auto vector_of = [&](std::int64_t row) { return table_.vector(tile.head, row); };
  std::vector<float> products;
  for (std::size_t row = 0; row < tile.query_rows; ++row) {
    float* to = scores + row * stride;
    if (content_ != ShawContent::kKey) {
      detail::add_products(tile, row, tile.query + row * tile.query_stride, width, tile.scale, row_of, vector_of,
                           products, to);
    }
    if (content_ == ShawContent::kQuery) continue;
    for (std::size_t k = 0; k < tile.keys; ++k) {
      to[k] += tile.scale * dot(tile.key + k * tile.key_stride, vector_of(row_of(displacement(tile, row, k))), width);
    }
  }
}

void ShawKeys::require_fits(std::int32_t heads, std::int32_t, std::int32_t head_dim) const {
  table_.require_fits("ShawKeys", heads, head_dim);
}

MethodDescription ShawKeys::describe() const {
  switch (content_) {
    case ShawContent::kQuery: return table_.describe("Shaw, keys", "scale * q . aK[clamp(j - t, -K, K)]");
    case ShawContent::kKey: return table_.describe("Shaw, keys, key content", "scale * k . aK[clamp(j - t, -K, K)]");
    default: return table_.describe("Shaw, keys, both contents", "scale * (q + k) . aK[clamp(j - t, -K, K)]");
  }
}

void ShawValues::accumulate(const ScoreTile& tile, const float* weights, std::size_t weight_stride, float* out,
                            std::size_t out_stride) const {
  if (tile.keys == 0) return;
  const auto width = static_cast<std::size_t>(table_.config().width);
  const auto mix = [&](float weight, const float* a, float* to) {
    for (std::size_t c = 0; c < width; ++c) to[c] += weight * a[c];
  };
  const auto [nearest, farthest] = detail::key_range(tile);
  std::vector<float> shares;
  for (std::size_t row = 0; row < tile.query_rows; ++row) {
    const float* w = weights + row * weight_stride;
    float* to = out + row * out_stride;
    const std::int64_t low = table_.row(nearest - tile.query_position[row]);
    const std::int64_t high = table_.row(farthest - tile.query_position[row]);
    if (high - low < 2 * static_cast<std::int64_t>(tile.keys)) {
      // The weights of all keys that share a table row first, then each row once.
      shares.assign(static_cast<std::size_t>(high - low + 1), 0.0f);
      for (std::size_t k = 0; k < tile.keys; ++k) {
        shares[static_cast<std::size_t>(table_.row(displacement(tile, row, k)) - low)] += w[k];
      }
      for (std::int64_t r = low; r <= high; ++r) {
        const float share = shares[static_cast<std::size_t>(r - low)];
        if (share != 0) mix(share, table_.vector(tile.head, r), to);
      }
    } else {
      for (std::size_t k = 0; k < tile.keys; ++k) {
        if (w[k] != 0) mix(w[k], table_.vector(tile.head, table_.row(displacement(tile, row, k))), to);
      }
    }
  }
}

void ShawValues::require_fits(std::int32_t heads, std::int32_t, std::int32_t value_dim) const {
  table_.require_fits("ShawValues", heads, value_dim);
}

MethodDescription ShawValues::describe() const {
  return table_.describe("Shaw, values", "sum_j w_tj aV[clamp(j - t, -K, K)]");
}

}  // namespace locant
