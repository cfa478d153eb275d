#include "locant/rotary/axes.hpp"

#include <numbers>
#include <numeric>
#include <utility>

namespace locant {
namespace {

std::int64_t require_sections(const char* call, std::span<const std::int32_t> sections) {
  require_range(call, "the number of sections", static_cast<std::int64_t>(sections.size()), 1, 8);
  std::int64_t pairs = 0;
  for (std::size_t s = 0; s < sections.size(); ++s) {
    require_range(call, sentence("section ", s), sections[s], 0, 32768);
    pairs += sections[s];
  }
  require_range(call, "the sum of the sections", pairs, 1, 32768);
  return pairs;
}

const char* name_of(AxialConvention convention) {
  switch (convention) {
    case AxialConvention::kQwen2Vl:
      return "axial, Qwen2-VL";
    case AxialConvention::kPixtral:
      return "axial, Pixtral";
    case AxialConvention::kLlama4:
      return "axial, Llama 4";
    case AxialConvention::kRows:
      return "axial, rows then columns";
  }
  return "axial";
}

}  // namespace

std::vector<std::uint8_t> chunked_axes(std::span<const std::int32_t> sections) {
  require_sections("chunked_axes", sections);
  std::vector<std::uint8_t> axes;
  for (std::size_t s = 0; s < sections.size(); ++s) {
    axes.insert(axes.end(), static_cast<std::size_t>(sections[s]), static_cast<std::uint8_t>(s));
  }
  return axes;
}

std::vector<std::uint8_t> interleaved_axes(const std::array<std::int32_t, 3>& sections) {
  const std::int64_t pairs = require_sections("interleaved_axes", sections);
  std::vector<std::uint8_t> axes(static_cast<std::size_t>(pairs), 0);
  for (std::int64_t i = 0; i < pairs; ++i) {
    const auto axis = static_cast<std::size_t>(i % 3);
    if (axis != 0 && i < 3 * std::int64_t{sections[axis]})
      axes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(axis);
  }
  return axes;
}

RotaryPlan with_axes(RotaryPlan plan, std::vector<std::uint8_t> axis_of_pair) {
  if (axis_of_pair.size() != plan.inverse_frequencies.size()) {
    throw Error(
        ErrorCode::kArgument,
        sentence("with_axes: there are ", axis_of_pair.size(), " axes of pairs, the plan has ", plan.pairs(), " pairs"),
        static_cast<double>(axis_of_pair.size()), plan.pairs());
  }
  plan.axis_of_pair = std::move(axis_of_pair);
  return plan;
}

RotaryPlan scale_axes(RotaryPlan plan, std::span<const double> factors) {
  constexpr const char* kCall = "scale_axes";
  const auto axes = static_cast<std::size_t>(plan.axes());
  if (factors.size() != axes) {
    throw Error(ErrorCode::kArgument,
                sentence(kCall, ": there are ", factors.size(), " factors, the plan has ", axes, " axes"),
                static_cast<double>(factors.size()), static_cast<double>(axes));
  }
  for (std::size_t axis = 0; axis < axes; ++axis) {
    require_positive(kCall, sentence("the factor of axis ", axis), factors[axis]);
    plan.parameters.push_back(parameter(sentence("factor of axis ", axis), factors[axis]));
  }
  for (std::size_t i = 0; i < plan.inverse_frequencies.size(); ++i) {
    plan.inverse_frequencies[i] *= factors[plan.axis_of_pair.empty() ? 0 : plan.axis_of_pair[i]];
  }
  return plan;
}

RotaryPlan axial_plan(AxialConvention convention, std::int32_t head_dim, double base) {
  constexpr const char* kCall = "axial_plan";
  require_range(kCall, "head_dim", head_dim, 4, 65536);
  if (head_dim % 4 != 0) {
    throw Error(ErrorCode::kArgument, sentence(kCall, ": head_dim is ", head_dim, ", expected a multiple of 4"),
                head_dim, 4);
  }
  require_positive(kCall, "the base", base);
  RotaryPlan plan;
  const std::int32_t per_axis = head_dim / 4;
  for (std::int32_t i = 0; i < 2 * per_axis; ++i) {
    const std::int32_t axis = i / per_axis, j = i % per_axis;
    const double exponent =
        convention == AxialConvention::kPixtral ? 2.0 * (2 * j + axis) / head_dim : 2.0 * j / (2 * per_axis);
    plan.inverse_frequencies.push_back(1.0 / std::pow(base, exponent));
    plan.axis_of_pair.push_back(static_cast<std::uint8_t>(axis));
  }
  const bool half_split = convention == AxialConvention::kQwen2Vl || convention == AxialConvention::kPixtral;
  plan.pairing = half_split ? Pairing::kHalfSplit : Pairing::kInterleaved;
  plan.rule = name_of(convention);
  plan.base = base;
  require_plan(kCall, plan, head_dim);
  return plan;
}

RotaryPlan pixel_plan(const PixelGrid& grid) {
  constexpr const char* kCall = "pixel_plan";
  require_range(kCall, "features per axis", grid.features_per_axis, 2, 32768);
  if (grid.features_per_axis % 2 != 0) {
    throw Error(ErrorCode::kArgument,
                sentence(kCall, ": there are ", grid.features_per_axis, " features per axis, expected an even number"),
                grid.features_per_axis, grid.features_per_axis - 1);
  }
  require_finite(kCall, "the largest frequency", grid.max_frequency);
  if (grid.max_frequency < 2) {
    throw Error(ErrorCode::kArgument,
                sentence(kCall, ": the largest frequency is ", grid.max_frequency, ", expected 2 or more"),
                grid.max_frequency, 2);
  }
  require_range(kCall, "the height", grid.height, 1, 65536);
  require_range(kCall, "the width", grid.width, 1, 65536);
  RotaryPlan plan;
  plan.pairing = Pairing::kInterleaved;
  plan.rule = "axial, pixels";
  const std::int32_t bands = grid.features_per_axis / 2;
  for (std::uint8_t axis = 0; axis < 2; ++axis) {
    const std::int32_t side = axis == 0 ? grid.height : grid.width;
    // Coordinate -1 + step p = step (p + offset).
    const double step = side == 1 ? 1 : 2.0 / (side - 1);
    plan.axis_offsets.push_back(side == 1 ? -1 : -(side - 1) / 2.0);
    for (std::int32_t j = 0; j < bands; ++j) {
      const double along = bands == 1 ? 0 : static_cast<double>(j) / (bands - 1);
      const double band = grid.bands == PixelBands::kLinear
                              ? 1 + along * (grid.max_frequency / 2 - 1)
                              : std::pow(2.0, along * (std::log2(grid.max_frequency) - 1));
      plan.inverse_frequencies.push_back(std::numbers::pi * band * step);
      plan.axis_of_pair.push_back(axis);
    }
  }
  plan.parameters = {parameter("largest frequency", grid.max_frequency),
                     parameter("height", grid.height),
                     parameter("width", grid.width),
                     {"bands", grid.bands == PixelBands::kLinear ? "linear" : "powers of 2"}};
  return plan;
}

}  // namespace locant
