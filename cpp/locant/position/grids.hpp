// Positions of grids: images for vision encoders, and text with images and videos for M-RoPE.
//
// Images on their own have two axes. Text that holds images has three (time, height, width):
//
//   text      the same number on all axes, counting on
//   grid      from p: (p + floor(frame * time_step), p + row, p + column), row and column of the merged grid
//   after it  where the text goes on, see AfterGrid
//
// so the tokens of an image share numbers, and a row of 3000 image tokens may end at position 60. The order
// of tokens, which masks read, is arrival order all the same.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "locant/position/positions.hpp"

namespace locant {

// ---- images -----------------------------------------------------------------------------------------------------

// Which axis comes first: (row, column), or (column, row) as Llama 4's tower has it.
enum class GridAxes { kRowColumn, kColumnRow };

// A token of its own beside the patches, at position (0, 0).
enum class ClassToken { kNone, kFirst, kLast };

struct ImageGrid {
  std::int32_t frames = 1;  // repeated with the same positions
  std::int32_t height = 1, width = 1;
  // Patches come in merge x merge blocks (Qwen2-VL's merger: 2), row after row of blocks and row after row
  // inside a block; 1: plain rows. Must divide height and width.
  std::int32_t merge = 1;
  std::int32_t first = 0;  // position of row 0 and of column 0; 1 for Llama 4, whose class token stands at 0
  GridAxes axes = GridAxes::kRowColumn;
  ClassToken class_token = ClassToken::kNone;
};

// One row of frames * height * width tokens (and the class token), two axes. Errors: kArgument for sizes
// below 1, a merge that does not divide, or more than 2^31-1 tokens.
Positions grid_positions(const ImageGrid& grid);

// ---- text with grids ------------------------------------------------------------------------------------------

struct TextRun {
  std::int32_t tokens = 0;
};

// `height` and `width` count tokens, after merging; a video is one run of `frames` (Qwen2-VL, Qwen2.5-VL), or a
// run of one frame between runs of time-stamp text (Qwen3-VL).
struct GridRun {
  std::int32_t frames = 1, height = 1, width = 1;
  // Positions from frame to frame: 1, or seconds per frame x positions per second (Qwen2.5-VL); the product
  // with the frame number is rounded down.
  double time_step = 1;
};

using Run = std::variant<TextRun, GridRun>;

// kLargestPlusOne: the largest position of the grid on any axis, plus 1 (the paper; transformers 4.x).
// kStartPlusSide: the grid's first position plus its longer side (transformers 5.x), which falls short of the
// frames of a long video, so that later text shares numbers with them. The same for images.
enum class AfterGrid { kLargestPlusOne, kStartPlusSide };

// Three axes, one row for each list of runs, padded to the longest on `side`. Runs of one row count on from 0.
// Errors: kArgument for sizes below 0 (text) or 1 (grids) or a time step that is negative or not finite;
// kPositionRange past 2^31-1.
Positions multimodal_positions(std::span<const std::vector<Run>> rows, AfterGrid after, PaddingSide side);

// What a token is, in the order of a row.
enum class TokenKind : std::uint8_t { kText = 0, kImage = 1, kVideo = 2 };

// A grid in patches, before merging: what image processors report as (t, h, w).
struct PatchGrid {
  std::int32_t frames = 1, height = 1, width = 1;
  double time_step = 1;
};

// kWhole: a video's tokens are one run of all its frames. kEach: every frame is a run of its own, with text
// between (Qwen3-VL's time stamps).
enum class VideoFrames { kWhole, kEach };

// The runs of one row without its padding: images and videos take the grids in order, each as many tokens as
// frames * (height / merge) * (width / merge), so images that touch are told apart. Errors, kArgument: a merge
// that does not divide, grids that are left over or missing, or a run of image tokens that ends inside a grid.
std::vector<Run> runs_of_tokens(std::span<const TokenKind> tokens, std::span<const PatchGrid> images,
                                std::span<const PatchGrid> videos, std::int32_t merge, VideoFrames frames);

// What to add to the number of valid tokens of a row to get the position of the next token: largest position + 1 -
// tokens. It belongs to the whole row; computed from a part of it (a prefill chunk) it means something else.
std::int64_t position_delta(const Positions& positions, std::int32_t row);

}  // namespace locant
