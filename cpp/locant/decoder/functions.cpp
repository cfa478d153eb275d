#include "locant/decoder/functions.hpp"

#include <cmath>

namespace locant {
namespace {

// Partial sums of a row: a fixed number of them, so that a compiler may use vectors of any width up to this
// one and every build adds in the same order.
constexpr std::size_t kLanes = 8;

template <class Value>
double sum_of(std::size_t count, Value&& value) noexcept {
  double lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += value(i + lane);
  }
  for (; i < count; ++i) lanes[i % kLanes] += value(i);
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

float silu(float x) noexcept { return x / (1.0f + exact_exp(-x)); }

float gelu(float x) noexcept {
  return static_cast<float>(0.5 * static_cast<double>(x) * (1.0 + std::erf(static_cast<double>(x) * 0.70710678118654752440)));
}

// (1 + tanh u) / 2 = 1 / (1 + e^-2u).
float gelu_tanh(float x) noexcept {
  const float u = 0.79788456f * (x + 0.044715f * x * x * x);
  return x / (1.0f + exact_exp(-2.0f * u));
}

float relu(float x) noexcept { return x > 0.0f || x != x ? x : 0.0f; }

template <class Use>
void with_function(Activation activation, Use&& use) noexcept {
  switch (activation) {
    case Activation::kSilu: return use([](float x) { return silu(x); });
    case Activation::kGelu: return use([](float x) { return gelu(x); });
    case Activation::kGeluTanh: return use([](float x) { return gelu_tanh(x); });
    case Activation::kRelu: return use([](float x) { return relu(x); });
  }
}

}  // namespace

void rms_norm(const float* x, std::size_t rows, std::size_t width, const float* weight, float epsilon, float* out) noexcept {
  for (std::size_t r = 0; r < rows; ++r, x += width, out += width) {
    const double squares = sum_of(width, [x](std::size_t i) { return static_cast<double>(x[i]) * x[i]; });
    const auto scale = static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(width) + epsilon));
    for (std::size_t i = 0; i < width; ++i) out[i] = x[i] * scale * weight[i];
  }
}

void layer_norm(const float* x, std::size_t rows, std::size_t width, const float* weight, const float* bias,
                float epsilon, float* out) noexcept {
  for (std::size_t r = 0; r < rows; ++r, x += width, out += width) {
    const double mean = sum_of(width, [x](std::size_t i) { return static_cast<double>(x[i]); }) / static_cast<double>(width);
    const double squares = sum_of(width, [x, mean](std::size_t i) {
      const double d = static_cast<double>(x[i]) - mean;
      return d * d;
    });
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(width) + epsilon);
    for (std::size_t i = 0; i < width; ++i) {
      const auto normal = static_cast<float>((static_cast<double>(x[i]) - mean) * scale);
      out[i] = normal * weight[i] + (bias ? bias[i] : 0.0f);
    }
  }
}

void activate(Activation activation, float* x, std::size_t count) noexcept {
  with_function(activation, [&](auto f) {
    for (std::size_t i = 0; i < count; ++i) x[i] = f(x[i]);
  });
}

void activate_gated(Activation activation, float* gate, const float* up, std::size_t count) noexcept {
  with_function(activation, [&](auto f) {
    for (std::size_t i = 0; i < count; ++i) gate[i] = f(gate[i]) * up[i];
  });
}

void add(float* x, const float* y, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) x[i] += y[i];
}

}  // namespace locant
