#include "locant/absolute/sinusoidal.hpp"

#include <algorithm>
#include <cmath>

#include "locant/memory.hpp"

#include "locant/position/angle.hpp"

namespace locant {
namespace {

const char* layout_name(SinusoidLayout layout) {
  switch (layout) {
    case SinusoidLayout::kInterleaved: return "sinusoidal, interleaved";
    case SinusoidLayout::kConcatenated: return "sinusoidal, concatenated";
    case SinusoidLayout::kTensor2Tensor: return "sinusoidal, tensor2tensor";
    case SinusoidLayout::kMlx: return "sinusoidal, MLX";
  }
  return "sinusoidal";
}

bool ends_at_base(SinusoidLayout layout) {
  return layout == SinusoidLayout::kTensor2Tensor || layout == SinusoidLayout::kMlx;
}

}  // namespace

Sinusoidal::Sinusoidal(SinusoidalConfig config) : config_(config) {
  constexpr const char* kCall = "Sinusoidal";
  const std::int32_t width = config.width;
  require_range(kCall, "width", width, 1, 1 << 20);
  require_positive(kCall, "base", config.base);
  require_positive(kCall, "max_frequency", config.max_frequency);
  require_offset(kCall, "position_offset", config.position_offset);
  if (config.scale) require_magnitude(kCall, "scale", *config.scale);
  if (config.layout == SinusoidLayout::kMlx && width % 2 != 0) {
    throw Error(ErrorCode::kArgument,
                sentence(kCall, ": width is ", width, ", expected an even number for the MLX layout"), width);
  }
  if (config.order == SinusoidOrder::kCosineFirst && width % 2 != 0) {
    throw Error(ErrorCode::kArgument,
                sentence(kCall, ": width is ", width, ", expected an even number where cosines come first"), width);
  }
  scale_ = config.scale.value_or(config.layout == SinusoidLayout::kMlx ? std::sqrt(2.0 / width) : 1.0);

  const std::int32_t pairs = config.layout == SinusoidLayout::kTensor2Tensor ? width / 2 : (width + 1) / 2;
  frequencies_.resize(static_cast<std::size_t>(pairs));
  for (std::int32_t i = 0; i < pairs; ++i) {
    const double exponent = ends_at_base(config.layout) ? static_cast<double>(i) / std::max(width / 2 - 1, 1)
                                                        : 2.0 * i / width;
    const double frequency = config.max_frequency * std::pow(config.base, -exponent);
    require_frequency(kCall, sentence("the frequency of pair ", i), frequency, config.position_offset);
    frequencies_[static_cast<std::size_t>(i)] = frequency;
  }
}

std::int32_t Sinusoidal::sine_column(std::int32_t pair) const noexcept {
  const bool second = config_.order == SinusoidOrder::kCosineFirst;
  if (config_.layout == SinusoidLayout::kInterleaved) return 2 * pair + (second ? 1 : 0);
  return pair + (second ? static_cast<std::int32_t>(frequencies_.size()) : 0);
}

std::int32_t Sinusoidal::cosine_column(std::int32_t pair) const noexcept {
  const bool second = config_.order == SinusoidOrder::kSineFirst;
  const std::int32_t column = config_.layout == SinusoidLayout::kInterleaved
                                  ? 2 * pair + (second ? 1 : 0)
                                  : pair + (second ? static_cast<std::int32_t>(frequencies_.size()) : 0);
  return std::min(column, config_.width);
}

template <class Put>
void Sinusoidal::visit(std::int32_t position, Put put) const {
  const double p = position + config_.position_offset;
  const auto width = static_cast<std::size_t>(config_.width);
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    const double angle = p * frequencies_[i];
    const auto pair = static_cast<std::int32_t>(i);
    put(static_cast<std::size_t>(sine_column(pair)), static_cast<float>(scale_ * std::sin(angle)));
    const auto cosine = static_cast<std::size_t>(cosine_column(pair));
    if (cosine < width) put(cosine, static_cast<float>(scale_ * std::cos(angle)));
  }
  if (2 * frequencies_.size() < width) put(width - 1, 0.0f);
}

const float* Sinusoidal::kept(std::int32_t position) const noexcept {
  if (position >= prepared_) return nullptr;
  return table_.data() + static_cast<std::size_t>(position) * static_cast<std::size_t>(config_.width);
}

void Sinusoidal::prepare(std::int64_t count) {
  constexpr const char* kCall = "Sinusoidal::prepare";
  require_range(kCall, "count", count, 0, std::int64_t{kMaxPosition} + 1);
  if (count <= prepared_) return;
  const std::size_t values = checked_product(kCall, "the table", {count, config_.width});
  std::vector<float> grown;
  with_memory(kCall, static_cast<double>(values) * sizeof(float), [&] { grown.resize(values); });
  std::copy(table_.begin(), table_.end(), grown.begin());
  for (std::int64_t p = prepared_; p < count; ++p) {
    float* row = grown.data() + static_cast<std::size_t>(p) * static_cast<std::size_t>(config_.width);
    visit(static_cast<std::int32_t>(p), [&](std::size_t column, float value) { row[column] = value; });
  }
  table_ = std::move(grown);
  prepared_ = count;
}

void Sinusoidal::row(std::int32_t position, std::span<float> out) const {
  constexpr const char* kCall = "Sinusoidal::row";
  if (position < 0) {
    throw Error(ErrorCode::kPositionRange,
                sentence(kCall, ": the position is ", position, ", expected 0 to ", kMaxPosition), position, 0);
  }
  require_size(kCall, "the output values", out.size(), static_cast<std::size_t>(config_.width),
               sentence("the width ", config_.width));
  if (const float* row = kept(position)) {
    std::copy(row, row + config_.width, out.begin());
  } else {
    visit(position, [&](std::size_t column, float value) { out[column] = value; });
  }
}

void Sinusoidal::encode(const Positions& positions, std::span<float> out) const {
  constexpr const char* kCall = "Sinusoidal::encode";
  const auto width = static_cast<std::size_t>(config_.width);
  const std::size_t expected =
      checked_product(kCall, "the output", {static_cast<std::int64_t>(positions.tokens()), config_.width});
  require_size(kCall, "the output values", out.size(), expected,
               sentence(positions.tokens(), " tokens x width ", width));
  const auto position = positions.position();
  const auto valid = positions.valid();
  for (std::size_t t = 0; t < positions.tokens(); ++t) {
    const auto to = out.subspan(t * width, width);
    if (valid[t]) {
      row(position[t], to);
    } else {
      std::fill(to.begin(), to.end(), 0.0f);
    }
  }
}

void Sinusoidal::add(std::span<const float> x, const Positions& positions, std::span<float> out) const {
  constexpr const char* kCall = "Sinusoidal::add";
  const auto width = static_cast<std::size_t>(config_.width);
  const std::size_t expected =
      checked_product(kCall, "the input", {static_cast<std::int64_t>(positions.tokens()), config_.width});
  const auto require = [&](std::string_view what, std::size_t held) {
    if (held == expected) return;  // so that the sentence is only made where it is needed: no allocation
    require_size(kCall, what, held, expected, sentence(positions.tokens(), " tokens x width ", width));
  };
  require("the input values", x.size());
  require("the output values", out.size());
  const auto position = positions.position();
  const auto valid = positions.valid();
  for (std::size_t t = 0; t < positions.tokens(); ++t) {
    const float* from = x.data() + t * width;
    float* to = out.data() + t * width;
    if (!valid[t]) {
      if (to != from) std::copy(from, from + width, to);
    } else if (const float* p = kept(position[t])) {
      for (std::size_t c = 0; c < width; ++c) to[c] = from[c] + p[c];
    } else {
      visit(position[t], [&](std::size_t column, float value) { to[column] = from[column] + value; });
    }
  }
}

MethodDescription Sinusoidal::describe() const {
  MethodDescription d;
  d.name = layout_name(config_.layout);
  d.door = Door::kInput;
  d.reference = Reference::kAbsolute;
  d.parameters = {parameter("width", config_.width), parameter("base", config_.base),
                  parameter("largest frequency", config_.max_frequency), parameter("scale", scale_),
                  parameter("position offset", config_.position_offset),
                  {"order", config_.order == SinusoidOrder::kSineFirst ? "sine first" : "cosine first"}};
  const bool ends = ends_at_base(config_.layout);
  d.formula = ends ? "sin, cos of p * max_frequency * base^(-i / (width/2 - 1))"
                   : "sin, cos of p * max_frequency * base^(-2i / width)";
  switch (config_.layout) {
    case SinusoidLayout::kInterleaved: d.source = "Vaswani et al. 2017, section 3.5"; break;
    case SinusoidLayout::kConcatenated:
      d.source = "Vaswani et al. 2017, section 3.5, halves concatenated as Marian does";
      break;
    case SinusoidLayout::kTensor2Tensor: d.source = "tensor2tensor, get_timing_signal_1d"; break;
    case SinusoidLayout::kMlx: d.source = "MLX, nn.SinusoidalPositionalEncoding"; break;
  }
  d.origin = config_.position_offset == 0
                 ? "position 0 is the first token"
                 : sentence("position 0 is encoded as ", number_text(config_.position_offset));
  d.direction = "none";
  d.past_end = "no end: every position to 2^31-1 has a vector; whether a trained model can use it is another question";
  return d;
}

}  // namespace locant
