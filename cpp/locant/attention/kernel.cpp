#include "locant/attention/kernel.hpp"

#include <algorithm>
#include <cmath>
#include <new>

#include "locant/error.hpp"
#include "locant/simd/transpose.hpp"

namespace locant {
namespace {

using simd::kTileKeys;
using simd::kTileRows;
constexpr std::size_t kPanel = KeyValueStore::kPanel;
static_assert(kTileKeys == Visibility::kKeyBlock);

constexpr const char* kCall = "attend";
constexpr double kLog2E = 1.4426950408889634074;
// Rows (tokens x heads of a group) that meet a block of keys before the next block is fetched.
constexpr std::size_t kRunRows = 256;

std::size_t round_up(std::size_t x, std::size_t step) { return (x + step - 1) / step * step; }

// Lanes are 4, 8 or 16; four sums at a time, since each waits for the one before it.
float sum_of_lanes(const float* lane, std::size_t lanes) {
  float sum[4] = {lane[0], lane[1], lane[2], lane[3]};
  for (std::size_t i = 4; i < lanes; i += 4) {
    for (std::size_t j = 0; j < 4; ++j) sum[j] += lane[i + j];
  }
  return sum[0] + sum[1] + sum[2] + sum[3];
}

// In pieces of known length, which compilers make vectors of.
void multiply(const float* __restrict x, std::size_t count, float factor, float* __restrict y) {
  std::size_t i = 0;
  for (; i + kPanel <= count; i += kPanel) {
    for (std::size_t j = 0; j < kPanel; ++j) y[i + j] = x[i + j] * factor;
  }
  for (; i < count; ++i) y[i] = x[i] * factor;
}

}  // namespace

Kernel::Kernel(const AttentionConfig& config) : config_(&config) {
  const AttentionShape& shape = config.shape;
  scale_ = config.scale.value_or((config.rotation ? config.rotation->plan().softmax_scale_factor : 1) /
                                 std::sqrt(static_cast<double>(shape.head_dim)));
  plain_ = !config.soft_cap && config.score_terms.empty();
  content_ = std::any_of(config.score_terms.begin(), config.score_terms.end(),
                         [](const auto& term) { return term->needs_content(); });
  depth_ = round_up(static_cast<std::size_t>(shape.head_dim), simd::kDepthStep);
  value_stride_ = round_up(static_cast<std::size_t>(shape.value_dim), simd::kPanelWidth);
}

double Kernel::scale_at(std::int32_t position) const noexcept {
  if (!config_->temperature) return scale_;
  const Temperature& t = *config_->temperature;
  return scale_ * (1 + t.slope * std::log(1 + std::floor((position + t.shift) / t.period)));
}

std::size_t Kernel::tiles_of(const TokenGroup& group) const noexcept {
  const std::size_t shared = static_cast<std::size_t>(config_->shape.heads / config_->shape.kv_heads);
  return (shared + group.heads - 1) / group.heads;
}

void Kernel::attend(const AttendRow& row) {
  tiles_ = &simd::tiles();
  const AttentionShape& shape = config_->shape;
  const std::size_t shared = static_cast<std::size_t>(shape.heads / shape.kv_heads), rows = tiles_->rows;
  const std::size_t run = std::max(rows, round_up(kRunRows / std::min(shared, kRunRows), rows));
  try {
    scores_.grow(kCall, kTileRows * kTileKeys);
    if (content_) keys_.grow(kCall, kTileKeys * static_cast<std::size_t>(shape.head_dim));
    for (std::size_t first = 0; first < row.sight->queries(); first += run) {
      const std::size_t last = std::min(first + run, row.sight->queries());
      plan(row, first, last);
      turn(row, first, last);
      for (std::int32_t g = 0; g < shape.kv_heads; ++g) attend_head(row, g);
    }
  } catch (const std::bad_alloc&) {
    const double bytes = static_cast<double>(masks_.size() + meetings_.size() * sizeof(Meeting));
    throw Error(ErrorCode::kOutOfMemory, sentence("attend: could not get memory for the mask of a run of queries, ", bytes, " bytes so far"), bytes);
  }
}

// Which groups of query tokens [first, last) meet which blocks of keys, and how.
void Kernel::plan(const AttendRow& row, std::size_t first, std::size_t last) {
  const Visibility& sight = *row.sight;
  const std::size_t rows = tiles_->rows;
  const std::size_t shared = static_cast<std::size_t>(config_->shape.heads / config_->shape.kv_heads);
  groups_.clear();
  first_tile_.clear();
  std::size_t tiles = 0;
  for (std::size_t t = first; t < last; t += rows) {
    const std::size_t tokens = std::min(rows, last - t);
    groups_.push_back({t, tokens, std::min(shared, rows / tokens), sight.summary(t, t + tokens)});
    first_tile_.push_back(tiles);
    tiles += tiles_of(groups_.back());
  }
  state_.resize(tiles);
  packed_.grow(kCall, tiles * rows * depth_);
  mixture_.grow(kCall, tiles * rows * value_stride_);

  meetings_.clear();
  masks_.clear();
  const TokenSummary run = sight.summary(first, last);
  const std::size_t keys = sight.keys();
  using Coverage = Visibility::Coverage;
  for (std::size_t k0 = 0; k0 < keys; k0 += kTileKeys) {
    const std::size_t k1 = std::min(k0 + kTileKeys, keys);
    const Coverage of_run = sight.coverage(run, k0, k1);
    if (of_run == Coverage::kNone) continue;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const TokenGroup& group = groups_[g];
      const Coverage seen = of_run == Coverage::kAll ? of_run : sight.coverage(group.summary, k0, k1);
      if (seen == Coverage::kNone) continue;
      std::size_t from = k0, to = k1;
      if (seen == Coverage::kSome) {  // leave out the panels at either end that nobody sees
        while (from < to && sight.coverage(group.summary, from, std::min(from + kPanel, k1)) == Coverage::kNone) from += kPanel;
        while (from < to && sight.coverage(group.summary, (to - 1) / kPanel * kPanel, to) == Coverage::kNone) {
          to = (to - 1) / kPanel * kPanel;
        }
        if (from >= to) continue;
      }
      Meeting meeting{from, (to - from + kPanel - 1) / kPanel, g, kSeen};
      if (seen == Coverage::kSome || (to - from) % kPanel != 0) {
        meeting.mask = masks_.size();
        masks_.resize(masks_.size() + group.tokens * kTileKeys, 0);
        for (std::size_t t = 0; t < group.tokens; ++t) {
          sight.row(group.first + t, from, to, masks_.data() + meeting.mask + t * kTileKeys);
        }
      }
      meetings_.push_back(meeting);
    }
  }
}

// The queries of a run, turned shortly before they are packed, while they are near.
void Kernel::turn(const AttendRow& row, std::size_t first, std::size_t last) {
  const AttentionShape& shape = config_->shape;
  const std::size_t token = static_cast<std::size_t>(shape.heads) * static_cast<std::size_t>(shape.head_dim);
  const std::size_t group = token / static_cast<std::size_t>(shape.kv_heads);
  first_query_ = first;
  queries_ = row.q + first * token;
  query_stride_ = token;
  group_stride_ = group;
  if (row.rotation == nullptr) return;
  float* const turned = turned_.grow(kCall, (last - first) * token);
  row.rotation->turn_tokens(queries_, *row.positions, row.first_token + first, last - first, shape.heads,
                            shape.heads / shape.kv_heads, RotationRole::kQuery, turned);
  queries_ = turned;
  query_stride_ = group;
  group_stride_ = (last - first) * group;
}

void Kernel::attend_head(const AttendRow& row, std::int32_t kv_head) {
  const AttentionShape& shape = config_->shape;
  const std::size_t head_dim = static_cast<std::size_t>(shape.head_dim), rows = tiles_->rows;
  const std::size_t shared = static_cast<std::size_t>(shape.heads / shape.kv_heads);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const TokenGroup& group = groups_[g];
    for (std::size_t h = 0, i = first_tile_[g]; h < shared; h += group.heads, ++i) {
      Tile& tile = state_[i];
      tile.rows = group.tokens * std::min(group.heads, shared - h);
      tile.state.clear();
      std::fill_n(mixture_.get() + i * rows * value_stride_, tile.rows * value_stride_, 0.0f);
      float* packed = packed_.get() + i * rows * depth_;
      float factors[kTileRows];
      for (std::size_t t = 0; t < group.tokens; ++t) {
        factors[t] = static_cast<float>(scale_at(row.query_position[group.first + t]) * (plain_ ? kLog2E : 1));
      }
      for (std::size_t r = 0; r < tile.rows; r += group.tokens) {  // head after head
        const std::size_t in_group = h + r / group.tokens;
        simd::lay_side_by_side(query(group.first, static_cast<std::size_t>(kv_head)) + in_group * head_dim, query_stride_,
                               group.tokens, head_dim, factors, packed + r, tile.rows);
      }
      std::fill(packed + head_dim * tile.rows, packed + depth_ * tile.rows, 0.0f);
    }
  }
  for (std::size_t m = 0; m < meetings_.size(); ++m) meet(row, kv_head, m);
  finish(row, kv_head);
}

// Runs of rows of the tile that belong to one head: action(head, first row, rows).
template <class Action>
void Kernel::for_each_head(const Tile& tile, const TokenGroup& group, std::int32_t first_head, Action action) const {
  for (std::size_t r = 0; r < tile.rows; r += group.tokens) {
    action(first_head + static_cast<std::int32_t>(r / group.tokens), r, group.tokens);
  }
}

// The tiles that terms are asked for: the tokens of the group under one head, one by one where each has a
// scale of its own. action(tile, first row of it).
template <class Action>
void Kernel::each_tile(const AttendRow& row, std::int32_t kv_head, const Meeting& meeting, std::int32_t head,
                       Action action) const {
  const TokenGroup& group = groups_[meeting.group];
  const AttentionShape& shape = config_->shape;
  const std::size_t step = config_->temperature ? 1 : group.tokens;
  ScoreTile tile;
  tile.head = head;
  tile.kv_head = kv_head;
  tile.query_rows = step;
  tile.keys = std::min(meeting.panels * kPanel, row.sight->keys() - meeting.key);
  tile.first_key = meeting.key;
  tile.key_position = row.key_position.data() + meeting.key;
  tile.query_stride = query_stride_;
  tile.key = content_ ? keys_.get() : nullptr;
  tile.key_stride = static_cast<std::size_t>(shape.head_dim);
  tile.head_dim = shape.head_dim;
  for (std::size_t t = 0; t < group.tokens; t += step) {
    tile.first_query = group.first + t;
    tile.query_position = row.query_position.data() + tile.first_query;
    tile.query = query(tile.first_query, static_cast<std::size_t>(kv_head)) +
                 static_cast<std::size_t>(head - kv_head * (shape.heads / shape.kv_heads)) * static_cast<std::size_t>(shape.head_dim);
    tile.scale = static_cast<float>(scale_at(row.query_position[tile.first_query]));
    action(tile, t);
  }
}

// The tile of values that a meeting reads after its keys.
std::span<const float> Kernel::values_of(const KeyValueStore& store, std::int32_t kv_head,
                                         const Meeting& meeting) const noexcept {
  const std::size_t tile = kTileKeys * value_stride_;
  return {store.values(kv_head) + meeting.key / kTileKeys * tile, tile};
}

// The key panels that are read after the values of a meeting.
std::span<const float> Kernel::keys_after(const AttendRow& row, std::int32_t kv_head, std::size_t meeting) const noexcept {
  if (++meeting == meetings_.size()) {
    meeting = 0;
    if (++kv_head == config_->shape.kv_heads) return {};
  }
  const Meeting& next = meetings_[meeting];
  return {row.store->key_panels(kv_head) + next.key * depth_, next.panels * kPanel * depth_};
}

void Kernel::meet(const AttendRow& row, std::int32_t kv_head, std::size_t number) {
  const Meeting& meeting = meetings_[number];
  const TokenGroup& group = groups_[meeting.group];
  const KeyValueStore& store = *row.store;
  const std::size_t keys = meeting.panels * kPanel, panel_stride = kPanel * depth_;
  const float* panels = store.key_panels(kv_head) + meeting.key / kPanel * panel_stride;
  const float* values = store.values(kv_head) + store.value_at(meeting.key, 0);
  const std::uint8_t* mask = meeting.mask == kSeen ? nullptr : masks_.data() + meeting.mask;
  const bool careful = mask != nullptr && store.may_be_non_finite(kv_head, meeting.key, meeting.key + keys);
  if (content_) {
    const std::size_t there = std::min(keys, row.sight->keys() - meeting.key);
    for (std::size_t j = 0; j < there; ++j) {
      store.read_key(kv_head, meeting.key + j, keys_.get() + j * static_cast<std::size_t>(config_->shape.head_dim));
    }
  }
  const std::int32_t shared = config_->shape.heads / config_->shape.kv_heads;
  std::int32_t head = kv_head * shared;
  for (std::size_t i = first_tile_[meeting.group]; head < (kv_head + 1) * shared;
       ++i, head += static_cast<std::int32_t>(group.heads)) {
    Tile& tile = state_[i];
    // The first tile waits for memory; where it is alone or one of two, it fetches what the next meeting reads.
    const bool waits = i == 0 && state_.size() <= 2;
    const std::span<const float> next_values = waits ? values_of(store, kv_head, meeting) : std::span<const float>();
    const std::span<const float> next_keys = waits ? keys_after(row, kv_head, number) : std::span<const float>();
    float* mixture = mixture_.get() + i * tiles_->rows * value_stride_;
    tiles_->product(tile.rows, packed_.get() + i * tiles_->rows * depth_, panels, panel_stride, meeting.panels, depth_,
                    scores_.get(), kTileKeys, simd::Write::kReplace, next_values);
    if (!plain_) {
      for (std::size_t r = 0; r < tile.rows && config_->soft_cap; ++r) {
        tiles_->soften(scores_.get() + r * kTileKeys, keys, static_cast<float>(*config_->soft_cap));
      }
      for_each_head(tile, group, head, [&](std::int32_t h, std::size_t first, std::size_t) {
        for (const auto& term : config_->score_terms) {
          each_tile(row, kv_head, meeting, h, [&](const ScoreTile& t, std::size_t r) {
            term->add(t, scores_.get() + (first + r) * kTileKeys, kTileKeys);
          });
        }
      });
      for (std::size_t r = 0; r < tile.rows; ++r) {
        tiles_->multiply(scores_.get() + r * kTileKeys, keys, static_cast<float>(kLog2E));
      }
    }
    if (mask != nullptr) {
      for (std::size_t r = 0; r < tile.rows; ++r) {
        tiles_->hide(scores_.get() + r * kTileKeys, mask + r % group.tokens * kTileKeys, keys);
      }
    }
    const float* carry = tiles_->softmax(tile.rows, scores_.get(), keys, tile.state) ? tile.state.carry : nullptr;
    if (careful) {
      mix_seen(tile, group, mask, keys, values, carry, mixture);
    } else {
      tiles_->mixture(tile.rows, scores_.get(), keys, values, value_stride_, carry, mixture, next_keys);
    }
    if (config_->value_term) {
      for_each_head(tile, group, head, [&](std::int32_t h, std::size_t first, std::size_t) {
        each_tile(row, kv_head, meeting, h, [&](const ScoreTile& t, std::size_t r) {
          config_->value_term->accumulate(t, scores_.get() + (first + r) * kTileKeys, kTileKeys,
                                          mixture + (first + r) * value_stride_, value_stride_);
        });
      });
    }
  }
}

// The mixture where a hidden value may be NaN or infinite. Each token's rows are mixed by the same function on the
// same shapes, over values in which what the token does not see is 0: a hidden value changes no bit, whatever it is.
void Kernel::mix_seen(const Tile& tile, const TokenGroup& group, const std::uint8_t* mask, std::size_t keys,
                      const float* values, const float* carry, float* mixture) {
  const std::size_t size = tile.rows * value_stride_;
  float* const seen = seen_.grow(kCall, kTileKeys * value_stride_);
  float* const mixed = mixed_.grow(kCall, 2 * size);
  float* const before = mixed + size;
  std::copy_n(mixture, size, before);
  for (std::size_t token = 0; token < group.tokens; ++token) {
    for (std::size_t c = 0; c < value_stride_ / kPanel; ++c) {
      for (std::size_t j = 0; j < keys; ++j) {
        const std::size_t at = (c * kTileKeys + j) * kPanel;
        if (mask[token * kTileKeys + j] != 0) {
          std::copy_n(values + at, kPanel, seen + at);
        } else {
          std::fill_n(seen + at, kPanel, 0.0f);
        }
      }
    }
    std::copy_n(before, size, mixed);
    tiles_->mixture(tile.rows, scores_.get(), keys, seen, value_stride_, carry, mixed, {});
    for (std::size_t r = token; r < tile.rows; r += group.tokens) {
      std::copy_n(mixed + r * value_stride_, value_stride_, mixture + r * value_stride_);
    }
  }
}

void Kernel::finish(const AttendRow& row, std::int32_t kv_head) {
  const AttentionShape& shape = config_->shape;
  const std::size_t heads = static_cast<std::size_t>(shape.heads), value_dim = static_cast<std::size_t>(shape.value_dim);
  const std::size_t shared = heads / static_cast<std::size_t>(shape.kv_heads);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const TokenGroup& group = groups_[g];
    for (std::size_t h = 0, i = first_tile_[g]; h < shared; h += group.heads, ++i) {
      const Tile& tile = state_[i];
      const float* mixture = mixture_.get() + i * tiles_->rows * value_stride_;
      for (std::size_t r = 0; r < tile.rows; ++r) {
        const std::size_t token = group.first + r % group.tokens;
        const std::size_t head = static_cast<std::size_t>(kv_head) * shared + h + r / group.tokens;
        float* y = row.out + (token * heads + head) * value_dim;
        float factor = 0, sum = sum_of_lanes(tile.state.sum + r * tiles_->lanes, tiles_->lanes);
        if (sum != 0) {  // also where it is NaN: the row saw one
          float carry = 1;
          if (!config_->sink_logits.empty()) {
            const double sink = config_->sink_logits[head] * kLog2E, base = tile.state.base[r];
            const double top = std::max(base, sink);
            carry = static_cast<float>(std::exp2(base - top));
            sum = sum * carry + static_cast<float>(std::exp2(sink - top));
          }
          factor = carry / sum;
        }
        // A row that saw nothing mixed nothing: its mixture is 0 and so is its factor.
        multiply(mixture + r * value_stride_, value_dim, factor, y);
      }
    }
  }
}

}  // namespace locant
