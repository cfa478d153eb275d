// Decoupled rotary: the rotation of multi-head latent attention (DeepSeek-V2, section 2.1.3).
//
// A query head is [plain | rotary], a key head [plain | rotary] too, where the rotary part of the key is one vector for
// all heads: it is projected straight from the token, so that the plain part can stay compressed in the cache.
//
//   q_h = [q_h plain ; R(p) q_h rotary]        k_h = [k_h plain ; R(p) k rotary]
//
// The plan is that of the rotary part alone (width = its width, start 0 there). Pairs stay where they are; DeepSeek's
// code reads interleaved pairs and writes all first members before all second ones, on q and k alike, which
// changes no score (pairing.hpp gives that order).
//
// A key made this way cannot be moved by turning the whole head; move the rotary part (head_dim =
// rotary width) and join again.
#pragma once

#include <cstdint>
#include <span>

#include "locant/rotary/rotation.hpp"

namespace locant {

class DecoupledRotation {
public:
  // `plan` must rotate a vector of `rotary_dim` (require_plan); plain_dim may be 0. kArgument otherwise.
  DecoupledRotation(const RotaryPlan& plan, std::int32_t plain_dim, std::int32_t rotary_dim);

  std::int32_t plain_dim() const noexcept { return query_.head_dim() - key_.head_dim(); }
  std::int32_t rotary_dim() const noexcept { return key_.head_dim(); }
  std::int32_t head_dim() const noexcept { return query_.head_dim(); }
  // The rotations of a whole query head and of the shared part of a key.
  const Rotation& query() const noexcept { return query_; }
  const Rotation& key() const noexcept { return key_; }
  void prepare(std::int64_t count);
  MethodDescription describe() const;

  // q, out: [tokens, heads, plain_dim + rotary_dim]; out may be q.
  void apply_query(std::span<const float> q, const Positions& positions, std::int32_t heads,
                   std::span<float> out) const;

  // plain: [tokens, heads, plain_dim], shared: [tokens, rotary_dim] (not rotated yet),
  // out: [tokens, heads, plain_dim + rotary_dim], overlapping neither.
  void join_key(std::span<const float> plain, std::span<const float> shared, const Positions& positions,
                std::int32_t heads, std::span<float> out) const;

private:
  Rotation query_, key_;
};

}  // namespace locant
