#include "locant/position/grids.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "locant/memory.hpp"

namespace locant {
namespace {

template <class... Parts>
[[noreturn]] void refuse(double value, double limit, const Parts&... parts) {
  throw Error(ErrorCode::kArgument, sentence(parts...), value, limit);
}

void require_merge(const char* call, std::string_view what, std::int32_t side, std::int32_t merge) {
  if (side % merge == 0) return;
  refuse(side, merge, call, ": ", what, " is ", side, ", expected a multiple of the merge, ", merge);
}

// The tokens of one row while its runs are laid one after another.
struct RowBuilder {
  std::array<std::vector<std::int32_t>, 3> axis;
  std::int64_t next = 0;

  void add(std::int64_t time, std::int64_t row, std::int64_t column) {
    const std::int64_t numbers[] = {time, row, column};
    for (std::size_t a = 0; a < 3; ++a) {
      if (numbers[a] > kMaxPosition) {
        throw Error(
            ErrorCode::kPositionRange,
            sentence("multimodal_positions: a position would be ", numbers[a], ", the largest is ", kMaxPosition),
            static_cast<double>(numbers[a]), kMaxPosition);
      }
    }
    for (std::size_t a = 0; a < 3; ++a) axis[a].push_back(static_cast<std::int32_t>(numbers[a]));
  }

  void operator()(const TextRun& text) {
    for (std::int32_t i = 0; i < text.tokens; ++i, ++next) add(next, next, next);
  }
};

void lay_grid(RowBuilder& row, const GridRun& grid, AfterGrid after) {
  const std::int64_t start = row.next;
  std::int64_t largest = start;
  for (std::int32_t f = 0; f < grid.frames; ++f) {
    const double moved = std::floor(f * grid.time_step);
    const std::int64_t time =
        moved > kMaxPosition ? std::int64_t{kMaxPosition} + 1 : start + static_cast<std::int64_t>(moved);
    for (std::int32_t r = 0; r < grid.height; ++r) {
      for (std::int32_t c = 0; c < grid.width; ++c) row.add(time, start + r, start + c);
    }
    largest = std::max({largest, time, start + grid.height - 1, start + grid.width - 1});
  }
  row.next = after == AfterGrid::kLargestPlusOne ? largest + 1 : start + std::max(grid.height, grid.width);
}

// frames * height * width, or 2^63-1 where it would pass that; none is negative. In 64 bits on every machine.
std::int64_t tokens_of(std::int32_t frames, std::int32_t height, std::int32_t width) {
  std::int64_t tokens = std::int64_t{height} * width;
  return __builtin_mul_overflow(tokens, std::int64_t{frames}, &tokens) ? std::numeric_limits<std::int64_t>::max() : tokens;
}

void require_run(const Run& run, std::size_t row) {
  constexpr const char* kCall = "multimodal_positions";
  if (const auto* text = std::get_if<TextRun>(&run)) {
    require_range(kCall, sentence("a text run of row ", row), text->tokens, 0, kMaxPosition);
    return;
  }
  const auto& grid = std::get<GridRun>(run);
  require_range(kCall, sentence("the frames of a grid of row ", row), grid.frames, 1, kMaxPosition);
  require_range(kCall, sentence("the height of a grid of row ", row), grid.height, 1, kMaxPosition);
  require_range(kCall, sentence("the width of a grid of row ", row), grid.width, 1, kMaxPosition);
  const std::string what = sentence("the time step of a grid of row ", row);
  require_finite(kCall, what, grid.time_step);
  if (grid.time_step < 0) refuse(grid.time_step, 0, kCall, ": ", what, " is ", grid.time_step, ", expected 0 or more");
  require_range(kCall, sentence("the number of tokens of a grid of row ", row),
                tokens_of(grid.frames, grid.height, grid.width), 1, kMaxPosition);
}

}  // namespace

Positions grid_positions(const ImageGrid& grid) {
  constexpr const char* kCall = "grid_positions";
  require_range(kCall, "frames", grid.frames, 1, kMaxPosition);
  require_range(kCall, "the height", grid.height, 1, kMaxPosition);
  require_range(kCall, "the width", grid.width, 1, kMaxPosition);
  require_range(kCall, "merge", grid.merge, 1, kMaxPosition);
  require_range(kCall, "first", grid.first, 0, kMaxPosition - std::max(grid.height, grid.width));
  require_merge(kCall, "the height", grid.height, grid.merge);
  require_merge(kCall, "the width", grid.width, grid.merge);
  const std::size_t patches = checked_product(kCall, "the grid", {grid.frames, std::int64_t{grid.height} * grid.width});
  if (patches >= static_cast<std::size_t>(kMaxPosition)) {
    refuse(static_cast<double>(patches), kMaxPosition, kCall, ": the grid has ", patches,
           " tokens, the largest row has ", kMaxPosition);
  }

  const std::size_t tokens = patches + (grid.class_token == ClassToken::kNone ? 0 : 1);
  PositionArrays arrays = PositionArrays::with_room(kCall, 1, static_cast<std::int64_t>(tokens), 2);
  std::vector<std::int32_t>& rows = arrays.position[0];
  std::vector<std::int32_t>& columns = arrays.position[1];
  const auto add = [&](std::int32_t row, std::int32_t column) {
    rows.push_back(row);
    columns.push_back(column);
  };
  if (grid.class_token == ClassToken::kFirst) add(0, 0);
  for (std::int32_t f = 0; f < grid.frames; ++f) {
    for (std::int32_t block_row = 0; block_row < grid.height; block_row += grid.merge) {
      for (std::int32_t block_column = 0; block_column < grid.width; block_column += grid.merge) {
        for (std::int32_t r = 0; r < grid.merge; ++r) {
          for (std::int32_t c = 0; c < grid.merge; ++c) add(grid.first + block_row + r, grid.first + block_column + c);
        }
      }
    }
  }
  if (grid.class_token == ClassToken::kLast) add(0, 0);
  arrays.row_lengths = {static_cast<std::int32_t>(tokens)};
  if (grid.axes == GridAxes::kColumnRow) std::swap(arrays.position[0], arrays.position[1]);
  return Positions::from_arrays(std::move(arrays));
}

Positions multimodal_positions(std::span<const std::vector<Run>> rows, AfterGrid after, PaddingSide side) {
  constexpr const char* kCall = "multimodal_positions";
  std::vector<RowBuilder> built;
  std::size_t longest = 0;
  std::int64_t widest = 0, sum = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::int64_t tokens = 0;
    for (const Run& run : rows[r]) {
      require_run(run, r);
      const auto* grid = std::get_if<GridRun>(&run);
      tokens +=
          grid != nullptr ? std::int64_t{grid->frames} * grid->height * grid->width : std::get<TextRun>(run).tokens;
      if (tokens > kMaxPosition) require_range(kCall, sentence("the length of row ", r), tokens, 0, kMaxPosition);
    }
    widest = std::max(widest, tokens);
    sum += tokens;
  }
  // The rows one by one (three axes each), and beside them the batch.
  require_memory(kCall, static_cast<double>(sum) * 12 + static_cast<double>(rows.size()) * static_cast<double>(widest) * 21);
  for (const std::vector<Run>& runs : rows) {
    RowBuilder& row = built.emplace_back();
    for (const Run& run : runs) {
      if (const auto* grid = std::get_if<GridRun>(&run)) {
        lay_grid(row, *grid, after);
      } else {
        row(std::get<TextRun>(run));
      }
    }
    longest = std::max(longest, row.axis[0].size());
  }
  PositionArrays arrays = PositionArrays::with_room(kCall, rows.size(), static_cast<std::int64_t>(rows.size() * longest), 3);
  for (const RowBuilder& row : built) {
    const std::size_t padding = longest - row.axis[0].size();
    const auto pad = [&] {
      for (auto& axis : arrays.position) axis.insert(axis.end(), padding, 0);
      arrays.valid.insert(arrays.valid.end(), padding, 0);
    };
    if (side == PaddingSide::kLeft) pad();
    for (std::size_t a = 0; a < 3; ++a)
      arrays.position[a].insert(arrays.position[a].end(), row.axis[a].begin(), row.axis[a].end());
    arrays.valid.insert(arrays.valid.end(), row.axis[0].size(), 1);
    if (side == PaddingSide::kRight) pad();
    arrays.row_lengths.push_back(static_cast<std::int32_t>(longest));
  }
  return Positions::from_arrays(std::move(arrays));
}

std::vector<Run> runs_of_tokens(std::span<const TokenKind> tokens, std::span<const PatchGrid> images,
                                std::span<const PatchGrid> videos, std::int32_t merge, VideoFrames frames) {
  constexpr const char* kCall = "runs_of_tokens";
  require_range(kCall, "merge", merge, 1, kMaxPosition);
  // Each kind's grids as runs, in order.
  const auto runs_of = [&](std::span<const PatchGrid> grids, const char* what, VideoFrames split) {
    std::vector<GridRun> out;
    for (std::size_t g = 0; g < grids.size(); ++g) {
      const PatchGrid& grid = grids[g];
      require_range(kCall, sentence("the frames of ", what, " ", g), grid.frames, 1, kMaxPosition);
      require_range(kCall, sentence("the height of ", what, " ", g), grid.height, 1, kMaxPosition);
      require_range(kCall, sentence("the width of ", what, " ", g), grid.width, 1, kMaxPosition);
      require_merge(kCall, sentence("the height of ", what, " ", g), grid.height, merge);
      require_merge(kCall, sentence("the width of ", what, " ", g), grid.width, merge);
      GridRun run{grid.frames, grid.height / merge, grid.width / merge, grid.time_step};
      if (split == VideoFrames::kWhole) {
        out.push_back(run);
      } else {
        run.frames = 1;
        out.insert(out.end(), static_cast<std::size_t>(grid.frames), run);
      }
    }
    return out;
  };
  const std::vector<GridRun> image_runs = runs_of(images, "image", VideoFrames::kWhole);
  const std::vector<GridRun> video_runs = runs_of(videos, "video", frames);
  std::size_t image = 0, video = 0;
  std::vector<Run> out;
  std::size_t t = 0;
  while (t < tokens.size()) {
    if (tokens[t] == TokenKind::kText) {
      std::size_t end = t;
      while (end < tokens.size() && tokens[end] == TokenKind::kText) ++end;
      out.emplace_back(TextRun{static_cast<std::int32_t>(end - t)});
      t = end;
      continue;
    }
    const TokenKind kind = tokens[t];
    const bool is_image = kind == TokenKind::kImage;
    if (!is_image && kind != TokenKind::kVideo) {
      refuse(static_cast<double>(kind), 2, kCall, ": token ", t, " is of kind ", static_cast<int>(kind),
             ", expected 0, 1 or 2");
    }
    const std::vector<GridRun>& grids = is_image ? image_runs : video_runs;
    std::size_t& used = is_image ? image : video;
    const char* what = is_image ? "image" : "video";
    if (used == grids.size()) {
      refuse(static_cast<double>(used), static_cast<double>(grids.size()), kCall, ": token ", t, " is of a",
             is_image ? "n " : " ", what, ", and all ", used, " grids of that kind are used up");
    }
    const GridRun& grid = grids[used];
    const std::size_t size = checked_product(kCall, "a grid", {grid.frames, std::int64_t{grid.height} * grid.width});
    std::size_t end = t;
    while (end < tokens.size() && end - t < size && tokens[end] == kind) ++end;
    if (end - t != size) {
      refuse(static_cast<double>(end - t), static_cast<double>(size), kCall, ": the ", what, " tokens from ", t,
             " on are ", end - t, ", their grid has ", grid.frames, " x ", grid.height, " x ", grid.width, " = ", size);
    }
    out.emplace_back(grid);
    ++used;
    t = end;
  }
  for (const auto& [what, used, grids] :
       {std::tuple{"image", image, image_runs.size()}, std::tuple{"video", video, video_runs.size()}}) {
    if (used != grids) {
      refuse(static_cast<double>(used), static_cast<double>(grids), kCall, ": the tokens use ", used, " of ", grids,
             " ", what, " grids");
    }
  }
  return out;
}

std::int64_t position_delta(const Positions& positions, std::int32_t row) {
  require_range("position_delta", "row", row, 0, positions.rows() - 1);
  std::int64_t next = 0, tokens = 0;
  for (std::size_t t = positions.row_begin(row); t < positions.row_end(row); ++t) {
    if (positions.valid()[t] == 0) continue;
    ++tokens;
    for (std::int32_t axis = 0; axis < positions.axes(); ++axis)
      next = std::max(next, std::int64_t{positions.position(axis)[t]} + 1);
  }
  return next - tokens;
}

}  // namespace locant
