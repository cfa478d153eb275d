// Door 3: what a positional method adds to the score of a query and a key.
//
//   score(t, j) = scale * q_t . k_j + sum over terms of term(t, j)
//
// The kernel hands a term one tile at a time: some query rows of one head against a run of keys. Terms that
// read only positions (ALiBi, T5, a caller's own function) ignore the content; content-dependent ones
// (Shaw, Transformer-XL, DeBERTa) read the query rows and keys of the tile. Nothing is ever T x T.
// Displacement is key position - query position everywhere.
//
// What each method promises. "shift": the same number is added to all positions and nothing changes (position
// rows only enter as differences), so equal displacements give equal terms (Toeplitz) for terms without content.
//
//   term                    content   shift   symmetric          merges displacements    header
//   ALiBi, causal           no        yes     no (odd)           no                      alibi.hpp
//   ALiBi, symmetric        no        yes     yes                no                      alibi.hpp
//   T5 buckets              no        yes     no                 buckets                 t5.hpp
//   own function            no        yes     as it is           as it is                custom.hpp
//   own displacement table  no        yes     as it is           past its ends           custom.hpp
//   own matrix              no        no      as it is           no                      custom.hpp
//   KERPLE                  no        yes     yes                no                      decay.hpp
//   Sandwich                no        yes     yes                no                      decay.hpp
//   FIRE                    no        NO: divides by the query's position                fire.hpp
//   CoPE                    yes       yes: reads no position number, only what lies between   cope.hpp
//   Shaw                    query     yes     no                 clip                    shaw.hpp
//   Transformer-XL, XLNet   both      yes     no                 clamp, if any           transformer_xl.hpp
//   DeBERTa                 both      yes     no                 buckets or clip         deberta.hpp
#pragma once

#include <cstddef>
#include <cstdint>

#include "locant/method.hpp"

namespace locant {

// One tile of one head. Positions are those of axis 0 and 0 or more.
struct ScoreTile {
  std::int32_t head = 0;     // query head
  std::int32_t kv_head = 0;  // the key head it reads
  std::size_t query_rows = 0, keys = 0;
  std::size_t first_query = 0, first_key = 0;  // index of the first row and key within their sequence
  const std::int32_t* query_position = nullptr;  // [query_rows]
  const std::int32_t* key_position = nullptr;    // [keys]
  // Contents for terms with needs_content(): rows of head_dim floats at these strides, as handed to attend()
  // after rotation, if any; null for terms that did not ask.
  const float* query = nullptr;
  std::size_t query_stride = 0;
  const float* key = nullptr;
  std::size_t key_stride = 0;
  std::int32_t head_dim = 0;
  float scale = 1;  // the attention's scale; terms that the method scales multiply by it themselves
};

class ScoreTerm {
 public:
  virtual ~ScoreTerm() = default;
  // Adds the term to scores[row * stride + key] for all rows and keys of the tile.
  virtual void add(const ScoreTile& tile, float* scores, std::size_t stride) const = 0;
  // Whether add() reads `query` and `key`.
  virtual bool needs_content() const noexcept { return false; }
  // Whether positions enter through key - query alone; false promises nothing.
  virtual bool shift_invariant() const noexcept { return false; }
  // Whether content moved to other positions is attended to with other weights. A term that is not shift invariant may
  // still answer no: softmax does not notice what a whole row of scores has in common.
  virtual bool moves_weights() const noexcept { return !shift_invariant(); }
  // Checks itself against the attention it is about to serve; throws kShape or kArgument.
  virtual void require_fits(std::int32_t heads, std::int32_t kv_heads, std::int32_t head_dim) const = 0;
  virtual MethodDescription describe() const = 0;
};

// Shaw's other half: something added to the value mixture by displacement.
class ValueTerm {
 public:
  virtual ~ValueTerm() = default;
  // out[row * out_stride + c] += sum over keys of weights[row * weight_stride + key] * a(row, key)[c],
  // c < value_dim. Hidden keys have weight exactly 0.
  virtual void accumulate(const ScoreTile& tile, const float* weights, std::size_t weight_stride, float* out,
                          std::size_t out_stride) const = 0;
  virtual void require_fits(std::int32_t heads, std::int32_t kv_heads, std::int32_t value_dim) const = 0;
  virtual MethodDescription describe() const = 0;
};

}  // namespace locant
