#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "locant/attention/mask.hpp"
#include "support.hpp"

using namespace locant;
using locant::test::check_error;
using Ints = std::vector<std::int32_t>;

namespace {

// How many keys each query of row 0 sees.
Ints seen(const Mask& mask, const Positions& queries, const Positions& keys) {
  const Visibility sight(mask, 0, view_of(queries, 0), view_of(keys, 0), mask.visible);
  Ints counts;
  for (std::size_t q = 0; q < sight.queries(); ++q) {
    std::vector<std::uint8_t> row(sight.keys());
    sight.row(q, 0, sight.keys(), row.data());
    counts.push_back(static_cast<std::int32_t>(std::count(row.begin(), row.end(), std::uint8_t{1})));
  }
  return counts;
}

Mask windowed(std::int32_t size, WindowConvention convention = WindowConvention::kCountsCurrent, std::int32_t sinks = 0) {
  Mask mask;
  mask.window = Window{size, convention, sinks};
  return mask;
}

}  // namespace

TEST_CASE("mask: causal is aligned with the end when queries continue a cache (A16, A17, A18)") {
  CHECK(seen(Mask{}, Positions::range(2, 3), Positions::range(5)) == Ints{4, 5});
  CHECK(seen(Mask{}, Positions::range(4), Positions::range(4)) == Ints{1, 2, 3, 4});
  // More queries than keys: the first three stand before every key and see nothing.
  CHECK(seen(Mask{}, Positions::range(5), Positions::range(2, 3)) == Ints{0, 0, 0, 1, 2});
}

TEST_CASE("mask: a window of W counts the current token unless the other convention is named (I10, I12, I13, I14)") {
  const Positions tokens = Positions::range(8);
  CHECK(seen(windowed(4), tokens, tokens) == Ints{1, 2, 3, 4, 4, 4, 4, 4});
  CHECK(seen(windowed(4, WindowConvention::kBeforeCurrent), tokens, tokens) == Ints{1, 2, 3, 4, 5, 5, 5, 5});
  CHECK(seen(windowed(3, WindowConvention::kBeforeCurrent), tokens, tokens) == seen(windowed(4), tokens, tokens));
  CHECK(seen(windowed(0, WindowConvention::kBeforeCurrent), tokens, tokens) == Ints(8, 1));
  CHECK(seen(windowed(1024), Positions::range(1, 5000), Positions::range(5001)) == Ints{1024});
  CHECK(seen(windowed(128), Positions::range(1, 500), Positions::range(501)) == Ints{128});
}

TEST_CASE("mask: the window of a decode step ends at the query, whatever the ring holds (I15, I16)") {
  CHECK(seen(windowed(128, WindowConvention::kBeforeCurrent), Positions::range(1, 255), Positions::range(256)) == Ints{129});
  CHECK(seen(windowed(1024), Positions::range(1, 5000), Positions::range(1023, 3977)) == Ints{1023});
}

TEST_CASE("mask: a chunk longer than the window leaves no row empty (I18)") {
  Ints expected;
  for (std::int32_t p = 10; p < 30; ++p) expected.push_back(std::min(p + 1, 8));
  CHECK(seen(windowed(8), Positions::range(20, 10), Positions::range(30)) == expected);
}

TEST_CASE("mask: bidirectional windows look both ways") {
  Mask mask = windowed(2);
  mask.direction = Direction::kBidirectional;
  CHECK(seen(mask, Positions::range(5), Positions::range(5)) == Ints{2, 3, 3, 3, 2});
  mask.window->convention = WindowConvention::kBeforeCurrent;
  CHECK(seen(mask, Positions::range(5), Positions::range(5)) == Ints{3, 4, 5, 4, 3});
}

TEST_CASE("mask: sinks stay visible outside the window, chunks end at their borders, prefixes see themselves") {
  CHECK(seen(windowed(2, WindowConvention::kCountsCurrent, 2), Positions::range(6), Positions::range(6)) ==
        Ints{1, 2, 3, 4, 4, 4});
  Mask chunked;
  chunked.chunk = 3;
  CHECK(seen(chunked, Positions::range(7), Positions::range(7)) == Ints{1, 2, 3, 1, 2, 3, 1});
  Mask prefixed;
  prefixed.prefix = {3};
  CHECK(seen(prefixed, Positions::range(5), Positions::range(5)) == Ints{3, 3, 3, 4, 5});
}

TEST_CASE("mask: order decides, not the position number (images share positions; division merges them)") {
  const Positions image = Positions::from_arrays(
      {.row_lengths = {4}, .position = {{0, 1, 1, 1}}, .order = {}, .segment = {}, .valid = {}});
  CHECK(seen(Mask{}, image, image) == Ints{1, 2, 3, 4});
  // Tokens handed over in another order than they stand see what they saw before.
  const Positions shuffled = Positions::from_arrays(
      {.row_lengths = {4}, .position = {{2, 0, 3, 1}}, .order = {2, 0, 3, 1}, .segment = {}, .valid = {}});
  CHECK(seen(Mask{}, shuffled, shuffled) == Ints{3, 1, 4, 2});
}

TEST_CASE("mask: segments are closed and padding is outside (B14, C04, C07)") {
  const Positions packed = Positions::packed(Ints{2, 3}, PackedPositions::kRunning);
  CHECK(seen(Mask{}, packed, packed) == Ints{1, 2, 1, 2, 3});
  Mask both;
  both.direction = Direction::kBidirectional;
  CHECK(seen(both, packed, packed) == Ints{2, 2, 3, 3, 3});
  const Positions mixed = Positions::from_padding_mask(1, 6, std::vector<std::uint8_t>{0, 0, 1, 1, 1, 0});
  CHECK(seen(Mask{}, mixed, mixed) == Ints{0, 0, 1, 2, 3, 0});
}

TEST_CASE("mask: the caller's own mask only takes away") {
  Mask mask;
  mask.visible = {1, 1, 0, 1};
  CHECK(seen(mask, Positions::range(2), Positions::range(2)) == Ints{1, 1});
}

TEST_CASE("mask: what is said of a tile holds for every pair in it") {
  std::mt19937 random(7);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int all = 0, none = 0;
  for (int trial = 0; trial < 400; ++trial) {
    Mask mask;
    if (pick(0, 2) == 0) mask.direction = Direction::kBidirectional;
    if (pick(0, 1)) mask.window = Window{pick(1, 90), pick(0, 1) ? WindowConvention::kCountsCurrent : WindowConvention::kBeforeCurrent, pick(0, 1) * pick(0, 70)};
    if (pick(0, 3) == 0) mask.chunk = pick(1, 80);
    if (pick(0, 3) == 0) mask.prefix = {pick(0, 120)};
    Positions keys = Positions::range(pick(1, 300));
    const int kind = pick(0, 3);
    if (kind == 1) keys = Positions::packed(Ints{pick(0, 90), pick(1, 90), pick(0, 90)}, PackedPositions::kRestart);
    if (kind == 2) keys = Positions::padded(Ints{pick(0, 200)}, 200, pick(0, 1) ? PaddingSide::kLeft : PaddingSide::kRight);
    const auto total = static_cast<int>(keys.tokens());
    const int start = pick(0, total - 1);
    const Positions queries = keys.slice(start, pick(1, total - start));
    const Visibility sight(mask, 0, view_of(queries, 0), view_of(keys, 0));
    for (int tile = 0; tile < 30; ++tile) {
      const auto q0 = static_cast<std::size_t>(pick(0, static_cast<int>(queries.tokens()) - 1));
      const auto q1 = std::min(q0 + static_cast<std::size_t>(pick(1, 16)), queries.tokens());
      auto k0 = static_cast<std::size_t>(pick(0, total - 1));
      if (pick(0, 1)) k0 = k0 / Visibility::kKeyBlock * Visibility::kKeyBlock;
      const auto k1 = std::min(k0 + static_cast<std::size_t>(pick(1, 130)), keys.tokens());
      std::size_t count = 0;
      for (std::size_t q = q0; q < q1; ++q) {
        for (std::size_t k = k0; k < k1; ++k) count += sight.sees(q, k) ? 1 : 0;
      }
      const auto coverage = sight.coverage(sight.summary(q0, q1), k0, k1);
      if (coverage == Visibility::Coverage::kAll) CHECK(count == (q1 - q0) * (k1 - k0));
      if (coverage == Visibility::Coverage::kNone) CHECK(count == 0);
      all += coverage == Visibility::Coverage::kAll;
      none += coverage == Visibility::Coverage::kNone;
    }
  }
  // The promises are made often enough to be worth something.
  CHECK(all > 500);
  CHECK(none > 1000);
}

TEST_CASE("mask: tiles far from a window or another document are known to be hidden without looking") {
  const Positions tokens = Positions::range(8192);
  const Mask mask = windowed(512);
  const Visibility sight(mask, 0, view_of(tokens, 0), view_of(tokens, 0));
  CHECK(sight.coverage(sight.summary(4096, 4160), 0, 64) == Visibility::Coverage::kNone);
  CHECK(sight.coverage(sight.summary(4096, 4160), 4160, 4224) == Visibility::Coverage::kNone);
  CHECK(sight.coverage(sight.summary(4096, 4160), 3712, 3776) == Visibility::Coverage::kAll);
  const Positions documents = Positions::packed(Ints(8, 64), PackedPositions::kRestart);
  const Mask causal;
  const Visibility packed(causal, 0, view_of(documents, 0), view_of(documents, 0));
  CHECK(packed.coverage(packed.summary(0, 64), 64, 128) == Visibility::Coverage::kNone);
  CHECK(packed.coverage(packed.summary(448, 512), 0, 448) == Visibility::Coverage::kNone);
}

TEST_CASE("mask: bad input is a sentence") {
  Mask mask = windowed(0);
  check_error(ErrorCode::kArgument, "attend: the window is 0, expected 1 to", [&] { require_mask("attend", mask); });
  mask = windowed(1, WindowConvention::kCountsCurrent, -1);
  check_error(ErrorCode::kArgument, "sinks is -1", [&] { require_mask("attend", mask); });
  mask = Mask{};
  mask.chunk = 0;
  check_error(ErrorCode::kArgument, "the chunk is 0", [&] { require_mask("attend", mask); });
  mask = Mask{};
  mask.prefix = {1, 2};
  check_error(ErrorCode::kShape, "prefixes hold 2 values, expected one for each row = 3",
              [&] { merged_mask("attend", mask, {}, 3); });
  const std::vector<std::uint8_t> visible(5);
  const std::vector<std::size_t> queries{2}, keys{3};
  check_error(ErrorCode::kShape, "the mask's rows hold 5 values", [&] { split_visible("attend", visible, queries, keys); });
}
