// Conversion between the two pairings: of projection weights, of biases, of queries and keys.
//
// A rotation with interleaved pairs and one with half-split pairs do the same to rows that are put in another
// order. For the rotated slice of a head, w wide,
//
//   half[i] = inter[2i]        half[i + w/2] = inter[2i + 1]        i in [0, w/2)
//
// and everything outside the slice stays where it is. Put the output rows of W_q, W_k and their biases (or q
// and k themselves) in the order of the other pairing, change plan.pairing, and
//
//   R_half(p) P x = P R_inter(p) x      to the bit, so every score stays the same.
//
// Keys have their own number of heads: pass the kv head count for W_k. The head width is an argument, never
// hidden / heads, which it need not be (Gemma 7B: 16 heads of 256 in a width of 3072). Values are not touched
// by rotation and must not be permuted. Layers without rotation must be converted with their queries and keys
// alike or not at all: their scores come out right either way, so a test on them alone proves nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "locant/position/positions.hpp"
#include "locant/rotary/plan.hpp"

namespace locant {

// The heads of one projection, and the slice of each that is rotated.
struct RotatedHeads {
  std::int32_t heads = 1;  // kv_heads for keys
  std::int32_t head_dim = 0;
  std::int32_t start = 0;  // plan.start
  std::int32_t width = 0;  // plan.rotated_width(), even
};

// source[i] = the coordinate of a head in pairing `from` that becomes coordinate i in pairing `to`.
std::vector<std::int32_t> pairing_order(const RotatedHeads& heads, Pairing from, Pairing to);

// weight, out: [heads * head_dim, columns], one row per output coordinate (as PyTorch's Linear keeps them; a bias
// is a weight of one column). `out` may be `weight` itself. Errors: kArgument for sizes out of range or an
// odd width; kShape.
void convert_weight(std::span<const float> weight, const RotatedHeads& heads, std::int64_t columns, Pairing from,
                    Pairing to, std::span<float> out);

// x, out: [tokens, heads, head_dim], queries or keys. Otherwise as above.
void convert_heads(std::span<const float> x, std::int64_t tokens, const RotatedHeads& heads, Pairing from, Pairing to,
                   std::span<float> out);

// Which pairing turned `x` into `rotated` (both [tokens, heads, head_dim])? The largest absolute difference between
// `rotated` and what the plan gives under each pairing; the plan's own pairing is not read. Where both are
// small the data cannot tell (all positions 0, or one pair alone).
struct PairingResidual {
  double interleaved = 0, half_split = 0;
};
PairingResidual compare_pairings(const RotaryPlan& plan, std::int32_t head_dim, std::span<const float> x,
                                 std::span<const float> rotated, const Positions& positions, std::int32_t heads);

}  // namespace locant
