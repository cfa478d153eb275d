// The insides of a cache, shared by cache.cpp (what is held) and cached.cpp (attention over it).
//
// A slot is a place in the stores, a row a token that is kept. Slots of evicted rows are holes (valid = 0)
// until compact() closes them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "locant/attention/cache.hpp"
#include "locant/attention/store.hpp"

namespace locant {

// What a further token of a segment must lie above, and how many rows of the segment there are.
struct SegmentEnd {
  std::int32_t segment = 0;
  std::int32_t order = -1;     // largest order
  std::int32_t position = -1;  // largest position of axis 0
  std::int32_t furthest = -1;  // largest position over all axes
  std::size_t rows = 0;        // 0: no such segment
};

// Ascending by segment: a sequence has few, and new ones come last.
using SegmentEnds = std::vector<SegmentEnd>;

struct CachedSequence {
  std::vector<std::vector<std::int32_t>> position;  // [axes][slots]
  std::vector<std::int32_t> order, segment;         // [slots]
  std::vector<std::uint8_t> valid;                  // [slots]; 0: a hole. The last slot is none.
  std::size_t rows = 0;                             // valid slots
  SegmentEnds ends;
  BlockSummaries blocks;                            // of the slots
  std::vector<KeyValueStore> layers;
  std::uint64_t named_by = 0;                       // the begin() that named it last

  std::size_t slots() const noexcept { return order.size(); }
  std::size_t slot_of(std::size_t row) const noexcept;  // row < rows
  TokenView view() const noexcept { return {order, segment, valid}; }
  SegmentEnd end_of(std::int32_t segment) const noexcept;
  // Sets or, of 0 rows, removes an entry; `ends` has room for it.
  void set_end(const SegmentEnd& end) noexcept;
  void compact() noexcept;
  // Room for the numbers of `count` slots and for `segments` more ends, so that filling them cannot fail.
  void make_room(std::int32_t axes, std::size_t count, std::size_t segments);
  void cut(std::size_t slots) noexcept;  // drops the slots from there on
  void find_ends();                      // anew, from all rows
  // Makes a hole of the slot. False where the ends do not tell what is left and must be found anew.
  bool remove(std::size_t slot) noexcept;
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

  // The open step. What cancel() takes back: where each sequence ended, and the ends that the step changed.
  std::uint64_t serial = 0, begun = 0;
  bool open = false;
  std::vector<std::uint8_t> written;  // [layers]
  std::size_t layers_written = 0;
  struct StepRow {
    std::int32_t sequence = 0;
    std::size_t added = 0;           // valid tokens
    std::size_t slots_before = 0;
    std::size_t first_change = 0;    // its part of `changes` begins there
    std::size_t new_segments = 0;
  };
  struct Change {
    SegmentEnd before, after;
  };
  std::vector<StepRow> step_rows, next_rows;  // of the open step, and of the one that begin() is checking
  std::vector<Change> changes, next_changes;

  std::size_t limit() const noexcept;  // rows a sequence may hold
  CachedSequence& sequence(const char* call, std::int32_t index);
  const CachedSequence& sequence(const char* call, std::int32_t index) const;
  // Throws kCacheState unless every layer wrote the open step; then closes it.
  void settle(const char* call);
  void forget_plans_if_empty() noexcept;
  // Fills next_rows and next_changes, or says what is wrong with the step.
  void check_step(const Positions& tokens, std::span<const std::int32_t> sequences);
  // Room in every layer of a sequence; kOutOfMemory.
  void reserve_layers(CachedSequence& s, std::size_t rows) const;
};

}  // namespace locant
