#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "locant/attention/cache.hpp"
#include "locant/rotary/rules.hpp"
#include "locant/simd/tiles.hpp"
#include "support.hpp"

using namespace locant;
using locant::test::check_error;
using locant::test::max_difference;
using locant::test::random_values;
using Ints = std::vector<std::int32_t>;
using Rows = std::vector<std::size_t>;
using Floats = std::vector<float>;

namespace {

// Both sides compute in float32 over at most a few hundred keys of unit size; turning a key again adds half a
// unit in the last place each time.
constexpr double kTolerance = 2e-5;

constexpr AttentionShape kShape{4, 2, 8, 6};

std::shared_ptr<const Rotation> rotation(double base = 10000) {
  RotaryShape shape;
  shape.width = kShape.head_dim;
  shape.base = base;
  return std::make_shared<const Rotation>(resolve(shape), kShape.head_dim);
}

AttentionConfig config(bool rotary = true) {
  AttentionConfig c;
  c.shape = kShape;
  if (rotary) c.rotation = rotation();
  return c;
}

CacheConfig fixed(std::int64_t rows, std::int32_t layers = 1, std::int32_t sequences = 1) {
  CacheConfig c;
  c.shape = kShape;
  c.layers = layers;
  c.sequences = sequences;
  c.capacity = Capacity::kFixed;
  c.rows = rows;
  return c;
}

CacheConfig growing(std::int32_t layers = 1, std::int32_t sequences = 1) {
  CacheConfig c = fixed(0, layers, sequences);
  c.capacity = Capacity::kGrowing;
  return c;
}

// The q, k, v of some tokens.
struct Tensors {
  Floats q, k, v;
  Tensors() = default;
  Tensors(std::size_t tokens, unsigned seed)
      : q(random_values(tokens * 4 * 8, seed)), k(random_values(tokens * 2 * 8, seed + 1)), v(random_values(tokens * 2 * 6, seed + 2)) {}
  std::size_t tokens() const { return k.size() / 16; }
  Tensors slice(std::size_t first, std::size_t count) const {
    Tensors t;
    const auto cut = [&](const Floats& from, std::size_t width) {
      return Floats(from.begin() + static_cast<std::ptrdiff_t>(first * width), from.begin() + static_cast<std::ptrdiff_t>((first + count) * width));
    };
    t.q = cut(q, 32);
    t.k = cut(k, 16);
    t.v = cut(v, 12);
    return t;
  }
};

Floats full(const AttentionConfig& c, const Tensors& t, const Positions& positions) {
  Floats out(t.tokens() * 4 * 6);
  reference_attend(c, t.q, positions, t.k, t.v, positions, out);
  return out;
}

Floats step(const Attention& attention, Cache& cache, const Tensors& t, const Positions& positions, std::int32_t layer = 0) {
  Floats out(t.tokens() * 4 * 6);
  attention.attend(t.q, t.k, t.v, cache, cache.begin(positions), layer, out);
  return out;
}

Ints position_of(const Positions& p) { return {p.position().begin(), p.position().end()}; }
Ints order_of(const Positions& p) { return {p.order().begin(), p.order().end()}; }

}  // namespace

TEST_CASE("cache: any split of a prefill, then decode, equals the full forward (A01, A13, A15, A24)") {
  const std::size_t length = 37;
  const Tensors tokens(length, 1);
  for (const bool rotary : {true, false}) {
    for (const KeyStorage keys : {KeyStorage::kRotated, KeyStorage::kUnrotated}) {
      const Attention attention(config(rotary));
      const Floats expected = full(config(rotary), tokens, Positions::range(37));
      for (const std::vector<std::size_t>& split : std::vector<std::vector<std::size_t>>{{37}, {1, 36}, {36, 1}, {5, 16, 16}, {17, 15, 1, 4}, std::vector<std::size_t>(37, 1)}) {
        CacheConfig c = growing();
        c.keys = keys;
        Cache cache(c);
        Floats joined;
        std::size_t at = 0;
        for (const std::size_t count : split) {
          const Positions next = cache.next(Ints{static_cast<std::int32_t>(count)});
          CHECK(next.position()[0] == static_cast<std::int32_t>(at));
          const Floats out = step(attention, cache, tokens.slice(at, count), next);
          joined.insert(joined.end(), out.begin(), out.end());
          at += count;
        }
        CHECK(max_difference(joined, expected) < kTolerance);
        CHECK(cache.rows(0) == length);
      }
    }
  }
}

TEST_CASE("cache: an offset restarted at zero is refused, and changes the result where it is allowed (A01)") {
  const Tensors tokens(6, 9);
  const Attention attention(config());
  const Floats expected = full(config(), tokens, Positions::range(6));
  Cache strict(growing());
  step(attention, strict, tokens.slice(0, 5), Positions::range(5));
  check_error(ErrorCode::kOrder, "has order 0, but its segment already reaches 4", [&] { strict.begin(Positions::range(1)); });
  const Positions restarted = Positions::from_arrays({.row_lengths = {1}, .position = {{0}}, .order = {5}, .segment = {}, .valid = {}});
  check_error(ErrorCode::kOrder, "stands at position 0, but its segment already reaches 4", [&] { strict.begin(restarted); });
  const Floats right = step(attention, strict, tokens.slice(5, 1), strict.next(Ints{1}));
  CHECK(max_difference(right, Floats(expected.end() - 24, expected.end())) < kTolerance);

  CacheConfig c = growing();
  c.backward = BackwardPositions::kAllow;
  Cache lax(c);
  step(attention, lax, tokens.slice(0, 5), Positions::range(5));
  const Floats wrong = step(attention, lax, tokens.slice(5, 1), restarted);
  CHECK(max_difference(wrong, Floats(expected.end() - 24, expected.end())) > 1e-2);
}

TEST_CASE("cache: every layer of a step sees the same positions, whatever order layers are called in (A02, A04)") {
  const Attention attention(config());
  const Tensors first(5, 20), second(3, 30);
  const auto run = [&](const Ints& layer_order) {
    Cache cache(growing(4));
    std::vector<Floats> outs(4);
    for (const Tensors* t : {&first, &second}) {
      const Positions next = cache.next(Ints{static_cast<std::int32_t>(t->tokens())});
      const CacheStep s = cache.begin(next);
      for (const std::int32_t layer : layer_order) {
        Floats out(t->tokens() * 24);
        attention.attend(t->q, t->k, t->v, cache, s, layer, out);
        outs[static_cast<std::size_t>(layer)] = out;
      }
    }
    return outs;
  };
  const auto forward = run({0, 1, 2, 3}), backward = run({3, 1, 0, 2});
  for (std::size_t l = 0; l < 4; ++l) {
    CHECK(forward[l] == forward[0]);
    CHECK(backward[l] == forward[0]);
  }
}

TEST_CASE("cache: rows of a batch go on at their own offsets, alone as together (A21, A26, B01, B15)") {
  const Attention attention(config());
  const Tensors a(30, 40), b(25, 50), next(2, 60);
  Cache both(growing(1, 2));
  for (const PaddingSide side : {PaddingSide::kLeft, PaddingSide::kRight}) {
    both.clear(0);
    both.clear(1);
    // A padded prefill of 30 columns: the shorter row's padding gets no rows.
    Tensors padded(60, 70);
    const auto place = [&](const Tensors& from, std::size_t at) {
      std::copy(from.q.begin(), from.q.end(), padded.q.begin() + static_cast<std::ptrdiff_t>(at * 32));
      std::copy(from.k.begin(), from.k.end(), padded.k.begin() + static_cast<std::ptrdiff_t>(at * 16));
      std::copy(from.v.begin(), from.v.end(), padded.v.begin() + static_cast<std::ptrdiff_t>(at * 12));
    };
    place(a, 0);
    place(b, side == PaddingSide::kLeft ? 35 : 30);
    const Floats prefill = step(attention, both, padded, Positions::padded(Ints{30, 25}, 30, side));
    CHECK(both.rows(0) == 30);
    CHECK(both.rows(1) == 25);
    // Padded rows receive nothing.
    const std::size_t pad = (side == PaddingSide::kLeft ? 30 : 55) * 24;
    CHECK(std::all_of(prefill.begin() + static_cast<std::ptrdiff_t>(pad), prefill.begin() + static_cast<std::ptrdiff_t>(pad + 5 * 24), [](float x) { return x == 0; }));
    const Positions positions = both.next(Ints{1, 1});
    CHECK(position_of(positions) == Ints{30, 25});
    const Floats together = step(attention, both, next, positions);
    for (const std::int32_t row : {0, 1}) {
      Cache alone(growing());
      step(attention, alone, row == 0 ? a : b, Positions::range(row == 0 ? 30 : 25));
      const Floats out = step(attention, alone, next.slice(static_cast<std::size_t>(row), 1), alone.next(Ints{1}));
      CHECK(max_difference(out, Floats(together.begin() + row * 24, together.begin() + (row + 1) * 24)) == 0);
    }
  }
}

TEST_CASE("cache: what stays after an eviction stands where it stood (A07)") {
  const Attention attention(config());
  const Tensors tokens(8, 80);
  Cache cache(growing());
  step(attention, cache, tokens.slice(0, 7), Positions::range(7));
  cache.evict(0, Rows{2, 3, 4});
  CHECK(position_of(cache.positions(0)) == Ints{0, 1, 5, 6});
  CHECK(order_of(cache.positions(0)) == Ints{0, 1, 5, 6});
  // The next token follows the last position, not the number of rows.
  CHECK(position_of(cache.next(Ints{1})) == Ints{7});
  const Floats out = step(attention, cache, tokens.slice(7, 1), cache.next(Ints{1}));
  Tensors kept;
  for (const std::size_t t : {0, 1, 5, 6, 7}) {
    const Tensors one = tokens.slice(t, 1);
    kept.k.insert(kept.k.end(), one.k.begin(), one.k.end());
    kept.v.insert(kept.v.end(), one.v.begin(), one.v.end());
  }
  const Positions where = Positions::from_arrays({.row_lengths = {5}, .position = {{0, 1, 5, 6, 7}}, .order = {0, 1, 5, 6, 7}, .segment = {}, .valid = {}});
  Floats expected(24);
  reference_attend(config(), tokens.slice(7, 1).q, Positions::range(1, 7), kept.k, kept.v, where, expected);
  CHECK(max_difference(out, expected) < kTolerance);
}

TEST_CASE("cache: a shift turns the kept keys to their new positions and leaves their norm (I01, I02, I06, I09)") {
  // An attention factor, so that applying it twice would show.
  AttentionConfig c = config();
  RotaryPlan plan = c.rotation->plan();
  plan.attention_factor = 1.25;
  c.rotation = std::make_shared<const Rotation>(plan, kShape.head_dim);
  const Attention attention(c);
  const Tensors tokens(13, 90);
  Cache cache(growing());
  step(attention, cache, tokens.slice(0, 12), Positions::range(12));
  const auto norm = [&](std::size_t row) {
    Floats key(8), value(6);
    cache.read(0, 0, 1, row, key, value);
    double sum = 0;
    for (const float x : key) sum += static_cast<double>(x) * x;
    return std::sqrt(sum);
  };
  const double before = norm(8);
  // Window 8 with 4 sinks, as StreamingLLM has it: sinks keep 0..3, the last 4 rows move from 8..11 to 4..7.
  cache.keep_window(0, 4, 4);
  cache.shift(0, 4, 8, -4);
  CHECK(position_of(cache.positions(0)) == Ints{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(std::abs(norm(4) - before) < 1e-5);
  const Positions next = cache.next(Ints{1});
  CHECK(position_of(next) == Ints{8});
  const Floats out = step(attention, cache, tokens.slice(12, 1), next);
  Tensors kept;
  for (const std::size_t t : {0, 1, 2, 3, 8, 9, 10, 11, 12}) {
    const Tensors one = tokens.slice(t, 1);
    kept.k.insert(kept.k.end(), one.k.begin(), one.k.end());
    kept.v.insert(kept.v.end(), one.v.begin(), one.v.end());
  }
  Floats expected(24);
  reference_attend(c, tokens.slice(12, 1).q, Positions::range(1, 8), kept.k, kept.v, Positions::range(9), expected);
  CHECK(max_difference(out, expected) < kTolerance);

  check_error(ErrorCode::kUnsupported, "baked into keys and values", [&] { cache.shift(0, 0, 4, 1, Cache::PositionsIn::kInput); });
  check_error(ErrorCode::kPositionRange, "position 0 would become -1", [&] { cache.shift(0, 0, 4, -1); });
  CHECK(position_of(cache.positions(0)) == Ints{0, 1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("cache: ten shifts there and back leave the keys what they were, attention factor and all") {
  AttentionConfig c = config();
  RotaryPlan plan = c.rotation->plan();
  plan.attention_factor = 1.139;
  c.rotation = std::make_shared<const Rotation>(plan, kShape.head_dim);
  const Attention attention(c);
  Cache cache(growing());
  step(attention, cache, Tensors(3, 5), Positions::range(3, 1000));
  Floats before(8), after(8), value(6);
  cache.read(0, 0, 0, 1, before, value);
  for (int i = 0; i < 10; ++i) {
    cache.shift(0, 0, 3, -777);
    cache.shift(0, 0, 3, 777);
  }
  cache.read(0, 0, 0, 1, after, value);
  CHECK(max_difference(before, after) < 1e-5);
}

TEST_CASE("cache: position division merges positions and keeps orders") {
  const Attention attention(config());
  const Tensors tokens(9, 100);
  Cache cache(growing());
  step(attention, cache, tokens.slice(0, 8), Positions::range(8));
  cache.divide(0, 0, 8, 4);
  CHECK(position_of(cache.positions(0)) == Ints{0, 0, 0, 0, 1, 1, 1, 1});
  CHECK(order_of(cache.positions(0)) == Ints{0, 1, 2, 3, 4, 5, 6, 7});
  const Floats out = step(attention, cache, tokens.slice(8, 1), cache.next(Ints{1}));
  Floats expected(24);
  const Positions where = Positions::from_arrays({.row_lengths = {9}, .position = {{0, 0, 0, 0, 1, 1, 1, 1, 2}}, .order = {}, .segment = {}, .valid = {}});
  reference_attend(config(), tokens.slice(8, 1).q, Positions::from_arrays({.row_lengths = {1}, .position = {{2}}, .order = {8}, .segment = {}, .valid = {}}),
                   tokens.k, tokens.v, where, expected);
  CHECK(max_difference(out, expected) < kTolerance);
}

TEST_CASE("cache: rewinding takes exactly the newest rows, or says why not (A08, A09)") {
  const Attention attention(config());
  const Tensors tokens(20, 110);
  Cache cache(growing());
  step(attention, cache, tokens.slice(0, 12), Positions::range(12));
  cache.keep_window(0, 0, 8);  // the window has wrapped
  cache.truncate(0, 5);
  CHECK(position_of(cache.positions(0)) == Ints{4, 5, 6, 7, 8});
  CHECK(position_of(cache.next(Ints{1})) == Ints{9});
  check_error(ErrorCode::kCacheState, "cannot keep 6 rows of sequence 0, which holds 5", [&] { cache.truncate(0, 6); });
  CHECK(cache.rows(0) == 5);
}

TEST_CASE("cache: a fork goes its own way") {
  const Attention attention(config());
  const Tensors tokens(9, 120);
  Cache cache(growing(1, 2));
  Floats out(7 * 24);
  const Tensors prefix = tokens.slice(0, 7);
  const Ints second{1}, first{0};
  attention.attend(prefix.q, prefix.k, prefix.v, cache, cache.begin(Positions::range(7), first), 0, out);
  cache.fork(0, 1);
  CHECK(cache.positions(1) == cache.positions(0));
  Floats a(24), b(24);
  const Tensors x = tokens.slice(7, 1), y = tokens.slice(8, 1);
  attention.attend(x.q, x.k, x.v, cache, cache.begin(cache.next(Ints{1}, first), first), 0, a);
  attention.attend(y.q, y.k, y.v, cache, cache.begin(cache.next(Ints{1}, second), second), 0, b);
  CHECK(cache.rows(0) == 8);
  CHECK(cache.rows(1) == 8);
  Tensors joined = tokens.slice(0, 7);
  for (auto [to, from] : {std::pair{&joined.q, &y.q}, {&joined.k, &y.k}, {&joined.v, &y.v}}) to->insert(to->end(), from->begin(), from->end());
  const Floats expected = full(config(), joined, Positions::range(8));
  CHECK(max_difference(b, Floats(expected.end() - 24, expected.end())) < kTolerance);
}

TEST_CASE("cache: keys turned under one plan never meet queries turned under another (E: dynamic rules)") {
  const Attention ten_thousand(config());
  AttentionConfig other = config();
  other.rotation = rotation(500000);
  const Attention half_a_million(other);
  const Tensors tokens(6, 130);
  Cache cache(growing());
  step(ten_thousand, cache, tokens.slice(0, 5), Positions::range(5));
  const CacheStep s = cache.begin(cache.next(Ints{1}));
  const Tensors last = tokens.slice(5, 1);
  Floats out(24);
  check_error(ErrorCode::kPlanMismatch, "layer 0", [&] { half_a_million.attend(last.q, last.k, last.v, cache, s, 0, out); });
  // The step is still open for the right plan.
  ten_thousand.attend(last.q, last.k, last.v, cache, s, 0, out);
  const Floats expected = full(config(), tokens, Positions::range(6));
  CHECK(max_difference(out, Floats(expected.end() - 24, expected.end())) < kTolerance);

  // Unrotated keys may meet any plan: the result is the full forward under the plan of the last call.
  CacheConfig c = growing();
  c.keys = KeyStorage::kUnrotated;
  Cache free(c);
  step(ten_thousand, free, tokens.slice(0, 5), Positions::range(5));
  const Floats changed = step(half_a_million, free, last, free.next(Ints{1}));
  const Floats under_other = full(other, tokens, Positions::range(6));
  CHECK(max_difference(changed, Floats(under_other.end() - 24, under_other.end())) < kTolerance);
}

TEST_CASE("cache: bad steps are sentences and leave the cache as it was") {
  const Attention attention(config());
  const Tensors tokens(6, 140);
  Cache cache(fixed(5, 2));
  check_error(ErrorCode::kCacheFull, "sequence 0 holds 0 rows and 6 more would pass its capacity of 5", [&] { cache.begin(Positions::range(6)); });
  const CacheStep open = cache.begin(Positions::range(5));
  check_error(ErrorCode::kCacheState, "layer 0 has not written the open step (0 of 2 layers have)", [&] { cache.begin(cache.next(Ints{1})); });
  check_error(ErrorCode::kCacheState, "layer 0 has not written", [&] { cache.truncate(0, 1); });
  const Tensors five = tokens.slice(0, 5);
  Floats out(5 * 24);
  attention.attend(five.q, five.k, five.v, cache, open, 1, out);
  check_error(ErrorCode::kCacheState, "layer 1 has written this step already", [&] { attention.attend(five.q, five.k, five.v, cache, open, 1, out); });
  check_error(ErrorCode::kArgument, "layer is 2, expected 0 to 1", [&] { attention.attend(five.q, five.k, five.v, cache, open, 2, out); });
  check_error(ErrorCode::kShape, "keys hold", [&] { attention.attend(five.q, tokens.k, five.v, cache, open, 0, out); });
  cache.cancel(open);
  CHECK(cache.rows(0) == 0);
  check_error(ErrorCode::kCacheState, "not the open one", [&] { cache.cancel(open); });
  check_error(ErrorCode::kCacheState, "step", [&] { attention.attend(five.q, five.k, five.v, cache, open, 0, out); });
  check_error(ErrorCode::kArgument, "sequence is 1, expected 0 to 0", [&] { cache.rows(1); });
  check_error(ErrorCode::kArgument, "sequence 0 is named by two rows", [&] { cache.begin(Positions::ragged(Ints{1, 1}), Ints{0, 0}); });
  check_error(ErrorCode::kCacheState, "row 0 of sequence 0", [&] { cache.evict(0, Rows{0}); });
  check_error(ErrorCode::kArgument, "kv_heads is 0", [] {
    CacheConfig c = growing();
    c.shape.kv_heads = 0;
    Cache bad(c);
  });
  check_error(ErrorCode::kArgument, "rows is 0, expected 1", [] { Cache bad(fixed(0)); });
  const CacheStep again = cache.begin(Positions::range(5));
  for (const std::int32_t layer : {0, 1}) attention.attend(five.q, five.k, five.v, cache, again, layer, out);
  check_error(ErrorCode::kCacheFull, "holds 5 rows and 1 more", [&] { cache.begin(cache.next(Ints{1})); });
  CHECK(cache.rows(0) == 5);
}

TEST_CASE("cache: memory that cannot be had is an error with the bytes, and the cache goes on") {
  CacheConfig c = growing();
  c.shape = {65536, 65536, 65536, 65536};
  c.rows = 1 << 20;
  check_error(ErrorCode::kOutOfMemory, "bytes of memory", [&] { Cache cache(c); });
  const Attention attention(config());
  Cache cache(growing());
  CHECK(step(attention, cache, Tensors(2, 3), Positions::range(2)).size() == 48);
}

TEST_CASE("cache: the last position ends a sequence with an error, not with a wrap") {
  const Attention attention(config());
  Cache cache(growing());
  step(attention, cache, Tensors(1, 3), Positions::range(1, kMaxPosition));
  check_error(ErrorCode::kPositionRange, "would reach 2147483648, past 2147483647", [&] { cache.next(Ints{1}); });
}

namespace {

// What a cache is, said naively: the kept tokens with their contents as given and where they stand.
struct NaiveToken {
  std::int32_t position, order, segment;
  std::vector<Floats> k, v;  // [layers]
};

struct NaiveSequence {
  std::vector<NaiveToken> tokens;

  Positions positions() const {
    PositionArrays a;
    a.row_lengths = {static_cast<std::int32_t>(tokens.size())};
    a.position.resize(1);
    for (const NaiveToken& t : tokens) {
      a.position[0].push_back(t.position);
      a.order.push_back(t.order);
      a.segment.push_back(t.segment);
    }
    return Positions::from_arrays(std::move(a));
  }
  // One more token: after the largest position and order of the last token's segment.
  Positions next() const {
    std::int32_t position = 0, order = 0;
    const std::int32_t segment = tokens.empty() ? 0 : tokens.back().segment;
    for (const NaiveToken& t : tokens) {
      if (t.segment != segment) continue;
      position = std::max(position, t.position + 1);
      order = std::max(order, t.order + 1);
    }
    return Positions::from_arrays({.row_lengths = {1}, .position = {{position}}, .order = {order}, .segment = {segment}, .valid = {}});
  }
  Floats contents(std::size_t layer, bool keys) const {
    Floats out;
    for (const NaiveToken& t : tokens) {
      const Floats& x = keys ? t.k[layer] : t.v[layer];
      out.insert(out.end(), x.begin(), x.end());
    }
    return out;
  }
};

}  // namespace

namespace {

// One step of several sequences of unequal counts, in one padded batch.
void together(const Attention& attention, const AttentionConfig& config, Cache& cache, std::vector<NaiveSequence*> models,
              const Ints& which, const Ints& counts, int layers, std::mt19937& random, double& worst) {
  const std::size_t columns = static_cast<std::size_t>(*std::max_element(counts.begin(), counts.end()));
  PositionArrays a;
  a.position.resize(1);
  std::vector<Positions> nexts;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    nexts.push_back(cache.next(Ints{counts[r]}, Ints{which[r]}));
    a.row_lengths.push_back(static_cast<std::int32_t>(columns));
    for (std::size_t c = 0; c < columns; ++c) {
      const bool valid = c < nexts[r].tokens();
      a.position[0].push_back(valid ? nexts[r].position()[c] : 0);
      a.order.push_back(valid ? nexts[r].order()[c] : 0);
      a.segment.push_back(valid ? nexts[r].segment()[c] : 0);
      a.valid.push_back(valid);
    }
    for (std::size_t t = 0; t < nexts[r].tokens(); ++t) {
      models[r]->tokens.push_back({nexts[r].position()[t], nexts[r].order()[t], nexts[r].segment()[t], {}, {}});
    }
  }
  const CacheStep open = cache.begin(Positions::from_arrays(std::move(a)), which);
  for (int l = layers; l-- > 0;) {
    const auto layer = static_cast<std::size_t>(l);
    const Tensors x(columns * counts.size(), static_cast<unsigned>(random()));
    for (std::size_t r = 0; r < counts.size(); ++r) {
      auto& tokens = models[r]->tokens;
      for (std::size_t t = 0; t < nexts[r].tokens(); ++t) {
        const Tensors one = x.slice(r * columns + t, 1);
        NaiveToken& token = tokens[tokens.size() - nexts[r].tokens() + t];
        token.k.resize(static_cast<std::size_t>(layers));
        token.v.resize(static_cast<std::size_t>(layers));
        token.k[layer] = one.k;
        token.v[layer] = one.v;
      }
    }
    Floats out(columns * counts.size() * 24);
    attention.attend(x.q, x.k, x.v, cache, open, l, out);
    for (std::size_t r = 0; r < counts.size(); ++r) {
      Floats expected(nexts[r].tokens() * 24);
      reference_attend(config, x.slice(r * columns, nexts[r].tokens()).q, nexts[r], models[r]->contents(layer, true),
                       models[r]->contents(layer, false), models[r]->positions(), expected);
      const auto first = out.begin() + static_cast<std::ptrdiff_t>(r * columns * 24);
      worst = std::max(worst, max_difference(Floats(first, first + static_cast<std::ptrdiff_t>(expected.size())), expected));
    }
  }
}

// Ten thousand random operations; the largest difference of any output from the reference.
double soak(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int steps = 0, operations = 0;
  double worst = 0;
  while (operations < 10000) {
    // Most programs stay within a block of 64 slots and meet its edges often, the others hold several blocks.
    const bool is_long = pick(0, 7) == 0;
    const int layers = pick(1, 2), sequences = pick(1, 3), limit = is_long ? pick(100, 300) : pick(4, 60);
    CacheConfig c = pick(0, 1) ? fixed(limit, layers, sequences) : growing(layers, sequences);
    if (pick(0, 2) == 0) c.keys = KeyStorage::kUnrotated;
    AttentionConfig ac = config(pick(0, 3) != 0);
    if (pick(0, 2) == 0) ac.mask.window = Window{pick(1, is_long ? 100 : 12), WindowConvention::kCountsCurrent, pick(0, 3)};
    const Attention attention(ac);
    Cache cache(c);
    std::vector<NaiveSequence> naive(static_cast<std::size_t>(sequences));
    for (int n = 0; n < 250; ++n, ++operations) {
      const int s = pick(0, sequences - 1);
      NaiveSequence& model = naive[static_cast<std::size_t>(s)];
      const int held = static_cast<int>(model.tokens.size());
      CHECK(cache.rows(s) == model.tokens.size());
      const int operation = pick(0, 19);
      if (operation < 12) {
        const int count = is_long ? pick(1, 40) : pick(1, 4);
        if (held + count > limit) {
          if (c.capacity == Capacity::kFixed) {
            CHECK_THROWS_AS(cache.begin(cache.next(Ints{count}, Ints{s}), Ints{s}), Error);
          }
          const int newest = is_long ? limit / 2 : 2;
          cache.keep_window(s, 2, static_cast<std::size_t>(newest));
          if (held > newest + 2) model.tokens.erase(model.tokens.begin() + 2, model.tokens.end() - newest);
          continue;
        }
        Positions next = cache.next(Ints{count}, Ints{s});
        if (pick(0, 5) == 0) {  // another document begins
          PositionArrays a;
          a.row_lengths = {count};
          a.position.resize(1);
          const std::int32_t segment = held == 0 ? 0 : model.tokens.back().segment + 1;
          for (std::int32_t i = 0; i < count; ++i) {
            a.position[0].push_back(i);
            a.order.push_back(i);
            a.segment.push_back(segment);
          }
          next = Positions::from_arrays(std::move(a));
        }
        if (sequences > 1 && pick(0, 3) == 0) {  // another sequence goes along, and is padded or pads
          const int other = (s + 1) % sequences;
          NaiveSequence& beside = naive[static_cast<std::size_t>(other)];
          if (c.capacity == Capacity::kFixed && static_cast<int>(beside.tokens.size()) + 1 > limit) continue;
          together(attention, ac, cache, {&model, &beside}, Ints{s, other}, Ints{count, 1}, layers, random, worst);
          ++steps;
          continue;
        }
        const CacheStep open = cache.begin(next, Ints{s});
        if (pick(0, 9) == 0) {
          cache.cancel(open);
          continue;
        }
        const std::size_t first = model.tokens.size();
        for (std::size_t t = 0; t < next.tokens(); ++t) model.tokens.push_back({next.position()[t], next.order()[t], next.segment()[t], {}, {}});
        for (int l = 0; l < layers; ++l) {
          const Tensors x(next.tokens(), static_cast<unsigned>(random()));
          for (std::size_t t = 0; t < next.tokens(); ++t) {
            const Tensors one = x.slice(t, 1);
            model.tokens[first + t].k.push_back(one.k);
            model.tokens[first + t].v.push_back(one.v);
          }
          Floats out(next.tokens() * 24), expected(out.size());
          attention.attend(x.q, x.k, x.v, cache, open, l, out);
          reference_attend(ac, x.q, next, model.contents(static_cast<std::size_t>(l), true), model.contents(static_cast<std::size_t>(l), false), model.positions(), expected);
          worst = std::max(worst, max_difference(out, expected));
          ++steps;
        }
      } else if (operation < 14 && held > 0) {
        Rows rows;
        for (int r = 0; r < held; ++r) {
          if (pick(0, is_long ? 31 : 3) == 0) rows.push_back(static_cast<std::size_t>(r));
        }
        cache.evict(s, rows);
        for (std::size_t i = rows.size(); i-- > 0;) model.tokens.erase(model.tokens.begin() + static_cast<std::ptrdiff_t>(rows[i]));
      } else if (operation == 14) {
        const int keep = pick(0, held);
        cache.truncate(s, static_cast<std::size_t>(keep));
        model.tokens.resize(static_cast<std::size_t>(keep));
      } else if (operation == 15) {
        const int to = pick(0, sequences - 1);
        cache.fork(s, to);
        naive[static_cast<std::size_t>(to)] = NaiveSequence(model);
      } else if (operation < 18 && held > 0) {
        const int first = pick(0, held), last = pick(first, held);
        const int delta = pick(-20, 40);
        bool possible = true;
        for (int r = first; r < last; ++r) possible = possible && model.tokens[static_cast<std::size_t>(r)].position + delta >= 0;
        if (possible) {
          cache.shift(s, static_cast<std::size_t>(first), static_cast<std::size_t>(last), delta);
          for (int r = first; r < last; ++r) model.tokens[static_cast<std::size_t>(r)].position += delta;
        } else {
          CHECK_THROWS_AS(cache.shift(s, static_cast<std::size_t>(first), static_cast<std::size_t>(last), delta), Error);
        }
      } else if (operation == 18 && held > 0) {
        const int first = pick(0, held), last = pick(first, held), divisor = pick(1, 4);
        cache.divide(s, static_cast<std::size_t>(first), static_cast<std::size_t>(last), divisor);
        for (int r = first; r < last; ++r) model.tokens[static_cast<std::size_t>(r)].position /= divisor;
      } else if (pick(0, 3) == 0) {
        cache.clear(s);
        model.tokens.clear();
      }
      CHECK(cache.positions(s) == model.positions());
      CHECK(cache.next(Ints{1}, Ints{s}) == model.next());
    }
  }
  CHECK(steps > 5000);
  return worst;
}

}  // namespace

TEST_CASE("cache: ten thousand random operations agree with a naive model, under every instruction set") {
  unsigned seed = 2024;
  for (const simd::InstructionSet set : simd::available_sets()) {
    simd::force_set(set);
    INFO("instruction set " << std::string(simd::to_string(set)));
    CHECK(soak(seed++) < kTolerance);
  }
  simd::force_set(simd::available_sets().front());
}
