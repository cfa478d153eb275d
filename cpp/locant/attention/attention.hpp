// Attention: scaled dot products, softmax, mixture of values, with position entering at doors 2 and 3.
//
//   s_tj = cap( a_t * scale * (R_t q_t) . (R_j k_j) ) + sum of score terms    where t may see j, else -infinity
//   w_t  = softmax over j of s_tj (and of the head's sink logit, whose share goes nowhere)
//   y_t  = sum_j w_tj v_j + value term
//
// cap(x) = soft_cap * tanh(x / soft_cap) where a soft cap is given; a_t is the position temperature (1 unless
// given). Streaming softmax over tiles: memory grows with the number of tokens, never with its square. A
// query that may see nothing gives zeros. NaN or infinity in a key or value spreads to the rows that may see
// it and to no other row. Accumulation order depends on shapes alone, so equal calls give equal bits.
//
// Layout: q [tokens, heads, head_dim], k [tokens, kv_heads, head_dim], v [tokens, kv_heads, value_dim],
// out [tokens, heads, value_dim]; rows of the batch one after another as Positions lays them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "locant/attention/mask.hpp"
#include "locant/attention/shape.hpp"
#include "locant/attention/temperature.hpp"
#include "locant/bias/score_term.hpp"
#include "locant/position/positions.hpp"
#include "locant/rotary/rotation.hpp"

namespace locant {

class Cache;
class CacheStep;

// kArgument unless a scale is 0 (content does not matter, positions alone do) or 1e-6 to 1e6.
void require_scale(std::string_view call, double scale);

struct AttentionConfig {
  AttentionShape shape;
  Mask mask;                                    // of every call; Mask::prefix and visible are per call
  std::shared_ptr<const Rotation> rotation;     // none: door 2 stays shut
  std::vector<std::shared_ptr<const ScoreTerm>> score_terms;
  std::shared_ptr<const ValueTerm> value_term;
  std::optional<double> scale;                  // none: 1/sqrt(head_dim), times the plan's softmax_scale_factor
  std::optional<double> soft_cap;               // none: no cap
  std::vector<float> sink_logits;               // one per head (gpt-oss), or empty
  std::optional<Temperature> temperature;
};

// One (head, query token) whose weights are asked for.
struct WeightRequest {
  std::int32_t head = 0;
  std::size_t query = 0;  // token index in the batch
};

// The score of one query against every key of its row, taken apart. All [keys of the row]; hidden keys have
// weight 0 and score -infinity.
struct ScoreParts {
  std::vector<float> content;   // a_t * scale * q . k, without rotation
  std::vector<float> position;  // score - content: what the doors 2 and 3 (and the cap) made of it
  std::vector<float> score;     // before the softmax
  std::vector<float> weight;    // after it
};

class Attention {
 public:
  // Checks the whole configuration; throws kArgument or kShape.
  explicit Attention(AttentionConfig config);
  ~Attention();
  Attention(Attention&&) noexcept;
  Attention& operator=(Attention&&) noexcept;

  const AttentionConfig& config() const noexcept;

  // What it was made of, door by door: the rotation's plan, the terms, the value term, the temperature; none where
  // position enters by the mask alone.
  std::vector<MethodDescription> describe() const;

  // Self-attention without a cache: queries and keys are the same tokens.
  void attend(std::span<const float> q, std::span<const float> k, std::span<const float> v,
              const Positions& positions, std::span<float> out, const CallMask& mask = {}) const;

  // Queries of their own (cross-attention, or the tail of a sequence whose keys are all given): rows of the
  // two batches correspond. kArgument where they have different numbers of rows.
  void attend(std::span<const float> q, const Positions& query_positions, std::span<const float> k,
              std::span<const float> v, const Positions& key_positions, std::span<float> out,
              const CallMask& mask = {}) const;

  // One layer of a cache step: rotates q and the new k at the step's positions, stores k and v in the step's
  // rows of `layer`, and attends over everything those sequences hold. See cache.hpp.
  void attend(std::span<const float> q, std::span<const float> k, std::span<const float> v, Cache& cache,
              const CacheStep& step, std::int32_t layer, std::span<float> out, const CallMask& mask = {}) const;

  // Weights and scores of chosen (head, query) pairs, by the same definition in a plain loop; for pages and
  // audits, not for speed.
  std::vector<ScoreParts> explain(std::span<const float> q, const Positions& query_positions,
                                  std::span<const float> k, const Positions& key_positions,
                                  std::span<const WeightRequest> requests, const CallMask& mask = {}) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The plain definition in double over Eigen matrices, T x T and all: what the kernel is held against. Same
// arguments and errors as Attention::attend with queries of their own.
void reference_attend(const AttentionConfig& config, std::span<const float> q, const Positions& query_positions,
                      std::span<const float> k, std::span<const float> v, const Positions& key_positions,
                      std::span<float> out, const CallMask& mask = {});

}  // namespace locant
