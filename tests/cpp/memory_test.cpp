// Out of memory is an error with the bytes asked for, and everything is as it was: requests that no machine grants, and
// allocations that are made to fail one after another.
#include <cstdint>
#include <limits>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "allocation.hpp"
#include "locant/absolute/sinusoidal.hpp"
#include "locant/attention/cache.hpp"
#include "locant/memory.hpp"
#include "locant/position/grids.hpp"
#include "locant/rotary/rules.hpp"
#include "support.hpp"

using namespace locant;
using namespace locant::test;
using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

namespace {

// Runs a call that asks for `bytes` (0: any number above 4 GB), and checks what it says and that memory has not grown.
template <class Call>
void check_refused(double bytes, Call call) {
  const std::size_t grown = grown_bytes();
  try {
    call();
    FAIL_CHECK("nothing was thrown");
  } catch (const Error& error) {
    INFO("the sentence is: " << error.message());
    CHECK(std::string(to_string(error.code())) == "out-of-memory");
    if (bytes > 0) CHECK(error.value() == bytes);
    else CHECK(error.value() > 4294967296.0);
    CHECK(error.limit() > 0);
    CHECK(error.limit() <= error.value() * 1e7);  // what there is, not a NaN
  }
  CHECK(grown_bytes() == grown);
}

std::shared_ptr<const Rotation> rotation() {
  RotaryShape shape;
  shape.width = 4;
  return std::make_shared<const Rotation>(resolve(shape), 4);
}

AttentionConfig small() {
  AttentionConfig c;
  c.shape = {2, 1, 4, 4};
  c.rotation = rotation();
  return c;
}

}  // namespace

TEST_CASE("memory: failures inside with_memory are errors with the bytes that were said, other errors pass") {
  for (int kind = 0; kind < 2; ++kind) {
    try {
      with_memory("call", 12345678901.0, [&] {
        if (kind == 0) throw std::bad_alloc();
        throw std::length_error("vector");
      });
      FAIL_CHECK("nothing was thrown");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kOutOfMemory);
      CHECK(error.value() == 12345678901.0);
      CHECK(error.message() == "call: could not get 12345678901 bytes of memory");
    }
  }
  CHECK(with_memory("call", 1, [] { return 7; }) == 7);
  CHECK_THROWS_AS(with_memory("call", 1, []() -> int { throw std::runtime_error("x"); }), std::runtime_error);
  check_refused(1e30, [] { require_memory("call", 1e30); });
}

TEST_CASE("memory: sizes that pass the addresses are out of memory, not an argument, and not taken modulo 2^32") {
  check_refused(0, [] { checked_product("call", "x", {1 << 20, 1 << 20, 1 << 20, 1 << 20}); });
  CHECK(checked_product("call", "x", {0, 1 << 30, 1 << 30, 1 << 30}) == 0);
  check_error(ErrorCode::kArgument, "negative factor -1", [] { checked_product("call", "x", {-1, 1 << 30, 1 << 30}); });
  SinusoidalConfig config;
  config.width = 1048576;
  Sinusoidal encoding(config);
  check_refused(2147483648.0 * 1048576 * 4, [&] { encoding.prepare(std::int64_t{kMaxPosition} + 1); });
  config.width = 32;
  Sinusoidal narrow(config);
  if (sizeof(std::size_t) == 4) check_refused(17179869184.0, [&] { narrow.prepare(134217728); });
  Floats out(32);
  narrow.encode(Positions::range(1), out);
  CHECK(out[1] == 1.0f);
}

TEST_CASE("memory: positions that cannot be had are refused before any memory is touched") {
  const Ints none(2000, 0);
  // 2000 x (2^31 - 1) tokens of 13 bytes each, and 12 (8) bytes a row.
  const double bytes = 2000.0 * 2147483647.0 * 13 + 2000.0 * (4 + sizeof(std::size_t));
  check_refused(bytes, [&] { Positions::padded(none, kMaxPosition, PaddingSide::kLeft); });
  const Ints most(2000, kMaxPosition);
  check_refused(bytes, [&] { Positions::ragged(most); });
  check_refused(bytes, [&] { Positions::ragged(none).next(most); });
  CacheConfig c;
  c.shape = {1, 1, 1, 1};
  c.sequences = 2000;
  const Cache cache(c);
  check_refused(bytes, [&] { cache.next(most); });
  if (sizeof(std::size_t) == 4) {
    check_refused(2147483647.0 * 13 + 8, [] { Positions::range(kMaxPosition); });
    check_refused(0, [] {
      ImageGrid grid;
      grid.height = grid.width = 46340;
      grid_positions(grid);
    });
    std::vector<std::vector<Run>> rows(1);
    rows[0].push_back(TextRun{kMaxPosition});
    check_refused(0, [&] { multimodal_positions(rows, AfterGrid::kLargestPlusOne, PaddingSide::kLeft); });
  }
  CHECK(Positions::range(3).tokens() == 3);
}

TEST_CASE("memory: a cache that cannot be had says what all of it needs, and none of it is touched") {
  CacheConfig c;
  c.shape = {64, 64, 4096, 4096};
  c.layers = 1024;
  c.sequences = 64;
  c.rows = 1 << 20;
  // 2^16 stores of 2^20 rows x 64 heads x 8192 numbers: over 2^57 bytes.
  check_refused(0, [&] { Cache cache(c); });
  c.layers = 65536;
  c.sequences = 1 << 20;
  c.rows = 0;
  check_error(ErrorCode::kArgument, "layers x sequences is 68719476736, expected 1 to 16777216", [&] { Cache cache(c); });
}

TEST_CASE("memory: whichever allocation of begin() or next() fails, the cache is as it was and goes on") {
  const Attention attention(small());
  CacheConfig c;
  c.shape = small().shape;
  c.layers = 2;
  c.sequences = 3;
  int failures = 0;
  for (const bool is_held : {false, true}) {
    for (std::size_t nth = 0;; ++nth) {
      Cache cache(c), twin(c);
      const auto run = [&](Cache& to, const CacheStep& step) {
        const std::size_t tokens = step.positions().tokens();
        const Floats q(tokens * 8, 0.5f), k(tokens * 4, 0.25f);
        Floats out(tokens * 8);
        for (const std::int32_t layer : {0, 1}) attention.attend(q, k, k, to, step, layer, out);
        return out;
      };
      if (is_held) {
        for (Cache* each : {&cache, &twin}) {
          run(*each, each->begin(Positions::ragged(Ints{5, 15, 1})));
          each->evict(1, std::vector<std::size_t>{2, 3, 4});
        }
      }
      // Other documents, so that ends are added, and enough tokens that stores grow.
      PositionArrays arrays;
      arrays.row_lengths = {3, 70};
      arrays.position.resize(1);
      for (std::int32_t i = 0; i < 73; ++i) {
        arrays.position[0].push_back(i);
        arrays.order.push_back(i);
        arrays.segment.push_back(7 + i / 20);
      }
      const Positions tokens = Positions::from_arrays(std::move(arrays));
      const Ints which{2, 1};
      bool failed = false;
      try {
        FailingNew failing(nth);
        cache.begin(tokens, which);
        failed = failing.failed();
      } catch (const std::bad_alloc&) {
        failed = true;
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kOutOfMemory);
        failed = true;
      }
      if (!failed) break;
      ++failures;
      for (const std::int32_t s : {0, 1, 2}) {
        CHECK(cache.rows(s) == twin.rows(s));
        CHECK(cache.next(Ints{2}, Ints{s}) == twin.next(Ints{2}, Ints{s}));
        if (is_held) CHECK(cache.positions(s) == twin.positions(s));
      }
      CHECK(run(cache, cache.begin(tokens, which)) == run(twin, twin.begin(tokens, which)));
    }
  }
  CHECK(failures > 20);
}

TEST_CASE("memory: whichever allocation of making positions, a cache or a fork fails, it is an error or bad_alloc and nothing leaks") {
  const std::vector<std::uint8_t> mask{1, 0, 1, 1};
  CacheConfig c;
  c.shape = small().shape;
  c.sequences = 2;
  c.rows = 20;
  Cache cache(c);
  const Attention attention(small());
  const Floats q(8, 0.5f), k(4, 0.25f);
  Floats out(8);
  attention.attend(q, k, k, cache, cache.begin(Positions::ragged(Ints{1}), Ints{0}), 0, out);
  const std::vector<std::function<void()>> calls{
      [] { Positions::range(40); },
      [] { Positions::packed(Ints{3, 4}, PackedPositions::kRestart).next(Ints{2}).slice(0, 1).row(0); },
      [&] { Positions::from_padding_mask(2, 2, mask); },
      [&] { Cache made(c); },
      [&] { cache.fork(0, 1); },
      [&] { cache.positions(0); },
      [&] { attention.attend(q, k, k, Positions::range(1), out); },
  };
  for (const auto& call : calls) {
    call();
    const std::size_t before = allocated_bytes();
    for (std::size_t nth = 0;; ++nth) {
      bool failed = true;
      try {
        FailingNew failing(nth);
        call();
        failed = failing.failed();
      } catch (const std::bad_alloc&) {
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kOutOfMemory);
      }
      if (!failed) break;
    }
    CHECK(allocated_bytes() <= before + 4096);
  }
  CHECK(cache.rows(1) == 1);
}
