// Every positional method of the library in a decoder, by configuration alone: the README's table of methods, row by row.
//
// One law after another for all of them: cached logits are those of the full forward at the same positions, whatever the
// split, the length of the rows, the padding and the packing; position is read; the audit tests pass, and fail where a
// fault is made. CoPE has no row: its bias is made of a layer's own queries and keys (cope.hpp) and plugs into attention,
// not into a decoder. DETR's mask counts and the pixel plans' fractions are of images, not of steps.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>

#include "decoder_models.hpp"
#include "locant/bias/custom.hpp"
#include "locant/bias/deberta.hpp"
#include "locant/bias/decay.hpp"
#include "locant/bias/fire.hpp"
#include "locant/bias/transformer_xl.hpp"
#include "locant/decoder/audit_tests.hpp"
#include "locant/rotary/axes.hpp"
#include "locant/rotary/layers.hpp"

using namespace locant;
using namespace locant::test;

namespace {

// Sums in another order, through three layers; logits are below 5.
constexpr double kTolerance = 1e-4;
constexpr std::int32_t kLength = 24;

struct Method {
  std::string name;
  DecoderConfig config;
  std::int32_t axes = 1;  // of the positions that it reads
};

// Positions of one axis as those of several, no two axes alike.
Positions over_axes(const Positions& p, std::int32_t axes) {
  if (axes == 1) return p;
  PositionArrays out;
  for (std::int32_t r = 0; r < p.rows(); ++r) out.row_lengths.push_back(static_cast<std::int32_t>(p.row_length(r)));
  const auto place = p.position();
  for (std::int32_t axis = 0; axis < axes; ++axis) {
    std::vector<std::int32_t> position;
    for (std::size_t t = 0; t < p.tokens(); ++t) position.push_back(axis == 0 ? place[t] : axis == 1 ? place[t] / 2 : place[t] % 5);
    out.position.push_back(std::move(position));
  }
  out.order.assign(p.order().begin(), p.order().end());
  out.segment.assign(p.segment().begin(), p.segment().end());
  out.valid.assign(p.valid().begin(), p.valid().end());
  return Positions::from_arrays(std::move(out));
}

std::vector<Method> methods() {
  std::vector<Method> out;
  const auto add = [&](std::string name, auto&& change, std::int32_t axes = 1) {
    out.push_back({std::move(name), small_config(), axes});
    change(out.back().config);
  };
  const auto input = [&](std::string name, InputPosition at, std::int32_t axes = 1) {
    add(std::move(name), [&](DecoderConfig& c) { c.input_position = at; }, axes);
  };
  const auto rotary = [&](std::string name, const RotaryPlan& plan, std::int32_t axes = 1) {
    add(std::move(name), [&](DecoderConfig& c) { for (LayerConfig& l : c.layers) l.rotation = plan; }, axes);
  };
  const auto rule = [&](std::string name, const RotaryRule& r, std::optional<std::int64_t> length = std::nullopt) {
    rotary(std::move(name), resolve({.width = 8, .base = 1000, .pairing = Pairing::kHalfSplit}, r, length));
  };
  const auto score = [&](std::string name, std::shared_ptr<const ScoreTerm> term, std::optional<double> scale = std::nullopt) {
    add(std::move(name), [&](DecoderConfig& c) { for (LayerConfig& l : c.layers) l.score_terms = {term}, l.scale = scale; });
  };

  // Door 1
  for (const SinusoidLayout layout : {SinusoidLayout::kInterleaved, SinusoidLayout::kConcatenated, SinusoidLayout::kTensor2Tensor, SinusoidLayout::kMlx}) {
    SinusoidalConfig config = waves(32);
    config.layout = layout, config.base = 100;
    input("sinusoidal, layout " + std::to_string(static_cast<int>(layout)), config);
  }
  SinusoidalConfig moved = waves(32);
  moved.order = SinusoidOrder::kCosineFirst, moved.position_offset = 2;
  input("sinusoidal, cosine first, from 2", moved);
  input("sinusoidal, two axes", GridSinusoidalConfig{.features = 32}, 2);
  input("sinusoidal, two axes, column first, steps that end at the base",
        GridSinusoidalConfig{.features = 32, .order = GridOrder::kColumnFirst, .steps = GridSteps::kEndsAtBase}, 2);
  input("learned table", learned(80, 32));
  input("learned table, RoBERTa", learned(80, 32, TableIndexing::roberta()));
  input("learned table, OPT", learned(80, 32, TableIndexing::opt()));
  input("learned table, BART", learned(80, 32, TableIndexing::bart()));
  input("learned table, clamped", learned(18, 32, TableIndexing::from_zero(), PastEnd::kClamp));
  TableConfig stretched = learned(16, 32, TableIndexing::from_zero(), PastEnd::kInterpolate);
  stretched.length = 80;
  input("learned table, stretched", stretched);

  // Door 2
  rotary("rotary, half-split", small_plan());
  rotary("rotary, interleaved", small_plan(Pairing::kInterleaved));
  rotary("rotary, partial", resolve({.width = 4, .base = 100, .start = 2}, DefaultRule{}, 64));
  rotary("rotary, decoupled: the last half of each head", resolve({.width = 4, .base = 100, .pairing = Pairing::kInterleaved, .start = 4}, DefaultRule{}, 64));
  rule("linear", LinearRule{.factor = 4});
  rule("NTK static", NtkRule{.factor = 4});
  rule("NTK of vLLM", VllmNtkRule{.factor = 4});
  rule("NTK of vLLM, mixed", VllmMixedNtkRule{.factor = 4, .b = 0.6});
  rule("dynamic NTK, resolved for the length to be reached", DynamicNtkRule{.factor = 2, .trained_length = 16}, 64);
  rule("YaRN", yarn(4, 16));
  YarnRule exact = yarn(4, 16);
  exact.ramp_ends = RampEnds::kExact, exact.mscale = 0.7, exact.mscale_all_dim = 0.9, exact.softmax_scale = SoftmaxScaleRule::kDeepSeek;
  rule("YaRN, exact ends, DeepSeek's scale", exact);
  for (const std::int64_t length : {16, 64}) {
    LongRopeRule longrope;
    longrope.short_factors = {1, 1.1, 1.3, 2}, longrope.long_factors = {1, 2, 4, 8}, longrope.original_length = 16, longrope.factor = 4;
    rule("LongRoPE, length " + std::to_string(length), longrope, length);
  }
  rule("Llama 3", Llama3Rule{.factor = 4, .original_length = 16});
  rule("p-RoPE", ProportionalRule{.fraction = 0.5});
  rotary("own frequencies", custom_plan({0.9, 0.2, 0, 0.01}));
  RotaryPlan xpos = small_plan();
  xpos.xpos = XPos{.gamma = 0.4, .scale_base = 64};
  rotary("xPos", xpos);
  const std::array<std::int32_t, 3> sections = {2, 1, 1};
  rotary("M-RoPE, chunked", with_axes(small_plan(), chunked_axes(sections)), 3);
  rotary("M-RoPE, interleaved", with_axes(small_plan(), interleaved_axes(sections)), 3);
  for (const AxialConvention convention : {AxialConvention::kQwen2Vl, AxialConvention::kPixtral, AxialConvention::kLlama4, AxialConvention::kRows}) {
    rotary("2-D axial, convention " + std::to_string(static_cast<int>(convention)), axial_plan(convention, 8, 100), 2);
  }

  // Door 3
  score("ALiBi", std::make_shared<Alibi>(alibi_slopes(4)));
  score("ALiBi, symmetric", std::make_shared<Alibi>(alibi_slopes(4), AlibiForm::kSymmetric));
  score("ALiBi, key only", std::make_shared<Alibi>(alibi_slopes(4), AlibiForm::kKeyOnly));
  score("T5, one direction", std::make_shared<T5Bias>(T5Buckets(T5Direction::kUnidirectional, 8, 20), 4, table_values(8 * 4, 70)), 1);
  score("T5, both directions", std::make_shared<T5Bias>(T5Buckets(T5Direction::kBidirectional, 8, 20), 4, table_values(8 * 4, 71)), 1);
  const ShawTableConfig shaw{.max_distance = 6, .heads = 1, .width = 8};
  score("Shaw, keys", std::make_shared<ShawKeys>(ShawTable(shaw, table_values(13 * 8, 72))));
  add("Shaw, keys and values", [&](DecoderConfig& c) {
    for (LayerConfig& l : c.layers) {
      l.score_terms = {std::make_shared<ShawKeys>(ShawTable(shaw, table_values(13 * 8, 72)))};
      l.value_term = std::make_shared<ShawValues>(ShawTable(shaw, table_values(13 * 8, 73)));
    }
  });
  for (const std::optional<std::int32_t> clamp : {std::optional<std::int32_t>(), std::optional<std::int32_t>(9)}) {
    const TransformerXlConfig xl{.heads = 4, .head_dim = 8, .model_width = 16, .clamp = clamp, .kept_before = 12};
    score(clamp ? "Transformer-XL, clamped" : "Transformer-XL",
          std::make_shared<TransformerXl>(xl, table_values(32 * 16, 74), table_values(32, 75), table_values(32, 76)));
  }
  const DebertaBuckets plain({.buckets = 0, .max_position = 12}), logs({.buckets = 8, .max_position = 32});
  const auto v1 = std::make_shared<Deberta>(plain, 4, 8, table_values(4 * 24 * 8, 77), std::vector<float>{});
  score("DeBERTa, content to position", v1, v1->scale());
  for (const DebertaPositionToContent convention : {DebertaPositionToContent::kCode, DebertaPositionToContent::kPaper}) {
    const auto v2 = std::make_shared<Deberta>(logs, 4, 8, table_values(4 * 16 * 8, 78), table_values(4 * 16 * 8, 79), convention);
    score("DeBERTa, both parts, convention " + std::to_string(static_cast<int>(convention)), v2, v2->scale());
  }
  score("KERPLE, logarithmic", std::make_shared<Kerple>(KerpleKernel::kLogarithmic, std::vector<double>{1, 0.5, 2, 0.3}, std::vector<double>{1, 2, 0.5, 3}));
  score("KERPLE, power", std::make_shared<Kerple>(KerpleKernel::kPower, std::vector<double>{0.3, 0.5, 0.2, 0.1}, std::vector<double>{1, 0.5, 1.5, 0.8}));
  score("Sandwich", std::make_shared<Sandwich>(4, 16));
  FireConfig fire;
  fire.threshold = 8, fire.w1 = {1.5, -2, 0.7}, fire.b1 = {0.1, 1, -0.2}, fire.b2 = {0, 0.2, -0.1, 0.3};
  fire.w2 = {-2, 1, 3, 1, -3, 2, -1, 2, 2, -2, -2, 1};
  score("FIRE", std::make_shared<Fire>(fire));
  score("own function", std::make_shared<FunctionBias>([](std::int32_t head, std::int64_t d) { return std::sin(0.7 * static_cast<double>(d + head)); }));
  score("own table", std::make_shared<DisplacementTable>(4, -10, 0, table_values(4 * 11, 80)));
  score("own matrix", std::make_shared<MatrixBias>(4, 96, 96, table_values(4 * 96 * 96, 81)));

  // Mixed by layer, and what makes positions felt without a method
  add("layers without position, every third", [](DecoderConfig& c) {
    const auto plans = LayerPlans::every_nth(3, 3, EveryNth::kLastOfGroup, std::nullopt, small_plan());
    for (std::int32_t i = 0; i < 3; ++i) {
      if (plans.plan(i)) c.layers[static_cast<std::size_t>(i)].rotation = *plans.plan(i);
    }
  });
  add("Gemma 3: local layers of another base", [](DecoderConfig& c) {
    for (std::size_t i = 0; i < 3; ++i) {
      c.layers[i].rotation = resolve({.width = 8, .base = i == 2 ? 5000.0 : 100.0, .pairing = Pairing::kHalfSplit}, DefaultRule{}, 64);
      if (i != 2) c.layers[i].mask.window = Window{.size = 7};
    }
  });
  add("temperature", [](DecoderConfig& c) {
    for (LayerConfig& l : c.layers) l.rotation = small_plan(), l.temperature = Temperature{.slope = 0.5, .period = 3};
  });
  add("all three doors at once", [](DecoderConfig& c) {
    c.input_position = waves(32);
    for (LayerConfig& l : c.layers) l.rotation = small_plan(), l.score_terms = {std::make_shared<Alibi>(alibi_slopes(4))};
  });
  add("a different method in each layer", [&](DecoderConfig& c) {
    c.layers[0].rotation = xpos;
    c.layers[1].score_terms = {std::make_shared<Sandwich>(4, 16), std::make_shared<T5Bias>(T5Buckets(T5Direction::kUnidirectional, 8, 20), 4, table_values(8 * 4, 82))};
    c.layers[2].score_terms = {v1};
  });
  return out;
}

std::vector<std::vector<std::int32_t>> splits() {
  return {{kLength}, {9, 15}, {23, 1}, {1, 23}, {7, 1, 1, 10, 5}, std::vector<std::int32_t>(kLength, 1)};
}

// A pseudo-random one, seeded by `which`: any split means any.
std::vector<std::int32_t> random_split(std::uint64_t which) {
  const CounterRandom random(which, stream_of("split"));
  std::vector<std::int32_t> out;
  for (std::int32_t left = kLength, i = 0; left > 0; left -= out.back(), ++i) {
    out.push_back(1 + static_cast<std::int32_t>(random.bits(static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(std::min(left, 9))));
  }
  return out;
}

}  // namespace

TEST_CASE("methods: the list holds each way once, and each door") {
  std::set<std::string> names, described;
  std::set<Door> doors;
  for (const Method& m : methods()) {
    CHECK(names.insert(m.name).second);
    for (const MethodInLayers& used : describe_methods(m.config)) {
      described.insert(used.method.name);
      doors.insert(used.method.door);
    }
  }
  CHECK(doors.size() == 3);
  // All that the library calls by a name of its own, but CoPE.
  CHECK(described.size() == 42);
}

TEST_CASE("methods: cached logits equal the full forward's at matched positions, in any split (A01, A13, A14, A22, A23, A24, H14)") {
  const auto tokens = random_tokens(kLength, 3);
  std::uint64_t which = 0;
  for (const Method& m : methods()) {
    CAPTURE(m.name);
    Decoder decoder = make(m.config);
    const Positions all = over_axes(Positions::range(kLength), m.axes);
    const auto full = full_logits(decoder, tokens, all);
    for (const float v : full) REQUIRE(std::isfinite(v));
    auto each = splits();
    each.push_back(random_split(++which));
    for (const auto& split : each) {
      for (const KeyStorage keys : {KeyStorage::kRotated, KeyStorage::kUnrotated}) {
        Cache cache = decoder.make_cache(1, Capacity::kGrowing, 0, keys);
        CAPTURE(split.size());
        CHECK(max_difference(split_logits(decoder, tokens, all, split, cache), full) < kTolerance);
      }
    }
  }
}

TEST_CASE("methods: rows of unequal length, padded left, right and both, stand and decode as if alone (B01, B08, B14, B15)") {
  const std::vector<std::int32_t> lengths = {9, 1, 14};
  for (const Method& m : methods()) {
    CAPTURE(m.name);
    Decoder decoder = make(m.config);
    std::vector<std::vector<std::int32_t>> rows;
    std::vector<float> alone, after;
    for (std::size_t r = 0; r < lengths.size(); ++r) {
      rows.push_back(random_tokens(static_cast<std::size_t>(lengths[r]) + 1, 10 + r));
      const auto logits = full_logits(decoder, rows[r], over_axes(Positions::range(lengths[r] + 1), m.axes));
      alone.insert(alone.end(), logits.begin(), logits.end() - 61);
      after.insert(after.end(), logits.end() - 61, logits.end());
    }
    const std::size_t columns = 15;
    std::vector<std::uint8_t> mixed(3 * columns, 0);
    const std::size_t first_of[] = {2, 14, 0};  // row 0: padding on both sides
    for (std::size_t r = 0; r < 3; ++r) std::fill_n(mixed.begin() + static_cast<std::ptrdiff_t>(r * columns + first_of[r]), lengths[r], 1);
    for (const Positions& one : {Positions::ragged(lengths), Positions::padded(lengths, 15, PaddingSide::kLeft),
                                 Positions::padded(lengths, 15, PaddingSide::kRight), Positions::from_padding_mask(3, 15, mixed)}) {
      const Positions positions = over_axes(one, m.axes);
      std::vector<std::int32_t> tokens(positions.tokens(), -7);  // would be refused if it were read
      for (std::int32_t r = 0; r < 3; ++r) {
        std::size_t n = 0;
        for (std::size_t t = positions.row_begin(r); t < positions.row_end(r); ++t) {
          if (positions.valid()[t] != 0) tokens[t] = rows[static_cast<std::size_t>(r)][n++];
        }
      }
      CHECK(max_difference(full_logits(decoder, tokens, positions), alone) < kTolerance);
      Cache cache = decoder.make_cache(3);
      CHECK(max_difference(step_logits(decoder, tokens, positions, cache), alone) < kTolerance);
      std::vector<std::int32_t> next;
      for (const auto& row : rows) next.push_back(row.back());
      const Positions step = over_axes(Positions::ragged(std::vector<std::int32_t>(3, 1), lengths), m.axes);
      CHECK(max_difference(step_logits(decoder, next, step, cache), after) < kTolerance);
    }
  }
}

TEST_CASE("methods: packed documents equal each alone, in one call and cut through the cache (C04)") {
  const std::vector<std::int32_t> lengths = {7, 1, 12};
  const auto tokens = random_tokens(20, 6);
  for (const Method& m : methods()) {
    CAPTURE(m.name);
    Decoder decoder = make(m.config);
    std::vector<float> alone;
    std::size_t at = 0;
    for (const std::int32_t length : lengths) {
      const auto logits = full_logits(decoder, std::span(tokens).subspan(at, static_cast<std::size_t>(length)), over_axes(Positions::range(length), m.axes));
      alone.insert(alone.end(), logits.begin(), logits.end());
      at += static_cast<std::size_t>(length);
    }
    const Positions packed = over_axes(Positions::packed(lengths, PackedPositions::kRestart), m.axes);
    CHECK(max_difference(full_logits(decoder, tokens, packed), alone) < kTolerance);
    Cache cache = decoder.make_cache();
    const std::vector<std::int32_t> split = {11, 9};
    CHECK(max_difference(split_logits(decoder, tokens, packed, split, cache), alone) < kTolerance);
  }
}

TEST_CASE("methods: each makes a layer see in what order the tokens stood, and no later token changes an earlier one") {
  const auto tokens = random_tokens(12, 8);
  auto swapped = tokens, later = tokens;
  std::reverse(swapped.begin(), swapped.end() - 1);
  later.back() = (later.back() + 1) % 61;
  for (const Method& m : methods()) {
    CAPTURE(m.name);
    const Positions here = over_axes(Positions::range(12), m.axes);
    Decoder decoder = make(m.config);
    const auto a = full_logits(decoder, tokens, here), b = full_logits(decoder, later, here);
    CHECK(std::equal(a.begin(), a.end() - 61, b.begin()));
    // One layer, so that the causal mask has not told the tokens before the last where they stand.
    DecoderConfig config = m.config;
    config.layers.resize(1);
    Decoder one = make(config);
    const auto x = full_logits(one, tokens, here), y = full_logits(one, swapped, here);
    CHECK(max_difference(std::span(x).last(61), std::span(y).last(61)) > 100 * kTolerance);
  }
}

TEST_CASE("methods: the audit tests pass for each, and the faults of an offset fail theirs") {
  for (const Method& m : methods()) {
    if (m.axes > 1) continue;  // the audit's contents are text
    CAPTURE(m.name);
    Decoder decoder = make(m.config);
    const AuditReport report = run_audit_tests(decoder, {.length = 16});
    INFO(to_text(report));
    CHECK(report.passed());
    // Where content stands counts for door 1, temperature, FIRE and a matrix of the caller's own, and for nothing else.
    const bool counts = !std::holds_alternative<std::monostate>(m.config.input_position) || m.config.layers[0].temperature ||
                        m.name == "FIRE" || m.name == "own matrix";
    CHECK((report.lines[0].expectation == Expectation::kDifferent) == counts);
    for (const PositionFault fault : {PositionFault::kOffsetRestarted, PositionFault::kOffByOne, PositionFault::kPaddingCounted}) {
      // The faults of a batch move whole rows: a method that reads displacements alone need not notice the padding.
      const AuditReport made = run_audit_tests(decoder, {.length = 16, .fault = fault});
      CAPTURE(to_text(made));
      CHECK(!made.passed());
    }
  }
}

TEST_CASE("dynamic NTK: the plan resolved once for the length to be reached, or keys kept unrotated and turned anew") {
  // The plan differs by length, so rotated keys of one length may not meet queries of another.
  const auto plan = [](std::int64_t length) {
    return resolve({.width = 8, .base = 1000, .pairing = Pairing::kHalfSplit}, DynamicNtkRule{.factor = 2, .trained_length = 16}, length);
  };
  const auto with = [&](std::int64_t length) {
    DecoderConfig config = small_config(1);  // one layer: keys come from the tokens alone, whatever plan stood before
    config.layers[0].rotation = plan(length);
    return config;
  };
  const auto tokens = random_tokens(24, 5);
  Decoder early = make(with(16)), late = make(with(24));
  const auto full = full_logits(late, tokens, Positions::range(24));
  CHECK(max_difference(full_logits(early, tokens, Positions::range(24)), full) > 100 * kTolerance);

  Cache once = late.make_cache();
  step_logits(late, std::span(tokens).first(16), Positions::range(16), once);
  const auto a = step_logits(late, std::span(tokens).last(8), Positions::range(8, 16), once);
  CHECK(max_difference(a, std::span(full).last(8 * 61)) < kTolerance);

  Cache unrotated = early.make_cache(1, Capacity::kGrowing, 0, KeyStorage::kUnrotated);
  step_logits(early, std::span(tokens).first(16), Positions::range(16), unrotated);
  const auto b = step_logits(late, std::span(tokens).last(8), Positions::range(8, 16), unrotated);
  CHECK(max_difference(b, std::span(full).last(8 * 61)) < kTolerance);

  Cache rotated = early.make_cache();
  step_logits(early, std::span(tokens).first(16), Positions::range(16), rotated);
  check_error(ErrorCode::kPlanMismatch, "", [&] { step_logits(late, std::span(tokens).last(8), Positions::range(8, 16), rotated); });
}
