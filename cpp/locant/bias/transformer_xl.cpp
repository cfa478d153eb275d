#include "locant/bias/transformer_xl.hpp"

#include <algorithm>
#include <cmath>

#include "locant/bias/tile_products.hpp"
#include "locant/position/angle.hpp"
#include "locant/position/positions.hpp"

namespace locant {

TransformerXl::TransformerXl(TransformerXlConfig config, std::span<const float> projection,
                             std::span<const float> content_bias, std::span<const float> position_bias)
    : config_(config) {
  constexpr const char* kCall = "TransformerXl";
  require_range(kCall, "heads", config.heads, 1, 1 << 16);
  require_range(kCall, "head_dim", config.head_dim, 1, 1 << 16);
  require_range(kCall, "model_width", config.model_width, 2, 1 << 20);
  if (config.model_width % 2 != 0) {
    throw Error(ErrorCode::kArgument,
                sentence(kCall, ": model_width is ", config.model_width, ", expected an even number"), config.model_width);
  }
  require_positive(kCall, "base", config.base);
  if (config.clamp) require_range(kCall, "clamp", *config.clamp, 0, kMaxPosition);
  require_range(kCall, "kept_before", config.kept_before, 0, 1 << 24);
  require_range(kCall, "kept_after", config.kept_after, 0, 1 << 24);
  require_size(kCall, "the projection values", projection.size(),
               checked_product(kCall, "the projection", {config.heads, config.head_dim, config.model_width}),
               sentence(config.heads, " heads x ", config.head_dim, " x ", config.model_width));
  for (const auto& [what, values] : {std::pair{"the content bias values", content_bias}, {"the position bias values", position_bias}}) {
    require_size(kCall, what, values.size(), checked_product(kCall, what, {config.heads, config.head_dim}),
                 sentence(config.heads, " heads x ", config.head_dim));
  }
  projection_.assign(projection.begin(), projection.end());
  content_bias_.assign(content_bias.begin(), content_bias.end());
  position_bias_.assign(position_bias.begin(), position_bias.end());
  for (std::int32_t i = 0; i < config.model_width / 2; ++i) {
    frequencies_.push_back(std::pow(config.base, -2.0 * i / config.model_width));
    require_frequency(kCall, sentence("the frequency of pair ", i), frequencies_.back());
  }
  const std::int64_t distances = std::int64_t{config.kept_before} + config.kept_after + 1;
  kept_.resize(checked_product(kCall, "the kept vectors", {config.heads, distances, config.head_dim}));
  float* to = kept_.data();
  for (std::int32_t h = 0; h < config.heads; ++h) {
    for (std::int64_t n = -config.kept_after; n <= config.kept_before; ++n, to += config.head_dim) compute(h, n, to);
  }
}

std::int64_t TransformerXl::clamped(std::int64_t distance) const noexcept {
  if (!config_.clamp) return distance;
  return std::clamp<std::int64_t>(distance, -*config_.clamp, *config_.clamp);
}

std::vector<DisplacementRun> TransformerXl::merged_runs() const {
  if (!config_.clamp) return {};
  const std::int64_t clamp = *config_.clamp;
  if (clamp == 0) return {{0, -kMaxDisplacement, kMaxDisplacement}};
  return {{clamp, -kMaxDisplacement, -clamp}, {-clamp, clamp, kMaxDisplacement}};
}

void TransformerXl::compute(std::int32_t head, std::int64_t distance, float* out) const {
  const auto half = frequencies_.size(), width = 2 * half, dim = static_cast<std::size_t>(config_.head_dim);
  std::vector<double> sums(dim, 0.0);
  const float* rows = projection_.data() + static_cast<std::size_t>(head) * dim * width;
  for (std::size_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(distance) * frequencies_[i];
    const double sine = std::sin(angle), cosine = std::cos(angle);
    for (std::size_t c = 0; c < dim; ++c) sums[c] += rows[c * width + i] * sine + rows[c * width + half + i] * cosine;
  }
  for (std::size_t c = 0; c < dim; ++c) out[c] = static_cast<float>(sums[c]);
}

const float* TransformerXl::kept(std::int32_t head, std::int64_t distance) const noexcept {
  if (distance > config_.kept_before || distance < -config_.kept_after) return nullptr;
  const std::int64_t distances = std::int64_t{config_.kept_before} + config_.kept_after + 1;
  return kept_.data() + (head * distances + distance + config_.kept_after) * config_.head_dim;
}

void TransformerXl::distance_vector(std::int32_t head, std::int64_t distance, float* out) const {
  require_range("TransformerXl::distance_vector", "head", head, 0, config_.heads - 1);
  const std::int64_t n = clamped(distance);
  if (const float* r = kept(head, n)) {
    std::copy(r, r + config_.head_dim, out);
  } else {
    compute(head, n, out);
  }
}

void TransformerXl::add(const ScoreTile& tile, float* scores, std::size_t stride) const {
  if (tile.keys == 0 || tile.query_rows == 0) return;
  const auto dim = static_cast<std::size_t>(config_.head_dim), head = static_cast<std::size_t>(tile.head);
  const float* u = content_bias_.data() + head * dim;
  const float* v = position_bias_.data() + head * dim;
  std::vector<float> by_key(tile.keys), query(dim), products, met;
  for (std::size_t k = 0; k < tile.keys; ++k) by_key[k] = tile.scale * dot(u, tile.key + k * tile.key_stride, dim);

  // Vectors of this tile that are not kept: computed once each where its positions lie close together.
  const auto [key_low, key_high] = detail::key_range(tile);
  const auto [low, high] = std::minmax_element(tile.query_position, tile.query_position + tile.query_rows);
  const std::int64_t first = clamped(*low - key_high), last = clamped(*high - key_low);
  const std::int64_t distances = last - first + 1;
  const bool all_kept = kept(tile.head, first) != nullptr && kept(tile.head, last) != nullptr;
  if (!all_kept && distances <= 2 * static_cast<std::int64_t>(tile.keys + tile.query_rows)) {
    met.resize(static_cast<std::size_t>(distances) * dim);
    for (std::int64_t n = first; n <= last; ++n) distance_vector(tile.head, n, met.data() + static_cast<std::size_t>(n - first) * dim);
  }
  std::vector<float> single(dim);
  const auto vector_of = [&](std::int64_t n) -> const float* {
    if (const float* r = kept(tile.head, n)) return r;
    if (!met.empty()) return met.data() + static_cast<std::size_t>(n - first) * dim;
    compute(tile.head, n, single.data());
    return single.data();
  };
  const auto distance_of = [&](std::int64_t d) { return clamped(-d); };
  for (std::size_t row = 0; row < tile.query_rows; ++row) {
    const float* q = tile.query + row * tile.query_stride;
    for (std::size_t c = 0; c < dim; ++c) query[c] = q[c] + v[c];
    float* to = scores + row * stride;
    for (std::size_t k = 0; k < tile.keys; ++k) to[k] += by_key[k];
    detail::add_products(tile, row, query.data(), dim, tile.scale, distance_of, vector_of, products, to);
  }
}

void TransformerXl::require_fits(std::int32_t heads, std::int32_t, std::int32_t head_dim) const {
  if (heads == config_.heads && head_dim == config_.head_dim) return;
  throw Error(ErrorCode::kShape, sentence("TransformerXl: it was made for ", config_.heads, " heads of ",
              config_.head_dim, ", the attention has ", heads, " of ", head_dim), config_.heads, heads);
}

MethodDescription TransformerXl::describe() const {
  MethodDescription d;
  d.name = "Transformer-XL";
  d.door = Door::kScore;
  d.reference = Reference::kRelative;
  d.parameters = {parameter("heads", config_.heads), parameter("head size", config_.head_dim),
                  parameter("model width", config_.model_width), parameter("base", config_.base),
                  {"clamp", config_.clamp ? std::to_string(*config_.clamp) : "none"}};
  d.formula = "scale * (u . k + (q + v) . W [sin, cos of (t - j) * base^(-2i / model width)])";
  d.source = "Dai et al. 2019, section 3.3; Yang et al. 2019 (XLNet)";
  d.origin = "distance 0 is the query itself";
  d.direction = "distance = query - key, the opposite of displacement";
  d.past_end = config_.clamp ? sentence("distances beyond ", *config_.clamp, " read that one") : "no end";
  return d;
}

std::vector<float> relative_shift(std::span<const float> x, std::int64_t rows, std::int64_t columns) {
  constexpr const char* kCall = "relative_shift";
  require_range(kCall, "rows", rows, 0, kMaxPosition);
  require_range(kCall, "columns", columns, 0, kMaxPosition);
  const std::size_t size = checked_product(kCall, "the values", {rows, columns});
  require_size(kCall, "the values", x.size(), size, sentence(rows, " x ", columns));
  std::vector<float> out(size);
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const std::int64_t from = i + rows, row = from / (columns + 1), column = from % (columns + 1);
    out[static_cast<std::size_t>(i)] = column == 0 ? 0 : x[static_cast<std::size_t>(row * columns + column - 1)];
  }
  return out;
}

std::vector<float> relative_shift_xlnet(std::span<const float> x, std::int64_t rows, std::int64_t columns,
                                        std::int64_t keys) {
  constexpr const char* kCall = "relative_shift_xlnet";
  require_range(kCall, "rows", rows, 0, kMaxPosition);
  require_range(kCall, "columns", columns, 1, kMaxPosition);
  require_range(kCall, "keys", keys, 0, columns - 1);
  require_size(kCall, "the values", x.size(), checked_product(kCall, "the values", {rows, columns}),
               sentence(rows, " x ", columns));
  std::vector<float> out;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < keys; ++j) out.push_back(x[static_cast<std::size_t>(rows + i * (columns - 1) + j)]);
  }
  return out;
}

}  // namespace locant
