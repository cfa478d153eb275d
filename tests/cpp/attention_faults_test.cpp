// Reported faults of padding, masks, windows and shifts whose records ask for more than the other tests show. Each names
// its record.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "locant/absolute/learned_table.hpp"
#include "locant/attention/cache.hpp"
#include "locant/bias/alibi.hpp"
#include "locant/bias/custom.hpp"
#include "locant/rotary/rules.hpp"
#include "instruction_sets.hpp"
#include "support.hpp"

using namespace locant;
using namespace locant::test;
using Ints = std::vector<std::int32_t>;
using Rows = std::vector<std::size_t>;
using Floats = std::vector<float>;

namespace {

// float32 sums over at most 40 keys of unit size.
constexpr double kTolerance = 2e-5;
constexpr float kLowest = std::numeric_limits<float>::lowest(), kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int32_t kHeads = 2, kWidth = 8;

AttentionConfig config(bool rotary) {
  AttentionConfig c;
  c.shape = {kHeads, kHeads, kWidth, kWidth};
  if (rotary) {
    RotaryShape shape;
    shape.width = kWidth;
    c.rotation = std::make_shared<const Rotation>(resolve(shape), kWidth);
  }
  return c;
}

struct Tokens {
  Floats q, k, v;
  explicit Tokens(std::size_t count, unsigned seed = 1)
      : q(random_values(count * kHeads * kWidth, seed)), k(random_values(q.size(), seed + 1)), v(random_values(q.size(), seed + 2)) {}
};

std::span<const float> cut(const Floats& x, std::size_t first, std::size_t count) {
  return std::span(x).subspan(first * kHeads * kWidth, count * kHeads * kWidth);
}

Floats joined(const Floats& x, const Rows& rows) {
  Floats out;
  for (const std::size_t row : rows) {
    const auto part = cut(x, row, 1);
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

// A matrix of `fill` where the mask hides, 0 elsewhere, for every head.
std::shared_ptr<const ScoreTerm> additive(const std::vector<std::uint8_t>& visible, std::size_t tokens, float fill) {
  Floats matrix;
  for (const std::uint8_t seen : visible) matrix.push_back(seen ? 0 : fill);
  return std::make_shared<const MatrixBias>(1, static_cast<std::int64_t>(tokens), static_cast<std::int64_t>(tokens), matrix);
}

CacheConfig cache_config(KeyStorage keys = KeyStorage::kRotated) {
  CacheConfig c;
  c.shape = config(false).shape;
  c.keys = keys;
  return c;
}

}  // namespace

TEST_CASE("B08: positions come from the padding mask, and mask fills that are added twice hide without a NaN") {
  const Tokens tokens(5);
  const Positions padded = Positions::from_padding_mask(1, 5, std::vector<std::uint8_t>{0, 0, 1, 1, 1});
  CHECK(Ints(padded.position().begin() + 2, padded.position().end()) == Ints{0, 1, 2});
  // Two additive masks, each filled with the smallest number: their sum is -infinity in float32.
  std::vector<std::uint8_t> causal(25);
  for (std::size_t i = 0; i < 25; ++i) causal[i] = i % 5 <= i / 5;
  AttentionConfig twice = config(false), once = config(false);
  twice.mask.direction = Direction::kBidirectional;
  twice.score_terms = {additive(causal, 5, kLowest), additive(causal, 5, kLowest)};
  Floats out(tokens.q.size()), expected(out.size());
  reference_attend(once, tokens.q, Positions::range(5), tokens.k, tokens.v, Positions::range(5), expected);
  const Attention attention(twice);
  under_every_set([&] {
    attention.attend(tokens.q, tokens.k, tokens.v, Positions::range(5), out);
    CHECK(max_difference(out, expected) < kTolerance);
  });
}

TEST_CASE("B12, B10, B11: a row filled with the smallest number is finite, one of -infinity or hidden wholly is zero") {
  const Tokens tokens(4);
  for (const float fill : {kLowest, -kInfinity}) {
    std::vector<std::uint8_t> visible(16, 1);
    for (std::size_t k = 0; k < 4; ++k) visible[4 + k] = 0;
    AttentionConfig filled = config(false), plain = config(false), hidden = config(false);
    for (AttentionConfig* c : {&filled, &plain, &hidden}) c->mask.direction = Direction::kBidirectional;
    filled.score_terms = {additive(visible, 4, fill)};
    hidden.mask.visible = visible;
    Floats out(tokens.q.size()), open(out.size()), closed(out.size());
    under_every_set([&] {
      Attention(filled).attend(tokens.q, tokens.k, tokens.v, Positions::range(4), out);
      Attention(plain).attend(tokens.q, tokens.k, tokens.v, Positions::range(4), open);
      Attention(hidden).attend(tokens.q, tokens.k, tokens.v, Positions::range(4), closed);
      for (std::size_t i = 0; i < out.size(); ++i) {
        const std::size_t row = i / (kHeads * kWidth);
        CHECK(std::isfinite(out[i]));
        if (row == 1) {
          if (fill == -kInfinity) CHECK(out[i] == 0.0f);
          CHECK(closed[i] == 0.0f);
        } else {
          CHECK(out[i] == doctest::Approx(open[i]).epsilon(1e-5));
          CHECK(closed[i] == doctest::Approx(open[i]).epsilon(1e-5));
        }
      }
    });
  }
}

TEST_CASE("B09: a batch of unequal prompts has positions of its own for each row, and equal lengths taken for granted would show") {
  const Tokens tokens(12);
  const std::vector<std::uint8_t> mask{0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const Attention attention(config(true));
  Floats batch(tokens.q.size());
  attention.attend(tokens.q, tokens.k, tokens.v, Positions::from_padding_mask(2, 6, mask), batch);
  for (const std::size_t first : {3u, 6u}) {
    const std::size_t count = first == 3 ? 3 : 6;
    Floats alone(count * kHeads * kWidth);
    attention.attend(cut(tokens.q, first, count), cut(tokens.k, first, count), cut(tokens.v, first, count),
                     Positions::range(static_cast<std::int64_t>(count)), alone);
    CHECK(max_difference(alone, cut(batch, first, count)) < kTolerance);
  }
  // With an absolute table the assumption is not even invariant: row 0 would read rows 3, 4, 5 of it.
  TableConfig table;
  table.rows = 6;
  table.width = 1;
  const Floats values{10, 11, 12, 13, 14, 15};
  Floats read(12);
  LearnedTable(table, values).encode(Positions::from_padding_mask(2, 6, mask), read);
  CHECK(Floats(read.begin() + 3, read.end()) == Floats{10, 11, 12, 10, 11, 12, 13, 14, 15});
}

TEST_CASE("F11: padding has no running position: it reads the padding row, whatever stands before it") {
  // Ids 1, 13, 54, 0, 0 with padding id 0; RoBERTa's offset of 1 past the padding row 0 gives rows 1, 2, 3, 0, 0.
  const Positions positions = Positions::from_padding_mask(1, 5, std::vector<std::uint8_t>{1, 1, 1, 0, 0});
  CHECK(Ints(positions.position().begin(), positions.position().end()) == Ints{0, 1, 2, 0, 0});
  CHECK(Ints(positions.valid().begin(), positions.valid().end()) == Ints{1, 1, 1, 0, 0});
  TableConfig config;
  config.rows = 8;
  config.width = 1;
  config.indexing = TableIndexing::roberta(0);
  const Floats values{100, 101, 102, 103, 104, 105, 106, 107};
  const LearnedTable table(config, values);
  CHECK(table.rows_of(positions) == Ints{1, 2, 3, 0, 0});
}

TEST_CASE("I05, I02, A07: a shift equals attention at the new positions for either way of storing keys, and mixes never") {
  const Tokens tokens(13);
  const Attention attention(config(true));
  for (const KeyStorage keys : {KeyStorage::kRotated, KeyStorage::kUnrotated}) {
    Cache cache(cache_config(keys));
    Floats out(12 * kHeads * kWidth), last(kHeads * kWidth), expected(last.size());
    attention.attend(cut(tokens.q, 0, 12), cut(tokens.k, 0, 12), cut(tokens.v, 0, 12), cache, cache.begin(Positions::range(12)), 0, out);
    cache.keep_window(0, 4, 4);
    cache.shift(0, 4, 8, -4);
    attention.attend(cut(tokens.q, 12, 1), cut(tokens.k, 12, 1), cut(tokens.v, 12, 1), cache, cache.begin(cache.next(Ints{1})), 0, last);
    const Rows kept{0, 1, 2, 3, 8, 9, 10, 11, 12};
    reference_attend(config(true), cut(tokens.q, 12, 1), Positions::range(1, 8), joined(tokens.k, kept), joined(tokens.v, kept),
                     Positions::range(9), expected);
    CHECK(max_difference(last, expected) < kTolerance);
  }
}

TEST_CASE("I06: with ALiBi alone a shift renumbers and leaves every key as it is") {
  const Tokens tokens(9);
  AttentionConfig c = config(false);
  c.score_terms = {std::make_shared<const Alibi>(std::vector<double>{0.5, 0.25})};
  const Attention attention(c);
  Cache cache(cache_config());
  Floats out(8 * kHeads * kWidth), last(kHeads * kWidth), expected(last.size());
  attention.attend(cut(tokens.q, 0, 8), cut(tokens.k, 0, 8), cut(tokens.v, 0, 8), cache, cache.begin(Positions::range(8)), 0, out);
  cache.evict(0, Rows{0, 1, 2, 3});
  cache.shift(0, 0, 4, -4);
  Floats key(kWidth), value(kWidth);
  for (std::size_t row = 0; row < 4; ++row) {
    cache.read(0, 0, 1, row, key, value);
    CHECK(std::equal(key.begin(), key.end(), cut(tokens.k, row + 4, 1).begin() + kWidth));
  }
  CHECK(cache.next(Ints{1}).position()[0] == 4);
  attention.attend(cut(tokens.q, 8, 1), cut(tokens.k, 8, 1), cut(tokens.v, 8, 1), cache, cache.begin(cache.next(Ints{1})), 0, last);
  const Rows kept{4, 5, 6, 7, 8};
  reference_attend(c, cut(tokens.q, 8, 1), Positions::range(1, 4), joined(tokens.k, kept), joined(tokens.v, kept), Positions::range(5), expected);
  CHECK(max_difference(last, expected) < kTolerance);
}

TEST_CASE("A09, A08: a rewind behind a window equals the run without the rejected tokens just while the cache holds the window") {
  // Window 6; four drafted tokens are rejected. Keeping 6 + 4 - 1 rows before the draft is enough, one fewer is not.
  const Tokens tokens(30), draft(4, 50);
  AttentionConfig c = config(true);
  c.mask.window = Window{6};
  const Attention attention(c);
  for (const std::size_t kept : {9u, 8u, 5u, 4u}) {
    Cache cache(cache_config()), straight(cache_config());
    const auto feed = [&](Cache& to, const Tokens& from, std::size_t first, std::size_t count) {
      Floats out(count * kHeads * kWidth);
      attention.attend(cut(from.q, first, count), cut(from.k, first, count), cut(from.v, first, count), to,
                       to.begin(to.next(Ints{static_cast<std::int32_t>(count)})), 0, out);
      return out;
    };
    feed(cache, tokens, 0, 20);
    feed(straight, tokens, 0, 20);
    feed(cache, draft, 0, 4);
    cache.keep_window(0, 0, kept);
    cache.truncate(0, kept - 4);
    // What is left says so itself: how far back it reaches.
    const bool holds_window = kept >= 9;
    if (kept > 4) CHECK((cache.positions(0).order()[0] <= 20 - 5) == holds_window);
    if (kept == 4) {  // all that was kept was rejected: nothing says where the text stands any more
      CHECK(cache.rows(0) == 0);
      continue;
    }
    CHECK(cache.next(Ints{1}).position()[0] == 20);
    const double difference = max_difference(feed(cache, tokens, 20, 1), feed(straight, tokens, 20, 1));
    if (holds_window) CHECK(difference < kTolerance);
    else CHECK(difference > 1e-3);
  }
}

TEST_CASE("I16, I12, I18: over a cache the window is of orders: a ring that holds it sees all of it at any position") {
  const Tokens tokens(40);
  AttentionConfig c = config(true);
  c.mask.window = Window{8};
  const Attention attention(c);
  Floats expected(40 * kHeads * kWidth);
  reference_attend(c, tokens.q, Positions::range(40, 5000), tokens.k, tokens.v, Positions::range(40, 5000), expected);
  CacheConfig ring = cache_config();
  ring.capacity = Capacity::kFixed;
  ring.rows = 28;  // a chunk of 20 beside the window of 8
  Cache cache(ring);
  std::size_t at = 0;
  for (const std::size_t count : {8u, 20u, 1u, 1u, 7u, 3u}) {
    cache.keep_window(0, 0, 8);
    Floats out(count * kHeads * kWidth);
    attention.attend(cut(tokens.q, at, count), cut(tokens.k, at, count), cut(tokens.v, at, count), cache,
                     cache.begin(Positions::range(static_cast<std::int64_t>(count), static_cast<std::int64_t>(5000 + at))), 0, out);
    CHECK(max_difference(out, cut(expected, at, count)) < kTolerance);
    at += count;
  }
  CHECK(at == 40);
}
