#include "locant/attention/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <utility>

#include "locant/attention/attention_state.hpp"
#include "locant/memory.hpp"

namespace locant {
namespace {

constexpr std::size_t kTurnedTokens = 32;  // keys that are turned at a time

AttentionConfig checked(AttentionConfig config) {
  constexpr const char* kCall = "attention";
  const AttentionShape& shape = config.shape;
  require_shape(kCall, shape);
  require_mask(kCall, config.mask);
  if (config.rotation && config.rotation->head_dim() != shape.head_dim) {
    throw Error(ErrorCode::kShape,
                sentence(kCall, ": the rotation turns heads of ", config.rotation->head_dim(), ", expected head_dim, ",
                         shape.head_dim),
                config.rotation->head_dim(), shape.head_dim);
  }
  for (const auto& term : config.score_terms) {
    if (!term) fail(ErrorCode::kArgument, kCall, ": a score term is null");
    term->require_fits(shape.heads, shape.kv_heads, shape.head_dim);
  }
  if (config.value_term) config.value_term->require_fits(shape.heads, shape.kv_heads, shape.value_dim);
  if (config.scale) require_scale(kCall, *config.scale);
  if (config.soft_cap) require_factor(kCall, "the soft cap", *config.soft_cap);
  if (!config.sink_logits.empty()) {
    require_size(kCall, "sink logits", config.sink_logits.size(), static_cast<std::size_t>(shape.heads), "one per head");
    for (const float logit : config.sink_logits) require_finite(kCall, "a sink logit", logit);
  }
  if (config.temperature) require_temperature(kCall, *config.temperature);
  return config;
}

const float* turned(const Rotation& rotation, std::span<const float> x, const Positions& positions, std::int32_t heads,
                    RotationRole role, WorkFloats& buffer) {
  float* const out = buffer.grow("attend", x.size());
  rotation.apply(x, positions, heads, role, {out, x.size()});
  return out;
}

}  // namespace

void require_scale(std::string_view call, double scale) {
  if (scale != 0) require_factor(call, "scale", scale);
}

void require_tensor(std::string_view call, std::string_view what, std::size_t held, std::size_t tokens,
                    std::int32_t heads, std::int32_t width) {
  const std::size_t expected = checked_product(call, what, {static_cast<std::int64_t>(tokens), heads, width});
  if (held != expected) {
    require_size(call, what, held, expected, sentence(heads, " heads x ", tokens, " positions x ", width));
  }
}

const float* Attention::State::turned_queries(std::span<const float> x, const Positions& positions) {
  if (!config.rotation) return x.data();
  return turned(*config.rotation, x, positions, config.shape.heads, RotationRole::kQuery, q);
}

const float* Attention::State::turned_keys(std::span<const float> x, const Positions& positions) {
  if (!config.rotation) return x.data();
  return turned(*config.rotation, x, positions, config.shape.kv_heads, RotationRole::kKey, k);
}

void Attention::State::prepare_write() {
  if (!config.rotation) return;
  block.grow("attend", kTurnedTokens * static_cast<std::size_t>(config.shape.kv_heads) *
                           static_cast<std::size_t>(config.shape.head_dim));
}

void Attention::State::write(KeyValueStore& to, std::size_t slot, std::size_t count, const float* keys,
                             const float* values, const Positions& positions, std::size_t first,
                             const Rotation* rotation) noexcept {
  const auto heads = static_cast<std::size_t>(config.shape.kv_heads);
  const std::size_t key_size = heads * static_cast<std::size_t>(config.shape.head_dim);
  const std::size_t value_size = heads * static_cast<std::size_t>(config.shape.value_dim);
  for (std::size_t i = 0; i < count;) {
    const std::size_t part = rotation != nullptr ? std::min(kTurnedTokens, count - i) : count;
    const float* key = keys + (first + i) * key_size;
    if (rotation != nullptr) {
      rotation->turn_tokens(key, positions, first + i, part, config.shape.kv_heads, config.shape.kv_heads,
                            RotationRole::kKey, block.get());
      key = block.get();
    }
    to.write(slot + i, part, key, values + (first + i) * value_size);
    i += part;
  }
}

Attention::Attention(AttentionConfig config) : state_(std::make_unique<State>(checked(std::move(config)))) {}
Attention::~Attention() = default;
Attention::Attention(Attention&&) noexcept = default;
Attention& Attention::operator=(Attention&&) noexcept = default;

const AttentionConfig& Attention::config() const noexcept { return state_->config; }

std::vector<MethodDescription> Attention::describe() const {
  const AttentionConfig& config = state_->config;
  std::vector<MethodDescription> methods;
  if (config.rotation) methods.push_back(locant::describe(config.rotation->plan()));
  for (const auto& term : config.score_terms) methods.push_back(term->describe());
  if (config.value_term) methods.push_back(config.value_term->describe());
  if (config.temperature) methods.push_back(locant::describe(*config.temperature));
  return methods;
}

void Attention::attend(std::span<const float> q, std::span<const float> k, std::span<const float> v,
                       const Positions& positions, std::span<float> out, const CallMask& mask) const {
  attend(q, positions, k, v, positions, out, mask);
}

void Attention::attend(std::span<const float> q, const Positions& query_positions, std::span<const float> k,
                       std::span<const float> v, const Positions& key_positions, std::span<float> out,
                       const CallMask& call_mask) const {
  constexpr const char* kCall = "attend";
  State& state = *state_;
  const AttentionShape& shape = state.config.shape;
  if (query_positions.rows() != key_positions.rows()) {
    throw Error(ErrorCode::kArgument,
                sentence(kCall, ": the queries have ", query_positions.rows(), " rows, the keys ", key_positions.rows()),
                query_positions.rows(), key_positions.rows());
  }
  require_tensor(kCall, "queries", q.size(), query_positions.tokens(), shape.heads, shape.head_dim);
  require_tensor(kCall, "keys", k.size(), key_positions.tokens(), shape.kv_heads, shape.head_dim);
  require_tensor(kCall, "values", v.size(), key_positions.tokens(), shape.kv_heads, shape.value_dim);
  require_tensor(kCall, "out", out.size(), query_positions.tokens(), shape.heads, shape.value_dim);
  try {
    const std::int32_t rows = query_positions.rows();
    const Mask mask = merged_mask(kCall, state.config.mask, call_mask, rows);
    const std::vector<std::size_t> queries = query_positions.row_lengths(), keys = key_positions.row_lengths();
    const auto visible = split_visible(kCall, visible_of(state.config.mask, call_mask), queries, keys);
    const Rotation* rotation = state.config.rotation.get();
    if (rotation != nullptr) {
      rotation->require_positions(kCall, query_positions);
      rotation->require_positions(kCall, key_positions);
    }
    state.prepare_write();

    const auto heads = static_cast<std::size_t>(shape.heads);
    const auto head_dim = static_cast<std::size_t>(shape.head_dim), value_dim = static_cast<std::size_t>(shape.value_dim);
    for (std::int32_t r = 0; r < rows; ++r) {
      const std::size_t i = static_cast<std::size_t>(r), q0 = query_positions.row_begin(r), k0 = key_positions.row_begin(r);
      state.store.reserve(keys[i]);
      state.store.resize(keys[i]);
      state.write(state.store, 0, keys[i], k.data(), v.data(), key_positions, k0, rotation);
      const Visibility sight(mask, r, view_of(query_positions, r), view_of(key_positions, r), visible[i]);
      AttendRow row;
      row.q = q.data() + q0 * heads * head_dim;
      row.rotation = rotation;
      row.positions = &query_positions;
      row.first_token = q0;
      row.out = out.data() + q0 * heads * value_dim;
      row.store = &state.store;
      row.sight = &sight;
      row.query_position = query_positions.position().subspan(q0, queries[i]);
      row.key_position = key_positions.position().subspan(k0, keys[i]);
      state.kernel.attend(row);
    }
  } catch (const std::bad_alloc&) {
    // All that is large has said so itself: these are the lists of the rows.
    out_of_memory(kCall, query_positions.rows() * (2.0 * sizeof(std::size_t) + sizeof(std::span<std::uint8_t>)));
  }
}

std::vector<ScoreParts> Attention::explain(std::span<const float> q, const Positions& query_positions,
                                           std::span<const float> k, const Positions& key_positions,
                                           std::span<const WeightRequest> requests, const CallMask& call_mask) const {
  constexpr const char* kCall = "explain";
  State& state = *state_;
  const AttentionConfig& config = state.config;
  const AttentionShape& shape = config.shape;
  const std::int32_t rows = query_positions.rows();
  if (rows != key_positions.rows()) {
    fail(ErrorCode::kArgument, kCall, ": the queries have ", rows, " rows, the keys ", key_positions.rows());
  }
  require_tensor(kCall, "queries", q.size(), query_positions.tokens(), shape.heads, shape.head_dim);
  require_tensor(kCall, "keys", k.size(), key_positions.tokens(), shape.kv_heads, shape.head_dim);
  for (const WeightRequest& request : requests) {
    require_range(kCall, "a head", request.head, 0, shape.heads - 1);
    require_range(kCall, "a query", static_cast<std::int64_t>(request.query), 0,
                  static_cast<std::int64_t>(query_positions.tokens()) - 1);
  }
  const Mask mask = merged_mask(kCall, config.mask, call_mask, rows);
  const std::vector<std::size_t> queries = query_positions.row_lengths(), keys = key_positions.row_lengths();
  const auto visible = split_visible(kCall, visible_of(config.mask, call_mask), queries, keys);
  const float* turned_q = state.turned_queries(q, query_positions);
  const float* turned_k = state.turned_keys(k, key_positions);
  const auto head_dim = static_cast<std::size_t>(shape.head_dim);
  const auto heads = static_cast<std::size_t>(shape.heads), kv_heads = static_cast<std::size_t>(shape.kv_heads);
  const double hidden = -std::numeric_limits<double>::infinity();
  const auto dot = [&](const float* a, const float* b) {
    double sum = 0;
    for (std::size_t d = 0; d < head_dim; ++d) sum += static_cast<double>(a[d]) * b[d];
    return sum;
  };

  std::vector<ScoreParts> out;
  for (const WeightRequest& request : requests) {
    std::int32_t r = 0;
    while (query_positions.row_end(r) <= request.query) ++r;
    const std::size_t i = static_cast<std::size_t>(r), k0 = key_positions.row_begin(r), count = keys[i];
    const std::size_t query = request.query - query_positions.row_begin(r);
    const Visibility sight(mask, r, view_of(query_positions, r), view_of(key_positions, r), visible[i]);
    const auto head = static_cast<std::size_t>(request.head);
    const std::size_t kv_head = head / (heads / kv_heads);
    const std::size_t at = (request.query * heads + head) * head_dim;
    const std::size_t key_stride = kv_heads * head_dim, key_at = k0 * key_stride + kv_head * head_dim;
    const std::int32_t position = query_positions.position()[request.query];
    const double scale = state.kernel.scale_at(position);

    ScoreTile tile;
    tile.head = request.head;
    tile.kv_head = static_cast<std::int32_t>(kv_head);
    tile.query_rows = 1;
    tile.keys = count;
    tile.first_query = query;
    tile.query_position = &position;
    tile.key_position = key_positions.position().data() + k0;
    tile.query = turned_q + at;
    tile.query_stride = heads * head_dim;
    tile.key = turned_k + key_at;
    tile.key_stride = key_stride;
    tile.head_dim = shape.head_dim;
    tile.scale = static_cast<float>(scale);
    std::vector<float> terms(count, 0.0f);
    for (const auto& term : config.score_terms) term->add(tile, terms.data(), count);

    std::vector<double> score(count, hidden), content(count);
    double highest = config.sink_logits.empty() ? hidden : static_cast<double>(config.sink_logits[head]);
    const double sink = highest;
    for (std::size_t j = 0; j < count; ++j) {
      content[j] = scale * dot(q.data() + at, k.data() + key_at + j * key_stride);
      if (!sight.sees(query, j)) continue;
      double s = scale * dot(tile.query, tile.key + j * key_stride);
      if (config.soft_cap) s = *config.soft_cap * std::tanh(s / *config.soft_cap);
      score[j] = s + static_cast<double>(terms[j]);
      if (score[j] > highest || std::isnan(score[j])) highest = score[j];
    }
    double sum = highest == hidden ? 1 : std::exp(sink - highest);
    std::vector<double> weight(count, 0.0);
    for (std::size_t j = 0; j < count && highest != hidden; ++j) {
      if (!sight.sees(query, j)) continue;
      weight[j] = std::exp(score[j] - highest);
      sum += weight[j];
    }
    ScoreParts parts;
    for (std::size_t j = 0; j < count; ++j) {
      parts.content.push_back(static_cast<float>(content[j]));
      parts.position.push_back(static_cast<float>(score[j] - content[j]));
      parts.score.push_back(static_cast<float>(score[j]));
      parts.weight.push_back(static_cast<float>(weight[j] / sum));
    }
    out.push_back(std::move(parts));
  }
  return out;
}

}  // namespace locant
