// The decoder as a whole: the full forward, the cache in every split, batches of every shape, and bad input.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>

#include "decoder_models.hpp"
#include "locant/decoder/llama.hpp"

using namespace locant;
using namespace locant::test;

namespace {

// Sums in another order: a few float32 steps of the terms, through three layers; logits here are below 4.
constexpr double kTolerance = 1e-4;

Positions arrays(std::vector<std::int32_t> lengths, std::vector<std::int32_t> position, std::vector<std::int32_t> order,
                 std::vector<std::int32_t> segment = {}, std::vector<std::uint8_t> valid = {}) {
  PositionArrays out;
  out.row_lengths = std::move(lengths);
  out.position = {std::move(position)};
  out.order = std::move(order);
  out.segment = std::move(segment);
  out.valid = std::move(valid);
  return Positions::from_arrays(std::move(out));
}

Model named(std::string_view beginning) {
  for (Model& m : models()) {
    if (m.name.starts_with(beginning)) return m;
  }
  FAIL("no such model");
  return {};
}

std::vector<float> tail(const std::vector<float>& logits, std::size_t tokens, std::size_t vocabulary = 61) {
  return {logits.end() - static_cast<std::ptrdiff_t>(tokens * vocabulary), logits.end()};
}

}  // namespace

TEST_CASE("decoder: logits of any chunking equal the full forward's, for every positional method (A01, A13, A22, A24, H14)") {
  const auto tokens = random_tokens(40, 3);
  each_model([&](const Model&, Decoder& decoder) {
    const auto full = full_logits(decoder, tokens, Positions::range(40));
    for (const std::vector<std::int32_t>& chunks : std::vector<std::vector<std::int32_t>>{{40}, {13, 13, 14}, {39, 1}, {1, 39}, {7, 1, 1, 20, 11}, {}}) {
      std::vector<std::int32_t> split = chunks;
      if (split.empty()) split.assign(40, 1);
      Cache cache = decoder.make_cache();
      std::vector<float> cached;
      std::size_t at = 0;
      for (const std::int32_t count : split) {
        const std::array<std::int32_t, 1> counts = {count};
        const Positions next = cache.next(counts);
        CHECK(next.position()[0] == static_cast<std::int32_t>(at));  // chunk c starts where chunk c-1 ended
        const auto logits = step_logits(decoder, std::span(tokens).subspan(at, static_cast<std::size_t>(count)), next, cache);
        cached.insert(cached.end(), logits.begin(), logits.end());
        at += static_cast<std::size_t>(count);
      }
      CAPTURE(split.size());
      CHECK(max_difference(cached, full) < kTolerance);
      CHECK(cache.rows(0) == 40);
    }
  });
}

TEST_CASE("decoder: unrotated keys in the cache give the same logits") {
  const auto tokens = random_tokens(20, 4);
  each_model([&](const Model&, Decoder& decoder) {
    const auto full = full_logits(decoder, tokens, Positions::range(20));
    Cache cache = decoder.make_cache(1, Capacity::kFixed, 20, KeyStorage::kUnrotated);
    const std::vector<std::int32_t> split = {12, 1, 1, 1, 1, 1, 1, 1, 1};
    CHECK(max_difference(split_logits(decoder, tokens, Positions::range(20), split, cache), full) < kTolerance);
  });
}

TEST_CASE("decoder: ragged rows, left and right padding, mixed padding: each row as if alone (B01, B14)") {
  const std::vector<std::int32_t> lengths = {9, 1, 14, 6};
  each_model([&](const Model&, Decoder& decoder) {
    std::vector<std::vector<std::int32_t>> rows;
    std::vector<float> alone;
    for (std::size_t r = 0; r < lengths.size(); ++r) {
      rows.push_back(random_tokens(static_cast<std::size_t>(lengths[r]), 10 + r));
      const auto logits = full_logits(decoder, rows[r], Positions::range(lengths[r]));
      alone.insert(alone.end(), logits.begin(), logits.end());
    }
    const auto batch = [&](const Positions& positions, const auto& first_of) {
      // Ids at padded tokens are not read; these would be refused if they were.
      std::vector<std::int32_t> tokens(positions.tokens(), -7);
      for (std::int32_t r = 0; r < positions.rows(); ++r) {
        const auto row = static_cast<std::size_t>(r);
        std::copy(rows[row].begin(), rows[row].end(), tokens.begin() + static_cast<std::ptrdiff_t>(positions.row_begin(r) + first_of(row)));
      }
      return tokens;
    };
    const std::size_t columns = 16;
    const auto left = [&](std::size_t r) { return columns - static_cast<std::size_t>(lengths[r]); };
    const auto right = [](std::size_t) { return std::size_t{0}; };
    const auto both = [&](std::size_t r) { return r % 2 == 0 ? right(r) : left(r); };
    std::vector<std::uint8_t> mask(4 * columns, 0);
    for (std::size_t r = 0; r < 4; ++r) std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(r * columns + both(r)), lengths[r], 1);
    const Positions shapes[] = {Positions::ragged(lengths), Positions::padded(lengths, 16, PaddingSide::kLeft),
                                Positions::padded(lengths, 16, PaddingSide::kRight), Positions::from_padding_mask(4, 16, mask)};
    const std::vector<std::int32_t> tokens[] = {batch(shapes[0], right), batch(shapes[1], left), batch(shapes[2], right), batch(shapes[3], both)};
    for (std::size_t s = 0; s < 4; ++s) {
      CAPTURE(s);
      CHECK(max_difference(full_logits(decoder, tokens[s], shapes[s]), alone) < kTolerance);
      Cache cache = decoder.make_cache(4);
      CHECK(max_difference(step_logits(decoder, tokens[s], shapes[s], cache), alone) < kTolerance);
      // Each row then decodes at its own length, whatever the batch's width (B01).
      const std::vector<std::int32_t> one(4, 1);
      const Positions next = cache.next(one);
      for (std::size_t r = 0; r < 4; ++r) CHECK(next.position()[r] == lengths[r]);
      const auto more = random_tokens(4, 20);
      const auto decoded = step_logits(decoder, more, next, cache);
      for (std::size_t r = 0; r < 4; ++r) {
        auto text = rows[r];
        text.push_back(more[r]);
        const auto expected = tail(full_logits(decoder, text, Positions::range(lengths[r] + 1)), 1);
        CHECK(max_difference(std::span(decoded).subspan(r * 61, 61), expected) < kTolerance);
      }
    }
  });
}

TEST_CASE("decoder: a row without a valid token changes nothing in the others (B10, B11)") {
  each_model([&](const Model&, Decoder& decoder) {
    const auto tokens = random_tokens(16, 5);
    const std::vector<std::int32_t> lengths = {8, 0};
    const Positions positions = Positions::padded(lengths, 8, PaddingSide::kLeft);
    const auto alone = full_logits(decoder, std::span(tokens).first(8), Positions::range(8));
    CHECK(max_difference(full_logits(decoder, tokens, positions), alone) < kTolerance);
    std::vector<std::size_t> all(16);
    std::iota(all.begin(), all.end(), std::size_t{0});
    std::vector<float> logits(16 * 61);
    decoder.forward(tokens, positions, all, logits);
    for (const float v : logits) REQUIRE(std::isfinite(v));
  });
}

TEST_CASE("decoder: packed documents equal each alone, in one call and continued by the cache") {
  const std::vector<std::int32_t> lengths = {7, 1, 12};
  each_model([&](const Model&, Decoder& decoder) {
    const auto tokens = random_tokens(20, 6);
    std::vector<float> alone;
    std::size_t at = 0;
    for (const std::int32_t length : lengths) {
      const auto logits = full_logits(decoder, std::span(tokens).subspan(at, static_cast<std::size_t>(length)), Positions::range(length));
      alone.insert(alone.end(), logits.begin(), logits.end());
      at += static_cast<std::size_t>(length);
    }
    const Positions packed = Positions::packed(lengths, PackedPositions::kRestart);
    CHECK(max_difference(full_logits(decoder, tokens, packed), alone) < kTolerance);
    // The cut goes through the third document.
    Cache cache = decoder.make_cache();
    const std::vector<std::int32_t> split = {11, 9};
    CHECK(max_difference(split_logits(decoder, tokens, packed, split, cache), alone) < kTolerance);
  });
}

TEST_CASE("decoder: a packed document changes nothing in another, to the bit, whether positions restart or run on (C04, C07, C08)") {
  const std::vector<std::int32_t> lengths = {9, 6};
  auto tokens = random_tokens(15, 15), other = tokens;
  for (std::size_t t = 0; t < 9; ++t) other[t] = (other[t] + 1) % 61;
  each_model([&](const Model&, Decoder& decoder) {
    for (const PackedPositions positions : {PackedPositions::kRestart, PackedPositions::kRunning}) {
      const Positions packed = Positions::packed(lengths, positions);
      const auto a = full_logits(decoder, tokens, packed), b = full_logits(decoder, other, packed);
      CHECK(tail(a, 6) == tail(b, 6));
      CHECK(max_difference(std::span(a).first(9 * 61), std::span(b).first(9 * 61)) > 0.1);
    }
  });
}

TEST_CASE("decoder: rows prefilled apart and decoded together stand at their own positions (A21, A26, B15)") {
  each_model([&](const Model&, Decoder& decoder) {
    const auto first = random_tokens(8, 16), second = random_tokens(11, 17);
    Cache cache = decoder.make_cache(3);
    std::vector<float> unused(61);
    const std::size_t zero[] = {0};
    const std::int32_t to_two[] = {2}, to_zero[] = {0}, both[] = {2, 0};
    decoder.forward(std::span(first).first(7), Positions::range(7), cache, zero, unused, to_two);
    decoder.forward(std::span(second).first(10), Positions::range(10), cache, zero, unused, to_zero);
    const std::int32_t ones[] = {1, 1}, step[] = {first[7], second[10]};
    const Positions next = cache.next(ones, both);
    CHECK(next.position()[0] == 7);
    CHECK(next.position()[1] == 10);
    const std::size_t wanted[] = {0, 1};
    std::vector<float> logits(2 * 61);
    decoder.forward(step, next, cache, wanted, logits, both);
    CHECK(max_difference(std::span(logits).first(61), tail(full_logits(decoder, first, Positions::range(8)), 1)) < kTolerance);
    CHECK(max_difference(std::span(logits).last(61), tail(full_logits(decoder, second, Positions::range(11)), 1)) < kTolerance);
  });
}

TEST_CASE("decoder: rejected draft tokens leave no trace (A08, A09)") {
  each_model([&](const Model&, Decoder& decoder) {
    const auto tokens = random_tokens(14, 18), draft = random_tokens(5, 19);
    const auto full = full_logits(decoder, tokens, Positions::range(14));
    Cache cache = decoder.make_cache();
    step_logits(decoder, std::span(tokens).first(10), Positions::range(10), cache);
    step_logits(decoder, draft, Positions::range(5, 10), cache);
    cache.truncate(0, 10);
    const std::int32_t four[] = {4};
    CHECK(max_difference(step_logits(decoder, std::span(tokens).last(4), cache.next(four), cache), tail(full, 4)) < kTolerance);
    check_error(ErrorCode::kCacheState, "", [&] { cache.truncate(0, 15); });
  });
}

TEST_CASE("decoder: far positions are as good as near ones for relative methods (A15)") {
  const auto tokens = random_tokens(12, 20);
  for (const Model& m : models()) {
    if (!std::holds_alternative<std::monostate>(m.config.input_position) || m.config.layers[2].temperature || m.name == "xPos") continue;
    CAPTURE(m.name);
    Decoder decoder = make(m.config);
    const auto near = full_logits(decoder, tokens, Positions::range(12));
    for (const std::int32_t offset : {257, 1'000'003, 2'000'000'000}) {
      std::vector<std::int32_t> position(12), order(12);
      std::iota(position.begin(), position.end(), offset);
      std::iota(order.begin(), order.end(), 0);
      const Positions far = arrays({12}, position, order);
      CHECK(max_difference(full_logits(decoder, tokens, far), near) < kTolerance);
      Cache cache = decoder.make_cache();
      CHECK(max_difference(split_logits(decoder, tokens, far, std::vector<std::int32_t>(12, 1), cache), near) < kTolerance);
    }
  }
}

TEST_CASE("decoder: upper layers stand at the step's positions, after a prefill of several tokens too (A04)") {
  // One layer's worth of positions for all layers is how the cache is made; this shows that being one step ahead in
  // the upper layers is not rounding.
  const auto tokens = random_tokens(8, 7);
  each_model([&](const Model& m, Decoder& decoder) {
    const auto full = full_logits(decoder, tokens, Positions::range(8));
    const bool relative = !std::holds_alternative<std::monostate>(m.config.input_position) ? false : true;
    const auto run = [&](std::int32_t ahead) {
      Cache lower({.shape = m.config.shape(), .layers = 1}), upper({.shape = m.config.shape(), .layers = 2, .backward = BackwardPositions::kAllow});
      std::vector<float> out;
      for (const auto& [first, count] : {std::pair{0, 5}, std::pair{5, 3}}) {
        std::vector<std::int32_t> position(static_cast<std::size_t>(count)), order(position.size());
        std::iota(order.begin(), order.end(), first);
        std::iota(position.begin(), position.end(), first + ahead * count);
        const Positions here = Positions::range(count, first);
        CacheStep step = lower.begin(here);
        CacheStep other = upper.begin(arrays({count}, position, order));
        const std::vector<LayerRoute> routes = {{&lower, &step, 0}, {&upper, &other, 0}, {&upper, &other, 1}};
        const auto wanted = valid_tokens(here);
        std::vector<float> logits(wanted.size() * 61);
        decoder.forward(std::span(tokens).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)), here, routes, wanted, logits);
        out.insert(out.end(), logits.begin(), logits.end());
      }
      return max_difference(out, full);
    };
    CHECK(run(0) < kTolerance);
    if (relative) CHECK(run(1) > 100 * kTolerance);
  });
}

TEST_CASE("decoder: without positions it is blind to the order of what a token sees, with any method it is not") {
  const auto tokens = random_tokens(10, 8);
  auto swapped = tokens;
  std::reverse(swapped.begin(), swapped.end() - 1);
  // One layer, so that the causal mask has not told the tokens before the last where they stand.
  const auto difference = [&](DecoderConfig config) {
    config.layers.resize(1);
    Decoder decoder = make(config);
    const auto positions = Positions::range(10);
    return max_difference(tail(full_logits(decoder, tokens, positions), 1), tail(full_logits(decoder, swapped, positions), 1));
  };
  CHECK(difference(small_config()) < kTolerance);
  for (const Model& m : models()) {
    CAPTURE(m.name);
    CHECK(difference(m.config) > 100 * kTolerance);
  }
}

TEST_CASE("decoder: a prefix that sees itself both ways, cached or not") {
  Decoder decoder = make(models()[0].config);
  const auto tokens = random_tokens(12, 9);
  const std::vector<std::int32_t> prefix = {5};
  const CallMask mask{.prefix = prefix, .visible = {}};
  const auto wanted = valid_tokens(Positions::range(12));
  std::vector<float> full(12 * 61), first(6 * 61), rest(6 * 61);
  decoder.forward(tokens, Positions::range(12), wanted, full, mask);
  Cache cache = decoder.make_cache();
  const auto six = valid_tokens(Positions::range(6));
  decoder.forward(std::span(tokens).first(6), Positions::range(6), cache, six, first, {}, mask);
  decoder.forward(std::span(tokens).subspan(6), Positions::range(6, 6), cache, six, rest, {}, mask);
  first.insert(first.end(), rest.begin(), rest.end());
  CHECK(max_difference(first, full) < kTolerance);
  CHECK(max_difference(full, full_logits(decoder, tokens, Positions::range(12))) > 100 * kTolerance);
}

TEST_CASE("decoder: equal calls give equal bits, and wanted logits come in the order asked for") {
  Decoder decoder = make(models()[1].config), again = make(models()[1].config), other = make(models()[1].config, 2);
  const auto tokens = random_tokens(9, 10);
  const auto first = full_logits(decoder, tokens, Positions::range(9));
  full_logits(decoder, random_tokens(30, 11), Positions::range(30));
  CHECK(full_logits(decoder, tokens, Positions::range(9)) == first);
  CHECK(full_logits(again, tokens, Positions::range(9)) == first);
  CHECK(full_logits(other, tokens, Positions::range(9)) != first);
  const std::size_t wanted[] = {4, 0, 4};
  std::vector<float> some(3 * 61);
  decoder.forward(tokens, Positions::range(9), wanted, some);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(max_difference(std::span(some).subspan(i * 61, 61), std::span(first).subspan(wanted[i] * 61, 61)) < kTolerance);
  }
  std::vector<float> none;
  CHECK_NOTHROW(decoder.forward(tokens, Positions::range(9), {}, none));
  CHECK_NOTHROW(decoder.forward({}, Positions::range(0), {}, none));
}

TEST_CASE("decoder: last_tokens skips padding and empty rows") {
  const std::vector<std::int32_t> lengths = {2, 0, 4};
  CHECK(last_tokens(Positions::padded(lengths, 4, PaddingSide::kRight)) == std::vector<std::size_t>{1, 11});
  CHECK(last_tokens(Positions::padded(lengths, 4, PaddingSide::kLeft)) == std::vector<std::size_t>{3, 11});
}

TEST_CASE("decoder: prepared tables change no bit") {
  for (const Model& m : models()) {
    Decoder a = make(m.config), b = make(m.config);
    const std::size_t before = b.bytes();
    b.prepare(64);
    const auto tokens = random_tokens(20, 12);
    CHECK(full_logits(a, tokens, Positions::range(20, 40)) == full_logits(b, tokens, Positions::range(20, 40)));
    CHECK(b.bytes() >= before);
  }
}

TEST_CASE("decoder: memory is the weights once, and scratch of the largest call") {
  DecoderConfig config = small_config();
  config.vocabulary = 4096;
  Decoder decoder = make(config);
  CHECK(decoder.parameters() == 4096 * 32 + 3 * (2 * 32 + 32 * 32 * 2 + 2 * 32 * 16 + 3 * 32 * 48) + 32);
  CHECK(decoder.bytes() >= decoder.parameters() * 4);
  CHECK(decoder.bytes() < decoder.parameters() * 5);  // panels pad the last outputs and inputs
  full_logits(decoder, std::vector<std::int32_t>(50, 1), Positions::range(50));
  const std::size_t after = decoder.bytes();
  for (int i = 0; i < 3; ++i) full_logits(decoder, std::vector<std::int32_t>(50, 1), Positions::range(50));
  CHECK(decoder.bytes() == after);
}

TEST_CASE("decoder: bad input is refused in a sentence, and the cache stays as it was") {
  DecoderConfig config = models()[0].config;
  config.input_position = learned(10, 32);
  Decoder decoder = make(config);
  Cache cache = decoder.make_cache();
  const auto tokens = random_tokens(4, 13);
  step_logits(decoder, tokens, Positions::range(4), cache);
  const std::size_t wanted[] = {0};
  std::vector<float> logits(61);
  const auto step = [&](std::span<const std::int32_t> t, const Positions& p) { decoder.forward(t, p, cache, wanted, logits); };
  const std::vector<std::int32_t> one = {5}, negative = {-1}, big = {61};
  check_error(ErrorCode::kShape, "Decoder::forward: tokens hold 4 values, expected one for each position = 2", [&] { step(tokens, Positions::range(2, 4)); });
  check_error(ErrorCode::kArgument, "token 0 has the id -1, expected 0 to 60", [&] { step(negative, Positions::range(1, 4)); });
  check_error(ErrorCode::kArgument, "token 0 has the id 61, expected 0 to 60", [&] { step(big, Positions::range(1, 4)); });
  check_error(ErrorCode::kTableEnd, "10", [&] { step(one, Positions::range(1, 10)); });
  check_error(ErrorCode::kOrder, "", [&] { step(one, Positions::range(1, 2)); });
  check_error(ErrorCode::kArgument, "logits of token 7 are wanted, the batch has 1", [&] {
    const std::size_t seven[] = {7};
    decoder.forward(one, Positions::range(1, 4), cache, seven, logits);
  });
  check_error(ErrorCode::kShape, "logits hold 60 values, expected 1 wanted x a vocabulary of 61 = 61", [&] {
    decoder.forward(one, Positions::range(1, 4), cache, wanted, std::span(logits).first(60));
  });
  Cache other({.shape = {4, 2, 4, 8}, .layers = 3});
  check_error(ErrorCode::kShape, "the cache has 3 layers of 2 heads of 4 and 8, expected 3 of 2 of 8 and 8", [&] {
    decoder.forward(one, Positions::range(1, 4), other, wanted, logits);
  });
  check_error(ErrorCode::kShape, "routes hold 0 values", [&] { decoder.forward(one, Positions::range(1), std::span<const LayerRoute>{}, wanted, logits); });
  CHECK(cache.rows(0) == 4);
  CHECK_NOTHROW(step(one, Positions::range(1, 4)));
}

TEST_CASE("decoder: an error in the middle of a step takes its rows back") {
  // The second layer meets keys turned under another plan: the step has begun by then.
  DecoderConfig config = models()[0].config, other = config;
  other.layers[1].rotation = small_plan(Pairing::kHalfSplit, LinearRule{.factor = 2});
  Decoder decoder = make(config), odd = make(other);
  Cache cache = decoder.make_cache();
  const auto tokens = random_tokens(6, 14);
  step_logits(decoder, std::span(tokens).first(5), Positions::range(5), cache);
  check_error(ErrorCode::kPlanMismatch, "", [&] { step_logits(odd, std::span(tokens).subspan(5), Positions::range(1, 5), cache); });
  CHECK(cache.rows(0) == 5);
  const auto full = full_logits(decoder, tokens, Positions::range(6));
  CHECK(max_difference(step_logits(decoder, std::span(tokens).subspan(5), Positions::range(1, 5), cache), tail(full, 1)) < kTolerance);
}

TEST_CASE("decoder: configurations that cannot be are refused, with what is wrong") {
  const auto refuses = [](ErrorCode code, const char* part, auto&& change) {
    DecoderConfig config = models()[0].config;
    change(config);
    check_error(code, part, [&] { require_config("Decoder", config); });
  };
  refuses(ErrorCode::kArgument, "Decoder: vocabulary is 0, expected 1 to", [](auto& c) { c.vocabulary = 0; });
  refuses(ErrorCode::kArgument, "width is -1", [](auto& c) { c.width = -1; });
  refuses(ErrorCode::kArgument, "the number of layers is 0", [](auto& c) { c.layers.clear(); });
  refuses(ErrorCode::kArgument, "", [](auto& c) { c.kv_heads = 3; });
  refuses(ErrorCode::kArgument, "norm_epsilon is nan", [](auto& c) { c.norm_epsilon = NAN; });
  refuses(ErrorCode::kArgument, "norm_epsilon is -1", [](auto& c) { c.norm_epsilon = -1; });
  refuses(ErrorCode::kArgument, "layer 2: a decoder's mask is causal", [](auto& c) { c.layers[2].mask.direction = Direction::kBidirectional; });
  refuses(ErrorCode::kArgument, "layer 1: prefix", [](auto& c) { c.layers[1].mask.prefix = {2}; });
  refuses(ErrorCode::kArgument, "layer 0", [](auto& c) { c.layers[0].mask.window = Window{.size = 0}; });
  refuses(ErrorCode::kArgument, "layer 1", [](auto& c) { c.layers[1].rotation->start = 1; });
  refuses(ErrorCode::kArgument, "layer 0: a score term is missing", [](auto& c) { c.layers[0].score_terms.push_back(nullptr); });
  refuses(ErrorCode::kArgument, "layer 0: scale", [](auto& c) { c.layers[0].scale = NAN; });
  refuses(ErrorCode::kArgument, "the width of the sinusoidal encoding is 30", [](auto& c) { c.input_position = waves(30); });
  refuses(ErrorCode::kArgument, "the width of the position table is 31", [](auto& c) { c.input_position = learned(4, 31); });
  refuses(ErrorCode::kArgument, "cannot truncate", [](auto& c) { c.input_position = learned(4, 32, TableIndexing::from_zero(), PastEnd::kTruncate); });
}

TEST_CASE("decoder: weights that do not fit are refused, with the tensor") {
  const DecoderConfig config = small_config();
  Weights missing = random_weights(config, 1);
  missing.drop("model.layers.1.self_attn.k_proj.weight");
  check_error(ErrorCode::kArgument, "there is no tensor model.layers.1.self_attn.k_proj.weight, expected one of 16 x 32", [&] { Decoder(config, std::move(missing)); });
  Weights extra = random_weights(config, 1);
  extra.add({"lm_head.weight", {61, 32}});
  check_error(ErrorCode::kArgument, "lm_head.weight is not one that this configuration reads", [&] { Decoder(config, std::move(extra)); });
  Weights shaped = random_weights(config, 1);
  shaped.drop("model.norm.weight");
  shaped.add({"model.norm.weight", {33}});
  check_error(ErrorCode::kShape, "model.norm.weight is 33, expected 32", [&] { Decoder(config, std::move(shaped)); });
}

TEST_CASE("decoder: its weights are what it was given, to the bit, and a file of them makes the same decoder") {
  std::vector<DecoderConfig> configs;
  for (const Model& m : models()) configs.push_back(m.config);
  configs.push_back(small_config());
  TableConfig stretched = learned(16, 32, TableIndexing::bart(), PastEnd::kInterpolate);
  stretched.length = 40;
  configs.back().input_position = stretched;
  const auto tokens = random_tokens(12, 21);
  for (const DecoderConfig& config : configs) {
    const Weights given = random_weights(config, 4);
    Decoder decoder(config, given.clone());
    const Weights held = decoder.weights();
    REQUIRE(held.tensors() == given.tensors());
    for (std::size_t t = 0; t < given.tensors(); ++t) {
      CHECK(held.info(t) == given.info(t));
      CHECK(std::equal(held.values(t).begin(), held.values(t).end(), given.values(t).begin()));
    }
    const auto file = write_safetensors(held);
    const Safetensors source(file);
    Decoder again(config, load_weights(config, {&source, 1}));
    CHECK(full_logits(again, tokens, Positions::range(12)) == full_logits(decoder, tokens, Positions::range(12)));
  }
}

TEST_CASE("decoder: methods are described once each, with their layers") {
  const auto described = describe_methods(named("local and global").config);
  REQUIRE(described.size() == 2);
  CHECK(described[0].layers == std::vector<std::int32_t>{0});
  CHECK(described[1].layers == std::vector<std::int32_t>{1});
  const auto table = describe_methods(named("GPT-2").config);
  REQUIRE(table.size() == 1);
  CHECK(table[0].layers.empty());
  CHECK(table[0].method.door == Door::kInput);
  CHECK(describe_methods(small_config()).empty());
}

TEST_CASE("decoder: scale and soft cap are what attention itself takes, and no other") {
  for (const double scale : {0.0, 1e-6, 0.3, 1e6, -1.0, 1e-7, 1e7, 1e300, std::nan("")}) {
    CAPTURE(scale);
    const bool good = scale == 0 || (scale >= 1e-6 && scale <= 1e6);
    const auto refused = [&](auto&& call) {
      try {
        call();
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kArgument);
        return true;
      }
      return false;
    };
    DecoderConfig config = small_config();
    config.layers[1].scale = scale;
    AttentionConfig attention;
    attention.shape = config.shape();
    attention.scale = scale;
    CHECK(refused([&] { require_config("Decoder", config); }) == !good);
    CHECK(refused([&] { Attention made(attention); }) == !good);
    config.layers[1].scale.reset(), attention.scale.reset();
    config.layers[1].soft_cap = scale, attention.soft_cap = scale;
    CHECK(refused([&] { require_config("Decoder", config); }) == (!good || scale == 0));
    CHECK(refused([&] { Attention made(attention); }) == (!good || scale == 0));
  }
}
