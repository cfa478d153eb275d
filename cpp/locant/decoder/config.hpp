// What a decoder is made of, as plain data; position enters by this configuration and nothing else.
//
//   x_t    = e E[token_t]  (+ p(position_t): door 1)        e = 1 unless embeddings are scaled (Gemma: sqrt(width))
//   layer:   x <- x + W_o attend(W_q n, W_k n, W_v n)      n = norm(x); doors 2 and 3 as the layer says
//            x <- x + feed_forward(norm(x))
//   logits = U norm(x)                                     U = E where embeddings are tied; possibly
//            cap * tanh(logits / cap)                      with a soft cap (Gemma 2)
//
//   gated feed-forward   W_down (f(W_gate n) * W_up n)     Shazeer 2020; SwiGLU with f = SiLU, GeGLU with GELU
//   plain feed-forward   W_down f(W_up n)
//
// Layers share their sizes and may differ in everything about position: rotary plan or none, score terms, window,
// temperature, as models do that mix local and global layers or leave some without position. Norms come before
// the sublayers and once at the end (pre-norm: GPT-2, Llama), or also after each sublayer, before its result is added
// (Gemma 2): x <- x + norm'(sublayer(norm(x))). Causal only; a prefix that sees itself both ways is given per call.
//
// Weights that are not numbers: NaN or infinity in a weight is not looked for. It spreads as IEEE arithmetic spreads it,
// to the logits that depend on it, where sampling refuses it (sampling.hpp).
//
// CoPE is the one method that does not plug in here: its bias is made of a layer's own queries and keys, as a whole
// matrix (cope.hpp). Nor do keys whose rotated part is shared by all heads (MLA): with the weights repeated for each head
// they are a plan that starts at the plain width.
//
// Does not do: norms of sums (Vaswani's post-norm), norms of queries and keys, mixtures of experts, encoders, dropout.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "locant/absolute/grid_sinusoidal.hpp"
#include "locant/absolute/learned_table.hpp"
#include "locant/absolute/sinusoidal.hpp"
#include "locant/attention/attention.hpp"
#include "locant/decoder/functions.hpp"
#include "locant/decoder/weights.hpp"
#include "locant/rotary/plan.hpp"

namespace locant {

// functions.hpp; kLayer has a bias. kRmsFromOne multiplies by 1 + weight (Gemma), kRms by the weight.
enum class Norm { kRms, kLayer, kRmsFromOne };
enum class NormPlacement { kBefore, kBeforeAndAfter };  // of attention and of the feed-forward
enum class FeedForward { kGated, kPlain };
enum class Embeddings { kTied, kSeparate };
// Which linear layers add a bias: none (Llama), those of query, key and value (Qwen2), these and the attention's
// output (Llama's attention_bias), all but the unembedding (GPT-2).
enum class Biases { kNone, kQueryKeyValue, kAttention, kAll };

// Door 1: nothing, a function of one axis or of two (never a parameter), or a table whose values are the weight
// "model.embed_positions.weight".
using InputPosition = std::variant<std::monostate, SinusoidalConfig, TableConfig, GridSinusoidalConfig>;

// Doors 2 and 3 of one layer, and its mask. Fields as in AttentionConfig.
struct LayerConfig {
  std::optional<RotaryPlan> rotation;
  std::vector<std::shared_ptr<const ScoreTerm>> score_terms;
  std::shared_ptr<const ValueTerm> value_term;
  Mask mask;  // window, sinks, chunk; causal, and without prefix or explicit mask
  std::optional<double> scale;
  std::optional<double> soft_cap;
  std::optional<Temperature> temperature;
};

struct DecoderConfig {
  std::int32_t vocabulary = 0;
  std::int32_t width = 0;
  std::int32_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int32_t feed_forward_width = 0;
  Norm norm = Norm::kRms;
  NormPlacement norm_placement = NormPlacement::kBefore;
  double norm_epsilon = 1e-5;
  FeedForward feed_forward = FeedForward::kGated;
  Activation activation = Activation::kSilu;
  Embeddings embeddings = Embeddings::kTied;
  double embedding_scale = 1;            // what token embeddings are multiplied by, not the unembedding
  std::optional<double> logit_soft_cap;  // above 0
  Biases biases = Biases::kNone;
  InputPosition input_position;
  std::vector<LayerConfig> layers;  // at least one

  AttentionShape shape() const noexcept { return {heads, kv_heads, head_dim, head_dim}; }
};

// Throws kArgument (or what the parts throw) unless a decoder can be made of it; `call` begins the sentence.
void require_config(std::string_view call, const DecoderConfig& config);

// The tensors that a decoder of this configuration reads, in order: Hugging Face's names for Llama and, where
// Llama has no such thing, the next model's that does (up_proj and down_proj alone for plain feed-forward,
// embed_positions for a learned table). i counts layers from 0.
//
//   model.embed_tokens.weight                                    [vocabulary, width]
//   model.embed_positions.weight                                 [rows, width]
//   model.layers.i.input_layernorm.weight (.bias)                [width]
//   model.layers.i.self_attn.{q,k,v,o}_proj.weight (.bias)       [heads * head_dim, width] and so on
//   model.layers.i.post_attention_layernorm.weight (.bias)       [width]   before the feed-forward, as in Llama; under
//     kBeforeAndAfter as in Gemma 2: after attention, and pre_feedforward_layernorm, post_feedforward_layernorm likewise
//   model.layers.i.mlp.{gate,up}_proj.weight (.bias)             [feed_forward_width, width]
//   model.layers.i.mlp.down_proj.weight (.bias)                  [width, feed_forward_width]
//   model.norm.weight (.bias)                                    [width]
//   lm_head.weight                                               [vocabulary, width], unless tied
std::vector<TensorInfo> decoder_tensors(const DecoderConfig& config);

// Random weights by seed: every value uniform in -a .. a, a = sqrt(3) * deviation, from the stream of its tensor's
// name (random.hpp), so with the same bits in every build. Norms multiply by 1 + 0.1 u, biases are 0.1 u. Deviations are
// above 0 and at most 1e6, so that float32 holds every product and no logit is NaN.
struct RandomScale {
  std::optional<double> embedding;  // deviation of token and position embeddings; none: 1 / sqrt(width)
  double query_key = 2;             // deviation of W_q and W_k times sqrt(width): above 1, attention has preferences
  double matrix = 1;                // of all other matrices, times the square root of their inputs
};
Weights random_weights(const DecoderConfig& config, std::uint64_t seed, const RandomScale& scale = {});

// Every positional method in use, with the layers that use it (empty: the input).
struct MethodInLayers {
  MethodDescription method;
  std::vector<std::int32_t> layers;
};
std::vector<MethodInLayers> describe_methods(const DecoderConfig& config);

}  // namespace locant
