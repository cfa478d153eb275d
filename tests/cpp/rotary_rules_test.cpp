// Rules against the vectors of running code, and the laws and limits that each rule states of itself.
#include "locant/rotary/rules.hpp"

#include <limits>

#include "support.hpp"
#include "vectors.hpp"

using namespace locant;
using namespace locant::test;

namespace {

// A frequency is one power, one or two divisions and a blend, all in double: within a few ulp of the 50-digit value.
constexpr double kRelative = 4e-15;

double largest_relative(const std::vector<double>& ours, const std::vector<double>& exact) {
  REQUIRE(ours.size() == exact.size());
  double largest = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (exact[i] == 0) {
      CHECK(ours[i] == 0);
    } else {
      largest = std::max(largest, std::abs(ours[i] / exact[i] - 1));
    }
  }
  return largest;
}

RotaryShape shape_of_case(const Json& p) {
  RotaryShape shape;
  shape.width =
      p.contains("rotary_dim") ? p.at("rotary_dim").get<std::int32_t>() : p.at("head_dim").get<std::int32_t>();
  shape.base = p.at("base");
  return shape;
}

std::optional<double> optional_number(const Json& p, const char* key) {
  if (!has_number(p, key)) return std::nullopt;
  return p.at(key).get<double>();
}

YarnRule yarn_of(const Json& p) {
  YarnRule rule;
  rule.factor = p.at("resolved_factor");
  rule.original_length = p.at("original_max_position_embeddings");
  // The source reads 0 as "not given"; reading configurations is the audit's work, so the test does it here.
  if (number_or(p, "beta_fast", 0.0) != 0) rule.beta_fast = p.at("beta_fast");
  if (number_or(p, "beta_slow", 0.0) != 0) rule.beta_slow = p.at("beta_slow");
  if (p.contains("truncate") && !p.at("truncate").get<bool>()) rule.ramp_ends = RampEnds::kExact;
  rule.mscale = optional_number(p, "mscale");
  rule.mscale_all_dim = optional_number(p, "mscale_all_dim");
  rule.attention_factor = optional_number(p, "attention_factor");
  return rule;
}

Llama3Rule llama3_of(const Json& p) {
  return {p.at("factor"), p.at("low_freq_factor"), p.at("high_freq_factor"), p.at("original_max_position_embeddings")};
}

LongRopeRule longrope_of(const Json& p) {
  LongRopeRule rule;
  rule.short_factors = p.at("short_factor").get<std::vector<double>>();
  rule.long_factors = p.at("long_factor").get<std::vector<double>>();
  rule.original_length = p.at("original_max_position_embeddings");
  rule.factor = optional_number(p, "factor");
  rule.maximum_length = optional_number(p, "max_position_embeddings");
  rule.attention_factor = optional_number(p, "attention_factor");
  return rule;
}

// Every case of a file against the plan that `make` resolves from its parameters.
template <class Make>
void check_file(const std::string& file, Make&& make) {
  const Json vectors = load_vectors(file);
  REQUIRE(vectors.at("kind") == "running code");
  REQUIRE(!vectors.at("cases").empty());
  for (const Json& c : vectors.at("cases")) {
    INFO(file, ": ", c.at("name").get<std::string>());
    const Json& p = c.at("parameters");
    const RotaryPlan plan = make(p);
    CHECK(largest_relative(plan.inverse_frequencies, doubles_of(c.at("exact").at("inv_freq"))) <= kRelative);
    CHECK(plan.attention_factor == doctest::Approx(c.at("exact").at("attention_factor").get<double>()).epsilon(1e-14));
    // The running code itself, in its own float32: within the error that the file records of it.
    const auto theirs = floats_of(c.at("expected").at("inv_freq"));
    CHECK(largest_relative(plan.inverse_frequencies, {theirs.begin(), theirs.end()}) <=
          c.at("source_error").get<double>() * 1.01 + 1e-14);
  }
}

const RotaryShape kShape8{8};
std::vector<double> frequencies_of(const RotaryShape& shape, const RotaryRule& rule) {
  return resolve(shape, rule).inverse_frequencies;
}

}  // namespace

TEST_CASE("rules: default, linear, NTK, Llama 3 and proportional give the frequencies of running code") {
  check_file("rules_default", [](const Json& p) { return resolve(shape_of_case(p)); });
  check_file("rules_linear", [](const Json& p) { return resolve(shape_of_case(p), LinearRule{p.at("factor")}); });
  check_file("rules_ntk_static", [](const Json& p) { return resolve(shape_of_case(p), NtkRule{p.at("factor")}); });
  check_file("rules_llama3", [](const Json& p) { return resolve(shape_of_case(p), llama3_of(p)); });
  check_file("rules_proportional", [](const Json& p) {
    return resolve(shape_of_case(p), ProportionalRule{p.at("partial_rotary_factor"), p.at("factor")});
  });
}

TEST_CASE("rules: YaRN gives the ramp, frequencies and attention factor of running code") {
  check_file("rules_yarn", [](const Json& p) {
    const YarnRule rule = yarn_of(p);
    const YarnRamp ramp = yarn_ramp(shape_of_case(p), rule);
    CHECK(ramp.low == doctest::Approx(p.at("low").get<double>()).epsilon(1e-13));
    // The vectors give the ends before they are parted by 0.001.
    const double high = p.at("high");
    CHECK(ramp.high == doctest::Approx(p.at("low") == p.at("high") ? high + 0.001 : high).epsilon(1e-13));
    return resolve(shape_of_case(p), rule);
  });
}

TEST_CASE("rules: dynamic NTK and LongRoPE give the plan of running code at each length") {
  check_file("rules_dynamic_ntk", [](const Json& p) {
    const DynamicNtkRule rule{p.at("factor"), p.at("max_position_embeddings")};
    return resolve(shape_of_case(p), rule, p.at("length").get<std::int64_t>());
  });
  check_file("rules_longrope", [](const Json& p) {
    return resolve(shape_of_case(p), longrope_of(p), number_or(p, "length", std::int64_t{1}));
  });
}

TEST_CASE("rules: DeepSeek's softmax scale factor is its own number") {
  const Json vectors = load_vectors("rules_yarn_softmax_scale");
  for (const Json& c : vectors.at("cases")) {
    const Json& p = c.at("parameters");
    INFO(c.at("name").get<std::string>());
    if (p.at("rope_type") != "yarn") continue;  // what a type that is not YaRN does with the key is for the audit
    YarnRule rule;
    rule.factor = p.at("factor");
    rule.original_length = 4096;
    rule.mscale = optional_number(p, "mscale");
    rule.mscale_all_dim = optional_number(p, "mscale_all_dim");
    CHECK(resolve(RotaryShape{64}, rule).softmax_scale_factor == 1);
    rule.softmax_scale = SoftmaxScaleRule::kDeepSeek;
    CHECK(resolve(RotaryShape{64}, rule).softmax_scale_factor ==
          doctest::Approx(c.at("exact").at("softmax_scale_factor").get<double>()).epsilon(1e-14));
  }
}

TEST_CASE("rules: factor 1 is the identity to the bit") {
  for (const std::int32_t width : {4, 6, 64, 80, 128}) {
    for (const double base : {100.0, 10000.0, 150000.0, 1e6}) {
      INFO("width ", width, ", base ", base);
      const RotaryShape shape{width, base};
      const auto plain = resolve(shape).inverse_frequencies;
      YarnRule yarn;
      yarn.original_length = 4096;
      YarnRule exact_ends = yarn;
      exact_ends.ramp_ends = RampEnds::kExact;
      CHECK(frequencies_of(shape, LinearRule{1}) == plain);
      CHECK(frequencies_of(shape, NtkRule{1}) == plain);
      CHECK(frequencies_of(shape, VllmNtkRule{1}) == plain);
      CHECK(frequencies_of(shape, VllmMixedNtkRule{1}) == plain);
      CHECK(frequencies_of(shape, yarn) == plain);
      CHECK(frequencies_of(shape, exact_ends) == plain);
      CHECK(frequencies_of(shape, Llama3Rule{1, 1, 4, 8192}) == plain);
      CHECK(frequencies_of(shape, ProportionalRule{1, 1}) == plain);
      CHECK(resolve(shape, yarn).attention_factor == 1);
    }
  }
}

TEST_CASE("rules: vLLM's NTK types divide pair i as their formulas say") {
  const RotaryShape shape{64, 10000};
  const double s = 4, b = 0.625;
  const auto ntk = frequencies_of(shape, VllmNtkRule{s});
  const auto mixed = frequencies_of(shape, VllmMixedNtkRule{s, b});
  for (std::size_t i = 0; i < ntk.size(); ++i) {
    const double f = std::pow(10000.0, -2.0 * static_cast<double>(i) / 64);
    CHECK(ntk[i] == doctest::Approx(f * std::pow(s, -2.0 * (static_cast<double>(i) + 1) / 64)).epsilon(1e-14));
    const double a = std::log(s) / std::pow(32.0, b);
    CHECK(mixed[i] == doctest::Approx(f / std::exp(a * std::pow(static_cast<double>(i) + 1, b))).epsilon(1e-14));
  }
}

TEST_CASE("rules: mixed NTK divides the last pair by the factor") {
  const auto plain = resolve(RotaryShape{64}).inverse_frequencies;
  for (const double b : {0.3, 0.625, 1.0}) {
    CHECK(plain[31] / frequencies_of(RotaryShape{64}, VllmMixedNtkRule{8, b})[31] == doctest::Approx(8).epsilon(1e-13));
  }
}

TEST_CASE("rules: parameters outside their range are refused with a sentence") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const auto refused = [](const std::string& part, const RotaryShape& shape, const RotaryRule& rule,
                          std::optional<std::int64_t> length = std::nullopt) {
    check_error(ErrorCode::kArgument, part, [&] { resolve(shape, rule, length); });
  };
  // L01 (and the odd width of L04): an odd or empty width is refused when the plan is made, not at the first forward.
  refused("the rotated width is 65, expected an even number", RotaryShape{65}, DefaultRule{});
  refused("the rotated width is 29, expected an even number", RotaryShape{29}, DefaultRule{});
  refused("the rotated width is 0, expected 2 to 65536", RotaryShape{0}, DefaultRule{});
  refused("the rotated width is -8", RotaryShape{-8}, DefaultRule{});
  refused("the base is nan", RotaryShape{8, nan}, DefaultRule{});
  refused("the base is 0", RotaryShape{8, 0}, DefaultRule{});
  refused("start is -1", RotaryShape{8, 10000, Pairing::kHalfSplit, -1}, DefaultRule{});
  for (const double bad : {0.0, -2.0, nan, infinity}) {
    YarnRule yarn;
    yarn.original_length = 64;
    yarn.factor = bad;
    refused("the factor is", kShape8, LinearRule{bad});
    refused("the factor is", kShape8, NtkRule{bad});
    refused("the factor is", kShape8, VllmNtkRule{bad});
    refused("the factor is", kShape8, VllmMixedNtkRule{bad});
    refused("the factor is", kShape8, DynamicNtkRule{bad, 64}, 64);
    refused("the factor is", kShape8, yarn);
    refused("the factor is", kShape8, Llama3Rule{bad, 1, 4, 64});
    refused("the factor is", kShape8, ProportionalRule{1, bad});
    yarn.factor = 4;
    yarn.original_length = bad;
    refused("the original length is", kShape8, yarn);
    refused("the original length is", kShape8, Llama3Rule{8, 1, 4, bad});
    yarn.original_length = 64;
    yarn.attention_factor = bad;
    refused("the attention factor is", kShape8, yarn);
  }
  refused("expected 4 or more for NTK scaling", RotaryShape{2}, NtkRule{2});
  refused("expected 4 or more for NTK scaling", RotaryShape{2}, DynamicNtkRule{2, 64}, 128);
  refused("the trained length is 0", kShape8, DynamicNtkRule{2, 0}, 128);
  refused("dynamic NTK depends on the length, and none was given", kShape8, DynamicNtkRule{2, 64});
  refused("the length is 0", kShape8, DynamicNtkRule{2, 64}, 0);
  refused("LongRoPE depends on the length, and none was given", kShape8,
          LongRopeRule{{1, 1, 1, 1}, {2, 2, 2, 2}, 64, 4.0, {}, {}});
  refused("there are 3 short factors, expected one for each of the 4 pairs", kShape8,
          LongRopeRule{{1, 1, 1}, {2, 2, 2, 2}, 64, 4.0, {}, {}}, 65);
  refused("long factors: number 2 is 0", kShape8, LongRopeRule{{1, 1, 1, 1}, {2, 2, 0, 2}, 64, 4.0, {}, {}}, 65);
  refused("no factor, no maximum length and no attention factor", kShape8,
          LongRopeRule{{1, 1, 1, 1}, {2, 2, 2, 2}, 64, {}, {}, {}}, 65);
  refused("the fraction is 1.5, expected 0 to 1", kShape8, ProportionalRule{1.5, 1});
  refused("the high frequency factor is 1, expected 4 or more", kShape8, Llama3Rule{8, 4, 1, 8192});
  refused("there are 3 inverse frequencies, expected 8 / 2 = 4", kShape8, CustomRule{{1, 2, 3}});
  refused("inverse frequency 1 is nan", kShape8, CustomRule{{1, nan, 3, 4}});
  refused("the scaled base is inf", kShape8, NtkRule{1e300});
}

TEST_CASE("E23: swapped betas are an error, not another ramp") {
  YarnRule rule;
  rule.factor = 32;
  rule.original_length = 4096;
  rule.ramp_ends = RampEnds::kExact;
  const RotaryShape shape{64, 150000};
  const YarnRamp ramp = yarn_ramp(shape, rule);
  CHECK(ramp.low == doctest::Approx(8.0928).epsilon(1e-5));
  CHECK(ramp.high == doctest::Approx(17.3980).epsilon(1e-5));
  std::swap(rule.beta_fast, rule.beta_slow);
  check_error(ErrorCode::kArgument, "beta_fast (against beta_slow) is 1, expected 32 or more",
              [&] { resolve(shape, rule); });
}

TEST_CASE("E24: an unrounded ramp is another plan than a rounded one") {
  YarnRule rule;
  rule.factor = 32;
  rule.original_length = 4096;
  const RotaryShape shape{64, 150000};
  CHECK(resolve(shape, rule).inverse_frequencies[12] == doctest::Approx(0.0070157).epsilon(1e-4));
  rule.ramp_ends = RampEnds::kExact;
  CHECK(resolve(shape, rule).inverse_frequencies[12] == doctest::Approx(0.0067950).epsilon(1e-4));
}

TEST_CASE("E25: the interpolated frequency divides the power by s, not the base of the power") {
  YarnRule rule;
  rule.factor = 32;
  rule.original_length = 4096;
  const auto f = frequencies_of(RotaryShape{64, 150000}, rule);
  // Pair 18 lies past the rounded ramp (8 to 18), so it is wholly interpolated; pair 16 of the report as linear.
  CHECK(f[18] == doctest::Approx(std::pow(150000.0, -36.0 / 64) / 32).epsilon(1e-14));
  CHECK(frequencies_of(RotaryShape{64, 150000}, LinearRule{32})[16] == doctest::Approx(8.0687e-5).epsilon(1e-4));
}

TEST_CASE("E11: a YaRN ramp uses the original length, whatever the configured maximum") {
  YarnRule rule;
  rule.factor = 4;
  rule.original_length = 32768;
  const RotaryShape shape{128, 1e6};
  CHECK(yarn_ramp(shape, rule).low == 23);
  CHECK(yarn_ramp(shape, rule).high == 40);
  rule.ramp_ends = RampEnds::kExact;
  CHECK(yarn_ramp(shape, rule).low == doctest::Approx(23.596).epsilon(1e-4));
  CHECK(yarn_ramp(shape, rule).high == doctest::Approx(39.651).epsilon(1e-4));
}

TEST_CASE("E12, E13: an explicit attention factor replaces the computed one verbatim") {
  YarnRule rule;
  rule.original_length = 32768;
  rule.factor = 4;
  CHECK(resolve(RotaryShape{128, 1e6}, rule).attention_factor == doctest::Approx(1.13863).epsilon(1e-5));
  rule.attention_factor = 0.8782488562869419;
  CHECK(resolve(RotaryShape{128, 1e6}, rule).attention_factor == 0.8782488562869419);
  rule.factor = 8;
  rule.attention_factor.reset();
  CHECK(resolve(RotaryShape{128, 1e6}, rule).attention_factor == doctest::Approx(1.207944).epsilon(1e-6));
  rule.attention_factor = 1.0;
  CHECK(resolve(RotaryShape{128, 1e6}, rule).attention_factor == 1.0);
}

TEST_CASE("E16, E18, E19, E20: rotary factor and softmax factor are two numbers, each from its own mscale") {
  YarnRule rule;
  rule.factor = 40;
  rule.original_length = 4096;
  rule.softmax_scale = SoftmaxScaleRule::kDeepSeek;
  rule.mscale = rule.mscale_all_dim = 0.707;
  RotaryPlan plan = resolve(RotaryShape{64}, rule);
  CHECK(plan.attention_factor == 1.0);  // E18: not 1.2608
  rule.mscale = rule.mscale_all_dim = 1.0;
  plan = resolve(RotaryShape{64}, rule);
  CHECK(plan.attention_factor == 1.0);                                          // E16: the ratio ...
  CHECK(plan.softmax_scale_factor == doctest::Approx(1.873854).epsilon(1e-6));  // ... and the factor beside it
  rule.mscale = 0.707;  // E19: the softmax factor reads mscale_all_dim
  CHECK(resolve(RotaryShape{64}, rule).softmax_scale_factor == doctest::Approx(1.873854).epsilon(1e-6));
}

TEST_CASE("E28, E29, E48: Llama 3 divisors rise from 1 to the factor, as reported per pair") {
  const RotaryShape shape{128, 500000};
  const auto plain = resolve(shape).inverse_frequencies;
  const auto scaled = frequencies_of(shape, Llama3Rule{8, 1, 4, 8192});
  std::vector<double> divisors;
  for (std::size_t i = 0; i < plain.size(); ++i) divisors.push_back(plain[i] / scaled[i]);
  for (std::size_t i = 0; i <= 28; ++i) CHECK(divisors[i] == 1);
  const double between[] = {1.2075, 1.5534, 2.0263, 2.6945, 3.6843, 5.2573};
  for (std::size_t i = 0; i < 6; ++i) CHECK(divisors[29 + i] == doctest::Approx(between[i]).epsilon(1e-4));
  for (std::size_t i = 35; i < 64; ++i) CHECK(divisors[i] == doctest::Approx(8).epsilon(1e-15));
  CHECK(std::is_sorted(divisors.begin(), divisors.end()));
  CHECK(frequencies_of(shape, Llama3Rule{32, 1, 4, 8192})[63] == doctest::Approx(plain[63] / 32).epsilon(1e-15));
}

TEST_CASE("E32: an unused Llama 3 block is off by the reported mean cosine at each position") {
  const RotaryShape shape{128, 500000};
  const auto plain = resolve(shape).inverse_frequencies;
  const auto scaled = frequencies_of(shape, Llama3Rule{8, 1, 4, 8192});
  const double expected[][2] = {{0, 1}, {1000, .963}, {8192, .769}, {20000, .627}, {60000, .539}};
  for (const auto& [position, mean] : expected) {
    double sum = 0;
    for (std::size_t i = 0; i < plain.size(); ++i) sum += std::cos(position * (plain[i] - scaled[i]));
    CHECK(sum / 64 == doctest::Approx(mean).epsilon(1e-3));
  }
}

TEST_CASE("E08, E09: the base is read as given") {
  CHECK(resolve(RotaryShape{128, 10000}).inverse_frequencies[1] == doctest::Approx(0.865964).epsilon(1e-6));
  CHECK(resolve(RotaryShape{128, 1e6}).inverse_frequencies[1] == doctest::Approx(0.805842).epsilon(1e-6));
}

TEST_CASE("E34: a linear factor divides every frequency, so position p turns as p/4 did") {
  const RotaryShape shape{128, 100000};
  const auto plain = resolve(shape).inverse_frequencies;
  const auto scaled = frequencies_of(shape, LinearRule{4});
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(scaled[i] * 4000 == plain[i] * 1000);
}

TEST_CASE("E36, E37, E38: dynamic NTK follows the length and is the plain base up to the trained one") {
  const DynamicNtkRule rule{2, 2048};
  const auto base_at = [&](std::int64_t length) {
    const double f = resolve(RotaryShape{128, 10000}, rule, length).inverse_frequencies[1];
    return std::pow(f, -64.0);
  };
  CHECK(base_at(2048) == doctest::Approx(10000).epsilon(1e-12));
  CHECK(base_at(4096) == doctest::Approx(30527.74).epsilon(1e-6));
  const auto short_text = resolve(RotaryShape{64, 1000}, DynamicNtkRule{2, 2048}, 512);
  CHECK(short_text.inverse_frequencies == resolve(RotaryShape{64, 1000}).inverse_frequencies);
  CHECK(short_text.length == 512);
}

TEST_CASE("E39, E40: a long call leaves nothing behind for a short one") {
  const DynamicNtkRule rule{2, 2048};
  const auto first = resolve(RotaryShape{64}, rule, 100);
  CHECK(!resolve(RotaryShape{64}, rule, 4096).same_rotation(first));
  CHECK(resolve(RotaryShape{64}, rule, 100).same_rotation(first));
}

TEST_CASE("E41, E43: plans at two lengths differ and say so; LongRoPE changes strictly above the original length") {
  LongRopeRule rule;
  rule.short_factors = {1, 1, 1, 1};
  rule.long_factors = {2, 3, 4, 5};
  rule.original_length = 4096;
  rule.maximum_length = 131072;
  const auto at_4096 = resolve(kShape8, rule, 4096);
  const auto at_4097 = resolve(kShape8, rule, 4097);
  CHECK(at_4096.same_rotation(resolve(kShape8, rule, 1)));
  CHECK(!at_4096.same_rotation(at_4097));
  CHECK(at_4097.same_rotation(resolve(kShape8, rule, 131072)));
  CHECK(at_4096.attention_factor == doctest::Approx(1.190238).epsilon(1e-6));
  CHECK(at_4097.attention_factor == at_4096.attention_factor);
  CHECK(depends_on_length(rule));
  CHECK(depends_on_length(DynamicNtkRule{}));
  CHECK(!depends_on_length(YarnRule{}));
}

TEST_CASE("K08, K11: partial rotary and proportional rotary are two rules with two exponents") {
  const auto partial = resolve(RotaryShape{64, 1e7}).inverse_frequencies;  // 64 of a head of 256
  CHECK(partial[1] == doctest::Approx(0.6043).epsilon(1e-4));
  const auto proportional = resolve(RotaryShape{256, 1e6}, ProportionalRule{0.25, 1});
  CHECK(proportional.rotated_width() == 256);
  CHECK(proportional.inverse_frequencies[1] == doctest::Approx(std::pow(1e6, -2.0 / 256)).epsilon(1e-15));
  CHECK(proportional.inverse_frequencies[31] > 0);
  CHECK(proportional.inverse_frequencies[32] == 0);
}

TEST_CASE("K05: a missing factor is 1, which is the default rule") {
  CHECK(resolve(kShape8, LinearRule{}).same_rotation(resolve(kShape8)));
}

TEST_CASE("rules: a plan describes itself with parameters that read back") {
  YarnRule rule;
  rule.factor = 4;
  rule.original_length = 32768;
  const MethodDescription d = describe(resolve(RotaryShape{128, 1e6, Pairing::kInterleaved, 64}, rule));
  CHECK(d.name == "rotary, interleaved, yarn");
  CHECK(d.door == Door::kRotation);
  CHECK(d.reference == Reference::kRelative);
  const auto value = [&](const std::string& name) {
    for (const auto& p : d.parameters) {
      if (p.name == name) return p.value;
    }
    return std::string("missing");
  };
  CHECK(std::stod(value("base")) == 1000000);
  CHECK(value("rotated width") == "128");
  CHECK(value("start") == "64");
  CHECK(std::stod(value("original length")) == 32768);
  CHECK(value("ramp low") == "23");
  CHECK(std::stod(value("attention factor")) == resolve(RotaryShape{128, 1e6}, rule).attention_factor);
  CHECK(d.direction == "displacement = key - query");
}
