// A rotary plan: everything that a rotation needs to know, as plain data.
//
// Rotary embedding (Su et al. 2021, eq. 15) turns pair i of a query or key at position p by the angle
//
//   angle(p, i) = (p[axis of pair i] + offset of that axis) * inverse_frequencies[i]
//   (u, v) -> A * (u cos - v sin, u sin + v cos)          A = attention_factor, on q and on k alike
//
// Laws, for every plan without xPos (A = 1 where the attention factor is not named):
//   norm         |R(p) x| = A |x| over the rotated slice, and each pair keeps its own norm times A
//   shift        (R(a) q) . (R(b) k) depends on b - a alone, for any q, k and any shift of both positions
//   composition  R(a) R(b) = R(a + b); R(-a) undoes R(a)
// With xPos the scores depend on b - a alone as well, but norms do not stay.
//
// Rules (rules.hpp) turn a model's parameters and a length into a plan and know nothing of tensors; the
// rotation (rotation.hpp) turns tensors by a plan and knows nothing of YaRN. Two engines that read one
// configuration differently give two plans, and plans can be compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "locant/error.hpp"
#include "locant/method.hpp"

namespace locant {

// Which two coordinates of the rotated slice make pair i (w = rotated width):
//   interleaved  2i and 2i+1       the paper, GPT-J, Meta's LLaMA
//   half-split   i and i + w/2     GPT-NeoX, Hugging Face's LLaMA
enum class Pairing { kInterleaved, kHalfSplit };

// xPos (Sun et al. 2022): queries are also multiplied by zeta_i^((p - center) / scale_base), keys by its inverse.
struct XPos {
  double gamma = 0.4;  // zeta_i = (2i/w + gamma) / (1 + gamma), w = rotated width
  double scale_base = 512;
  double center = 0;  // a constant: one that moves with the length makes cached keys wrong
  friend bool operator==(const XPos&, const XPos&) = default;
};

struct RotaryPlan {
  // One per pair, radians per position; 0 leaves the pair as it is. At least one.
  std::vector<double> inverse_frequencies;
  Pairing pairing = Pairing::kHalfSplit;
  // First coordinate of the head that is rotated; the rotated slice is [start, start + rotated_width()),
  // all other coordinates pass through untouched.
  std::int32_t start = 0;
  // Multiplies cos and sin, so a score between rotated q and k carries its square.
  double attention_factor = 1;
  // A factor that the model applies to the softmax scale and not to the rotation (DeepSeek's mscale^2).
  double softmax_scale_factor = 1;
  // Which axis of the position turns pair i; empty: axis 0 turns all (text).
  std::vector<std::uint8_t> axis_of_pair;
  // Added to the positions of each axis before they are multiplied (centred grids use it): one per axis of
  // the plan; empty: 0 for all.
  std::vector<double> axis_offsets;
  std::optional<XPos> xpos;

  // Where the plan came from; not part of equality.
  std::string rule = "custom";              // "default", "linear", "yarn", ...
  std::optional<double> base;               // theta, where the rule has one
  std::vector<MethodParameter> parameters;  // the rule's own, for describe()
  std::optional<std::int64_t> length;       // the length it was resolved for, where the rule depends on it

  std::int32_t pairs() const noexcept { return static_cast<std::int32_t>(inverse_frequencies.size()); }
  std::int32_t rotated_width() const noexcept { return 2 * pairs(); }
  std::int32_t axes() const noexcept;  // 1 + the largest axis of any pair

  // Same rotation of every tensor: compares all that the rotation reads and nothing of its provenance.
  bool same_rotation(const RotaryPlan& other) const noexcept;
};

// What keeps two plans from the same rotation, in words: "the frequency of pair 3 is 0.1 in one and 0.05 in the other",
// the first that is met; empty where same_rotation.
std::string difference_of(const RotaryPlan& a, const RotaryPlan& b);

// Throws kArgument unless the plan is one that a head of `head_dim` coordinates can be rotated by:
// at least one pair, start >= 0, start + rotated width <= head_dim, every number finite and every angle up to position
// 2^31-1 too, the attention factor within 2^-60 .. 2^60 and the
// softmax scale factor within 1e-6 .. 1e6, one axis (0 .. 7) per pair if any, one offset per axis if any, offsets
// and the centre of xPos at most 2^52 in size, xPos with gamma and scale_base above 0 and a finite scale. `call` begins
// the sentence.
void require_plan(std::string_view call, const RotaryPlan& plan, std::int32_t head_dim);

// A plan whose only parameters are its frequencies, [start, start + 2 * count) of the head, everything else
// as the defaults above. Checked by whoever uses it.
RotaryPlan custom_plan(std::vector<double> inverse_frequencies, Pairing pairing = Pairing::kHalfSplit,
                       std::int32_t start = 0);

// "interleaved", "half-split".
const char* to_string(Pairing pairing) noexcept;

MethodDescription describe(const RotaryPlan& plan);

}  // namespace locant
