// The key/value cache: what must be remembered so that the next token comes out the same.
//
// A cache holds, for `sequences` sequences and `layers` layers, the keys and values of the tokens so far, and
// once for all layers the position, order and segment of each row. A step announces its tokens first
// (`begin`), then each layer stores and attends at those very positions in whatever order the layers are
// called: no layer keeps a counter of its own, so none can run ahead.
//
//   const Positions tokens = cache.next({3});       // or positions of the caller's own
//   CacheStep step = cache.begin(tokens);
//   for (layer...) attention.attend(q, k, v, cache, step, layer, out);
//
// What "exact" means. cached = full: a step's output equals the full forward over the same kept tokens at the
// same positions under the same plan, whatever the split. After evict(): equal to attention over the kept
// rows, which stand where they stood. After shift() or divide(): equal to attention over the kept rows at
// their new positions. Neither makes an old hidden state new: keys and values of upper layers still carry
// what was visible when they were computed, so this is not the recomputed text.
//
// Rows and tokens: row i of a sequence is the i-th token kept, in arrival order. A position is never read off
// a row number or a count. Evicted rows leave holes in memory that are closed when their room is needed, so
// that a window which drops one row a step does not move the whole cache each time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "locant/attention/attention.hpp"

namespace locant {

struct CachedSequence;  // cache_state.hpp

enum class Capacity { kFixed, kGrowing };
// kRotated: keys are stored turned by their layer's plan (fast; the plan is then the cache's for good).
// kUnrotated: keys are stored as given and turned at every use, so plan and positions may change freely.
enum class KeyStorage { kRotated, kUnrotated };
// What `begin` makes of a token whose position lies before the last one of its segment.
enum class BackwardPositions { kRefuse, kAllow };

struct CacheConfig {
  AttentionShape shape;          // heads is not read: any number of query heads may share the cache
  std::int32_t layers = 1;
  std::int32_t sequences = 1;
  Capacity capacity = Capacity::kGrowing;
  std::int64_t rows = 0;         // per sequence: the limit when fixed, the first reservation when growing
  KeyStorage keys = KeyStorage::kRotated;
  BackwardPositions backward = BackwardPositions::kRefuse;
};

// The tokens of one step: which rows of which sequences they got. Valid until the next begin() or change.
class CacheStep {
 public:
  const Positions& positions() const noexcept { return positions_; }
  std::span<const std::int32_t> sequences() const noexcept { return sequences_; }

 private:
  friend class Cache;
  friend class Attention;
  Positions positions_;
  std::vector<std::int32_t> sequences_;   // sequence of each row of positions_
  std::uint64_t serial_ = 0;
};

class Cache {
 public:
  struct State;  // cache_state.hpp

  // kArgument for sizes out of range, or more than 2^24 layers x sequences; kOutOfMemory with the bytes asked for
  // in all, before any of them is touched.
  explicit Cache(CacheConfig config);
  ~Cache();
  Cache(Cache&&) noexcept;
  Cache& operator=(Cache&&) noexcept;

  const CacheConfig& config() const noexcept;
  // Rows held by a sequence, and room for more without growing.
  std::size_t rows(std::int32_t sequence) const;
  std::size_t capacity(std::int32_t sequence) const;
  std::size_t bytes() const noexcept;
  // Another number after everything that begins, changes or takes back rows: who keeps one sees whether others have
  // been here since.
  std::uint64_t revision() const noexcept;
  // What stands in the rows of a sequence, as a batch of one row.
  Positions positions(std::int32_t sequence) const;

  // The tokens that come next: counts[i] further tokens for sequences[i] (none given: all sequences in
  // order), each at the true position and order of its own sequence.
  Positions next(std::span<const std::int32_t> counts, std::span<const std::int32_t> sequences = {}) const;

  // Opens a step: gives the valid tokens of `tokens` rows in their sequences (padding gets none). Row r of
  // `tokens` belongs to sequences[r] (none given: sequence r).
  // Errors, all leaving the cache as it was: kCacheFull; kOrder where an order is not above all orders of its
  // segment, or a position goes backwards and config().backward refuses; kCacheState where the step before
  // was not written by every layer; kOutOfMemory. Costs what the new tokens cost, whatever is held (growing and
  // closing holes, now and then, aside).
  CacheStep begin(Positions tokens, std::span<const std::int32_t> sequences = {});
  // Takes the rows of the open step back, as if begin() had not been called. Costs what they cost.
  void cancel(const CacheStep& step);

  // Keeps the first `rows` rows (rewind after speculation). kCacheState where there are fewer.
  void truncate(std::int32_t sequence, std::size_t rows);
  // Removes rows by index, ascending, interior ones too. What stays keeps position and order.
  void evict(std::int32_t sequence, std::span<const std::size_t> rows);
  // Keeps the first `sinks` rows and the last `window` rows.
  void keep_window(std::int32_t sequence, std::size_t sinks, std::size_t window);
  void clear(std::int32_t sequence);
  // Copies a sequence over another; named, so that its cost shows.
  void fork(std::int32_t from, std::int32_t to);

  // Context shift: adds `delta` to the positions of rows [first, last) and turns their keys with them
  // (R(delta); the attention factor is not applied again). kPositionRange where a position would leave
  // 0 .. 2^31-1; kUnsupported for plans that cannot be turned (xPos, several axes) and for input-added
  // positions, which are baked into keys and values: say so with PositionsIn.
  enum class PositionsIn { kRotationOrScore, kInput };
  void shift(std::int32_t sequence, std::size_t first, std::size_t last, std::int64_t delta,
             PositionsIn positions_in = PositionsIn::kRotationOrScore);
  // Position division (Self-Extend): positions of rows [first, last) become floor(p / divisor). Orders stay.
  void divide(std::int32_t sequence, std::size_t first, std::size_t last, std::int32_t divisor,
              PositionsIn positions_in = PositionsIn::kRotationOrScore);

  // Key and value of one row of one layer and kv head, as stored, for tests and audits.
  void read(std::int32_t sequence, std::int32_t layer, std::int32_t kv_head, std::size_t row, std::span<float> key,
            std::span<float> value) const;

 private:
  friend class Attention;
  void make(std::size_t reserved);
  CachedSequence copy_of(const CachedSequence& source) const;

  std::unique_ptr<State> state_;
};

}  // namespace locant
