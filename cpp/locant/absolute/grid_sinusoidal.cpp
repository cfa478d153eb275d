#include "locant/absolute/grid_sinusoidal.hpp"

#include <algorithm>
#include <cmath>

#include "locant/position/angle.hpp"

namespace locant {

GridSinusoidal::GridSinusoidal(GridSinusoidalConfig config) : config_(config) {
  constexpr const char* kCall = "GridSinusoidal";
  const bool ends = config.steps == GridSteps::kEndsAtBase;
  require_range(kCall, "features", config.features, ends ? 8 : 4, 1 << 20);
  if (config.features % 4 != 0) {
    throw Error(ErrorCode::kArgument,
                sentence(kCall, ": features is ", config.features, ", expected a multiple of 4"), config.features, 4);
  }
  require_positive(kCall, "base", config.base);
  const std::int32_t quarter = config.features / 4;
  for (std::int32_t i = 0; i < quarter; ++i) {
    const double frequency = std::pow(config.base, -static_cast<double>(i) / (ends ? quarter - 1 : quarter));
    require_frequency(kCall, sentence("the frequency of pair ", i), frequency);
    frequencies_.push_back(frequency);
  }
}

template <class Put>
void GridSinusoidal::visit(std::int32_t row, std::int32_t column, Put put) const {
  const std::size_t quarter = frequencies_.size();
  const bool row_first = config_.order == GridOrder::kRowFirst;
  for (std::size_t half = 0; half < 2; ++half) {
    const double at = (half == 0) == row_first ? row : column;
    for (std::size_t i = 0; i < quarter; ++i) {
      const double angle = at * frequencies_[i];
      put(2 * half * quarter + i, static_cast<float>(std::sin(angle)));
      put((2 * half + 1) * quarter + i, static_cast<float>(std::cos(angle)));
    }
  }
}

// Of every call, before anything is written.
void GridSinusoidal::require(const char* call, const Positions& positions, std::size_t held) const {
  const std::size_t expected =
      checked_product(call, "the values", {static_cast<std::int64_t>(positions.tokens()), config_.features});
  if (held != expected) {
    require_size(call, "the values", held, expected,
                 sentence(positions.tokens(), " tokens x ", config_.features, " features"));
  }
  if (positions.axes() < 2) {
    throw Error(ErrorCode::kArgument, sentence(call, ": the positions have ", positions.axes(),
                " axis, expected 2: row and column"), positions.axes(), 2);
  }
}

void GridSinusoidal::encode(const Positions& positions, std::span<float> out) const {
  require("GridSinusoidal::encode", positions, out.size());
  const auto width = static_cast<std::size_t>(config_.features);
  const auto rows = positions.position(0), columns = positions.position(1);
  for (std::size_t t = 0; t < positions.tokens(); ++t) {
    float* to = out.data() + t * width;
    if (positions.valid()[t]) {
      visit(rows[t], columns[t], [&](std::size_t column, float value) { to[column] = value; });
    } else {
      std::fill(to, to + width, 0.0f);
    }
  }
}

void GridSinusoidal::add(std::span<const float> x, const Positions& positions, std::span<float> out) const {
  require("GridSinusoidal::add", positions, x.size());
  require("GridSinusoidal::add", positions, out.size());
  const auto width = static_cast<std::size_t>(config_.features);
  const auto rows = positions.position(0), columns = positions.position(1);
  for (std::size_t t = 0; t < positions.tokens(); ++t) {
    const float* from = x.data() + t * width;
    float* to = out.data() + t * width;
    if (positions.valid()[t]) {
      visit(rows[t], columns[t], [&](std::size_t column, float value) { to[column] = from[column] + value; });
    } else if (to != from) {
      std::copy(from, from + width, to);
    }
  }
}

MethodDescription GridSinusoidal::describe() const {
  const bool row_first = config_.order == GridOrder::kRowFirst;
  MethodDescription d;
  d.name = row_first ? "sinusoidal, two axes, row first" : "sinusoidal, two axes, column first";
  d.door = Door::kInput;
  d.reference = Reference::kAbsolute;
  d.parameters = {parameter("features", config_.features), parameter("base", config_.base)};
  d.formula = config_.steps == GridSteps::kQuarter ? "sin, cos of coordinate * base^(-i / (features/4))"
                                                   : "sin, cos of coordinate * base^(-i / (features/4 - 1))";
  d.source = config_.steps == GridSteps::kQuarter ? "He et al. 2022 (MAE) and its code"
                                                  : "Beyer, Zhai, Kolesnikov 2022 (plain ViT baselines) and its code";
  d.origin = "row 0 and column 0 are the top left patch";
  d.direction = "none";
  d.past_end = "no end";
  return d;
}

Positions grid_positions(GridSize grid) {
  constexpr const char* kCall = "grid_positions";
  require_range(kCall, "height", grid.height, 0, 1 << 15);
  require_range(kCall, "width", grid.width, 0, 1 << 15);
  PositionArrays arrays;
  arrays.position.resize(2);
  for (std::int32_t row = 0; row < grid.height; ++row) {
    for (std::int32_t column = 0; column < grid.width; ++column) {
      arrays.position[0].push_back(row);
      arrays.position[1].push_back(column);
    }
  }
  arrays.row_lengths = {static_cast<std::int32_t>(arrays.position[0].size())};
  return Positions::from_arrays(std::move(arrays));
}

namespace {

// Frequency of feature c; checked.
std::vector<double> detr_frequencies(const char* call, const DetrConfig& config) {
  require_range(call, "features_per_axis", config.features_per_axis, 1, 1 << 20);
  require_positive(call, "base", config.base);
  require_magnitude(call, "scale", config.scale);
  require_positive(call, "epsilon", config.epsilon);
  std::vector<double> frequencies;
  for (std::int32_t c = 0; c < config.features_per_axis; ++c) {
    const double frequency = std::pow(config.base, -2.0 * (c / 2) / config.features_per_axis);
    // Counts stop at 2^15, normalized ones at the scale.
    require_frequency(call, sentence("the frequency of feature ", c), frequency, std::abs(config.scale));
    frequencies.push_back(frequency);
  }
  return frequencies;
}

}  // namespace

MethodDescription describe(const DetrConfig& config) {
  detr_frequencies("describe", config);
  const bool normalized = config.normalize == DetrNormalize::kYes;
  MethodDescription d;
  d.name = "sinusoidal, two axes, DETR";
  d.door = Door::kInput;
  d.reference = Reference::kAbsolute;
  d.parameters = {parameter("features of an axis", config.features_per_axis), parameter("base", config.base),
                  {"normalized", normalized ? "yes" : "no"}};
  if (normalized) {
    d.parameters.push_back(parameter("scale", config.scale));
    d.parameters.push_back(parameter("epsilon", config.epsilon));
  }
  d.formula = sentence("sin, cos of ", normalized ? "scale * count / (last count + epsilon)" : "count",
                       " * base^(-2 floor(c/2) / features), c the feature of an axis");
  d.source = "Carion et al. 2020 (DETR) and its code";
  d.origin = "the first cell of the image counts 1, row and column; rows come first";
  d.direction = "none";
  d.past_end = normalized ? "no end: an image of any size runs to the scale" : "no end";
  return d;
}

void detr_encode(const DetrConfig& config, GridSize grid, std::span<const std::uint8_t> mask, std::span<float> out) {
  constexpr const char* kCall = "detr_encode";
  require_range(kCall, "height", grid.height, 1, 1 << 15);
  require_range(kCall, "width", grid.width, 1, 1 << 15);
  const std::vector<double> frequencies = detr_frequencies(kCall, config);
  const auto height = static_cast<std::size_t>(grid.height), width = static_cast<std::size_t>(grid.width);
  const auto features = static_cast<std::size_t>(config.features_per_axis);
  require_size(kCall, "the mask values", mask.size(), height * width, sentence(height, " x ", width));
  require_size(kCall, "the output values", out.size(),
               checked_product(kCall, "the output", {grid.height, grid.width, 2, config.features_per_axis}),
               sentence(height, " x ", width, " x 2 x ", features));

  // How many unmasked cells lie above (or left), this one included.
  std::vector<double> rows(height * width), columns(height * width);
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      const std::size_t cell = y * width + x;
      const double here = mask[cell] != 0 ? 1 : 0;
      rows[cell] = here + (y > 0 ? rows[cell - width] : 0);
      columns[cell] = here + (x > 0 ? columns[cell - 1] : 0);
    }
  }
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      const std::size_t cell = y * width + x;
      double at[2] = {rows[cell], columns[cell]};
      if (config.normalize == DetrNormalize::kYes) {
        at[0] = at[0] / (rows[(height - 1) * width + x] + config.epsilon) * config.scale;
        at[1] = at[1] / (columns[y * width + width - 1] + config.epsilon) * config.scale;
      }
      for (std::size_t axis = 0; axis < 2; ++axis) {
        float* to = out.data() + (2 * cell + axis) * features;
        for (std::size_t c = 0; c < features; ++c) {
          const double angle = at[axis] * frequencies[c];
          to[c] = static_cast<float>(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
        }
      }
    }
  }
}

}  // namespace locant
