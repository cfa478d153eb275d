#include "locant/bias/custom.hpp"

#include "bias_tile.hpp"

using namespace locant;
using namespace locant::test;

TEST_CASE("own bias: a function gets its head and key - query, to the ends of int32") {
  const FunctionBias bias([](std::int32_t head, std::int64_t d) { return static_cast<double>(d) * (head + 1); });
  for (const TileCase& tile : tile_cases(2, 9)) {
    const auto scores = tile.run(bias);
    for (std::size_t r = 0; r < tile.query_position.size(); ++r) {
      for (std::size_t k = 0; k < tile.key_position.size(); ++k) {
        const double d = static_cast<double>(tile.key_position[k]) - tile.query_position[r];
        CHECK(scores[r * tile.key_position.size() + k] == static_cast<float>(3 * d));
      }
    }
  }
  CHECK(check_shift_invariant(bias, 0) >= 10);
}

TEST_CASE("own bias: a table reads its ends, nothing, or throws beyond itself") {
  const std::vector<float> values = {1, 2, 3, 4, 10, 20, 30, 40};  // 2 heads, displacements -2 .. 1
  const TileCase tile({5}, {2, 3, 4, 5, 6, 7}, 1);
  CHECK(tile.run(DisplacementTable(2, -2, 1, values)) == std::vector<float>{10, 10, 20, 30, 40, 40});
  CHECK(tile.run(DisplacementTable(2, -2, 1, values, BeyondTable::kZero)) == std::vector<float>{0, 10, 20, 30, 40, 0});
  const DisplacementTable strict(2, -2, 1, values, BeyondTable::kError);
  check_error(ErrorCode::kPositionRange, "the displacement -3 lies outside -2 to 1", [&] { tile.run(strict); });
  CHECK(TileCase({5}, {3, 4, 5, 6}).run(strict) == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("own bias: a clamped table over displacement agrees with the same function, whatever the tile") {
  const auto values = random_values(41, 3);
  const DisplacementTable table(1, -25, 15, values);
  const FunctionBias function([&](std::int32_t, std::int64_t d) {
    return static_cast<double>(values[static_cast<std::size_t>(std::clamp<std::int64_t>(d, -25, 15) + 25)]);
  });
  for (const TileCase& tile : tile_cases(0, 11)) CHECK(tile.run(table) == tile.run(function));
  CHECK(check_shift_invariant(table, 0) >= 10);
}

TEST_CASE("own bias: a table tells which displacements it merges") {
  const std::vector<float> values(3);
  using Runs = std::vector<DisplacementRun>;
  CHECK(DisplacementTable(1, -1, 1, values).runs() ==
        Runs{{0, -kMaxDisplacement, -1}, {1, 0, 0}, {2, 1, kMaxDisplacement}});
  CHECK(DisplacementTable(1, -1, 1, values, BeyondTable::kZero).runs() ==
        Runs{{-1, -kMaxDisplacement, -2}, {0, -1, -1}, {1, 0, 0}, {2, 1, 1}, {-1, 2, kMaxDisplacement}});
  CHECK(DisplacementTable(1, -1, 1, values, BeyondTable::kError).runs() == Runs{{0, -1, -1}, {1, 0, 0}, {2, 1, 1}});
}

TEST_CASE("own bias: a matrix is read by position, not by slot") {
  std::vector<float> values;
  for (int i = 0; i < 2 * 3 * 4; ++i) values.push_back(static_cast<float>(i));
  const MatrixBias matrix(2, 3, 4, values, 10, 9);
  CHECK(TileCase({12, 10}, {9, 12, 10}, 1).run(matrix) == std::vector<float>{20, 23, 21, 12, 15, 13});
  CHECK(!matrix.shift_invariant());
  check_error(ErrorCode::kPositionRange, "the key position is 13, the matrix covers 9 to 12",
              [&] { TileCase({10}, {13}).run(matrix); });
  check_error(ErrorCode::kPositionRange, "the query position is 9, the matrix covers 10 to 12",
              [&] { TileCase({9}, {9}).run(matrix); });
  // One matrix for all heads.
  const MatrixBias shared(1, 1, 1, std::vector<float>{5});
  CHECK(TileCase({0}, {0}, 7).run(shared) == std::vector<float>{5});
  shared.require_fits(8, 2, 4);
}

TEST_CASE("own bias: bad input is answered by its code") {
  const std::vector<float> values(6);
  check_error(ErrorCode::kArgument, "no function", [] { FunctionBias(nullptr); });
  check_error(ErrorCode::kArgument, "last is -2", [&] { DisplacementTable(1, -1, -2, values); });
  check_error(ErrorCode::kShape, "2 heads x 4 displacements = 8", [&] { DisplacementTable(2, -2, 1, values); });
  check_error(ErrorCode::kShape, "values for 2 heads, the attention has 3",
              [&] { DisplacementTable(2, -1, 1, values).require_fits(3, 3, 8); });
  check_error(ErrorCode::kArgument, "queries is 0", [&] { MatrixBias(1, 0, 6, values); });
  check_error(ErrorCode::kShape, "1 heads x 2 queries x 2 keys = 4", [&] { MatrixBias(1, 2, 2, values); });
  check_error(ErrorCode::kShape, "values for 2 heads", [&] { MatrixBias(2, 1, 3, values).require_fits(4, 4, 8); });
}
