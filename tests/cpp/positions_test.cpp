#include <cstdint>
#include <limits>
#include <vector>

#include "locant/position/positions.hpp"
#include "support.hpp"

using namespace locant;
using locant::test::check_error;
using Ints = std::vector<std::int32_t>;

namespace {
Ints position_of(const Positions& p) { return {p.position().begin(), p.position().end()}; }
Ints order_of(const Positions& p) { return {p.order().begin(), p.order().end()}; }
Ints segment_of(const Positions& p) { return {p.segment().begin(), p.segment().end()}; }
}  // namespace

TEST_CASE("positions: a range starts at its offset, in position and in order") {
  const Positions p = Positions::range(3, 4);
  CHECK(p.rows() == 1);
  CHECK(position_of(p) == Ints{4, 5, 6});
  CHECK(order_of(p) == Ints{4, 5, 6});
  CHECK(segment_of(p) == Ints{0, 0, 0});
  CHECK(p.all_valid());
  CHECK(p == Positions::range(4).next(Ints{3}));
}

TEST_CASE("positions: empty batches and empty rows are batches too") {
  CHECK(Positions().rows() == 0);
  CHECK(Positions().tokens() == 0);
  CHECK(Positions::range(0).rows() == 1);
  CHECK_FALSE(Positions::range(0).largest_position());
  const Positions p = Positions::ragged(Ints{2, 0, 3});
  CHECK(p.rows() == 3);
  CHECK(p.row_length(1) == 0);
  CHECK(p.row(1).tokens() == 0);
  CHECK(position_of(p.next(Ints{1, 2, 0})) == Ints{2, 0, 1});
}

TEST_CASE("positions: rows of unequal length continue at their own offsets (A21, A26, B01, B15)") {
  const Positions rows = Positions::ragged(Ints{30, 25});
  CHECK(position_of(rows.next(Ints{1, 1})) == Ints{30, 25});
  // The padded width is nobody's offset: valid lengths 7 and 10 in ten columns go on at 7 and 10.
  for (const PaddingSide side : {PaddingSide::kLeft, PaddingSide::kRight}) {
    const Positions padded = Positions::padded(Ints{7, 10}, 10, side);
    CHECK(position_of(padded.next(Ints{1, 1})) == Ints{7, 10});
    CHECK(order_of(padded.next(Ints{1, 1})) == Ints{7, 10});
  }
}

TEST_CASE("positions: padding has no order, no segment, position 0, on either side (B14)") {
  const Positions left = Positions::padded(Ints{2}, 4, PaddingSide::kLeft);
  CHECK(position_of(left) == Ints{0, 0, 0, 1});
  CHECK(order_of(left) == Ints{-1, -1, 0, 1});
  CHECK(segment_of(left) == Ints{-1, -1, 0, 0});
  CHECK_FALSE(left.all_valid());
  const Positions right = Positions::padded(Ints{2}, 4, PaddingSide::kRight, Ints{5});
  CHECK(position_of(right) == Ints{5, 6, 0, 0});
  const Positions mixed = Positions::from_padding_mask(2, 6, std::vector<std::uint8_t>{0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0});
  CHECK(position_of(mixed) == Ints{0, 0, 0, 1, 2, 3, 0, 1, 2, 3, 0, 0});
  CHECK(order_of(mixed) == Ints{-1, -1, 0, 1, 2, 3, 0, 1, 2, 3, -1, -1});
}

TEST_CASE("positions: packed segments restart or run on, their orders always restart (C08)") {
  const Positions restart = Positions::packed(Ints{3, 0, 2}, PackedPositions::kRestart);
  CHECK(position_of(restart) == Ints{0, 1, 2, 0, 1});
  CHECK(segment_of(restart) == Ints{0, 0, 0, 2, 2});
  const Positions running = Positions::packed(Ints{3, 0, 2}, PackedPositions::kRunning);
  CHECK(position_of(running) == Ints{0, 1, 2, 3, 4});
  CHECK(order_of(running) == Ints{0, 1, 2, 0, 1});
  CHECK(position_of(restart.next(Ints{2})) == Ints{2, 3});
  CHECK(segment_of(restart.next(Ints{2})) == Ints{2, 2});
  CHECK(position_of(running.next(Ints{1})) == Ints{5});
}

TEST_CASE("positions: chunks of a batch are its slices, and put together they are the batch (A13)") {
  const Positions whole = Positions::range(12, 3);
  for (const std::int32_t step : {1, 2, 3, 4, 6}) {
    Ints joined;
    for (std::int32_t at = 0; at < 12; at += step) {
      const Positions chunk = whole.slice(at, step);
      const Ints positions = position_of(chunk), orders = order_of(chunk);
      CHECK(positions == orders);
      joined.insert(joined.end(), positions.begin(), positions.end());
    }
    CHECK(joined == position_of(whole));
  }
}

TEST_CASE("positions: arrays of the caller's own get arrival order by segment") {
  const Positions p = Positions::from_arrays({.row_lengths = {3, 2},
                                              .position = {{7, 7, 9, 1, 2}, {0, 1, 0, 0, 0}},
                                              .order = {},
                                              .segment = {5, 5, 6, 5, 5},
                                              .valid = {1, 1, 1, 0, 1}});
  CHECK(p.axes() == 2);
  CHECK(order_of(p) == Ints{0, 1, 0, -1, 0});
  CHECK(p.largest_position() == 9);
  // The next token of a row stands one past the largest of any axis of its last segment (M-RoPE).
  CHECK(position_of(p.next(Ints{1, 1})) == Ints{10, 3});
}

TEST_CASE("positions: the last position is 2^31-1 and nothing passes it") {
  CHECK(position_of(Positions::range(1, kMaxPosition)) == Ints{kMaxPosition});
  check_error(ErrorCode::kPositionRange, "would pass 2147483647", [] { Positions::range(2, kMaxPosition); });
  const Positions last = Positions::range(1, kMaxPosition);
  CHECK(last.next(Ints{0}).tokens() == 0);
  check_error(ErrorCode::kPositionRange, "Positions::next", [&] { last.next(Ints{1}); });
  check_error(ErrorCode::kPositionRange, "would pass", [] { Positions::ragged(Ints{3}, Ints{kMaxPosition - 1}); });
  check_error(ErrorCode::kPositionRange, "offset of row 1 2147483647", [] {
    Positions::padded(Ints{1, 2}, 2, PaddingSide::kLeft, Ints{0, kMaxPosition});
  });
}

TEST_CASE("positions: bad input is a sentence with the call, the value and the limit (B05)") {
  check_error(ErrorCode::kPositionRange, "Positions::range: offset starts at -4, expected 0 or more",
              [] { Positions::range(6, -4); });
  check_error(ErrorCode::kArgument, "Positions::range: count is -1", [] { Positions::range(-1); });
  check_error(ErrorCode::kArgument, "the length of row 1 is 5, expected 0 to 4",
              [] { Positions::padded(Ints{4, 5}, 4, PaddingSide::kRight); });
  check_error(ErrorCode::kShape, "Positions::ragged: offsets hold 1 values, expected one for each row = 2",
              [] { Positions::ragged(Ints{1, 2}, Ints{0}); });
  check_error(ErrorCode::kShape, "mask hold 5 values, expected 2 rows x 3 columns = 6",
              [] { Positions::from_padding_mask(2, 3, std::vector<std::uint8_t>(5)); });
  check_error(ErrorCode::kPositionRange, "the position of token 1 is -4", [] {
    Positions::from_arrays({.row_lengths = {2}, .position = {{0, -4}}, .order = {}, .segment = {}, .valid = {}});
  });
  check_error(ErrorCode::kShape, "positions hold 2 values", [] {
    Positions::from_arrays({.row_lengths = {3}, .position = {{0, 1}}, .order = {}, .segment = {}, .valid = {}});
  });
  check_error(ErrorCode::kArgument, "the number of axes is 0", [] { Positions::from_arrays({}); });
  check_error(ErrorCode::kArgument, "tokens 2 to 5 of row 0, which has 4", [] { Positions::range(4).slice(2, 3); });
  check_error(ErrorCode::kArgument, "row is 1, expected 0 to 0", [] { Positions::range(4).row(1); });
  check_error(ErrorCode::kShape, "counts hold 2 values", [] { Positions::range(4).next(Ints{1, 1}); });
  check_error(ErrorCode::kArgument, "axis is 1", [] { Positions::range(1).position(1); });
}
