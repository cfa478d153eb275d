// Every method describes itself as data: name, door, absolute or relative, parameters, table size or frequency formula,
// indexing origin, direction and what it does past its end. One list of all of them.
#include <set>

#include "locant/absolute/grid_sinusoidal.hpp"
#include "locant/absolute/interpolation.hpp"
#include "locant/absolute/learned_table.hpp"
#include "locant/absolute/sinusoidal.hpp"
#include "locant/attention/attention.hpp"
#include "locant/bias/alibi.hpp"
#include "locant/bias/cope.hpp"
#include "locant/bias/custom.hpp"
#include "locant/bias/deberta.hpp"
#include "locant/bias/decay.hpp"
#include "locant/bias/fire.hpp"
#include "locant/bias/shaw.hpp"
#include "locant/bias/t5.hpp"
#include "locant/bias/transformer_xl.hpp"
#include "locant/rotary/axes.hpp"
#include "locant/rotary/decoupled.hpp"
#include "locant/rotary/layers.hpp"
#include "locant/rotary/rules.hpp"
#include "support.hpp"

using namespace locant;
using namespace locant::test;

namespace {

struct Method {
  MethodDescription says;
  Door door;
  Reference reference;
  std::vector<const char*> parameters;  // names that it must have
};

std::vector<Method> every_method() {
  constexpr Door kIn = Door::kInput, kTurn = Door::kRotation, kScore = Door::kScore;
  constexpr Reference kAbsolute = Reference::kAbsolute, kRelative = Reference::kRelative;
  std::vector<Method> all;
  for (const SinusoidLayout layout : {SinusoidLayout::kInterleaved, SinusoidLayout::kConcatenated, SinusoidLayout::kTensor2Tensor,
                                      SinusoidLayout::kMlx}) {
    all.push_back({Sinusoidal({.width = 8, .layout = layout}).describe(), kIn, kAbsolute,
                   {"width", "base", "largest frequency", "scale", "position offset", "order"}});
  }
  for (const GridOrder order : {GridOrder::kRowFirst, GridOrder::kColumnFirst}) {
    all.push_back({GridSinusoidal({8, order}).describe(), kIn, kAbsolute, {"features", "base"}});
  }
  all.push_back({describe(DetrConfig{.features_per_axis = 4}), kIn, kAbsolute, {"features of an axis", "base", "normalized", "scale", "epsilon"}});
  for (const PastEnd end : {PastEnd::kError, PastEnd::kTruncate, PastEnd::kClamp, PastEnd::kInterpolate}) {
    const TableConfig config{.rows = 6, .width = 2, .indexing = TableIndexing::opt(), .past_end = end, .length = end == PastEnd::kInterpolate ? 8 : 0};
    all.push_back({LearnedTable(config, std::vector<float>(12)).describe(), kIn, kAbsolute,
                   {"rows", "width", "first row", "padding row", "parameters", "length"}});
  }
  all.push_back({describe({2, 2}, {3, 3}, 4), kIn, kAbsolute, {"trained grid", "grid", "filter", "sample centers"}});

  const std::vector<RotaryRule> rules{DefaultRule{}, LinearRule{2}, NtkRule{2}, VllmNtkRule{2}, VllmMixedNtkRule{2},
                                      DynamicNtkRule{2, 64}, YarnRule{.factor = 2, .original_length = 64},
                                      LongRopeRule{{1, 1, 1, 1}, {2, 2, 2, 2}, 64, 2.0}, Llama3Rule{2, 1, 4, 64},
                                      ProportionalRule{0.5}, CustomRule{{1, 2, 3, 4}}};
  REQUIRE(rules.size() == std::variant_size_v<RotaryRule>);
  for (const RotaryRule& rule : rules) {
    all.push_back({describe(resolve({.width = 8}, rule, 128)), kTurn, kRelative,
                   {"rotated width", "start", "pairing", "attention factor", "softmax scale factor"}});
  }
  all.push_back({describe(resolve({.width = 8, .pairing = Pairing::kInterleaved})), kTurn, kRelative, {"base", "pairing"}});
  RotaryPlan xpos = resolve({.width = 8});
  xpos.xpos = XPos{};
  all.push_back({describe(xpos), kTurn, kRelative, {"xPos gamma", "xPos scale base", "xPos centre"}});
  all.push_back({describe(with_axes(resolve({.width = 8}), chunked_axes(std::vector<std::int32_t>{2, 1, 1}))), kTurn, kRelative,
                 {"axes", "axis of pair"}});
  for (const AxialConvention convention : {AxialConvention::kQwen2Vl, AxialConvention::kPixtral, AxialConvention::kLlama4, AxialConvention::kRows}) {
    all.push_back({describe(axial_plan(convention, 8)), kTurn, kRelative, {"base", "axes", "axis of pair"}});
  }
  all.push_back({describe(pixel_plan({4, 10, 3, 3})), kTurn, kRelative, {"largest frequency", "height", "width", "bands", "offset of axis 0"}});
  all.push_back({DecoupledRotation(resolve({.width = 8}), 16, 8).describe(), kTurn, kRelative, {"plain width", "rotary width"}});
  for (MethodDescription& kind : LayerPlans::every_nth(8, 4, EveryNth::kLastOfGroup, std::nullopt, resolve({.width = 6})).describe()) {
    all.push_back({std::move(kind), kTurn, kRelative, {"layers"}});
  }

  for (const AlibiForm form : {AlibiForm::kCausal, AlibiForm::kSymmetric, AlibiForm::kKeyOnly}) {
    all.push_back({Alibi(alibi_slopes(4), form).describe(), kScore, form == AlibiForm::kKeyOnly ? kAbsolute : kRelative, {"heads", "slopes"}});
  }
  for (const T5Direction direction : {T5Direction::kUnidirectional, T5Direction::kBidirectional}) {
    all.push_back({T5Bias(T5Buckets(direction), 2, std::vector<float>(64)).describe(), kScore, kRelative, {"buckets", "largest distance", "heads"}});
  }
  const auto shaw = [] { return ShawTable({2, 1, 4}, std::vector<float>(20)); };
  all.push_back({ShawKeys(shaw()).describe(), kScore, kRelative, {"largest distance", "heads", "width"}});
  all.push_back({ShawValues(shaw()).describe(), kScore, kRelative, {"largest distance", "heads", "width"}});
  all.push_back({TransformerXl({.heads = 1, .head_dim = 2, .model_width = 2}, std::vector<float>(4), std::vector<float>(2), std::vector<float>(2)).describe(),
                 kScore, kRelative, {"heads", "head size", "model width", "base", "clamp"}});
  all.push_back({Deberta(DebertaBuckets({4, 8}), 1, 2, std::vector<float>(16), {}).describe(), kScore, kRelative,
                 {"heads", "head size", "buckets", "largest position", "far", "p2c"}});
  for (const KerpleKernel kernel : {KerpleKernel::kLogarithmic, KerpleKernel::kPower}) {
    all.push_back({Kerple(kernel, {1}, {1}).describe(), kScore, kRelative, {"heads", "r1", "r2"}});
  }
  all.push_back({Sandwich(2).describe(), kScore, kRelative, {"heads", "width", "base"}});
  all.push_back({Fire({.w1 = {1}, .b1 = {0}, .w2 = {1}, .b2 = {0}}).describe(), kScore, kRelative, {"heads", "hidden", "c", "threshold", "epsilon"}});
  all.push_back({describe(CopeConfig{2, 1, 4, 8, 1}), kScore, kRelative, {"heads", "key heads", "head size", "positions", "scale"}});
  all.push_back({FunctionBias([](std::int32_t, std::int64_t d) { return static_cast<double>(d); }, "d").describe(), kScore, kRelative, {}});
  all.push_back({DisplacementTable(1, -1, 1, std::vector<float>(3)).describe(), kScore, kRelative, {"heads", "first", "last"}});
  all.push_back({MatrixBias(1, 2, 2, std::vector<float>(4)).describe(), kScore, kAbsolute, {"heads", "queries", "keys"}});
  all.push_back({describe(Temperature{}), kScore, kAbsolute, {"slope", "period", "shift"}});
  return all;
}

}  // namespace

TEST_CASE("every method describes itself as data, in words") {
  const std::vector<Method> all = every_method();
  CHECK(all.size() == 52);
  std::set<std::string> names;
  for (const Method& method : all) {
    const MethodDescription& d = method.says;
    CAPTURE(d.name);
    CHECK(!d.name.empty());
    names.insert(d.name);
    CHECK(d.door == method.door);
    CHECK(d.reference == method.reference);
    for (const std::string* text : {&d.formula, &d.source, &d.origin, &d.direction, &d.past_end}) CHECK(!text->empty());
    for (const char* name : method.parameters) {
      CAPTURE(name);
      CHECK(std::count_if(d.parameters.begin(), d.parameters.end(), [&](const MethodParameter& p) { return p.name == name; }) == 1);
    }
    for (const MethodParameter& p : d.parameters) {
      CAPTURE(p.name);
      CHECK(!p.value.empty());
      CHECK_MESSAGE(p.name.find('_') == std::string::npos, "parameters are named in words");
    }
    if (method.door == Door::kInput) CHECK(d.direction == "none");
    if (method.door == Door::kScore && method.reference == Reference::kRelative) {
      CHECK((d.direction.find("key - query") != std::string::npos || d.direction.find("query - key") != std::string::npos ||
             d.direction.find("back from the query") != std::string::npos));
    }
  }
  // Names tell methods apart; the four policies of one table share its name, and a layer that rotates has its plan's.
  CHECK(names.size() == all.size() - 4);
}

TEST_CASE("description: numbers of parameters read back to the same double") {
  const MethodDescription d = describe(resolve({.width = 8, .base = 500000.125}, LinearRule{1.0 / 3}));
  for (const auto& [name, value] : {std::pair{"base", 500000.125}, std::pair{"factor", 1.0 / 3}}) {
    const auto found = std::find_if(d.parameters.begin(), d.parameters.end(), [&](const MethodParameter& p) { return p.name == name; });
    REQUIRE(found != d.parameters.end());
    CHECK(std::stod(found->value) == value);
  }
}

TEST_CASE("attention describes what it was made of, door by door") {
  AttentionConfig config;
  config.shape = {2, 2, 4, 4};
  CHECK(Attention(config).describe().empty());
  config.rotation = std::make_shared<Rotation>(resolve({.width = 4}), 4);
  config.score_terms = {std::make_shared<Alibi>(alibi_slopes(2))};
  config.value_term = std::make_shared<ShawValues>(ShawTable({1, 1, 4}, std::vector<float>(12)));
  config.temperature = Temperature{};
  std::vector<std::string> names;
  for (const MethodDescription& d : Attention(config).describe()) names.push_back(d.name);
  CHECK(names == std::vector<std::string>{"rotary, half-split, default", "ALiBi, causal", "Shaw, values", "attention temperature"});
}

TEST_CASE("plans: what keeps two from the same rotation is named") {
  const RotaryPlan plan = resolve({.width = 8});
  const auto changed = [&](auto change) {
    RotaryPlan other = plan;
    change(other);
    CHECK(!plan.same_rotation(other));
    return difference_of(plan, other);
  };
  CHECK(difference_of(plan, plan).empty());
  CHECK(changed([](RotaryPlan& p) { p.pairing = Pairing::kInterleaved; }) == "the pairing is half-split in one and interleaved in the other");
  CHECK(changed([](RotaryPlan& p) { p.start = 2; }) == "the first rotated coordinate is 0 in one and 2 in the other");
  CHECK(changed([](RotaryPlan& p) { p.inverse_frequencies.pop_back(); }) == "the rotated width is 8 in one and 6 in the other");
  CHECK(changed([](RotaryPlan& p) { p.inverse_frequencies[1] = 0.25; }) == "the frequency of pair 1 is 0.1 in one and 0.25 in the other");
  CHECK(changed([](RotaryPlan& p) { p.attention_factor = 2; }) == "the attention factor is 1 in one and 2 in the other");
  CHECK(changed([](RotaryPlan& p) { p.softmax_scale_factor = 2; }) == "the softmax scale factor is 1 in one and 2 in the other");
  CHECK(changed([](RotaryPlan& p) { p.xpos = XPos{}; }) == "one has xPos and the other has not");
  CHECK(changed([](RotaryPlan& p) { p.axis_of_pair = {0, 0, 1, 1}; }) == "the axis of pair 2 is 0 in one and 1 in the other");
  CHECK(changed([](RotaryPlan& p) { p.axis_offsets = {3}; }) == "the offset of axis 0 is 0 in one and 3 in the other");
  CHECK(changed([](RotaryPlan& p) { p.axis_of_pair = {0}; }) == "one of them does not give every pair an axis");
  RotaryPlan zeros = plan;
  zeros.axis_of_pair = {0, 0, 0, 0};
  zeros.axis_offsets = {0};
  CHECK(difference_of(plan, zeros).empty());
}
