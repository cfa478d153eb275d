// What a step costs and leaves behind: sequences that go on and on in a fixed capacity, ends that follow what is taken
// out, and steps that are taken back.
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "allocation.hpp"
#include "locant/attention/cache.hpp"
#include "locant/rotary/rules.hpp"
#include "support.hpp"

using namespace locant;
using namespace locant::test;
using Ints = std::vector<std::int32_t>;
using Rows = std::vector<std::size_t>;
using Floats = std::vector<float>;

namespace {

AttentionConfig one_head(std::int32_t window = 0) {
  AttentionConfig c;
  c.shape = {1, 1, 2, 2};
  RotaryShape shape;
  shape.width = 2;
  c.rotation = std::make_shared<const Rotation>(resolve(shape), 2);
  if (window > 0) c.mask.window = Window{window, WindowConvention::kCountsCurrent, 2};
  return c;
}

CacheConfig cache_config(Capacity capacity, std::int64_t rows, std::int32_t sequences = 1) {
  CacheConfig c;
  c.shape = {1, 1, 2, 2};
  c.capacity = capacity;
  c.rows = rows;
  c.sequences = sequences;
  return c;
}

void write(const Attention& attention, Cache& cache, const CacheStep& step) {
  const Floats x(step.positions().tokens() * 2, 0.5f);
  Floats out(x.size());
  attention.attend(x, x, x, cache, step, 0, out);
}

// Decodes in a cache of 40 rows that keeps 2 sinks and a window of 30 and goes on: at its last step it must say what it
// says of a sequence that was cut to the same rows.
void decode(std::int64_t steps) {
  const Attention attention(one_head(30));
  Cache cache(cache_config(Capacity::kFixed, 40));
  const Floats x{0.5f, -0.25f}, other{1.0f, 2.0f};
  Floats out(2);
  const Ints one{1};
  std::size_t bytes = 0, allocated = 0, grown = 0;
  for (std::int64_t i = 0; i < steps; ++i) {
    if (cache.rows(0) == 40) cache.keep_window(0, 2, 30);
    attention.attend(x, i % 7 == 0 ? other : x, i % 5 == 0 ? other : x, cache, cache.begin(cache.next(one)), 0, out);
    if (i == 2000) {
      bytes = cache.bytes();
      allocated = allocated_bytes();
      grown = grown_bytes();
    }
  }
  CHECK(cache.bytes() <= bytes + 30 * 13);  // the numbers of the slots that are in use now
  CHECK(allocated_bytes() <= allocated + 4096);  // less than a byte a step
  CHECK(grown_bytes() == grown);
  CHECK(cache.positions(0).position().back() == steps - 1);
  CHECK(cache.positions(0).position()[1] == 1);
  const Positions held = cache.positions(0);
  Floats keys, values, expected(2);
  for (const std::int32_t p : held.position()) {
    for (const float c : p % 7 == 0 ? other : x) keys.push_back(c);
    for (const float c : p % 5 == 0 ? other : x) values.push_back(c);
  }
  reference_attend(one_head(30), x, Positions::range(1, steps - 1), keys, values, held, expected);
  CHECK(max_difference(out, expected) < 1e-5);
}

}  // namespace

TEST_CASE("cache: twenty thousand decode steps at a fixed capacity leave memory flat") { decode(20'000); }

TEST_CASE("cache: a million decode steps at a fixed capacity leave memory flat" * doctest::skip()) { decode(1'000'000); }

TEST_CASE("cache: a step allocates what its tokens need, whatever is held, and documents held cost nothing") {
  const Attention attention(one_head(1));
  std::size_t few = 0;
  for (const std::int32_t documents : {1, 600}) {
    Cache cache(cache_config(Capacity::kFixed, 8'000));
    write(attention, cache, cache.begin(Positions::packed(Ints(static_cast<std::size_t>(documents), 6'000 / documents), PackedPositions::kRestart)));
    cache.cancel(cache.begin(cache.next(Ints{1})));
    const AllocationCount count;
    for (int i = 0; i < 100; ++i) cache.cancel(cache.begin(cache.next(Ints{1})));
    if (documents == 1) few = count.bytes();
    CHECK(count.bytes() == few);
    CHECK(count.bytes() < 100 * 1000);
  }
}

TEST_CASE("cache: a step that is taken back leaves no trace, in any document, whatever came before") {
  const Attention attention(one_head());
  Cache cache(cache_config(Capacity::kGrowing, 0, 3));
  write(attention, cache, cache.begin(Positions::ragged(Ints{5, 0, 9}), Ints{0, 1, 2}));
  cache.evict(0, Rows{1, 2});
  // Goes on in document 0, then opens 9 and 4, in that order.
  const Positions more = Positions::from_arrays({.row_lengths = {4, 2},
                                                 .position = {{7, 0, 0, 1, 3, 4}},
                                                 .order = {5, 0, 0, 1, 0, 1},
                                                 .segment = {0, 9, 4, 4, 2, 2},
                                                 .valid = {}});
  for (int i = 0; i < 3; ++i) {
    const Positions held[] = {cache.positions(0), cache.positions(1), cache.positions(2)};
    const Positions next = cache.next(Ints{2, 2, 2});
    const CacheStep step = cache.begin(more, Ints{0, 1});
    CHECK(cache.next(Ints{1}, Ints{0}).position()[0] == 2);
    CHECK(cache.next(Ints{1}, Ints{0}).segment()[0] == 4);
    if (i == 1) write(attention, cache, step);  // written or not
    cache.cancel(step);
    CHECK(cache.next(Ints{2, 2, 2}) == next);
    for (const std::int32_t s : {0, 1, 2}) CHECK(cache.positions(s) == held[s]);
    // The documents are new again: their orders begin at 0.
    cache.cancel(cache.begin(more, Ints{0, 1}));
  }
}

TEST_CASE("cache: what comes next follows what is left, when the newest, a whole document or shared positions go") {
  const Attention attention(one_head());
  Cache cache(cache_config(Capacity::kGrowing, 0));
  // An image of three tokens shares position 4; then one token of a document 3.
  write(attention, cache, cache.begin(Positions::from_arrays({.row_lengths = {6},
                                                              .position = {{2, 4, 4, 4, 0, 1}},
                                                              .order = {0, 1, 2, 3, 0, 1},
                                                              .segment = {0, 0, 0, 0, 3, 3},
                                                              .valid = {}})));
  CHECK(cache.next(Ints{1}).position()[0] == 2);
  cache.evict(0, Rows{5});
  CHECK(cache.next(Ints{1}).position()[0] == 1);
  CHECK(cache.next(Ints{1}).segment()[0] == 3);
  cache.evict(0, Rows{4});
  CHECK(cache.next(Ints{1}).position()[0] == 5);
  CHECK(cache.next(Ints{1}).order()[0] == 4);
  CHECK(cache.next(Ints{1}).segment()[0] == 0);
  cache.evict(0, Rows{1, 3});
  CHECK(cache.next(Ints{1}).position()[0] == 5);
  CHECK(cache.next(Ints{1}).order()[0] == 3);
  cache.evict(0, Rows{1});
  CHECK(cache.next(Ints{1}).position()[0] == 3);
  // The document that went may begin anew.
  const Positions again = Positions::from_arrays({.row_lengths = {1}, .position = {{0}}, .order = {0}, .segment = {3}, .valid = {}});
  write(attention, cache, cache.begin(again));
  check_error(ErrorCode::kOrder, "already reaches 0", [&] { cache.begin(again); });
  cache.clear(0);
  CHECK(cache.next(Ints{1}) == Positions::range(1));
}

TEST_CASE("cache: on several axes the next token follows the largest position of any") {
  AttentionConfig plain = one_head();
  plain.rotation = nullptr;
  const Attention attention(plain);
  Cache cache(cache_config(Capacity::kGrowing, 0));
  write(attention, cache, cache.begin(Positions::from_arrays({.row_lengths = {3},
                                                              .position = {{0, 1, 1}, {0, 1, 6}, {0, 9, 1}},
                                                              .order = {},
                                                              .segment = {},
                                                              .valid = {}})));
  const auto positions = [&] {
    const Positions next = cache.next(Ints{1});
    return Ints{next.position(0)[0], next.position(1)[0], next.position(2)[0]};
  };
  CHECK(positions() == Ints{10, 10, 10});
  cache.truncate(0, 1);
  CHECK(positions() == Ints{1, 1, 1});
}

TEST_CASE("cache: what a row that was taken out held reaches nobody, NaN and infinity included") {
  const Attention attention(one_head());
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const char* way : {"evict", "truncate", "cancel", "window", "clear"}) {
      INFO(std::string(way));
      Cache cache(cache_config(Capacity::kFixed, 100));
      Floats clean(40 * 2, 0.5f), out(80);
      Floats bad = clean;
      if (std::string(way) == "evict" || std::string(way) == "window") {
        for (std::size_t t = 3; t < 20; ++t) bad[2 * t] = bad[2 * t + 1] = poison;
      } else if (std::string(way) != "cancel") {
        for (std::size_t t = 20; t < 40; ++t) bad[2 * t] = bad[2 * t + 1] = poison;
      }
      attention.attend(clean, bad, bad, cache, cache.begin(cache.next(Ints{40})), 0, out);
      if (std::string(way) == "evict") {
        Rows rows;
        for (std::size_t t = 3; t < 20; ++t) rows.push_back(t);
        cache.evict(0, rows);
      } else if (std::string(way) == "window") {
        cache.keep_window(0, 2, 20);
      } else if (std::string(way) == "truncate") {
        cache.truncate(0, 20);
      } else if (std::string(way) == "clear") {
        cache.clear(0);
      } else {
        const CacheStep step = cache.begin(cache.next(Ints{30}));
        const Floats all(60, poison);
        Floats lost(60);
        attention.attend(all, all, all, cache, step, 0, lost);
        cache.cancel(step);
      }
      const Floats x{0.5f, 0.5f};
      Floats y(2);
      attention.attend(x, x, x, cache, cache.begin(cache.next(Ints{1})), 0, y);
      CHECK(y[0] == doctest::Approx(0.5));
      CHECK(y[1] == doctest::Approx(0.5));
    }
  }
}
