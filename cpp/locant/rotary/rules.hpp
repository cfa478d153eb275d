// Rules: from a model's rotary parameters (and, where the rule needs one, a length) to a plan.
//
//   w   rotated width = shape.width            f_i = base^(-2i/w), i in [0, w/2)
//   s   factor                                 lambda_i = 2 pi / f_i, the wavelength of pair i in positions
//   L   original length: what the model was trained at before it was extended
//   A   attention factor (multiplies cos and sin, so scores carry A^2); 1 unless said otherwise
//
//   default        f_i                                                      Su et al. 2021, section 3.2.2
//   linear         f_i / s                                                  Chen et al. 2023 (position interpolation)
//   NTK static     base' = base s^(w/(w-2))                                 bloc97 2023, "NTK-aware"
//   NTK vLLM       base' = base s, then / s^(2/w): f_i s^(-2(i+1)/w)        vLLM, rotary_embedding, type "ntk"
//   NTK mixed      pair i of the plain f_i divided by exp(a (i+1)^b),        kexue.fm 9706; vLLM, type "ntk" with
//                  a = ln s / (w/2)^b: the last pair by s                    mixed_b
//   dynamic NTK    base' = base (s n/M - (s-1))^(w/(w-2)), n = max(length, M)     emozilla 2023; Hugging Face
//   YaRN           NTK by parts, see YarnRule                               Peng et al. 2023, section 3.2
//   LongRoPE       f_i / e_i, e = short or long by length                   Ding et al. 2024; Phi-3
//   Llama 3        by wavelength, see Llama3Rule                            Meta 2024, llama3.1
//   proportional   f_i for the first k pairs of the whole head, 0 after     Barbero et al. 2024 (p-RoPE); Gemma 4
//   custom         the caller's own f_i
//
// Factor 1 is the identity, to the bit, for linear, NTK (all three), dynamic NTK up to M, YaRN and Llama 3.
//
// Rules know nothing of tensors. What depends on a length takes it explicitly: "the plan at this length", the
// number of positions that attention may span (largest position + 1). Keys rotated under one plan must meet
// queries rotated under the same one, so a generation either keeps one plan, chosen for the length that it
// may reach, or keeps its keys unrotated; a cache checks that. "Cached = full" then means the full forward
// under that same plan; another length gives another plan and another model output, by the rule's design.
//
// Reading configuration files, with their many spellings, is the audit's work and not done here.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "locant/rotary/plan.hpp"

namespace locant {

// What every rule starts from. The width is that of the rotated slice, not of the head (partial rotary:
// int(head_dim * partial_rotary_factor)); the exponent's denominator is the same width.
struct RotaryShape {
  std::int32_t width = 0;  // even, 2 or more
  double base = 10000;     // theta, above 0
  Pairing pairing = Pairing::kHalfSplit;
  std::int32_t start = 0;  // first coordinate of the head that is rotated
};

struct DefaultRule {};

// All factors below are numbers above 0; below 1 a rule stretches where it would compress, as its formula says.
struct LinearRule {
  double factor = 1;
};

// The width must be 4 or more for the exponent w/(w-2) to exist; this holds for dynamic NTK, too.
struct NtkRule {
  double factor = 1;
};

struct VllmNtkRule {
  double factor = 1;
};

struct VllmMixedNtkRule {
  double factor = 1;
  double b = 1;  // mixed_b; 1: all pairs by powers of one number
};

struct DynamicNtkRule {
  double factor = 1;                // 1 or more, or the bracket could go negative
  std::int64_t trained_length = 0;  // M: Hugging Face reads max_position_embeddings here, not the original one
};

// Whether the model multiplies its softmax scale by g(s, mscale_all_dim)^2 as DeepSeek-V2/V3 do. The product
// is reported as plan.softmax_scale_factor and never mixed into the attention factor.
enum class SoftmaxScaleRule { kUnchanged, kDeepSeek };

// Whether the ends of the ramp are rounded outwards to whole pairs (gpt-oss: kExact).
enum class RampEnds { kWholePairs, kExact };

// YaRN. c(r) = w ln(L / (2 pi r)) / (2 ln base) is the pair that turns r times within L.
//   low = c(beta_fast), high = c(beta_slow); kWholePairs: floor, ceil; then low >= 0, high <= w - 1
//   (w - 1 as in the published code, not w/2 - 1), and high += 0.001 where both meet
//   ramp_i = clamp((i - low) / (high - low), 0, 1)
//   f'_i = f_i (1 - ramp_i) + f_i / s ramp_i
// Attention factor: the explicit one, verbatim; else g(s, mscale) / g(s, mscale_all_dim) where both are given
// and not 0; else g(s, 1), with g(s, m) = 1 where s <= 1, else 0.1 m ln s + 1 (Hugging Face's reading: only
// one of the two changes nothing).
// Errors: beta_fast below beta_slow (the ends would swap), base 1 or below (ln base divides).
struct YarnRule {
  double factor = 1;
  double original_length = 0;  // above 0
  double beta_fast = 32, beta_slow = 1;
  RampEnds ramp_ends = RampEnds::kWholePairs;
  std::optional<double> mscale = std::nullopt, mscale_all_dim = std::nullopt;
  std::optional<double> attention_factor = std::nullopt;
  SoftmaxScaleRule softmax_scale = SoftmaxScaleRule::kUnchanged;
};

// low and high of a YaRN ramp, in pairs, as used (rounded, clipped), for pages and audits.
struct YarnRamp {
  double low = 0, high = 0;
};
YarnRamp yarn_ramp(const RotaryShape& shape, const YarnRule& rule);

// g(s, m) above.
double yarn_attention_scale(double factor, double m);

// LongRoPE. The short factors serve lengths up to and including `original_length`, the long ones every length
// above it. A: the explicit one; or the short or long one by the same length (short_mscale and long_mscale of
// Phi-3.5-MoE); else 1 where s <= 1, else sqrt(1 + ln s / ln L) at every length, long or short; s = factor where given,
// else maximum_length / L.
struct LongRopeRule {
  std::vector<double> short_factors, long_factors;  // one per pair, above 0
  std::int64_t original_length = 0;
  std::optional<double> factor = std::nullopt;
  std::optional<double> maximum_length = std::nullopt;  // read only where there is no factor; one of the two is needed
  std::optional<double> attention_factor = std::nullopt;  // or both of these:
  std::optional<double> short_attention_factor = std::nullopt, long_attention_factor = std::nullopt;
};

// Llama 3. lambda_i below L / high: f_i; above L / low: f_i / s; between: (1 - t) f_i / s + t f_i,
// t = (L / lambda_i - low) / (high - low). Where low = high nothing lies between.
struct Llama3Rule {
  double factor = 1;
  double low_frequency_factor = 1, high_frequency_factor = 4;
  double original_length = 0;
};

// p-RoPE. shape.width is the whole head: the exponent's denominator and the distance of paired coordinates are
// the head's, and only the first floor(fraction * width / 2) pairs turn. This is not partial rotary, which
// slices the head first. All f are divided by `factor`.
struct ProportionalRule {
  double fraction = 1;  // 0 .. 1
  double factor = 1;
};

// The caller's own: shape.width must be twice their number, shape.base is not read.
struct CustomRule {
  std::vector<double> inverse_frequencies;
};

using RotaryRule = std::variant<DefaultRule, LinearRule, NtkRule, VllmNtkRule, VllmMixedNtkRule, DynamicNtkRule,
                                YarnRule, LongRopeRule, Llama3Rule, ProportionalRule, CustomRule>;

// Whether the rule gives different plans at different lengths (dynamic NTK, LongRoPE).
bool depends_on_length(const RotaryRule& rule) noexcept;

// "default", "linear", "ntk", "vllm-ntk", "vllm-ntk-mixed", "dynamic-ntk", "yarn", "longrope", "llama3",
// "proportional", "custom".
const char* name_of(const RotaryRule& rule) noexcept;

// The plan. `length` is read by the rules that depend on it, which refuse to do without (kArgument); it is
// checked (1 .. 2^31) and otherwise left alone by the rest. Errors: kArgument for every parameter outside what
// its struct says.
RotaryPlan resolve(const RotaryShape& shape, const RotaryRule& rule = DefaultRule{},
                   std::optional<std::int64_t> length = std::nullopt);

}  // namespace locant
