// The kernel: streaming attention of one row's queries over what a store holds.
//
// For a run of query tokens (256 rows or so, counting the heads that share a key head) the kernel first asks
// the mask which blocks of 64 keys they see at all, which wholly and which in part; that answer holds for all
// heads. Then, for each key head, it walks the blocks; within a block it takes 6 (12 with AVX-512) rows at a
// time through the tile functions of simd/tiles.hpp:
//
//   scores of rows x 64 keys -> cap and score terms -> hide -> streaming softmax -> mixture of values
//
// so that the keys and values of a block stay in the first-level cache while all rows meet them. For long
// inputs the time is in the two products, and there the rows' numbers are broadcast against whole vectors of
// keys (values): no shuffles, one load per two multiply-adds.
//
// A tile's rows are several tokens of one head, or, where there are fewer tokens than rows (a decode step),
// one token of several heads: grouped-query heads share the loads of their keys.
//
// Hidden keys. Their scores are replaced by -infinity, whatever they were, so their weights are exactly 0. A
// value that is NaN or infinite and hidden from some row of a tile would still spoil it (0 x NaN): stores flag
// such panels, and tiles that meet one mix only what each row sees, in a plain loop.
//
// Units: with no cap and no score terms the scores are kept in units of log2 (log2(e) goes into the rows).
// Work memory is a constant plus a mask byte per (token of the run, key) where blocks are seen in part; it is
// kept between calls. A Kernel serves one call at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "locant/attention/aligned.hpp"
#include "locant/attention/attention.hpp"
#include "locant/attention/mask.hpp"
#include "locant/attention/store.hpp"
#include "locant/simd/tiles.hpp"

namespace locant {

// One row of a batch against the keys of a store, which are rotated already, if they are.
struct AttendRow {
  const float* q = nullptr;                      // [queries, heads, head_dim], as they came
  const Rotation* rotation = nullptr;            // what turns them, a run at a time; null: nothing
  const Positions* positions = nullptr;          // where they stand; the rotation has accepted them
  std::size_t first_token = 0;                   // the number of the first query there
  float* out = nullptr;                          // [queries, heads, value_dim]
  const KeyValueStore* store = nullptr;          // its rows 0 .. sight->keys()-1 are the keys
  const Visibility* sight = nullptr;
  std::span<const std::int32_t> query_position;  // [queries], axis 0
  std::span<const std::int32_t> key_position;    // [keys], axis 0
};

class Kernel {
 public:
  // Reads the configuration at every call: it must outlive the kernel and have been checked.
  explicit Kernel(const AttentionConfig& config);

  // Error kOutOfMemory, with `out` partly written; the kernel stays usable.
  void attend(const AttendRow& row);

  // The number that q . k of a query at this position is multiplied by: a_t * scale.
  double scale_at(std::int32_t position) const noexcept;

 private:
  // Tokens that share tiles: one tile of `tokens` x `heads` rows for each run of `heads` heads of the group.
  struct TokenGroup {
    std::size_t first, tokens, heads;
    TokenSummary summary;
  };
  // A token group meets a block of keys.
  struct Meeting {
    std::size_t key;           // first key, a multiple of the panel width
    std::size_t panels;        // panels of keys from there
    std::size_t group;
    std::size_t mask;          // where its bytes begin in masks_, [tokens][kTileKeys]; kSeen: all are seen
  };
  static constexpr std::size_t kSeen = static_cast<std::size_t>(-1);
  // What the rows of one tile carry from block to block.
  struct Tile {
    simd::SoftmaxRows state;
    std::size_t rows;
  };

  void plan(const AttendRow& row, std::size_t first, std::size_t last);
  void turn(const AttendRow& row, std::size_t first, std::size_t last);
  // The first head of a key head's group, of one token of the run.
  const float* query(std::size_t token, std::size_t kv_head) const noexcept {
    return queries_ + kv_head * group_stride_ + (token - first_query_) * query_stride_;
  }
  void attend_head(const AttendRow& row, std::int32_t kv_head);
  void meet(const AttendRow& row, std::int32_t kv_head, std::size_t number);
  std::span<const float> values_of(const KeyValueStore& store, std::int32_t kv_head, const Meeting& meeting) const noexcept;
  std::span<const float> keys_after(const AttendRow& row, std::int32_t kv_head, std::size_t meeting) const noexcept;
  void mix_seen(const Tile& tile, const TokenGroup& group, const std::uint8_t* mask, std::size_t keys,
                const float* values, const float* carry, float* mixture);
  void finish(const AttendRow& row, std::int32_t kv_head);
  template <class Action>
  void each_tile(const AttendRow& row, std::int32_t kv_head, const Meeting& meeting, std::int32_t head,
                 Action action) const;
  template <class Action>
  void for_each_head(const Tile& tile, const TokenGroup& group, std::int32_t first_head, Action action) const;
  std::size_t tiles_of(const TokenGroup& group) const noexcept;

  const AttentionConfig* config_;
  double scale_;
  bool plain_;          // scores need neither cap nor terms
  bool content_;        // a term reads keys
  const simd::Tiles* tiles_ = nullptr;

  std::vector<TokenGroup> groups_;
  std::vector<std::size_t> first_tile_;  // of each group
  std::vector<Meeting> meetings_;
  std::vector<std::uint8_t> masks_;
  std::vector<Tile> state_;
  WorkFloats packed_, mixture_, scores_, keys_;     // [tiles][depth][rows], [tiles][rows][value_stride], ...
  WorkFloats turned_;                               // [kv_heads][tokens of the run][heads of a group][head_dim]
  WorkFloats seen_, mixed_;                         // a tile's values as one token sees them, and mixtures of them
  const float* queries_ = nullptr;                  // of the run, turned where they are to be
  std::size_t first_query_ = 0;                     // the number in its row of the first of them
  std::size_t query_stride_ = 0, group_stride_ = 0; // between tokens, and between key heads' groups
  std::size_t depth_, value_stride_;
};

}  // namespace locant
