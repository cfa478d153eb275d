// The loops where the time goes, as functions on small tiles, one set of them for every instruction set.
//
// Attention and the linear layers of a decoder are the same three loops: rows times panels (scores, and
// every y = x W^T), a streaming softmax over a tile of scores, and rows times rows (the mixture of values).
// Each function does one tile that fits the first-level cache, and is called many times; everything about
// masks, heads and memory is decided outside, in code compiled for the plainest machine.
//
// Natively the set is chosen once by what the processor has; in WebAssembly it is the build's.
//
// Layouts
//   packed rows   [depth][rows]           the rows of one tile, interleaved: pack() makes them
//   panel         [depth][kPanelWidth]    16 keys (or 16 outputs of a linear layer), transposed
//   score tile    [kTileRows][kTileKeys]  row r at r * kTileKeys
//   value tile    [width / 16][kTileKeys][16]  16 columns of 64 keys lie together, so that a tile is read from
//                                         end to end by vectors of any width, at constant distances
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace locant::simd {

inline constexpr std::size_t kPanelWidth = 16;  // keys or outputs in a panel
inline constexpr std::size_t kTileKeys = 64;    // keys in a score tile
inline constexpr std::size_t kTileRows = 12;    // the most rows of any set; the set's own are Tiles::rows
inline constexpr std::size_t kSoftmaxRows = 16;  // kTileRows, rounded up to whole vectors of any width
inline constexpr std::size_t kMostLanes = 16;   // of any set; the set's own are Tiles::lanes
inline constexpr std::size_t kDepthStep = 4;    // depths of panels are padded with zeros to a multiple of this
inline constexpr float kSoftmaxSlack = 4;

enum class InstructionSet { kScalar, kSimd128, kRelaxed, kSse2, kAvx2, kAvx512 };
std::string_view to_string(InstructionSet set) noexcept;

// What product() makes of what stands in its output.
enum class Write { kReplace, kAdd };

// State of the streaming softmax of the rows of one tile, in units of log2.
//
// The base that scores are taken from follows a row's highest score only when that has left it behind by more than
// kSoftmaxSlack (a factor of 16 in the weights, which the sum carries too and the division takes out): most blocks
// then need neither the highest score of each row nor a new scale for what is mixed already.
struct SoftmaxRows {
  float base[kSoftmaxRows];   // what is taken from every score; 0 until the row has seen one
  float limit[kSoftmaxRows];  // base + kSoftmaxSlack; -infinity until then
  float carry[kSoftmaxRows];  // out: what the mixture so far is to be multiplied by
  float sum[kSoftmaxRows * kMostLanes];  // of 2^(score - base), in `lanes` parts for each row

  void clear() noexcept;
};

struct Tiles {
  InstructionSet set;
  std::size_t rows;   // rows of a full tile; any number from 1 to this is served
  std::size_t lanes;  // floats in a vector

  // out[r * stride + 16 * p + c] = sum over d of packed[d * rows + r] * panels[p * panel_stride + d * 16 + c]
  // for `panels` panels; with kAdd it is added. depth is a multiple of kDepthStep.
  // next: where there are so few rows that memory is waited for, what will be read after this; it is fetched meanwhile.
  // Empty where the panels meet many rows.
  void (*product)(std::size_t rows, const float* packed, const float* panels, std::size_t panel_stride,
                  std::size_t panel_count, std::size_t depth, float* out, std::size_t stride, Write write,
                  std::span<const float> next);

  // scores[r][0 .. keys) -> 2^(score - base), keys a multiple of 16; updates the state. A score of -infinity gives
  // 0, NaN or +infinity makes the row NaN. True where a base was changed: the mixture is to be carried.
  bool (*softmax)(std::size_t rows, float* scores, std::size_t keys, SoftmaxRows& state);

  // mixture[r * width + c] = carry[r] * mixture[r * width + c] + sum over keys of weights[r][key] * value(key, c)
  // for `keys` keys, a multiple of 4, from the one that `values` points at in its tile; width a multiple of 16.
  // carry: null where it would be 1 in every row. next: as in product().
  void (*mixture)(std::size_t rows, const float* weights, std::size_t keys, const float* values, std::size_t width,
                  const float* carry, float* mixture, std::span<const float> next);

  // scores[0 .. count) -> soft_cap * tanh(scores / soft_cap), count a multiple of 16.
  void (*soften)(float* scores, std::size_t count, float soft_cap);
  // scores[0 .. count) times factor, count a multiple of 16.
  void (*multiply)(float* scores, std::size_t count, float factor);
  // scores[i] = -infinity where visible[i] is 0, whatever stood there; count a multiple of 16.
  void (*hide)(float* scores, const std::uint8_t* visible, std::size_t count);
};

// The set in use: the best that this machine has, unless another was forced.
const Tiles& tiles() noexcept;
// The sets that this build can run on this machine, best first.
std::span<const InstructionSet> available_sets() noexcept;
// Forces a set, for tests and comparisons; kUnsupported where it is not available.
void force_set(InstructionSet set);

}  // namespace locant::simd
