#include "locant/rotary/plan.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "locant/position/angle.hpp"

namespace locant {
namespace {

// The sentence of a plan that does not hold, with its value and limit.
template <class... Parts>
[[noreturn]] void refuse(double value, double limit, const Parts&... parts) {
  throw Error(ErrorCode::kArgument, sentence(parts...), value, limit);
}

}  // namespace

std::int32_t RotaryPlan::axes() const noexcept {
  if (axis_of_pair.empty()) return 1;
  return 1 + static_cast<std::int32_t>(*std::max_element(axis_of_pair.begin(), axis_of_pair.end()));
}

namespace {

// An empty vector of axes or offsets means all zero, so they are compared by what they mean.
int axis(const RotaryPlan& plan, std::size_t pair) {
  return pair < plan.axis_of_pair.size() ? int{plan.axis_of_pair[pair]} : 0;
}
double offset(const RotaryPlan& plan, std::size_t a) {
  return a < plan.axis_offsets.size() ? plan.axis_offsets[a] : 0.0;
}

}  // namespace

bool RotaryPlan::same_rotation(const RotaryPlan& other) const noexcept {
  if (inverse_frequencies != other.inverse_frequencies || pairing != other.pairing || start != other.start ||
      attention_factor != other.attention_factor || softmax_scale_factor != other.softmax_scale_factor ||
      xpos != other.xpos) {
    return false;
  }
  const auto one_axis_per_pair = [](const RotaryPlan& plan) {
    return plan.axis_of_pair.empty() || plan.axis_of_pair.size() == plan.inverse_frequencies.size();
  };
  if (!one_axis_per_pair(*this) || !one_axis_per_pair(other)) return false;
  for (std::size_t i = 0; i < inverse_frequencies.size(); ++i) {
    if (axis(*this, i) != axis(other, i)) return false;
  }
  for (std::size_t a = 0; a < static_cast<std::size_t>(axes()); ++a) {
    if (offset(*this, a) != offset(other, a)) return false;
  }
  return true;
}

std::string difference_of(const RotaryPlan& a, const RotaryPlan& b) {
  if (a.same_rotation(b)) return {};
  const auto numbers = [](const char* what, double x, double y) {
    return sentence(what, " is ", number_text(x), " in one and ", number_text(y), " in the other");
  };
  if (a.pairing != b.pairing) {
    return sentence("the pairing is ", to_string(a.pairing), " in one and ", to_string(b.pairing), " in the other");
  }
  if (a.start != b.start) return numbers("the first rotated coordinate", a.start, b.start);
  if (a.pairs() != b.pairs()) return numbers("the rotated width", a.rotated_width(), b.rotated_width());
  for (std::size_t i = 0; i < a.inverse_frequencies.size(); ++i) {
    if (a.inverse_frequencies[i] != b.inverse_frequencies[i]) {
      return numbers(sentence("the frequency of pair ", i).c_str(), a.inverse_frequencies[i], b.inverse_frequencies[i]);
    }
  }
  if (a.attention_factor != b.attention_factor) {
    return numbers("the attention factor", a.attention_factor, b.attention_factor);
  }
  if (a.softmax_scale_factor != b.softmax_scale_factor) {
    return numbers("the softmax scale factor", a.softmax_scale_factor, b.softmax_scale_factor);
  }
  if (a.xpos != b.xpos) {
    if (!a.xpos || !b.xpos) return "one has xPos and the other has not";
    if (a.xpos->gamma != b.xpos->gamma) return numbers("gamma of xPos", a.xpos->gamma, b.xpos->gamma);
    if (a.xpos->scale_base != b.xpos->scale_base) {
      return numbers("the scale base of xPos", a.xpos->scale_base, b.xpos->scale_base);
    }
    return numbers("the centre of xPos", a.xpos->center, b.xpos->center);
  }
  for (std::size_t i = 0; i < a.inverse_frequencies.size(); ++i) {
    if (axis(a, i) != axis(b, i)) return numbers(sentence("the axis of pair ", i).c_str(), axis(a, i), axis(b, i));
  }
  for (std::size_t at = 0; at < static_cast<std::size_t>(std::max(a.axes(), b.axes())); ++at) {
    if (offset(a, at) != offset(b, at)) {
      return numbers(sentence("the offset of axis ", at).c_str(), offset(a, at), offset(b, at));
    }
  }
  return "one of them does not give every pair an axis";
}

void require_plan(std::string_view call, const RotaryPlan& plan, std::int32_t head_dim) {
  require_range(call, "head_dim", head_dim, 1, 65536);
  if (plan.inverse_frequencies.empty()) refuse(0, 1, call, ": the plan has no pair, expected at least 1");
  const auto width = 2 * static_cast<std::int64_t>(plan.inverse_frequencies.size());
  if (plan.start < 0) {
    refuse(plan.start, 0, call, ": the plan starts at coordinate ", plan.start, ", expected 0 or more");
  }
  if (plan.start + width > head_dim) {
    refuse(static_cast<double>(plan.start + width), head_dim, call, ": the plan rotates coordinates ", plan.start,
           " to ", plan.start + width - 1, ", a head has ", head_dim);
  }
  for (std::size_t i = 0; i < plan.inverse_frequencies.size(); ++i) {
    const double f = plan.inverse_frequencies[i];
    if (!std::isfinite(f)) {
      refuse(f, 0, call, ": the inverse frequency of pair ", i, " is ", f, ", expected a finite number");
    }
  }
  // Its square and the square's inverse must be float32 numbers.
  require_positive(call, "the attention factor", plan.attention_factor);
  if (plan.attention_factor > kLargestFactor || plan.attention_factor < 1 / kLargestFactor) {
    refuse(plan.attention_factor, kLargestFactor, call, ": the attention factor is ", plan.attention_factor,
           ", expected 2^-60 to 2^60");
  }
  require_factor(call, "the softmax scale factor", plan.softmax_scale_factor);
  if (!plan.axis_of_pair.empty()) {
    require_size(call, "axes of pairs", plan.axis_of_pair.size(), plan.inverse_frequencies.size(), "one for each pair");
    require_range(call, "the largest axis of a pair", plan.axes() - 1, 0, 7);
  }
  if (!plan.axis_offsets.empty()) {
    require_size(call, "axis offsets", plan.axis_offsets.size(), static_cast<std::size_t>(plan.axes()),
                 "one for each axis");
    for (const double offset : plan.axis_offsets) require_offset(call, "an axis offset", offset);
  }
  for (std::size_t i = 0; i < plan.inverse_frequencies.size(); ++i) {
    const std::size_t axis = plan.axis_of_pair.empty() ? 0 : plan.axis_of_pair[i];
    require_frequency(call, sentence("the inverse frequency of pair ", i), plan.inverse_frequencies[i],
                      axis < plan.axis_offsets.size() ? plan.axis_offsets[axis] : 0);
  }
  if (plan.xpos) {
    require_offset(call, "the centre of xPos", plan.xpos->center);
    require_positive(call, "the scale base of xPos", plan.xpos->scale_base);
    // Pair 0 has zeta = gamma / (1 + gamma), which is 0 at gamma = 0.
    require_positive(call, "gamma of xPos", plan.xpos->gamma);
    const double steepest = std::log(plan.xpos->gamma / (1 + plan.xpos->gamma)) / plan.xpos->scale_base;
    if (!std::isfinite(steepest)) {
      refuse(plan.xpos->scale_base, 0, call, ": gamma ", plan.xpos->gamma, " and scale base ", plan.xpos->scale_base,
             " of xPos give no finite scale");
    }
  }
}

RotaryPlan custom_plan(std::vector<double> inverse_frequencies, Pairing pairing, std::int32_t start) {
  RotaryPlan plan;
  plan.inverse_frequencies = std::move(inverse_frequencies);
  plan.pairing = pairing;
  plan.start = start;
  return plan;
}

const char* to_string(Pairing pairing) noexcept {
  return pairing == Pairing::kInterleaved ? "interleaved" : "half-split";
}

MethodDescription describe(const RotaryPlan& plan) {
  MethodDescription out;
  out.name = sentence("rotary, ", to_string(plan.pairing), ", ", plan.rule, plan.xpos ? ", xPos" : "");
  if (plan.axes() > 1) out.name += sentence(", ", plan.axes(), " axes");
  out.door = Door::kRotation;
  out.reference = Reference::kRelative;
  if (plan.base) out.parameters.push_back(parameter("base", *plan.base));
  out.parameters.push_back(parameter("rotated width", plan.rotated_width()));
  out.parameters.push_back(parameter("start", plan.start));
  out.parameters.push_back({"pairing", to_string(plan.pairing)});
  out.parameters.insert(out.parameters.end(), plan.parameters.begin(), plan.parameters.end());
  out.parameters.push_back(parameter("attention factor", plan.attention_factor));
  out.parameters.push_back(parameter("softmax scale factor", plan.softmax_scale_factor));
  if (plan.length) out.parameters.push_back(parameter("resolved for length", static_cast<double>(*plan.length)));
  if (plan.axes() > 1) {
    std::string axes;
    for (const std::uint8_t axis : plan.axis_of_pair) axes += static_cast<char>('0' + axis % 10);
    out.parameters.push_back(parameter("axes", plan.axes()));
    out.parameters.push_back({"axis of pair", axes});
  }
  for (std::size_t a = 0; a < plan.axis_offsets.size(); ++a) {
    out.parameters.push_back(parameter(sentence("offset of axis ", a), plan.axis_offsets[a]));
  }
  if (plan.xpos) {
    out.parameters.push_back(parameter("xPos gamma", plan.xpos->gamma));
    out.parameters.push_back(parameter("xPos scale base", plan.xpos->scale_base));
    out.parameters.push_back(parameter("xPos centre", plan.xpos->center));
  }
  out.formula = plan.pairing == Pairing::kInterleaved
                    ? "pair i = (2i, 2i+1): (u, v) -> (u cos a - v sin a, u sin a + v cos a), a = position * f_i"
                    : "pair i = (i, i + w/2): (u, v) -> (u cos a - v sin a, u sin a + v cos a), a = position * f_i";
  if (plan.base) out.formula += "; before the rule f_i = base^(-2i/w)";
  out.source = plan.xpos ? "Su et al. 2021, eq. 15; Sun et al. 2022 (xPos), eq. 10" : "Su et al. 2021, eq. 15";
  out.origin = "position 0 is the first token and is not turned";
  for (const double offset : plan.axis_offsets) {
    if (offset != 0) out.origin = "positions are moved by the offset of their axis, and 0 is not turned";
  }
  out.direction = "displacement = key - query";
  out.past_end = plan.xpos ? "defined up to the position where a scale leaves float32, an error there"
                           : "defined for every position up to 2^31-1; no table to end";
  return out;
}

}  // namespace locant
