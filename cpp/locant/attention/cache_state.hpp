// The insides of a cache, shared by cache.cpp (what is held) and cached.cpp (attention over it).
//
// A slot is a place in the stores, a row a token that is kept. Slots of evicted rows are holes (valid = 0)
// until compact() closes them.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "locant/attention/cache.hpp"
#include "locant/attention/store.hpp"

namespace locant {

// What a further token of a segment must lie above.
struct SegmentEnd {
  std::int32_t order = -1;     // largest order
  std::int32_t position = -1;  // largest position of axis 0
};

struct CachedSequence {
  std::vector<std::vector<std::int32_t>> position;  // [axes][slots]
  std::vector<std::int32_t> order, segment;         // [slots]
  std::vector<std::uint8_t> valid;                  // [slots]; 0: a hole
  std::size_t rows = 0;                             // valid slots
  std::unordered_map<std::int32_t, SegmentEnd> ends;
  std::vector<KeyValueStore> layers;

  std::size_t slots() const noexcept { return order.size(); }
  std::size_t slot_of(std::size_t row) const noexcept;  // row < rows
  TokenView view() const noexcept { return {order, segment, valid}; }
  void compact() noexcept;
  // Room for the numbers of `count` slots, so that filling them cannot fail.
  void make_room(std::int32_t axes, std::size_t count);
  void cut(std::size_t slots) noexcept;  // drops the slots from there on
  void find_ends();
};

struct Cache::State {
  CacheConfig config;
  std::int32_t axes = 0;  // of the positions held; 0 while empty
  std::vector<CachedSequence> sequences;
  // What the keys of each layer are turned by, settled by the first write; null: not turned.
  struct LayerPlan {
    bool settled = false;
    std::shared_ptr<const Rotation> rotation;
  };
  std::vector<LayerPlan> plans;

  // The open step. `slots_before` says where each sequence ended when it began.
  std::uint64_t serial = 0;
  bool open = false;
  std::vector<std::uint8_t> written;  // [layers]
  std::size_t layers_written = 0;
  std::vector<std::int32_t> step_sequences;
  std::vector<std::size_t> slots_before;

  std::size_t limit() const noexcept;  // rows a sequence may hold
  CachedSequence& sequence(const char* call, std::int32_t index);
  const CachedSequence& sequence(const char* call, std::int32_t index) const;
  // Throws kCacheState unless every layer wrote the open step; then closes it.
  void settle(const char* call);
  void forget_plans_if_empty() noexcept;
};

}  // namespace locant
