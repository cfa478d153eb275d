// Rotation over several axes: which axis of a position turns which pair.
//
// M-RoPE (Qwen2-VL, section 2.1): positions have three axes, time, height and width, and sections [t, h, w] count the
// pairs of each; the frequency index runs on over all pairs. Text has the same number on all three axes, and
// is then turned as by a plan of one axis, to the bit.
//   chunked      t pairs of time, then h of height, then w of width                 Qwen2-VL, Qwen2.5-VL
//   interleaved  pair i: height where i mod 3 = 1 and i < 3h, width where i mod 3 = 2 and i < 3w, else time
//                                                                                    Qwen3-VL
// The order of axes and the pairing of coordinates are two switches; both models pair half-split.
//
// Images (2-D axial): positions have two axes. L = ladder theta^(-2j/n) over n coordinates.
//   kQwen2Vl   half-split; ladder over head_dim/2, run through twice: rows, then columns    Qwen2-VL's tower
//   kPixtral   half-split; ladder over head_dim; its even entries turn by row, then its odd ones by column
//   kLlama4    interleaved; as kQwen2Vl, but axis 0 is the column. Positions start at 1; the class token stands at
//              0 and is not turned (build them with grid_positions and those choices)      Llama 4's tower
//   kRows      interleaved; ladder over head_dim/2: rows, then columns    timm's RotaryEmbeddingCat (in_pixels=False),
//                                                                          rotary-embedding-torch's get_axial_freqs,
//                                                                          "lang"
//   pixel      interleaved; coordinates -1 .. 1 over the grid, frequencies in multiples of pi, see PixelGrid
//
// Laws: per pair those of plan.hpp, with the displacement of the pair's own axis; a score depends on the
// displacement on every axis. The keys of such plans cannot be shifted by one number.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "locant/rotary/plan.hpp"

namespace locant {

// Axes of pairs for any number of chunked sections, and for three interleaved ones. kArgument unless the
// sections are 0 or more and together 1 or more. Interleaved sections that reach past the last pair are cut off
// there, as the models' own code does: [16, 24, 24] gives 22, 21 and 21 pairs, not what its numbers say.
std::vector<std::uint8_t> chunked_axes(std::span<const std::int32_t> sections);
std::vector<std::uint8_t> interleaved_axes(const std::array<std::int32_t, 3>& sections);

// The plan with its pairs given to axes; kArgument unless there is one axis per pair.
RotaryPlan with_axes(RotaryPlan plan, std::vector<std::uint8_t> axis_of_pair);

// The plan with the coordinates of each axis multiplied by a factor: trained side / side stretches a grid to the one
// that the model was trained on (EVA-02). kArgument unless there is one factor above 0 for each axis.
RotaryPlan scale_axes(RotaryPlan plan, std::span<const double> factors);

enum class AxialConvention { kQwen2Vl, kPixtral, kLlama4, kRows };

// A plan over two axes for a whole head. kArgument unless head_dim is a multiple of 4 and the base above 0.
RotaryPlan axial_plan(AxialConvention convention, std::int32_t head_dim, double base = 10000);

// Frequencies of the pixel convention over `features_per_axis / 2` bands:
//   kLinear    pi * linspace(1, max_frequency / 2)                              rotary-embedding-torch, "pixel"
//   kPowers    pi * 2^linspace(0, log2(max_frequency) - 1)                      timm, in_pixels=True
enum class PixelBands { kLinear, kPowers };

// Coordinates run from -1 to 1 over the rows and over the columns, whatever their number (one alone is at -1), so
// the plan holds for this grid only: row r of h stands at -1 + 2r/(h-1). Rows turn the first pairs, columns the rest.
struct PixelGrid {
  std::int32_t features_per_axis = 0;  // even; the rotated width is twice that
  double max_frequency = 10;           // 2 or more
  std::int32_t height = 1, width = 1;
  PixelBands bands = PixelBands::kLinear;
};
RotaryPlan pixel_plan(const PixelGrid& grid);

}  // namespace locant
