#include "adapters.hpp"
#include "locant/rotary/axes.hpp"
#include "locant/rotary/layers.hpp"
#include "locant/rotary/pairing.hpp"
#include "locant/rotary/rules.hpp"

namespace locant::wasm {
namespace {

XPos read_xpos(const Options& given) {
  return {given.number("gamma"), given.number("scaleBase"), given.number("center")};
}

}  // namespace

RotaryRule read_rule(const Options& given) {
  const std::string name = given.text("rule");
  if (name == "default") return DefaultRule{};
  if (name == "linear") return LinearRule{given.number("factor")};
  if (name == "ntk") return NtkRule{given.number("factor")};
  if (name == "vllm-ntk") return VllmNtkRule{given.number("factor")};
  if (name == "vllm-ntk-mixed") {
    VllmMixedNtkRule rule{.factor = given.number("factor")};
    if (given.has("b")) rule.b = given.number("b");
    return rule;
  }
  if (name == "dynamic-ntk") return DynamicNtkRule{given.number("factor"), given.long_integer("trainedLength")};
  if (name == "yarn") {
    YarnRule rule;
    rule.factor = given.number("factor");
    rule.original_length = given.number("originalLength");
    rule.beta_fast = given.maybe_number("betaFast").value_or(rule.beta_fast);
    rule.beta_slow = given.maybe_number("betaSlow").value_or(rule.beta_slow);
    rule.ramp_ends = given.choice<RampEnds>("rampEnds");
    rule.mscale = given.maybe_number("mscale");
    rule.mscale_all_dim = given.maybe_number("mscaleAllDim");
    rule.attention_factor = given.maybe_number("attentionFactor");
    rule.softmax_scale = given.choice<SoftmaxScaleRule>("softmaxScale");
    return rule;
  }
  if (name == "longrope") {
    LongRopeRule rule;
    rule.short_factors = given.doubles("shortFactors");
    rule.long_factors = given.doubles("longFactors");
    rule.original_length = given.long_integer("originalLength");
    rule.factor = given.maybe_number("factor");
    rule.maximum_length = given.maybe_number("maximumLength");
    rule.attention_factor = given.maybe_number("attentionFactor");
    rule.short_attention_factor = given.maybe_number("shortAttentionFactor");
    rule.long_attention_factor = given.maybe_number("longAttentionFactor");
    return rule;
  }
  if (name == "llama3") {
    Llama3Rule rule;
    rule.factor = given.number("factor");
    rule.low_frequency_factor = given.maybe_number("lowFrequencyFactor").value_or(rule.low_frequency_factor);
    rule.high_frequency_factor = given.maybe_number("highFrequencyFactor").value_or(rule.high_frequency_factor);
    rule.original_length = given.number("originalLength");
    return rule;
  }
  if (name == "proportional") {
    ProportionalRule rule{.fraction = given.number("fraction")};
    rule.factor = given.maybe_number("factor").value_or(rule.factor);
    return rule;
  }
  if (name == "custom") return CustomRule{given.doubles("inverseFrequencies")};
  fail(ErrorCode::kArgument, "rotaryPlan: there is no rule \"", name, "\"");
}

val to_object(const RotaryPlan& plan) {
  Object object;
  const auto maybe = [&](const char* name, const auto& value) {
    if (value) object.set(name, static_cast<double>(*value));
    else object.set(name, val::null());
  };
  object.set("inverseFrequencies", to_array(plan.inverse_frequencies));
  object.set("pairing", static_cast<int>(plan.pairing));
  object.set("start", plan.start);
  object.set("attentionFactor", plan.attention_factor);
  object.set("softmaxScaleFactor", plan.softmax_scale_factor);
  object.set("axisOfPair", plan.axis_of_pair.empty() ? val::null() : to_array(plan.axis_of_pair));
  object.set("axisOffsets", plan.axis_offsets.empty() ? val::null() : to_array(plan.axis_offsets));
  if (plan.xpos) {
    Object xpos;
    xpos.set("gamma", plan.xpos->gamma);
    xpos.set("scaleBase", plan.xpos->scale_base);
    xpos.set("center", plan.xpos->center);
    object.set("xpos", xpos);
  } else {
    object.set("xpos", val::null());
  }
  object.set("rule", plan.rule);
  maybe("base", plan.base);
  object.set("parameters", wasm::to_object(plan.parameters));
  maybe("length", plan.length);
  return object;
}

RotaryPlan read_plan(const val& object) {
  const Options given(object);
  RotaryPlan plan;
  plan.inverse_frequencies = given.doubles("inverseFrequencies");
  plan.pairing = given.choice<Pairing>("pairing");
  plan.start = given.integer("start");
  plan.attention_factor = given.number("attentionFactor");
  plan.softmax_scale_factor = given.number("softmaxScaleFactor");
  plan.axis_of_pair = given.bytes("axisOfPair");
  plan.axis_offsets = given.doubles("axisOffsets");
  if (given.has("xpos")) plan.xpos = read_xpos(Options(given.member("xpos")));
  plan.rule = given.text("rule");
  plan.base = given.maybe_number("base");
  const val parameters = given.member("parameters");
  const auto count = parameters["length"].as<unsigned>();
  for (unsigned i = 0; i < count; ++i) {
    const Options entry(parameters[i]);
    plan.parameters.push_back({entry.text("name"), entry.text("value")});
  }
  if (given.has("length")) plan.length = given.long_integer("length");
  return plan;
}

val rotary_plan(val rule) noexcept {
  return guarded([&] {
    const Options given(rule);
    RotaryShape shape;
    shape.width = given.integer("width");
    shape.base = given.number("base");
    shape.pairing = given.choice<Pairing>("pairing");
    shape.start = given.integer("start");
    std::optional<std::int64_t> length;
    if (given.has("length")) length = given.long_integer("length");
    RotaryPlan plan = resolve(shape, read_rule(given), length);
    if (given.has("sections")) {
      const std::vector<std::int32_t> sections = given.integers("sections");
      plan = with_axes(std::move(plan), given.flag("interleavedSections")
                                            ? interleaved_axes({sections.at(0), sections.at(1), sections.at(2)})
                                            : chunked_axes(sections));
    }
    if (given.has("xpos")) plan.xpos = read_xpos(Options(given.member("xpos")));
    require_plan("rotaryPlan", plan, given.integer("headDim"));
    return to_object(plan);
  });
}

val axial_rotary_plan(int convention, int head_dim, double base) noexcept {
  return guarded([&] { return to_object(axial_plan(static_cast<AxialConvention>(convention), head_dim, base)); });
}

val pixel_rotary_plan(val options) noexcept {
  return guarded([&] {
    const Options given(options);
    return to_object(pixel_plan({given.integer("featuresPerAxis"), given.number("maxFrequency"), given.integer("height"),
                                 given.integer("width"), given.choice<PixelBands>("bands")}));
  });
}

void convert_pairing(Address values, std::size_t count, double rows, double columns, val heads, int from, int to) noexcept {
  guarded([&] {
    const Options given(heads);
    const RotatedHeads shape{given.integer("heads"), given.integer("headDim"), given.integer("start"), given.integer("width")};
    const auto x = floats(values, count);
    const auto before = static_cast<Pairing>(from), after = static_cast<Pairing>(to);
    if (columns == 1) convert_heads(x, static_cast<std::int64_t>(rows), shape, before, after, x);
    else convert_weight(x, shape, static_cast<std::int64_t>(columns), before, after, x);
  });
}

val describe_plan(val plan) noexcept {
  return guarded([&] { return wasm::to_object(describe(read_plan(plan))); });
}

Rotation* make_rotation(val plan, int head_dim) noexcept {
  return guarded([&] { return new Rotation(read_plan(plan), head_dim); });
}

void rotation_prepare(Rotation& rotation, double count) noexcept {
  guarded([&] { rotation.prepare(static_cast<std::int64_t>(count)); });
}

void rotation_apply(const Rotation& rotation, Address x, std::size_t count, Address block, int heads, int role,
                    int direction) noexcept {
  guarded([&] {
    const auto values = floats(x, count);
    const Positions positions = read_positions(block);
    const auto as = static_cast<RotationRole>(role);
    if (direction > 0) rotation.apply(values, positions, heads, as, values);
    else rotation.apply_inverse(values, positions, heads, as, values);
  });
}

double rotation_reach(const Rotation& rotation) noexcept { return rotation.xpos_reach(); }

void rotation_advance(const Rotation& rotation, Address key, std::size_t count, double delta) noexcept {
  guarded([&] { rotation.advance_key(floats(key, count), static_cast<std::int64_t>(delta)); });
}

val scale_plan_axes(val plan, val factors) noexcept {
  return guarded([&] {
    RotaryPlan scaled = scale_axes(read_plan(plan), emscripten::convertJSArrayToNumberVector<double>(factors));
    require_plan("scale_axes", scaled, scaled.start + scaled.rotated_width());
    return to_object(scaled);
  });
}

val plan_difference(val a, val b) noexcept {
  return guarded([&] { return val(difference_of(read_plan(a), read_plan(b))); });
}

val layer_plans(val options) noexcept {
  return guarded([&] {
    const Options given(options);
    const auto plan = [&](const val& object) {
      return object.isNull() || object.isUndefined() ? std::nullopt : std::optional(read_plan(object));
    };
    const auto plans = [&] {
      if (given.has("kindOfLayer")) {
        std::vector<std::optional<RotaryPlan>> kinds;
        const val list = given.member("kinds");
        const auto count = list["length"].as<unsigned>();
        for (unsigned i = 0; i < count; ++i) kinds.push_back(plan(list[i]));
        return LayerPlans::by_kind(given.integers("kindOfLayer"), std::move(kinds));
      }
      if (!given.has("interval")) return LayerPlans(given.integer("layers"), plan(given.member("plan")));
      return LayerPlans::every_nth(given.integer("layers"), given.integer("interval"), given.choice<EveryNth>("which"),
                                   plan(given.member("special")), plan(given.member("other")));
    }();
    List kinds;
    for (const auto& kind : plans.kinds()) kinds.add(kind ? to_object(*kind) : val::null());
    std::vector<std::int32_t> kind_of_layer;
    for (std::int32_t l = 0; l < plans.layers(); ++l) kind_of_layer.push_back(plans.kind(l));
    const std::vector<std::int32_t> without = plans.layers_without_position();
    Object object;
    object.set("kinds", kinds);
    object.set("kindOfLayer", to_array(std::span<const std::int32_t>(kind_of_layer)));
    object.set("layersWithoutPosition", to_array(std::span<const std::int32_t>(without)));
    object.set("descriptions", wasm::to_object(plans.describe()));
    return object;
  });
}

val pairing_residuals(val plan, int head_dim, int heads, Address x, Address rotated, std::size_t count,
                      Address block) noexcept {
  return guarded([&] {
    const PairingResidual residual = compare_pairings(read_plan(plan), head_dim, floats(x, count), floats(rotated, count),
                                                      read_positions(block), heads);
    Object object;
    object.set("interleaved", residual.interleaved);
    object.set("halfSplit", residual.half_split);
    return object;
  });
}

DecoupledRotation* make_decoupled_rotation(val plan, int plain_dim, int rotary_dim) noexcept {
  return guarded([&] { return new DecoupledRotation(read_plan(plan), plain_dim, rotary_dim); });
}

void decoupled_rotation_prepare(DecoupledRotation& rotation, double count) noexcept {
  guarded([&] { rotation.prepare(static_cast<std::int64_t>(count)); });
}

val decoupled_rotation_describe(const DecoupledRotation& rotation) noexcept {
  return guarded([&] { return wasm::to_object(rotation.describe()); });
}

void decoupled_rotation_apply_query(const DecoupledRotation& rotation, Address q, std::size_t count, Address block,
                                    int heads) noexcept {
  guarded([&] { rotation.apply_query(floats(q, count), read_positions(block), heads, floats(q, count)); });
}

void decoupled_rotation_join_key(const DecoupledRotation& rotation, Address plain, std::size_t plains, Address shared,
                                 std::size_t shareds, Address block, int heads, Address out, std::size_t count) noexcept {
  guarded([&] {
    rotation.join_key(floats(plain, plains), floats(shared, shareds), read_positions(block), heads, floats(out, count));
  });
}

}  // namespace locant::wasm
