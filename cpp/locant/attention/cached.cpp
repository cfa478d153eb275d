// Attention over a cache: one layer of one step.
#include <algorithm>
#include <new>

#include "locant/attention/attention_state.hpp"
#include "locant/attention/cache_state.hpp"
#include "locant/memory.hpp"

namespace locant {
namespace {

constexpr const char* kCall = "attend";

std::string name_of(const std::shared_ptr<const Rotation>& rotation) {
  return rotation ? sentence("the plan \"", rotation->plan().rule, "\"") : std::string("no plan");
}

bool same_turn(const std::shared_ptr<const Rotation>& a, const std::shared_ptr<const Rotation>& b) {
  if (a == b) return true;
  return a && b && a->plan().same_rotation(b->plan());
}

void require_same_shape(const AttentionShape& attention, const AttentionShape& cache) {
  const auto require_same = [](const char* what, std::int32_t ours, std::int32_t theirs) {
    if (ours == theirs) return;
    throw Error(ErrorCode::kShape, sentence(kCall, ": the cache holds ", what, " ", theirs, ", expected ", ours), theirs, ours);
  };
  require_same("kv_heads", attention.kv_heads, cache.kv_heads);
  require_same("head_dim", attention.head_dim, cache.head_dim);
  require_same("value_dim", attention.value_dim, cache.value_dim);
}

// The columns of an explicit mask are rows of the cache; the kernel's are slots.
std::vector<std::uint8_t> by_slots(std::span<const std::uint8_t> by_rows, std::size_t queries, const CachedSequence& s) {
  std::vector<std::uint8_t> out;
  with_memory(kCall, static_cast<double>(queries) * static_cast<double>(s.slots()), [&] { out.resize(queries * s.slots()); });
  for (std::size_t q = 0; q < queries; ++q) {
    std::size_t row = 0;
    for (std::size_t slot = 0; slot < s.slots(); ++slot) {
      if (s.valid[slot] != 0) out[q * s.slots() + slot] = by_rows[q * s.rows + row++];
    }
  }
  return out;
}

// The valid tokens of row r, which stand in the last slots of their sequence: write(slot, token, count) for each run.
template <class Write>
void for_each_run(const KeyValueStore& store, const Positions& tokens, std::int32_t r, Write write) {
  const auto valid = tokens.valid();
  std::size_t count = 0;
  for (std::size_t t = tokens.row_begin(r); t < tokens.row_end(r); ++t) count += valid[t];
  std::size_t slot = store.rows() - count, t = tokens.row_begin(r);
  while (t < tokens.row_end(r)) {
    if (valid[t] == 0) {
      ++t;
      continue;
    }
    std::size_t end = t;
    while (end < tokens.row_end(r) && valid[end] != 0) ++end;
    write(slot, t, end - t);
    slot += end - t;
    t = end;
  }
}

// What a sequence holds unrotated, turned at its positions of now, into `out`.
void turn_all(const CachedSequence& s, const KeyValueStore& store, const Rotation& rotation,
                     const AttentionShape& shape, KeyValueStore& out) {
  const auto heads = static_cast<std::size_t>(shape.kv_heads);
  const auto head_dim = static_cast<std::size_t>(shape.head_dim), value_dim = static_cast<std::size_t>(shape.value_dim);
  std::vector<float> keys, values;
  with_memory(kCall, static_cast<double>(s.slots()) * static_cast<double>(heads * (head_dim + value_dim)) * sizeof(float), [&] {
    keys.resize(s.slots() * heads * head_dim);
    values.resize(s.slots() * heads * value_dim);
  });
  for (std::size_t slot = 0; slot < s.slots(); ++slot) {
    for (std::size_t g = 0; g < heads; ++g) {
      store.read_key(static_cast<std::int32_t>(g), slot, keys.data() + (slot * heads + g) * head_dim);
      store.read_value(static_cast<std::int32_t>(g), slot, values.data() + (slot * heads + g) * value_dim);
    }
  }
  PositionArrays arrays;
  arrays.row_lengths = {static_cast<std::int32_t>(s.slots())};
  arrays.position = s.position;
  arrays.segment = s.segment;
  arrays.order = s.order;
  arrays.valid = s.valid;
  rotation.apply(keys, Positions::from_arrays(std::move(arrays)), shape.kv_heads, RotationRole::kKey, keys);
  out.reserve(s.slots());
  out.resize(s.slots());
  out.write(0, s.slots(), keys.data(), values.data());
}

}  // namespace

void Attention::attend(std::span<const float> q, std::span<const float> k, std::span<const float> v, Cache& cache,
                       const CacheStep& step, std::int32_t layer, std::span<float> out,
                       const CallMask& call_mask) const {
  State& state = *state_;
  Cache::State& held = *cache.state_;
  const AttentionShape& shape = state.config.shape;
  const Positions& tokens = step.positions();
  require_range(kCall, "layer", layer, 0, held.config.layers - 1);
  const auto l = static_cast<std::size_t>(layer);
  if (!held.open || step.serial_ != held.serial) {
    fail(ErrorCode::kCacheState, kCall, ": this step is not the open step of the cache");
  }
  if (held.written[l] != 0) {
    throw Error(ErrorCode::kCacheState, sentence(kCall, ": layer ", layer, " has written this step already"), layer);
  }
  require_same_shape(shape, held.config.shape);
  require_tensor(kCall, "queries", q.size(), tokens.tokens(), shape.heads, shape.head_dim);
  require_tensor(kCall, "keys", k.size(), tokens.tokens(), shape.kv_heads, shape.head_dim);
  require_tensor(kCall, "values", v.size(), tokens.tokens(), shape.kv_heads, shape.value_dim);
  require_tensor(kCall, "out", out.size(), tokens.tokens(), shape.heads, shape.value_dim);
  const bool rotated = held.config.keys == KeyStorage::kRotated;
  const Cache::State::LayerPlan& plan = held.plans[l];
  if (rotated && plan.settled && !same_turn(plan.rotation, state.config.rotation)) {
    const std::string difference = plan.rotation && state.config.rotation
                                       ? difference_of(plan.rotation->plan(), state.config.rotation->plan())
                                       : std::string("one of them does not rotate");
    fail(ErrorCode::kPlanMismatch, kCall, ": the keys of layer ", layer, " are turned under ", name_of(plan.rotation),
         " and would meet queries under ", name_of(state.config.rotation), ": ", difference,
         "; keep one plan for the whole generation, or keep the keys unrotated");
  }
  try {
    const Mask mask = merged_mask(kCall, state.config.mask, call_mask, tokens.rows());
    const std::vector<std::size_t> queries = tokens.row_lengths();
    std::vector<std::size_t> keys;
    for (const std::int32_t index : step.sequences_) keys.push_back(held.sequences[static_cast<std::size_t>(index)].rows);
    const auto visible = split_visible(kCall, visible_of(state.config.mask, call_mask), queries, keys);
    const Rotation* rotation = state.config.rotation.get();
    if (rotation != nullptr) rotation->require_positions(kCall, tokens);
    state.prepare_write();

    const auto heads = static_cast<std::size_t>(shape.heads);
    const auto head_dim = static_cast<std::size_t>(shape.head_dim), value_dim = static_cast<std::size_t>(shape.value_dim);
    for (std::int32_t r = 0; r < tokens.rows(); ++r) {
      const auto i = static_cast<std::size_t>(r);
      CachedSequence& s = held.sequences[static_cast<std::size_t>(step.sequences_[i])];
      KeyValueStore& store = s.layers[l];
      for_each_run(store, tokens, r, [&](std::size_t slot, std::size_t token, std::size_t count) {
        state.write(store, slot, count, k.data(), v.data(), tokens, token, rotated ? rotation : nullptr);
      });
      std::vector<std::uint8_t> expanded;
      if (!visible[i].empty() && s.rows != s.slots()) expanded = by_slots(visible[i], queries[i], s);
      const Visibility sight(mask, r, view_of(tokens, r), s.view(), s.blocks.of(s.view()),
                             expanded.empty() ? visible[i] : std::span<const std::uint8_t>(expanded));
      const std::size_t first = tokens.row_begin(r);
      AttendRow row;
      row.q = q.data() + first * heads * head_dim;
      row.rotation = rotation;
      row.positions = &tokens;
      row.first_token = first;
      row.out = out.data() + first * heads * value_dim;
      row.store = &store;
      if (!rotated && state.config.rotation) {
        turn_all(s, store, *state.config.rotation, shape, state.store);
        row.store = &state.store;
      }
      row.sight = &sight;
      row.query_position = tokens.position().subspan(first, queries[i]);
      row.key_position = s.position[0];
      state.kernel.attend(row);
    }
  } catch (const std::bad_alloc&) {
    // All that is large has said so itself: these are the lists of the rows.
    out_of_memory(kCall, static_cast<double>(tokens.rows()) * (2 * sizeof(std::size_t) + sizeof(std::span<std::uint8_t>)));
  }
  if (rotated) held.plans[l] = {true, state.config.rotation};
  held.written[l] = 1;
  ++held.layers_written;
}

}  // namespace locant
