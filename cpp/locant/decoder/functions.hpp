// The functions between a decoder's matrix products: norms, activations and softmax, over float32 rows.
//
//   RMSNorm    y_i = x_i / sqrt(mean(x^2) + epsilon) * weight_i                     (Zhang, Sennrich 2019)
//   LayerNorm  y_i = (x_i - mean(x)) / sqrt(var(x) + epsilon) * weight_i + bias_i   (Ba et al. 2016; var over n)
//   SiLU       x / (1 + e^-x)
//   GELU       x/2 * (1 + erf(x / sqrt 2));  its tanh form x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
//
// Same bits in every build: sums of a row are taken in double in a fixed order of kLanes partial sums, and
// exp is our own (below), because two C libraries may differ in the last bit of theirs. GELU's erf is the one
// exception: it is the library's in double, rounded once.
//
// e^x = 2^n * e^r with n = round(x / ln 2), r = x - n ln 2 (ln 2 in two parts, |r| <= 0.3466), e^r by its Taylor
// polynomial of degree 7 (remainder under 6e-9). Within 2 units of the last place of float32 where the result is
// normal, 0 below e^-87.3; checked over the whole range in tests.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace locant {

// e^x for x <= 88.37 (above: what e^88.37 = 2.39e38 is, never infinity); 0 for x < -87.3, -infinity included. NaN gives NaN.
inline float exact_exp(float x) noexcept {
  const float clamped = x > 88.37f ? 88.37f : (x < -87.3f ? -87.3f : x);
  // Adding and taking away 1.5 * 2^23 rounds to the nearest integer; no libm, no rounding mode.
  const float n = (clamped * 1.44269504f + 12582912.0f) - 12582912.0f;
  const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // NaN survives the comparisons above as itself, but may not become an integer: it is put back at the end.
  const bool number = x == x;
  const auto power = static_cast<std::uint32_t>(static_cast<std::int32_t>(number ? n : 0.0f) + 127) << 23;
  const float y = p * std::bit_cast<float>(power);
  return x < -87.3f ? 0.0f : (number ? y : x);
}

// Each over [rows, width]; `out` may be `x`. weight: [width]; bias: [width] or null. Sizes are not checked.
void rms_norm(const float* x, std::size_t rows, std::size_t width, const float* weight, float epsilon, float* out) noexcept;
void layer_norm(const float* x, std::size_t rows, std::size_t width, const float* weight, const float* bias,
                float epsilon, float* out) noexcept;

enum class Activation { kSilu, kGelu, kGeluTanh, kRelu };

// x[i] <- activation(x[i]).
void activate(Activation activation, float* x, std::size_t count) noexcept;
// gate[i] <- activation(gate[i]) * up[i].
void activate_gated(Activation activation, float* gate, const float* up, std::size_t count) noexcept;

// x[i] <- x[i] + y[i].
void add(float* x, const float* y, std::size_t count) noexcept;

}  // namespace locant
