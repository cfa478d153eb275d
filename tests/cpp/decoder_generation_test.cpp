// Generation, and the two lanes of the cached-generation view.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <memory>

#include "decoder_models.hpp"
#include "locant/decoder/generation.hpp"
#include "locant/decoder/lanes.hpp"
#include "locant/simd/tiles.hpp"

using namespace locant;
using namespace locant::test;

namespace {

using Tokens = std::vector<std::int32_t>;

// Greedy by the full forward alone: the definition.
Tokens greedy_without_cache(Decoder& decoder, Tokens text, std::int32_t count) {
  Tokens out;
  std::vector<float> logits(static_cast<std::size_t>(decoder.config().vocabulary));
  for (std::int32_t i = 0; i < count; ++i) {
    const std::size_t last[] = {text.size() - 1};
    decoder.forward(text, Positions::range(static_cast<std::int64_t>(text.size())), last, logits);
    out.push_back(greedy_token(logits));
    text.push_back(out.back());
  }
  return out;
}

}  // namespace

TEST_CASE("generate: greedy gives what the full forward gives, for every method, any chunk, rows of unequal length") {
  for (const Model& m : models()) {
    CAPTURE(m.name);
    Decoder decoder = make(m.config);
    const std::vector<Tokens> prompts = {random_tokens(9, 1), random_tokens(1, 2), random_tokens(17, 3)};
    std::vector<Tokens> expected;
    for (const Tokens& prompt : prompts) expected.push_back(greedy_without_cache(decoder, prompt, 12));
    for (const std::int32_t chunk : {1, 4, 512}) {
      GenerationConfig config;
      config.new_tokens = 12, config.prefill_chunk = chunk;
      const auto rows = generate(decoder, prompts, config);
      REQUIRE(rows.size() == 3);
      for (std::size_t r = 0; r < 3; ++r) {
        CHECK(rows[r].tokens == expected[r]);
        CHECK(rows[r].reason == StopReason::kLength);
      }
    }
  }
}

TEST_CASE("generate: a row stops at its stop token and the others go on undisturbed") {
  Decoder decoder = make(models()[0].config);
  const std::vector<Tokens> prompts = {random_tokens(5, 1), random_tokens(8, 2), random_tokens(3, 4)};
  GenerationConfig config;
  config.new_tokens = 10;
  config.sampling = {.temperature = 1.0, .seed = 3};
  const auto free = generate(decoder, prompts, config);
  config.stop_tokens = {free[1].tokens[2], 60};
  const auto stopped = generate(decoder, prompts, config);
  for (std::size_t r = 0; r < 3; ++r) {
    const auto& tokens = stopped[r].tokens;
    REQUIRE(!tokens.empty());
    CHECK(std::equal(tokens.begin(), tokens.end(), free[r].tokens.begin()));
    const bool ended = tokens.back() == config.stop_tokens[0] || tokens.back() == 60;
    CHECK((stopped[r].reason == StopReason::kStopToken) == ended);
    if (!ended) CHECK(tokens.size() == 10);
  }
  CHECK(stopped[1].tokens.size() <= 3);
}

TEST_CASE("generate: draws are those of seed, row and step, whatever the batch") {
  Decoder decoder = make(models()[2].config);
  const std::vector<Tokens> prompts = {random_tokens(5, 1), random_tokens(8, 2)};
  GenerationConfig config;
  config.new_tokens = 8;
  config.sampling = {.temperature = 0.9, .top_k = 30, .top_p = 0.95, .seed = 42};
  const auto both = generate(decoder, prompts, config), again = generate(decoder, prompts, config);
  CHECK(both[0].tokens == again[0].tokens);
  CHECK(both[1].tokens == again[1].tokens);
  const auto first = generate(decoder, std::span(prompts).first(1), config);
  CHECK(both[0].tokens == first[0].tokens);
  config.sampling.seed = 43;
  CHECK(generate(decoder, prompts, config)[0].tokens != both[0].tokens);
}

TEST_CASE("generate: progress counts prompt tokens, then steps, and can end it") {
  Decoder decoder = make(models()[0].config);
  const std::vector<Tokens> prompts = {random_tokens(10, 1), random_tokens(4, 2)};
  GenerationConfig config;
  config.new_tokens = 6, config.prefill_chunk = 4;
  std::vector<std::size_t> prefill, decode;
  std::vector<Tokens> reported(2);
  const auto rows = generate(decoder, prompts, config, [&](const Progress& p) {
    (p.phase == Phase::kPrefill ? prefill : decode).push_back(p.done);
    CHECK(p.total == (p.phase == Phase::kPrefill ? 14u : 5u));
    for (std::size_t i = 0; i < p.rows.size(); ++i) reported[static_cast<std::size_t>(p.rows[i])].push_back(p.tokens[i]);
    return Continue::kYes;
  });
  CHECK(prefill == std::vector<std::size_t>{8, 12, 14});
  CHECK(decode == std::vector<std::size_t>{1, 2, 3, 4, 5});
  for (std::size_t r = 0; r < 2; ++r) CHECK(reported[r] == rows[r].tokens);

  Cache cache = decoder.make_cache(2);
  int steps = 0;
  const auto cut = generate(decoder, cache, prompts, config, [&](const Progress& p) {
    return p.phase == Phase::kDecode && ++steps == 2 ? Continue::kNo : Continue::kYes;
  });
  for (std::size_t r = 0; r < 2; ++r) {
    CHECK(cut[r].reason == StopReason::kCancelled);
    CHECK(cut[r].tokens == Tokens(rows[r].tokens.begin(), rows[r].tokens.begin() + 3));
  }
  // The cache can go on from there: it lacks only the last token of each row.
  CHECK(cache.rows(0) == 12);
  const std::vector<Tokens> rest = {{cut[0].tokens.back()}, {cut[1].tokens.back()}};
  config.new_tokens = 3;
  const auto more = generate(decoder, cache, rest, config);
  for (std::size_t r = 0; r < 2; ++r) CHECK(more[r].tokens == Tokens(rows[r].tokens.begin() + 3, rows[r].tokens.end()));
}

TEST_CASE("generate: bad input is refused before the cache changes; a full fixed cache says so") {
  Decoder decoder = make(models()[0].config);
  Cache cache = decoder.make_cache(1, Capacity::kFixed, 8);
  const std::vector<Tokens> good = {{1, 2, 3}}, empty = {{}}, big = {{1, 61}}, two = {{1}, {2}};
  check_error(ErrorCode::kArgument, "generate: the length of prompt 0 is 0", [&] { generate(decoder, cache, empty); });
  check_error(ErrorCode::kArgument, "a token of prompt 0 is 61, expected 0 to 60", [&] { generate(decoder, cache, big); });
  check_error(ErrorCode::kArgument, "the number of prompts is 2, expected 1 to 1", [&] { generate(decoder, cache, two); });
  check_error(ErrorCode::kArgument, "the number of prompts is 0", [&] { generate(decoder, std::span<const Tokens>{}); });
  GenerationConfig config;
  config.new_tokens = 0;
  check_error(ErrorCode::kArgument, "new_tokens is 0", [&] { generate(decoder, cache, good, config); });
  config = {};
  config.prefill_chunk = 0;
  check_error(ErrorCode::kArgument, "prefill_chunk is 0", [&] { generate(decoder, cache, good, config); });
  const std::vector<Tokens> nine = {Tokens(9, 1)};
  check_error(ErrorCode::kCacheFull, "generate: sequence 0 holds 0 rows and its prompt 9 tokens, the cache has room for 8",
              [&] { generate(decoder, cache, nine); });
  CHECK(cache.rows(0) == 0);
}

TEST_CASE("generate: a fixed cache that fills up, an error of a callback: the cache is as it was before the call") {
  Decoder decoder = make(models()[0].config);
  const auto text = random_tokens(5, 1);
  const std::vector<Tokens> prompts = {random_tokens(3, 2), random_tokens(2, 3)};
  Cache cache = decoder.make_cache(2, Capacity::kFixed, 8), untouched = decoder.make_cache(2, Capacity::kFixed, 8);
  for (Cache* c : {&cache, &untouched}) step_logits(decoder, text, Positions::range(5), *c);  // sequence 0 holds 5 rows
  GenerationConfig one;
  one.new_tokens = 1;
  int steps = 0;
  check_error(ErrorCode::kCacheFull, "", [&] {
    generate(decoder, cache, prompts, {}, [&](const Progress&) { return ++steps, Continue::kYes; });
  });
  CHECK(steps == 1);  // it had begun
  CHECK_THROWS_AS(generate(decoder, cache, prompts, one, [](const Progress&) -> Continue { throw 7; }), int);
  CHECK(cache.rows(0) == 5);
  CHECK(cache.rows(1) == 0);
  const auto rows = generate(decoder, cache, prompts, one), expected = generate(decoder, untouched, prompts, one);
  for (std::size_t r = 0; r < 2; ++r) CHECK(rows[r].tokens == expected[r].tokens);
  // An empty cache forgets the plan of what was taken back, too.
  DecoderConfig other = models()[0].config;
  other.layers[0].rotation = small_plan(Pairing::kHalfSplit, LinearRule{.factor = 2});
  Decoder odd = make(other);
  Cache small = decoder.make_cache(1, Capacity::kFixed, 4);
  check_error(ErrorCode::kCacheFull, "", [&] { generate(decoder, small, std::span(prompts).first(1)); });
  CHECK(small.rows(0) == 0);
  CHECK_NOTHROW(step_logits(odd, std::span(text).first(4), Positions::range(4), small));
}

TEST_CASE("generation: step by step gives what one call gives, with other steps of the decoder in between") {
  for (const Model& m : models()) {
    CAPTURE(m.name);
    Decoder decoder = make(m.config);
    const std::vector<Tokens> prompts = {random_tokens(9, 1), random_tokens(4, 2)};
    GenerationConfig config;
    config.new_tokens = 5, config.prefill_chunk = 4;
    config.sampling = {.temperature = 0.8, .seed = 9};
    const auto expected = generate(decoder, prompts, config);
    Cache cache = decoder.make_cache(2), other = decoder.make_cache(2);
    Generation generation(decoder, cache, prompts, config), beside(decoder, other, prompts, config);
    int steps = 0;
    while (!generation.ended()) {
      const Progress report = generation.step();
      CHECK((report.phase == Phase::kPrefill) == (steps < 3));
      ++steps;
      beside.step();
    }
    CHECK(steps == 3 + 4);
    CHECK(beside.ended());
    for (std::size_t r = 0; r < 2; ++r) {
      CHECK(generation.rows()[r].tokens == expected[r].tokens);
      CHECK(beside.rows()[r].tokens == expected[r].tokens);
    }
    check_error(ErrorCode::kCacheState, "generate: it has ended", [&] { generation.step(); });
    CHECK(cache.rows(0) == 9 + 4);
    generation.roll_back();
    CHECK(cache.rows(0) == 0);
    CHECK(cache.rows(1) == 0);
  }
}

TEST_CASE("generation: cancelled in the prefill, then taken up again") {
  Decoder decoder = make(models()[0].config);
  const std::vector<Tokens> prompts = {random_tokens(9, 1)};
  GenerationConfig config;
  config.new_tokens = 5, config.prefill_chunk = 4;
  const auto expected = generate(decoder, prompts, config);
  Cache cache = decoder.make_cache(1);
  Generation generation(decoder, cache, prompts, config);
  generation.step();
  generation.cancel();
  CHECK(generation.ended());
  CHECK(generation.rows()[0].reason == StopReason::kCancelled);
  CHECK(generation.rows()[0].tokens.empty());
  CHECK(cache.rows(0) == 4);
  const std::vector<Tokens> rest = {Tokens(prompts[0].begin() + 4, prompts[0].end())};
  CHECK(generate(decoder, cache, rest, config)[0].tokens == expected[0].tokens);
}

TEST_CASE("generation: what it wrote is taken back though the decoder is gone, whichever step it ended at") {
  const std::vector<Tokens> prompts = {random_tokens(5, 1)};
  GenerationConfig config;
  config.new_tokens = 3, config.prefill_chunk = 2;
  for (int steps = 1; steps <= 5; ++steps) {
    auto decoder = std::make_unique<Decoder>(make(models()[0].config));
    Cache cache = decoder->make_cache(1);
    Generation generation(*decoder, cache, prompts, config);
    for (int i = 0; i < steps; ++i) generation.step();
    CHECK(cache.rows(0) > 0);
    decoder.reset();
    generation.roll_back();
    CHECK(generation.ended());
    CHECK(cache.rows(0) == 0);
  }
}

TEST_CASE("generation: a cache that another call changed in between is noticed, and left as that call made it") {
  Decoder decoder = make(models()[0].config);
  const std::vector<Tokens> prompts = {random_tokens(4, 1)};
  GenerationConfig config;
  config.new_tokens = 6;
  const auto others = std::vector<std::function<void(Cache&)>>{
      [](Cache& cache) { cache.truncate(0, 1); },
      [](Cache& cache) { cache.evict(0, std::vector<std::size_t>{0}); },
      [&](Cache& cache) { generate(decoder, cache, prompts, config); },
      [](Cache& cache) { cache.cancel(cache.begin(cache.next(std::vector<std::int32_t>{1}))); },
  };
  for (const auto& other : others) {
    for (const bool roll_back : {false, true}) {
      Cache cache = decoder.make_cache(1);
      Generation generation(decoder, cache, prompts, config);
      generation.step(), generation.step();
      other(cache);
      const std::size_t rows = cache.rows(0);
      ErrorCode code{};
      try {
        roll_back ? generation.roll_back() : static_cast<void>(generation.step());
      } catch (const Error& error) {
        code = error.code();
      }
      CHECK(code == ErrorCode::kCacheState);
      CHECK(cache.rows(0) == rows);
      CHECK(generation.ended() != roll_back);
      CHECK(generate(decoder, cache, prompts, config)[0].tokens.size() == 6);
    }
  }
}

TEST_CASE("prefill: logits after every prompt are the full forward's, whatever the chunk") {
  for (const Model& m : models()) {
    CAPTURE(m.name);
    Decoder decoder = make(m.config);
    const std::vector<Tokens> prompts = {random_tokens(7, 1), random_tokens(1, 2), random_tokens(12, 3)};
    for (const std::int32_t chunk : {1, 5, 64}) {
      Cache cache = decoder.make_cache(3);
      Prefill prefill("prefill", decoder, cache, prompts, chunk);
      CHECK(prefill.total() == 20);
      while (!prefill.ended()) prefill.step();
      for (std::size_t r = 0; r < 3; ++r) {
        const auto full = full_logits(decoder, prompts[r], Positions::range(static_cast<std::int64_t>(prompts[r].size())));
        CHECK(max_difference(prefill.logits(static_cast<std::int32_t>(r)), std::span(full).last(61)) < 1e-4);
      }
      prefill.roll_back();
      for (std::int32_t r = 0; r < 3; ++r) CHECK(cache.rows(r) == 0);
    }
  }
}

TEST_CASE("generate: the same tokens and logits, to the bit, natively and as WebAssembly with the deterministic kernel") {
  // Natively the set without fused multiply-adds is asked for; WebAssembly without relaxed SIMD has no other.
  const auto sets = simd::available_sets();
  const auto plain = std::find_if(sets.begin(), sets.end(), [](simd::InstructionSet set) {
    return set == simd::InstructionSet::kSse2 || set == simd::InstructionSet::kSimd128 || set == simd::InstructionSet::kScalar;
  });
  if (plain == sets.end()) return;  // the relaxed build promises no bits
  const simd::InstructionSet before = simd::tiles().set;
  simd::force_set(*plain);
  std::uint64_t tokens_hash = 0, logits_hash = 0;
  for (const Model& m : models()) {
    if (m.name.starts_with("Gemma")) continue;
    Decoder decoder = make(m.config, 7);
    const std::vector<Tokens> prompts = {random_tokens(11, 1), random_tokens(3, 2)};
    GenerationConfig config;
    config.new_tokens = 20, config.prefill_chunk = 5;
    config.sampling = {.temperature = 1.1, .top_k = 40, .top_p = 0.98, .seed = 5};
    for (const GeneratedRow& row : generate(decoder, prompts, config)) {
      for (const std::int32_t token : row.tokens) tokens_hash = mix_bits(tokens_hash + static_cast<std::uint64_t>(token));
    }
    // Many rows at once, few, and one: products go other ways.
    Cache cache = decoder.make_cache();
    const std::vector<std::int32_t> split = {8, 2, 1};
    for (const auto& logits : {full_logits(decoder, prompts[0], Positions::range(11)), split_logits(decoder, prompts[0], Positions::range(11), split, cache)}) {
      for (const float v : logits) logits_hash = mix_bits(logits_hash + std::bit_cast<std::uint32_t>(v));
    }
  }
  simd::force_set(before);
  CHECK(tokens_hash == 15113230598074348706ull);
  CHECK(logits_hash == 10697061260449842652ull);
}

// ---- lanes --------------------------------------------------------------------------------------------

TEST_CASE("lanes: with the true offset they agree for every method, and text is the full lane's") {
  const auto prompt = random_tokens(6, 1);
  for (const Model& m : models()) {
    CAPTURE(m.name);
    Decoder decoder = make(m.config);
    for (const std::int32_t chunk : {1, 4, 512}) {
      LanesConfig config;
      config.steps = 10, config.prefill_chunk = chunk;
      const Lanes lanes = compare_lanes(decoder, prompt, config);
      REQUIRE(lanes.steps.size() == 11);
      CHECK(lanes.largest_difference < 1e-4);
      CHECK(!lanes.first_past_tolerance);
      CHECK(!lanes.first_other_token);
      const auto expected = greedy_without_cache(decoder, prompt, 11);
      for (std::size_t s = 0; s < lanes.steps.size(); ++s) {
        CHECK(lanes.steps[s].full_token == expected[s]);
        CHECK(lanes.steps[s].full_position == 5 + static_cast<std::int32_t>(s));
        CHECK(lanes.steps[s].cached_position == lanes.steps[s].full_position);
      }
    }
  }
}

TEST_CASE("lanes: an offset restarted or off by one shows at the first new token, with every method that reads positions") {
  const auto prompt = random_tokens(6, 1);
  for (const Model& m : models()) {
    CAPTURE(m.name);
    Decoder decoder = make(m.config);
    for (const Offset offset : {Offset::kRestarted, Offset::kOffByOne}) {
      LanesConfig config;
      config.steps = 10, config.offset = offset;
      const Lanes lanes = compare_lanes(decoder, prompt, config);
      CHECK(lanes.steps[0].difference < 1e-4);
      CHECK(lanes.steps[1].cached_position == (offset == Offset::kRestarted ? 0 : 7));
      CHECK(lanes.steps[10].cached_position == (offset == Offset::kRestarted ? 9 : 16));
      CHECK(lanes.largest_difference > 0.01);
      REQUIRE(lanes.first_past_tolerance.has_value());
      CHECK(*lanes.first_past_tolerance == 1);
    }
  }
  // Without positions there is nothing to be wrong about.
  Decoder blind = make(small_config());
  LanesConfig config;
  config.offset = Offset::kRestarted;
  CHECK(compare_lanes(blind, prompt, config).largest_difference < 1e-4);
}

TEST_CASE("lanes: bad input is refused") {
  Decoder decoder = make(models()[0].config);
  const Tokens prompt = {1, 2};
  LanesConfig config;
  check_error(ErrorCode::kArgument, "compare_lanes: the length of the prompt is 0", [&] { compare_lanes(decoder, {}, config); });
  config.steps = 0;
  check_error(ErrorCode::kArgument, "steps is 0", [&] { compare_lanes(decoder, prompt, config); });
  config = {};
  config.tolerance = 0;
  check_error(ErrorCode::kArgument, "tolerance is 0", [&] { compare_lanes(decoder, prompt, config); });
}
