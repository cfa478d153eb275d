#include "locant/rotary/rules.hpp"

#include <algorithm>
#include <numbers>
#include <utility>

#include "locant/position/positions.hpp"

namespace locant {
namespace {

constexpr const char* kCall = "resolve";

// f_i = 1 / base^(2i/width): the reciprocal of a power, as every published implementation has it.
std::vector<double> frequencies(double base, std::int32_t width, std::int32_t pairs) {
  std::vector<double> out(static_cast<std::size_t>(pairs));
  for (std::int32_t i = 0; i < pairs; ++i) {
    out[static_cast<std::size_t>(i)] = 1.0 / std::pow(base, 2.0 * i / width);
  }
  return out;
}

void require_shape(const RotaryShape& shape) {
  require_range(kCall, "the rotated width", shape.width, 2, 65536);
  if (shape.width % 2 != 0) {
    throw Error(ErrorCode::kArgument,
                sentence(kCall, ": the rotated width is ", shape.width, ", expected an even number"), shape.width,
                shape.width - 1);
  }
  require_positive(kCall, "the base", shape.base);
  require_range(kCall, "start", shape.start, 0, 65534);
}

// A parameter that must lie at or above a limit; NaN does not.
void require_at_least(const char* what, double value, double limit) {
  require_finite(kCall, what, value);
  if (value >= limit) return;
  throw Error(ErrorCode::kArgument, sentence(kCall, ": ", what, " is ", value, ", expected ", limit, " or more"), value,
              limit);
}

// base * inner^(w/(w-2)), the base under which the slowest pair is slowed by `inner`.
double ntk_base(const RotaryShape& shape, double inner) {
  if (shape.width < 4) {
    throw Error(ErrorCode::kArgument,
                sentence(kCall, ": the rotated width is ", shape.width,
                         ", expected 4 or more for NTK scaling, whose exponent is w/(w-2)"),
                shape.width, 4);
  }
  return shape.base * std::pow(inner, static_cast<double>(shape.width) / (shape.width - 2));
}

// What a rule needs of its surroundings, and the plan it fills in.
struct Resolver {
  const RotaryShape& shape;
  std::optional<std::int64_t> length;
  RotaryPlan plan;

  std::int32_t pairs() const { return shape.width / 2; }
  std::vector<double>& f() { return plan.inverse_frequencies; }
  void note(const char* name, double value) { plan.parameters.push_back(parameter(name, value)); }

  std::int64_t required_length(const char* rule) {
    if (!length) fail(ErrorCode::kArgument, kCall, ": ", rule, " depends on the length, and none was given");
    plan.length = length;
    return *length;
  }

  void operator()(const DefaultRule&) {}

  void operator()(const LinearRule& rule) {
    require_positive(kCall, "the factor", rule.factor);
    note("factor", rule.factor);
    for (double& f : f()) f /= rule.factor;
  }

  void operator()(const NtkRule& rule) {
    require_positive(kCall, "the factor", rule.factor);
    note("factor", rule.factor);
    scale_base(ntk_base(shape, rule.factor));
  }

  void operator()(const VllmNtkRule& rule) {
    require_positive(kCall, "the factor", rule.factor);
    note("factor", rule.factor);
    scale_base(shape.base * rule.factor);
    const double divisor = std::pow(rule.factor, 2.0 / shape.width);
    for (double& f : f()) f /= divisor;
  }

  void operator()(const VllmMixedNtkRule& rule) {
    require_positive(kCall, "the factor", rule.factor);
    require_finite(kCall, "b", rule.b);
    note("factor", rule.factor);
    note("b", rule.b);
    const double a = std::log(rule.factor) / std::pow(pairs(), rule.b);
    for (std::int32_t i = 0; i < pairs(); ++i)
      f()[static_cast<std::size_t>(i)] /= std::exp(a * std::pow(i + 1, rule.b));
  }

  void operator()(const DynamicNtkRule& rule) {
    require_at_least("the factor", rule.factor, 1);
    require_range(kCall, "the trained length", rule.trained_length, 1, std::int64_t{kMaxPosition} + 1);
    note("factor", rule.factor);
    note("trained length", static_cast<double>(rule.trained_length));
    const std::int64_t n = std::max(required_length("dynamic NTK"), rule.trained_length);
    const double ratio = static_cast<double>(n) / static_cast<double>(rule.trained_length);
    scale_base(ntk_base(shape, rule.factor * ratio - (rule.factor - 1)));
  }

  void operator()(const YarnRule& rule) {
    const YarnRamp ramp = yarn_ramp(shape, rule);
    note("factor", rule.factor);
    note("original length", rule.original_length);
    note("beta fast", rule.beta_fast);
    note("beta slow", rule.beta_slow);
    plan.parameters.push_back({"ramp ends", rule.ramp_ends == RampEnds::kWholePairs ? "whole pairs" : "exact"});
    note("ramp low", ramp.low);
    note("ramp high", ramp.high);
    for (std::int32_t i = 0; i < pairs(); ++i) {
      const double r = std::clamp((i - ramp.low) / (ramp.high - ramp.low), 0.0, 1.0);
      // f (1 - r) + f / s r, written so that s = 1 leaves every bit of f.
      f()[static_cast<std::size_t>(i)] *= 1 + r * (1 / rule.factor - 1);
    }
    const auto given = [](const std::optional<double>& m) { return m && *m != 0; };
    if (rule.mscale) {
      require_at_least("mscale", *rule.mscale, 0);
      note("mscale", *rule.mscale);
    }
    if (rule.mscale_all_dim) {
      require_at_least("mscale_all_dim", *rule.mscale_all_dim, 0);
      note("mscale all dim", *rule.mscale_all_dim);
    }
    if (rule.attention_factor) {
      require_positive(kCall, "the attention factor", *rule.attention_factor);
      plan.attention_factor = *rule.attention_factor;
    } else if (given(rule.mscale) && given(rule.mscale_all_dim)) {
      plan.attention_factor =
          yarn_attention_scale(rule.factor, *rule.mscale) / yarn_attention_scale(rule.factor, *rule.mscale_all_dim);
    } else {
      plan.attention_factor = yarn_attention_scale(rule.factor, 1);
    }
    if (rule.softmax_scale == SoftmaxScaleRule::kDeepSeek && given(rule.mscale_all_dim)) {
      const double g = yarn_attention_scale(rule.factor, *rule.mscale_all_dim);
      plan.softmax_scale_factor = g * g;
    }
  }

  void operator()(const LongRopeRule& rule) {
    require_range(kCall, "the original length", rule.original_length, 1, std::int64_t{kMaxPosition} + 1);
    const bool is_long = required_length("LongRoPE") > rule.original_length;
    for (const auto& [what, factors] :
         {std::pair{"short factors", &rule.short_factors}, std::pair{"long factors", &rule.long_factors}}) {
      if (factors->size() != f().size()) {
        throw Error(ErrorCode::kArgument,
                    sentence(kCall, ": there are ", factors->size(), " ", what, ", expected one for each of the ",
                             f().size(), " pairs"),
                    static_cast<double>(factors->size()), static_cast<double>(f().size()));
      }
      for (std::size_t i = 0; i < factors->size(); ++i)
        require_positive(kCall, sentence(what, ": number ", i), (*factors)[i]);
    }
    const std::vector<double>& factors = is_long ? rule.long_factors : rule.short_factors;
    // 1 / (e base^(2i/w)), in the published order of operations.
    for (std::size_t i = 0; i < f().size(); ++i) {
      f()[i] = 1.0 / (factors[i] * std::pow(shape.base, 2.0 * static_cast<double>(i) / shape.width));
    }
    note("original length", static_cast<double>(rule.original_length));
    plan.parameters.push_back({"factors", is_long ? "long" : "short"});
    const double original = static_cast<double>(rule.original_length);
    if (rule.short_attention_factor.has_value() != rule.long_attention_factor.has_value() ||
        (rule.attention_factor && rule.short_attention_factor)) {
      fail(ErrorCode::kArgument, kCall,
           ": LongRoPE takes one attention factor, or a short and a long one, and not one of those or all three");
    }
    const std::optional<double> own = rule.attention_factor         ? rule.attention_factor
                                      : is_long                     ? rule.long_attention_factor
                                                                    : rule.short_attention_factor;
    for (const std::optional<double>& factor :
         {rule.attention_factor, rule.short_attention_factor, rule.long_attention_factor}) {
      if (factor) require_positive(kCall, "the attention factor", *factor);
    }
    double s = 1;
    if (rule.factor) {
      require_positive(kCall, "the factor", *rule.factor);
      s = *rule.factor;
    } else if (rule.maximum_length) {
      require_positive(kCall, "the maximum length", *rule.maximum_length);
      s = *rule.maximum_length / original;
    } else if (!own) {
      fail(ErrorCode::kArgument, kCall,
           ": LongRoPE has no factor, no maximum length and no attention factor, expected one of them");
    }
    note("factor", s);
    if (own) {
      plan.attention_factor = *own;
    } else if (s > 1) {
      if (rule.original_length < 2) {
        fail(ErrorCode::kArgument, kCall, ": the original length is ", rule.original_length,
             ", expected 2 or more, since the attention factor divides by its logarithm");
      }
      plan.attention_factor = std::sqrt(1 + std::log(s) / std::log(original));
    }
  }

  void operator()(const Llama3Rule& rule) {
    require_positive(kCall, "the factor", rule.factor);
    require_positive(kCall, "the low frequency factor", rule.low_frequency_factor);
    require_positive(kCall, "the high frequency factor", rule.high_frequency_factor);
    require_positive(kCall, "the original length", rule.original_length);
    require_at_least("the high frequency factor", rule.high_frequency_factor, rule.low_frequency_factor);
    note("factor", rule.factor);
    note("low frequency factor", rule.low_frequency_factor);
    note("high frequency factor", rule.high_frequency_factor);
    note("original length", rule.original_length);
    const double longest = rule.original_length / rule.low_frequency_factor;
    const double shortest = rule.original_length / rule.high_frequency_factor;
    for (double& f : f()) {
      const double wavelength = 2 * std::numbers::pi / f;
      double t = 1;
      if (wavelength > longest) {
        t = 0;
      } else if (wavelength >= shortest && rule.high_frequency_factor > rule.low_frequency_factor) {
        t = std::clamp((rule.original_length / wavelength - rule.low_frequency_factor) /
                           (rule.high_frequency_factor - rule.low_frequency_factor),
                       0.0, 1.0);
      }
      if (t == 0) {
        f /= rule.factor;
      } else if (t < 1) {
        // (1 - t) f / s + t f, written so that s = 1 leaves every bit of f.
        f *= 1 + (1 - t) * (1 / rule.factor - 1);
      }
    }
  }

  void operator()(const ProportionalRule& rule) {
    require_finite(kCall, "the fraction", rule.fraction);
    if (rule.fraction < 0 || rule.fraction > 1) {
      throw Error(ErrorCode::kArgument, sentence(kCall, ": the fraction is ", rule.fraction, ", expected 0 to 1"),
                  rule.fraction, rule.fraction < 0 ? 0 : 1);
    }
    require_positive(kCall, "the factor", rule.factor);
    note("fraction", rule.fraction);
    note("factor", rule.factor);
    const auto turning = static_cast<std::int32_t>(rule.fraction * shape.width / 2);
    note("pairs that turn", turning);
    for (std::int32_t i = 0; i < pairs(); ++i) {
      double& f = this->f()[static_cast<std::size_t>(i)];
      f = i < turning ? f / rule.factor : 0;
    }
  }

  void operator()(const CustomRule& rule) {
    if (rule.inverse_frequencies.size() != f().size()) {
      throw Error(ErrorCode::kArgument,
                  sentence(kCall, ": there are ", rule.inverse_frequencies.size(), " inverse frequencies, expected ",
                           shape.width, " / 2 = ", f().size()),
                  static_cast<double>(rule.inverse_frequencies.size()), static_cast<double>(f().size()));
    }
    for (std::size_t i = 0; i < f().size(); ++i) {
      require_finite(kCall, sentence("inverse frequency ", i), rule.inverse_frequencies[i]);
    }
    f() = rule.inverse_frequencies;
    plan.base.reset();
  }

private:
  void scale_base(double base) {
    require_finite(kCall, "the scaled base", base);
    note("scaled base", base);
    f() = frequencies(base, shape.width, pairs());
  }
};

}  // namespace

YarnRamp yarn_ramp(const RotaryShape& shape, const YarnRule& rule) {
  require_shape(shape);
  require_positive(kCall, "the factor", rule.factor);
  require_positive(kCall, "the original length", rule.original_length);
  require_positive(kCall, "beta_slow", rule.beta_slow);
  require_positive(kCall, "beta_fast", rule.beta_fast);
  require_at_least("beta_fast (against beta_slow)", rule.beta_fast, rule.beta_slow);
  if (shape.base <= 1) {
    throw Error(ErrorCode::kArgument, sentence(kCall, ": the base is ", shape.base, ", expected more than 1 for YaRN"),
                shape.base, 1);
  }
  const auto pair_of = [&](double turns) {
    return shape.width * std::log(rule.original_length / (turns * 2 * std::numbers::pi)) / (2 * std::log(shape.base));
  };
  YarnRamp ramp{pair_of(rule.beta_fast), pair_of(rule.beta_slow)};
  if (rule.ramp_ends == RampEnds::kWholePairs) ramp = {std::floor(ramp.low), std::ceil(ramp.high)};
  ramp.low = std::max(ramp.low, 0.0);
  ramp.high = std::min(ramp.high, shape.width - 1.0);
  if (ramp.low == ramp.high) ramp.high += 0.001;
  return ramp;
}

double yarn_attention_scale(double factor, double m) { return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1.0; }

bool depends_on_length(const RotaryRule& rule) noexcept {
  return std::holds_alternative<DynamicNtkRule>(rule) || std::holds_alternative<LongRopeRule>(rule);
}

const char* name_of(const RotaryRule& rule) noexcept {
  static constexpr const char* kNames[] = {"default",        "linear",       "ntk",   "vllm-ntk",
                                           "vllm-ntk-mixed", "dynamic-ntk",  "yarn",  "longrope",
                                           "llama3",         "proportional", "custom"};
  static_assert(std::size(kNames) == std::variant_size_v<RotaryRule>);
  return kNames[rule.index()];
}

RotaryPlan resolve(const RotaryShape& shape, const RotaryRule& rule, std::optional<std::int64_t> length) {
  require_shape(shape);
  if (length) require_range(kCall, "the length", *length, 1, std::int64_t{kMaxPosition} + 1);
  Resolver resolver{shape, length, {}};
  RotaryPlan& plan = resolver.plan;
  plan.inverse_frequencies = frequencies(shape.base, shape.width, resolver.pairs());
  plan.pairing = shape.pairing;
  plan.start = shape.start;
  plan.rule = name_of(rule);
  plan.base = shape.base;
  std::visit(resolver, rule);
  // A base or factor at the end of double can still overflow or vanish a frequency.
  require_plan(kCall, plan, plan.start + plan.rotated_width());
  return std::move(resolver.plan);
}

}  // namespace locant
