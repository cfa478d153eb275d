// Positions of text with images and videos, against running code; packing from other libraries' forms.
#include <limits>

#include "locant/position/grids.hpp"
#include "locant/position/packing.hpp"
#include "support.hpp"
#include "vectors.hpp"

using namespace locant;
using namespace locant::test;

namespace {

std::vector<PatchGrid> grids_of(const Json& tensor, double time_step) {
  const auto data = ints_of(tensor);
  std::vector<PatchGrid> grids;
  for (std::size_t i = 0; i + 2 < data.size(); i += 3) grids.push_back({data[i], data[i + 1], data[i + 2], time_step});
  return grids;
}

std::vector<std::int32_t> axis_of(const Positions& positions, std::int32_t axis) {
  const auto span = positions.position(axis);
  return {span.begin(), span.end()};
}

}  // namespace

TEST_CASE("J02, J09: text with images and videos gets the positions of running code, of both its generations") {
  const Json vectors = load_vectors("positions_mrope");
  REQUIRE(vectors.at("cases").size() > 20);
  for (const Json& c : vectors.at("cases")) {
    const std::string builder = c.at("parameters").at("builder");
    INFO(c.at("name").get<std::string>(), ", ", builder);
    const Json& p = c.at("parameters");
    const auto kinds = ints_of(c.at("inputs").at("token_types"));
    const auto mask = ints_of(c.at("inputs").at("attention_mask"));
    const auto shape = shape_of(c.at("inputs").at("token_types"));
    const auto rows = static_cast<std::size_t>(shape[0]), columns = static_cast<std::size_t>(shape[1]);
    const double step = number_or(p, "tokens_per_second", 1.0) * number_or(p, "second_per_grid", 1.0);
    const auto images = grids_of(c.at("inputs").at("image_grid_thw"), 1);
    const auto videos = grids_of(c.at("inputs").at("video_grid_thw"), step);
    const std::int32_t merge = p.at("spatial_merge_size");

    // The file's grids run on over the rows of the batch: take from them as many as each row has tokens for.
    std::vector<std::vector<Run>> runs;
    std::size_t image = 0, video = 0;
    PaddingSide side = PaddingSide::kRight;
    for (std::size_t r = 0; r < rows; ++r) {
      std::vector<TokenKind> tokens;
      std::int64_t of_kind[3] = {0, 0, 0};
      for (std::size_t t = 0; t < columns; ++t) {
        if (mask[r * columns + t] == 0) continue;
        tokens.push_back(static_cast<TokenKind>(kinds[r * columns + t]));
        ++of_kind[kinds[r * columns + t]];
      }
      if (mask[r * columns] == 0) side = PaddingSide::kLeft;
      const auto take = [&](std::span<const PatchGrid> grids, std::size_t& used, std::int64_t count) {
        std::vector<PatchGrid> mine;
        while (count > 0) {
          const PatchGrid& g = grids[used++];
          mine.push_back(g);
          count -= std::int64_t{g.frames} * (g.height / merge) * (g.width / merge);
        }
        return mine;
      };
      const auto my_images = take(images, image, of_kind[1]);
      const auto my_videos = take(videos, video, of_kind[2]);
      runs.push_back(runs_of_tokens(tokens, my_images, my_videos, merge,
                                    builder.starts_with("Qwen3") ? VideoFrames::kEach : VideoFrames::kWhole));
    }
    const bool old = builder.find("4.x") != std::string::npos;
    const Positions ours =
        multimodal_positions(runs, old ? AfterGrid::kLargestPlusOne : AfterGrid::kStartPlusSide, side);

    const auto expected = ints_of(c.at("expected").at("positions"));
    const auto deltas = ints_of(c.at("expected").at("deltas"));
    REQUIRE(ours.tokens() == rows * columns);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      for (std::size_t t = 0; t < rows * columns; ++t) {
        CHECK(int{ours.valid()[t]} == mask[t]);
        if (mask[t] != 0)
          CHECK(ours.position(static_cast<std::int32_t>(axis))[t] == expected[axis * rows * columns + t]);
      }
    }
    for (std::size_t r = 0; r < rows; ++r) {
      const auto row = mask.begin() + static_cast<std::ptrdiff_t>(r * columns);
      const auto padding = std::count(row, row + static_cast<std::ptrdiff_t>(columns), 0);
      // 4.x subtracts the padded length, 5.x the number of real tokens, as ours does.
      CHECK(position_delta(ours, static_cast<std::int32_t>(r)) == deltas[r] + (old ? padding : 0));
    }
  }
}

TEST_CASE(
    "J01, A01: images one after another start where the text before them ends, and decoding goes on from the largest") {
  const std::vector<Run> row = {TextRun{3}, GridRun{1, 2, 2}, TextRun{2}, GridRun{1, 2, 2}, TextRun{1}};
  const Positions p = multimodal_positions(std::span(&row, 1), AfterGrid::kLargestPlusOne, PaddingSide::kRight);
  CHECK(axis_of(p, 0) == std::vector<std::int32_t>{0, 1, 2, 3, 3, 3, 3, 5, 6, 7, 7, 7, 7, 9});
  CHECK(axis_of(p, 1) == std::vector<std::int32_t>{0, 1, 2, 3, 3, 4, 4, 5, 6, 7, 7, 8, 8, 9});
  CHECK(axis_of(p, 2) == std::vector<std::int32_t>{0, 1, 2, 3, 4, 3, 4, 5, 6, 7, 8, 7, 8, 9});
  CHECK(position_delta(p, 0) == -4);
  const std::int32_t one = 1;
  const Positions next = p.next(std::span(&one, 1));
  for (std::int32_t axis = 0; axis < 3; ++axis) CHECK(next.position(axis)[0] == 10);
  CHECK(next.order()[0] == 14);
  // Orders are arrival orders, so that a mask sees image tokens one after another.
  for (std::size_t t = 0; t < p.tokens(); ++t) CHECK(p.order()[t] == static_cast<std::int32_t>(t));
}

TEST_CASE("J03: the delta belongs to the whole row; positions cut into chunks stay what they were") {
  const std::vector<Run> row = {TextRun{2}, GridRun{1, 4, 4}, TextRun{3}};
  const Positions whole = multimodal_positions(std::span(&row, 1), AfterGrid::kLargestPlusOne, PaddingSide::kRight);
  const Positions first = whole.slice(0, 10), second = whole.slice(10, 11);
  for (std::size_t t = 0; t < 11; ++t) CHECK(second.position(1)[t] == whole.position(1)[10 + t]);
  CHECK(position_delta(whole, 0) == 9 - 21);
  CHECK(position_delta(first, 0) != position_delta(whole, 0));
}

TEST_CASE("grids: the two rules for what follows a grid differ for long videos only") {
  for (const std::int32_t frames : {1, 2, 5}) {
    const std::vector<Run> row = {TextRun{1}, GridRun{frames, 2, 2}, TextRun{1}};
    const Positions paper = multimodal_positions(std::span(&row, 1), AfterGrid::kLargestPlusOne, PaddingSide::kRight);
    const Positions side = multimodal_positions(std::span(&row, 1), AfterGrid::kStartPlusSide, PaddingSide::kRight);
    CHECK((paper == side) == (frames <= 2));
  }
}

TEST_CASE("grids: what does not fit is refused by name") {
  using enum TokenKind;
  const std::vector<TokenKind> four = {kText, kImage, kImage, kImage, kImage};
  const PatchGrid image{1, 4, 4}, wide{1, 4, 6};
  check_error(ErrorCode::kArgument, "the image tokens from 1 on are 4, their grid has 1 x 2 x 3 = 6",
              [&] { runs_of_tokens(four, std::span(&wide, 1), {}, 2, VideoFrames::kWhole); });
  check_error(ErrorCode::kArgument, "token 1 is of an image, and all 0 grids of that kind are used up",
              [&] { runs_of_tokens(four, {}, {}, 2, VideoFrames::kWhole); });
  const PatchGrid two[] = {image, image};
  check_error(ErrorCode::kArgument, "the tokens use 1 of 2 image grids",
              [&] { runs_of_tokens(four, two, {}, 2, VideoFrames::kWhole); });
  check_error(ErrorCode::kArgument, "the height of image 0 is 4, expected a multiple of the merge, 3",
              [&] { runs_of_tokens(four, std::span(&image, 1), {}, 3, VideoFrames::kWhole); });
  CHECK(runs_of_tokens(four, std::span(&image, 1), {}, 2, VideoFrames::kWhole).size() == 2);
  const auto build = [](Run run) {
    const std::vector<Run> row = {run};
    return multimodal_positions(std::span(&row, 1), AfterGrid::kLargestPlusOne, PaddingSide::kRight);
  };
  check_error(ErrorCode::kArgument, "a text run of row 0 is -1", [&] { build(TextRun{-1}); });
  check_error(ErrorCode::kArgument, "the height of a grid of row 0 is 0", [&] { build(GridRun{1, 0, 2}); });
  check_error(ErrorCode::kArgument, "the time step of a grid of row 0 is nan",
              [&] { build(GridRun{1, 1, 1, std::numeric_limits<double>::quiet_NaN()}); });
  check_error(ErrorCode::kArgument, "the time step of a grid of row 0 is -1", [&] { build(GridRun{2, 1, 1, -1}); });
  check_error(ErrorCode::kArgument, "the number of tokens of a grid of row 0",
              [&] { build(GridRun{65536, 65536, 1}); });
  check_error(ErrorCode::kPositionRange, "a position would be", [&] { build(GridRun{2, 1, 1, 3e9}); });
  ImageGrid grid;
  grid.height = 5;
  grid.merge = 2;
  check_error(ErrorCode::kArgument, "the height is 5, expected a multiple of the merge, 2",
              [&] { grid_positions(grid); });
  grid.height = 0;
  check_error(ErrorCode::kArgument, "the height is 0", [&] { grid_positions(grid); });
  grid = {};
  grid.first = kMaxPosition;
  check_error(ErrorCode::kArgument, "first is 2147483647", [&] { grid_positions(grid); });
}

TEST_CASE("F09: a grid larger than the one trained on keeps counting from its corner; nothing goes below 0") {
  ImageGrid grid;
  grid.height = 100;
  grid.width = 80;
  const Positions positions = grid_positions(grid);
  CHECK(positions.largest_position() == 99);
  CHECK(*std::min_element(positions.position(0).begin(), positions.position(0).end()) == 0);
  CHECK(positions.position(1)[79] == 79);
}

TEST_CASE("C01: cu_seqlens, segment ids and positions of a packed row say the same, one-token documents included") {
  const std::int32_t cu[] = {0, 3, 4, 7};
  const Positions from_cu = positions_from_cu_seqlens(cu, PackedPositions::kRestart);
  CHECK(axis_of(from_cu, 0) == std::vector<std::int32_t>{0, 1, 2, 0, 0, 1, 2});
  CHECK(cu_seqlens_of(from_cu, 0) == std::vector<std::int32_t>{0, 3, 4, 7});
  const std::int32_t ids[] = {0, 0, 0, 1, 2, 2, 2};
  CHECK(positions_from_segment_ids(1, 7, ids, std::nullopt, PackedPositions::kRestart) == from_cu);
}

TEST_CASE("C08: documents may share a row without restarting; their order still does") {
  const std::int32_t cu[] = {0, 3, 5};
  const Positions running = positions_from_cu_seqlens(cu, PackedPositions::kRunning);
  CHECK(axis_of(running, 0) == std::vector<std::int32_t>{0, 1, 2, 3, 4});
  CHECK(std::vector<std::int32_t>(running.order().begin(), running.order().end()) ==
        std::vector<std::int32_t>{0, 1, 2, 0, 1});
  CHECK(running.segment()[3] == 1);
}

TEST_CASE("packing: segment ids may leave padding anywhere, and what contradicts itself is refused") {
  const std::int32_t ids[] = {0, 5, 5, 7, 0, 0, 9, 9, 9, 9};
  const Positions p = positions_from_segment_ids(2, 5, ids, 0, PackedPositions::kRestart);
  CHECK(axis_of(p, 0) == std::vector<std::int32_t>{0, 0, 1, 0, 0, 0, 0, 1, 2, 3});
  CHECK(std::vector<int>(p.valid().begin(), p.valid().end()) == std::vector<int>{0, 1, 1, 1, 0, 0, 1, 1, 1, 1});
  CHECK(p.segment()[3] == 7);
  check_error(ErrorCode::kUnsupported, "token 0 of row 0 is padding", [&] { cu_seqlens_of(p, 0); });
  CHECK(axis_of(positions_from_segment_ids(1, 5, std::span(ids).first(5), 0, PackedPositions::kRunning), 0) ==
        std::vector<std::int32_t>{0, 0, 1, 2, 0});
  const std::int32_t torn[] = {1, 2, 1};
  check_error(ErrorCode::kArgument, "segment 1 of row 0 comes back at column 2, after segment 2",
              [&] { positions_from_segment_ids(1, 3, torn, std::nullopt, PackedPositions::kRestart); });
  const std::int32_t negative[] = {1, -3, 1};
  check_error(ErrorCode::kArgument, "the segment id of row 0, column 1 is -3",
              [&] { positions_from_segment_ids(1, 3, negative, std::nullopt, PackedPositions::kRestart); });
  check_error(ErrorCode::kShape, "segment ids hold 3 values, expected 2 rows x 3 columns = 6",
              [&] { positions_from_segment_ids(2, 3, negative, std::nullopt, PackedPositions::kRestart); });
  const std::int32_t late[] = {1, 3}, falling[] = {0, 4, 3};
  check_error(ErrorCode::kArgument, "begins with 1, expected 0",
              [&] { positions_from_cu_seqlens(late, PackedPositions::kRestart); });
  check_error(ErrorCode::kArgument, "number 2 of cu_seqlens is 3, below the 4 before it",
              [&] { positions_from_cu_seqlens(falling, PackedPositions::kRestart); });
  check_error(ErrorCode::kArgument, "holds no number",
              [] { positions_from_cu_seqlens({}, PackedPositions::kRestart); });
}
