// Every numeric parameter of every method, with hostile values: either an Error whose sentence names the value's
// parameter, or finite results at the first, an ordinary and the last position. Nothing in between.
#include <functional>
#include <limits>
#include <numbers>

#include "bias_tile.hpp"
#include "locant/absolute/grid_sinusoidal.hpp"
#include "locant/absolute/sinusoidal.hpp"
#include "locant/attention/attention.hpp"
#include "locant/bias/alibi.hpp"
#include "locant/bias/cope.hpp"
#include "locant/bias/decay.hpp"
#include "locant/bias/fire.hpp"
#include "locant/bias/transformer_xl.hpp"
#include "locant/rotary/axes.hpp"
#include "locant/rotary/rotation.hpp"
#include "locant/rotary/rules.hpp"
#include "support.hpp"

using namespace locant;
using namespace locant::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kHostile[] = {std::numeric_limits<double>::quiet_NaN(),
                           kInfinity,
                           -kInfinity,
                           0.0,
                           -0.0,
                           -1.0,
                           -1e300,
                           5e-324,
                           -5e-324,
                           1e-310,
                           1e-60,
                           1e-30,
                           1e30,
                           1e39,
                           1e60,
                           1e200,
                           1e300,
                           std::numeric_limits<double>::max()};

// What a parameter does: makes the method with the value in its place and gives its results.
struct Probe {
  const char* name;
  std::function<std::vector<float>(double)> run;
};

struct Outcome {
  int refused = 0, finite = 0;
};

Outcome sweep(const Probe& probe) {
  Outcome outcome;
  for (const double value : kHostile) {
    CAPTURE(probe.name);
    CAPTURE(value);
    try {
      const std::vector<float> results = probe.run(value);
      REQUIRE(!results.empty());
      for (const float result : results) CHECK(std::isfinite(result));
      ++outcome.finite;
    } catch (const Error& error) {
      CAPTURE(error.message());
      // A sentence: the call, a colon, what it is and what is expected; no "0 to -1".
      CHECK(error.message().find(": ") != std::string::npos);
      CHECK(error.message().size() > 20);
      CHECK(error.message().find(" to -") == std::string::npos);
      CHECK((error.code() == ErrorCode::kArgument || error.code() == ErrorCode::kPositionRange));
      ++outcome.refused;
    }
  }
  return outcome;
}

void sweep_all(const std::vector<Probe>& probes) {
  for (const Probe& probe : probes) {
    CAPTURE(probe.name);
    // NaN and the infinities are refused everywhere.
    CHECK(sweep(probe).refused >= 3);
  }
}

Positions ends() {
  PositionArrays arrays;
  arrays.row_lengths = {4};
  arrays.position = {{0, 1, 1000, kMaxPosition}};
  arrays.order = {0, 1, 2, 3};
  return Positions::from_arrays(std::move(arrays));
}

Positions grid_ends() {
  PositionArrays arrays;
  arrays.row_lengths = {3};
  arrays.position = {{0, 5, kMaxPosition}, {kMaxPosition, 7, 0}};
  arrays.order = {0, 1, 2};
  return Positions::from_arrays(std::move(arrays));
}

std::vector<float> encoded(const SinusoidalConfig& config) {
  const Sinusoidal encoding(config);
  std::vector<float> out(ends().tokens() * static_cast<std::size_t>(config.width));
  encoding.encode(ends(), out);
  return out;
}

// Rotated queries and keys, and turned back again. Under xPos positions that are too far are refused by sentences, so
// only near ones can show a value that is not finite.
std::vector<float> turned(const RotaryPlan& plan, const Positions& positions) {
  const std::int32_t head_dim = plan.start + plan.rotated_width();
  const Rotation rotation(plan, head_dim);
  const std::vector<float> x = random_values(positions.tokens() * static_cast<std::size_t>(head_dim), 5);
  std::vector<float> out;
  for (const RotationRole role : {RotationRole::kQuery, RotationRole::kKey}) {
    std::vector<float> y(x.size());
    rotation.apply(x, positions, 1, role, y);
    out.insert(out.end(), y.begin(), y.end());
    rotation.apply_inverse(y, positions, 1, role, y);
    out.insert(out.end(), y.begin(), y.end());
  }
  return out;
}

std::vector<float> resolved(const RotaryShape& shape, const RotaryRule& rule, std::int64_t length = 100000) {
  const RotaryPlan plan = resolve(shape, rule, length);
  std::vector<float> out = turned(plan, ends());
  out.push_back(static_cast<float>(plan.softmax_scale_factor));
  return out;
}

std::vector<float> biased(const ScoreTerm& term, std::int32_t heads, std::int32_t head_dim = 0) {
  std::vector<float> out;
  for (std::int32_t head = 0; head < heads; ++head) {
    for (TileCase tile : tile_cases(head, 3)) {
      if (head_dim > 0) tile.fill(head_dim, 4);
      const std::vector<float> scores = tile.run(term);
      out.insert(out.end(), scores.begin(), scores.end());
    }
  }
  return out;
}

std::vector<float> attended(const AttentionConfig& config) {
  const Attention attention{config};
  const Positions positions = ends();
  const AttentionShape& shape = config.shape;
  const auto count = [&](std::int32_t heads, std::int32_t width) {
    return positions.tokens() * static_cast<std::size_t>(heads) * static_cast<std::size_t>(width);
  };
  std::vector<float> out(count(shape.heads, shape.value_dim));
  attention.attend(random_values(count(shape.heads, shape.head_dim), 1), random_values(count(shape.kv_heads, shape.head_dim), 2),
                   random_values(count(shape.kv_heads, shape.value_dim), 3), positions, out);
  return out;
}

AttentionConfig small_attention() {
  AttentionConfig config;
  config.shape = {2, 1, 4, 4};
  return config;
}

}  // namespace

TEST_CASE("hostile parameters, door 1: an Error with a sentence, or finite encodings up to the last position") {
  std::vector<Probe> probes;
  for (const SinusoidLayout layout : {SinusoidLayout::kInterleaved, SinusoidLayout::kConcatenated, SinusoidLayout::kTensor2Tensor,
                                      SinusoidLayout::kMlx}) {
    const SinusoidalConfig plain{.width = 16, .layout = layout};
    probes.push_back({"sinusoidal base", [=](double v) { auto c = plain; c.base = v; return encoded(c); }});
    probes.push_back({"sinusoidal max_frequency", [=](double v) { auto c = plain; c.max_frequency = v; return encoded(c); }});
    probes.push_back({"sinusoidal scale", [=](double v) { auto c = plain; c.scale = v; return encoded(c); }});
    probes.push_back({"sinusoidal position_offset", [=](double v) { auto c = plain; c.position_offset = v; return encoded(c); }});
  }
  for (const GridSteps steps : {GridSteps::kQuarter, GridSteps::kEndsAtBase}) {
    probes.push_back({"grid base", [=](double v) {
      const GridSinusoidal grid({16, GridOrder::kRowFirst, steps, v});
      std::vector<float> out(grid_ends().tokens() * 16);
      grid.encode(grid_ends(), out);
      return out;
    }});
  }
  for (const DetrNormalize normalize : {DetrNormalize::kNo, DetrNormalize::kYes}) {
    const DetrConfig plain{.features_per_axis = 6, .normalize = normalize};
    const auto run = [](const DetrConfig& config) {
      const std::vector<std::uint8_t> mask{1, 1, 0, 1, 0, 0};
      std::vector<float> out(mask.size() * 12);
      detr_encode(config, {2, 3}, mask, out);
      return out;
    };
    probes.push_back({"DETR base", [=](double v) { auto c = plain; c.base = v; return run(c); }});
    probes.push_back({"DETR scale", [=](double v) { auto c = plain; c.scale = v; return run(c); }});
    probes.push_back({"DETR epsilon", [=](double v) { auto c = plain; c.epsilon = v; return run(c); }});
  }
  sweep_all(probes);
}

TEST_CASE("hostile parameters, door 2: an Error with a sentence, or finite rotations up to the last position") {
  const RotaryShape shape{.width = 8};
  std::vector<Probe> probes{
      {"base", [=](double v) { return resolved({.width = 8, .base = v}, DefaultRule{}); }},
      {"linear factor", [=](double v) { return resolved(shape, LinearRule{v}); }},
      {"ntk factor", [=](double v) { return resolved(shape, NtkRule{v}); }},
      {"vllm ntk factor", [=](double v) { return resolved(shape, VllmNtkRule{v}); }},
      {"mixed ntk factor", [=](double v) { return resolved(shape, VllmMixedNtkRule{v, 1}); }},
      {"mixed ntk b", [=](double v) { return resolved(shape, VllmMixedNtkRule{4, v}); }},
      {"dynamic ntk factor", [=](double v) { return resolved(shape, DynamicNtkRule{v, 64}); }},
      {"llama3 factor", [=](double v) { return resolved(shape, Llama3Rule{v, 1, 4, 8192}); }},
      {"llama3 low", [=](double v) { return resolved(shape, Llama3Rule{8, v, 4, 8192}); }},
      {"llama3 high", [=](double v) { return resolved(shape, Llama3Rule{8, 1, v, 8192}); }},
      {"llama3 original length", [=](double v) { return resolved(shape, Llama3Rule{8, 1, 4, v}); }},
      {"proportional fraction", [=](double v) { return resolved(shape, ProportionalRule{v, 1}); }},
      {"proportional factor", [=](double v) { return resolved(shape, ProportionalRule{0.5, v}); }},
      {"custom frequency", [=](double v) { return resolved(shape, CustomRule{{1, v, 0, 1}}); }},
      {"axial base", [](double v) { return turned(axial_plan(AxialConvention::kPixtral, 8, v), grid_ends()); }},
      {"pixel frequency", [](double v) { return turned(pixel_plan({4, v, 3, 3, PixelBands::kPowers}), grid_ends()); }},
      {"axis factor", [](double v) {
         return turned(scale_axes(axial_plan(AxialConvention::kRows, 8), std::vector<double>{1, v}), grid_ends());
       }},
  };
  const auto yarn = [&](const char* name, auto set) {
    probes.push_back({name, [=](double v) {
      YarnRule rule{.factor = 4, .original_length = 4096};
      rule.softmax_scale = SoftmaxScaleRule::kDeepSeek;
      set(rule, v);
      return resolved({.width = 8}, rule);
    }});
  };
  yarn("yarn factor", [](YarnRule& r, double v) { r.factor = v; });
  yarn("yarn original length", [](YarnRule& r, double v) { r.original_length = v; });
  yarn("yarn beta_fast", [](YarnRule& r, double v) { r.beta_fast = v; });
  yarn("yarn beta_slow", [](YarnRule& r, double v) { r.beta_slow = v; });
  yarn("yarn mscale", [](YarnRule& r, double v) { r.mscale = v, r.mscale_all_dim = 1; });
  yarn("yarn mscale_all_dim", [](YarnRule& r, double v) { r.mscale = 1, r.mscale_all_dim = v; });
  yarn("yarn attention factor", [](YarnRule& r, double v) { r.attention_factor = v; });
  const auto longrope = [&](const char* name, auto set) {
    probes.push_back({name, [=](double v) {
      LongRopeRule rule{.short_factors = {1, 1, 1, 1}, .long_factors = {1, 2, 3, 4}, .original_length = 4096, .factor = 32};
      set(rule, v);
      return resolved({.width = 8}, rule);
    }});
  };
  longrope("longrope factor", [](LongRopeRule& r, double v) { r.factor = v; });
  longrope("longrope maximum length", [](LongRopeRule& r, double v) { r.factor.reset(), r.maximum_length = v; });
  longrope("longrope long factors", [](LongRopeRule& r, double v) { r.long_factors[2] = v; });
  longrope("longrope short factors", [](LongRopeRule& r, double v) { r.short_factors[2] = v; });
  longrope("longrope attention factor", [](LongRopeRule& r, double v) { r.attention_factor = v; });
  longrope("longrope long attention factor", [](LongRopeRule& r, double v) { r.short_attention_factor = 1, r.long_attention_factor = v; });
  const auto plan = [&](const char* name, auto set) {
    probes.push_back({name, [=](double v) {
      RotaryPlan p = resolve({.width = 8});
      set(p, v);
      return turned(p, p.xpos ? Positions::range(3, 40) : ends());
    }});
  };
  plan("plan attention factor", [](RotaryPlan& p, double v) { p.attention_factor = v; });
  plan("plan softmax scale factor", [](RotaryPlan& p, double v) { p.softmax_scale_factor = v; });
  plan("plan axis offset", [](RotaryPlan& p, double v) { p.axis_offsets = {v}; });
  plan("xPos gamma", [](RotaryPlan& p, double v) { p.xpos = XPos{v, 512, 41}; });
  plan("xPos scale base", [](RotaryPlan& p, double v) { p.xpos = XPos{0.4, v, 41}; });
  plan("xPos centre", [](RotaryPlan& p, double v) { p.xpos = XPos{0.4, 512, v}; });
  sweep_all(probes);
}

TEST_CASE("hostile parameters, door 3: an Error with a sentence, or finite scores at every distance") {
  std::vector<Probe> probes;
  for (const AlibiForm form : {AlibiForm::kCausal, AlibiForm::kSymmetric, AlibiForm::kKeyOnly}) {
    probes.push_back({"ALiBi slope", [=](double v) { return biased(Alibi({0.5, v}, form), 2); }});
  }
  probes.push_back({"ALiBi bias_max", [](double v) { return biased(Alibi(alibi_slopes(12, v)), 12); }});
  for (const KerpleKernel kernel : {KerpleKernel::kLogarithmic, KerpleKernel::kPower}) {
    probes.push_back({"KERPLE r1", [=](double v) { return biased(Kerple(kernel, {v}, {1.5}), 1); }});
    probes.push_back({"KERPLE r2", [=](double v) { return biased(Kerple(kernel, {1}, {v}), 1); }});
  }
  probes.push_back({"Sandwich base", [](double v) { return biased(Sandwich(2, 8, v), 2); }});
  const auto fire = [&](const char* name, auto set) {
    probes.push_back({name, [=](double v) {
      FireConfig config{.w1 = {1, -1}, .b1 = {0, 1}, .w2 = {1, 2}, .b2 = {0.5}};
      set(config, v);
      return biased(Fire(config), 1);
    }});
  };
  fire("FIRE c", [](FireConfig& c, double v) { c.c = v; });
  fire("FIRE threshold", [](FireConfig& c, double v) { c.threshold = v; });
  fire("FIRE threshold without epsilon", [](FireConfig& c, double v) { c.threshold = v, c.epsilon = 0; });
  fire("FIRE epsilon", [](FireConfig& c, double v) { c.epsilon = v; });
  fire("FIRE w1", [](FireConfig& c, double v) { c.w1[0] = v; });
  fire("FIRE b1", [](FireConfig& c, double v) { c.b1[1] = v; });
  fire("FIRE w2", [](FireConfig& c, double v) { c.w2[1] = v; });
  fire("FIRE b2", [](FireConfig& c, double v) { c.b2[0] = v; });
  probes.push_back({"Transformer-XL base", [](double v) {
    const TransformerXlConfig config{.heads = 1, .head_dim = 2, .model_width = 4, .base = v};
    return biased(TransformerXl(config, random_values(8, 1), random_values(2, 2), random_values(2, 3)), 1, 2);
  }});
  probes.push_back({"CoPE scale", [](double v) {
    const std::vector<std::uint8_t> visible(9, 1);
    return cope_bias({1, 1, 2, 3, v}, random_values(6, 1), 3, random_values(6, 2), 3, random_values(6, 3), visible);
  }});
  sweep_all(probes);
}

TEST_CASE("hostile parameters, attention: scale, soft cap and temperature") {
  std::vector<Probe> probes{
      {"scale", [](double v) { auto c = small_attention(); c.scale = v; return attended(c); }},
      {"soft cap", [](double v) { auto c = small_attention(); c.soft_cap = v; return attended(c); }},
      {"temperature slope", [](double v) { auto c = small_attention(); c.temperature = Temperature{v, 8192, 1}; return attended(c); }},
      {"temperature period", [](double v) { auto c = small_attention(); c.temperature = Temperature{0.1, v, 1}; return attended(c); }},
      {"temperature shift", [](double v) { auto c = small_attention(); c.temperature = Temperature{0.1, 8192, v}; return attended(c); }},
      {"softmax scale factor of the plan", [](double v) {
         auto c = small_attention();
         RotaryPlan plan = resolve({.width = 4});
         plan.softmax_scale_factor = v;
         c.rotation = std::make_shared<Rotation>(plan, 4);
         return attended(c);
       }},
  };
  sweep_all(probes);
}
