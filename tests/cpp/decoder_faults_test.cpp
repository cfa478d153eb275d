// Faults that users have met and that need a whole decoder to show, by id; what other tests of the decoder quote is there.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "decoder_models.hpp"
#include "locant/bias/custom.hpp"
#include "locant/decoder/generation.hpp"

using namespace locant;
using namespace locant::test;

namespace {

constexpr double kTolerance = 1e-4;
using Tokens = std::vector<std::int32_t>;

Decoder rotary_decoder() { return make(models()[0].config); }

DecoderConfig with_plan(const RotaryPlan& plan) {
  DecoderConfig config = small_config();
  for (LayerConfig& layer : config.layers) layer.rotation = plan;
  return config;
}

std::shared_ptr<const ScoreTerm> function(FunctionBias::Function f) { return std::make_shared<FunctionBias>(std::move(f)); }

}  // namespace

TEST_CASE("faults: a batch of prompts of unequal length speaks as each alone; one shared position would not (B09, B15)") {
  const std::vector<Tokens> prompts = {random_tokens(11, 1), random_tokens(3, 2), random_tokens(7, 3)};
  for (const Model& m : models()) {
    CAPTURE(m.name);
    Decoder decoder = make(m.config);
    GenerationConfig config;
    config.new_tokens = 8;
    const auto batch = generate(decoder, prompts, config);
    for (std::size_t r = 0; r < 3; ++r) {
      CHECK(batch[r].tokens == generate(decoder, std::span(prompts).subspan(r, 1), config)[0].tokens);
    }
  }
  // What a graph without positions does: the shorter row, padded to 11 columns, decodes at 11.
  Decoder decoder = rotary_decoder();
  Cache cache = decoder.make_cache(1, Capacity::kGrowing, 0, KeyStorage::kRotated, BackwardPositions::kAllow);
  step_logits(decoder, prompts[1], Positions::range(3), cache);
  const Tokens next = {5};
  const auto wrong = step_logits(decoder, next, Positions::range(1, 11), cache);
  Tokens text = prompts[1];
  text.push_back(5);
  const auto full = full_logits(decoder, text, Positions::range(4));
  CHECK(max_difference(wrong, std::span(full).last(61)) > 100 * kTolerance);
}

TEST_CASE("faults: a row of scores at float32's lowest is finite in every layer, and twice the lowest is not summed into NaN (B08, B12)") {
  constexpr double kLowest = std::numeric_limits<float>::lowest();
  const auto tokens = random_tokens(9, 4);
  DecoderConfig config = small_config();
  Decoder plain = make(config);
  const auto uniform = [&](const DecoderConfig& c) {
    Decoder decoder = make(c);
    const auto logits = full_logits(decoder, tokens, Positions::range(9));
    for (const float v : logits) REQUIRE(std::isfinite(v));
    return logits;
  };
  // The same number for every key: softmax does not notice it, but for the scores that it swallows. (The lowest number
  // itself becomes -infinity when scores are taken to base 2: a row that sees nothing, and mixes nothing.)
  for (LayerConfig& layer : config.layers) layer.score_terms = {function([&](std::int32_t, std::int64_t) { return kLowest; })};
  uniform(config);
  for (LayerConfig& layer : config.layers) layer.score_terms = {function([&](std::int32_t, std::int64_t) { return -1e38; })};
  DecoderConfig flat = small_config();
  for (LayerConfig& layer : flat.layers) layer.scale = 0;
  CHECK(max_difference(uniform(config), uniform(flat)) < kTolerance);
  // Twice: -infinity for every key but the token itself is that key alone, and for every key no key at all.
  for (LayerConfig& layer : config.layers) {
    const auto others = function([&](std::int32_t, std::int64_t displacement) { return displacement == 0 ? 0 : kLowest; });
    layer.score_terms = {others, others};
  }
  DecoderConfig alone = small_config();
  for (LayerConfig& layer : alone.layers) layer.mask.window = Window{.size = 1};
  CHECK(max_difference(uniform(config), uniform(alone)) < kTolerance);
  for (LayerConfig& layer : config.layers) {
    const auto all = function([&](std::int32_t, std::int64_t) { return kLowest; });
    layer.score_terms = {all, all};
  }
  uniform(config);
}

TEST_CASE("faults: a padded batch under ALiBi takes its positions from the mask (B08)") {
  Decoder decoder = make([] {
    DecoderConfig config = small_config();
    for (LayerConfig& layer : config.layers) layer.score_terms = {std::make_shared<Alibi>(alibi_slopes(4), AlibiForm::kKeyOnly)};
    return config;
  }());
  const auto text = random_tokens(4, 5);
  const std::vector<std::uint8_t> mask = {0, 0, 0, 1, 1, 1, 1};
  Tokens tokens(3, 0);
  tokens.insert(tokens.end(), text.begin(), text.end());
  CHECK(max_difference(full_logits(decoder, tokens, Positions::from_padding_mask(1, 7, mask)), full_logits(decoder, text, Positions::range(4))) < kTolerance);
}

TEST_CASE("faults: a step of two tokens after three cached ones sees four and five keys in every layer (A16, A17, A18)") {
  Decoder decoder = rotary_decoder();
  auto tokens = random_tokens(5, 6);
  const auto full = full_logits(decoder, tokens, Positions::range(5));
  Cache cache = decoder.make_cache();
  step_logits(decoder, std::span(tokens).first(3), Positions::range(3), cache);
  const auto got = step_logits(decoder, std::span(tokens).last(2), Positions::range(2, 3), cache);
  CHECK(max_difference(got, std::span(full).last(2 * 61)) < kTolerance);
  // The first of the two sees the cached keys, and not the second.
  Cache other = decoder.make_cache();
  step_logits(decoder, std::span(tokens).first(3), Positions::range(3), other);
  tokens[4] = (tokens[4] + 1) % 61;
  const auto changed = step_logits(decoder, std::span(tokens).last(2), Positions::range(2, 3), other);
  CHECK(std::equal(got.begin(), got.begin() + 61, changed.begin()));
}

TEST_CASE("faults: a plan that differs by length is the generation's from its first token on, or an error (E41, E43)") {
  // LongRoPE, original length 16: short factors up to and including 16, long ones from 17 on.
  LongRopeRule rule;
  rule.short_factors = {1, 1.1, 1.3, 2}, rule.long_factors = {1, 2, 4, 8}, rule.original_length = 16, rule.factor = 4;
  const auto plan = [&](std::int64_t length) { return resolve({.width = 8, .base = 1000, .pairing = Pairing::kHalfSplit}, rule, length); };
  CHECK(plan(16).same_rotation(plan(9)));
  CHECK(!plan(17).same_rotation(plan(16)));
  Decoder within = make(with_plan(plan(16))), beyond = make(with_plan(plan(17)));
  const auto tokens = random_tokens(17, 7);
  const auto full = full_logits(beyond, tokens, Positions::range(17));
  Cache cache = beyond.make_cache(), crossed = within.make_cache();
  step_logits(beyond, std::span(tokens).first(16), Positions::range(16), cache);
  step_logits(within, std::span(tokens).first(16), Positions::range(16), crossed);
  CHECK(max_difference(step_logits(beyond, std::span(tokens).last(1), Positions::range(1, 16), cache), std::span(full).last(61)) < kTolerance);
  check_error(ErrorCode::kPlanMismatch, "", [&] { step_logits(beyond, std::span(tokens).last(1), Positions::range(1, 16), crossed); });
  CHECK(crossed.rows(0) == 16);
  // And what a cache that does not look would have given.
  Cache unlooked = within.make_cache(1, Capacity::kGrowing, 0, KeyStorage::kUnrotated);
  step_logits(within, std::span(tokens).first(16), Positions::range(16), unlooked);
  CHECK(max_difference(step_logits(within, std::span(tokens).last(1), Positions::range(1, 16), unlooked), std::span(full).last(61)) > 100 * kTolerance);
}

TEST_CASE("faults: positions are whole numbers past 256, cached and full alike (A15, G08)") {
  Decoder decoder = rotary_decoder();
  const auto tokens = random_tokens(320, 8);
  const auto full = full_logits(decoder, tokens, Positions::range(320));
  Cache cache = decoder.make_cache();
  step_logits(decoder, std::span(tokens).first(255), Positions::range(255), cache);
  for (std::int32_t t = 255; t < 320; ++t) {
    const auto logits = step_logits(decoder, std::span(tokens).subspan(static_cast<std::size_t>(t), 1), Positions::range(1, t), cache);
    CHECK(max_difference(logits, std::span(full).subspan(static_cast<std::size_t>(t) * 61, 61)) < kTolerance);
  }
}

TEST_CASE("faults: a window counts from where its rows stand, not from where they lie in the cache (I16, A09)") {
  DecoderConfig config = models()[0].config;
  for (LayerConfig& layer : config.layers) layer.mask.window = Window{.size = 6};
  Decoder decoder = make(config);
  const auto tokens = random_tokens(30, 9);
  const auto full = full_logits(decoder, tokens, Positions::range(30));
  // Only the window is kept; the text stands at 5000 and on, so rows and positions have nothing in common.
  Cache cache = decoder.make_cache(1, Capacity::kFixed, 8);
  for (std::int32_t t = 0; t < 30; ++t) {
    const auto logits = step_logits(decoder, std::span(tokens).subspan(static_cast<std::size_t>(t), 1), Positions::range(1, 5000 + t), cache);
    CHECK(max_difference(logits, std::span(full).subspan(static_cast<std::size_t>(t) * 61, 61)) < kTolerance);
    cache.keep_window(0, 0, 5);
  }
  CHECK(cache.rows(0) == 5);
  CHECK(cache.positions(0).position()[0] == 5025);
}

TEST_CASE("faults: fragments of two caches are not laid end to end; a second document goes in at its own positions (I09)") {
  Decoder decoder = rotary_decoder();
  const auto tokens = random_tokens(16, 10);
  const auto full = full_logits(decoder, tokens, Positions::range(16));
  Cache cache = decoder.make_cache();
  step_logits(decoder, std::span(tokens).first(10), Positions::range(10), cache);
  // The second fragment with its own phases 0 .. 5 is refused; at 10 .. 15 it is the text.
  check_error(ErrorCode::kOrder, "", [&] { step_logits(decoder, std::span(tokens).last(6), Positions::range(6), cache); });
  CHECK(max_difference(step_logits(decoder, std::span(tokens).last(6), Positions::range(6, 10), cache), std::span(full).last(6 * 61)) < kTolerance);
}

TEST_CASE("faults: padding reads the padding row of a table, and counts as no position (F11, B05)") {
  DecoderConfig config = small_config();
  config.input_position = learned(40, 32, TableIndexing::roberta());
  Decoder decoder = make(config);
  const Tokens padded = {1, 13, 54, 0, 0}, text = {1, 13, 54};
  const std::vector<std::int32_t> lengths = {3};
  const auto a = full_logits(decoder, padded, Positions::padded(lengths, 5, PaddingSide::kRight));
  CHECK(max_difference(a, full_logits(decoder, text, Positions::range(3))) < kTolerance);
}
