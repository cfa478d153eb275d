#include "locant/bias/shaw.hpp"

#include "bias_tile.hpp"

using namespace locant;
using namespace locant::test;

namespace {
ShawTable table(std::int32_t k, std::int32_t heads, std::int32_t width, ShawSides sides = ShawSides::kBoth) {
  const std::size_t rows = static_cast<std::size_t>(sides == ShawSides::kBoth ? 2 * k + 1 : k + 1);
  return ShawTable({k, heads, width, sides},
                   random_values(static_cast<std::size_t>(heads) * rows * static_cast<std::size_t>(width), 17));
}
}  // namespace

TEST_CASE("Shaw: a table of 2K + 1 rows; everything beyond K reads the row of K") {
  const ShawTable t = table(2, 1, 4);
  CHECK(t.rows() == 5);
  const std::vector<std::int64_t> rows = {0, 0, 1, 2, 3, 4, 4};
  for (std::int64_t d = -3; d <= 3; ++d) CHECK(t.row(d) == rows[static_cast<std::size_t>(d + 3)]);
  CHECK(t.row(kMaxDisplacement) == 4);
  CHECK(t.row(-kMaxDisplacement) == 0);
  using Runs = std::vector<DisplacementRun>;
  CHECK(t.runs() == Runs{{0, -kMaxDisplacement, -2}, {1, -1, -1}, {2, 0, 0}, {3, 1, 1}, {4, 2, kMaxDisplacement}});
  // K = 0 merges everything.
  CHECK(table(0, 1, 4).runs() == Runs{{0, -kMaxDisplacement, kMaxDisplacement}});
  const ShawTable past = table(2, 1, 4, ShawSides::kPastOnly);
  CHECK(past.rows() == 3);
  CHECK(past.row(5) == 2);
  CHECK(past.runs() == Runs{{0, -kMaxDisplacement, -2}, {1, -1, -1}, {2, 0, kMaxDisplacement}});
}

TEST_CASE("Shaw: the key term is scale * q . a[clip(j - t)], for dense and for scattered keys") {
  for (const auto sides : {ShawSides::kBoth, ShawSides::kPastOnly}) {
    for (const std::int32_t heads : {1, 3}) {
      for (const std::int32_t k : {0, 4, 400}) {
        const ShawKeys term(table(k, heads, 12, sides));
        for (TileCase tile : tile_cases(2, 21)) {
          tile.fill(12, 5);
          tile.scale = 0.25f;
          const auto scores = tile.run(term);
          for (std::size_t r = 0; r < tile.query_position.size(); ++r) {
            for (std::size_t j = 0; j < tile.key_position.size(); ++j) {
              const std::int64_t d = std::int64_t{tile.key_position[j]} - tile.query_position[r];
              const float* a = term.table().vector(2, term.table().row(d));
              double expected = 0;
              for (std::size_t c = 0; c < 12; ++c) expected += static_cast<double>(tile.query_row(r)[c]) * a[c];
              // Twelve float32 products and sums of normal numbers.
              CHECK(std::abs(scores[r * tile.key_position.size() + j] - 0.25 * expected) <= 2e-6);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("Shaw: the value term adds each key's weight times a[clip(j - t)], and reads nothing where weights are 0") {
  for (const std::int32_t k : {0, 4, 400}) {
    const ShawValues term(table(k, 1, 6));
    for (const TileCase& tile : tile_cases(0, 23)) {
      const std::size_t rows = tile.query_position.size(), keys = tile.key_position.size();
      auto weights = random_values(rows * (keys + 2), 8);
      for (std::size_t i = 0; i < weights.size(); i += 3) weights[i] = 0;
      std::vector<float> out(rows * 9, 1.0f);
      term.accumulate(tile.tile(), weights.data(), keys + 2, out.data(), 9);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < 9; ++c) {
          double expected = 1;
          if (c < 6) {
            for (std::size_t j = 0; j < keys; ++j) {
              const std::int64_t d = std::int64_t{tile.key_position[j]} - tile.query_position[r];
              expected += static_cast<double>(weights[r * (keys + 2) + j]) * term.table().vector(0, term.table().row(d))[c];
            }
          }
          // Up to 300 float32 terms of size 1, added in another order.
          CHECK(std::abs(out[r * 9 + c] - expected) <= 3e-5);
        }
      }
    }
  }
}

TEST_CASE("Shaw: shift invariance, to the bit") {
  CHECK(check_shift_invariant(ShawKeys(table(3, 2, 8)), 1, 8) >= 10);
  CHECK(ShawKeys(table(3, 2, 8)).needs_content());
}

TEST_CASE("Shaw: bad input is answered by its code") {
  check_error(ErrorCode::kShape, "1 tables x 5 displacements x width 4 = 20",
              [] { ShawTable({2, 1, 4, ShawSides::kBoth}, random_values(12, 1)); });
  check_error(ErrorCode::kArgument, "max_distance is -1", [] { ShawTable({-1, 1, 4, ShawSides::kBoth}, {}); });
  check_error(ErrorCode::kShape, "width is 4, the attention's is 8", [] { ShawKeys(table(2, 1, 4)).require_fits(2, 2, 8); });
  check_error(ErrorCode::kShape, "tables for 3 heads, the attention has 4",
              [] { ShawValues(table(2, 3, 4)).require_fits(4, 4, 4); });
  ShawKeys(table(2, 1, 4)).require_fits(16, 2, 4);
  CHECK(ShawKeys(table(2, 1, 4)).describe().origin == "row 2 is displacement 0");
}
