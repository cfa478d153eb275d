// A decoder: tokens and their positions in, logits out, with or without a cache by one and the same path.
//
//   Decoder decoder(config, random_weights(config, 1));
//   decoder.forward(tokens, positions, wanted, logits);                    // the full forward
//   Cache cache = decoder.make_cache();
//   decoder.forward(prompt, cache.next({n}), cache, wanted, logits);       // prefill, in any chunks
//   decoder.forward({&token, 1}, cache.next({1}), cache, wanted, logits);  // one step
//
// Positions are always the caller's: the decoder reads them, hands the same ones to every layer and never counts.
// Cached logits equal those of the full forward at the same positions up to float32 rounding, whatever the split
// (audit_tests.hpp measures it; 2e-4 of the largest logit in our tests, for sums are taken in another order).
//
// Padding: the token ids of padded tokens are not read (any number will do); they enter as zeros, attention
// neither shows nor gives them anything, their logits are those of a zero vector and mean nothing. Ask for
// last_tokens(), not for the last column.
//
// Numbers: norms and activations as functions.hpp says; matrix products, attention and softmax by the shared kernel
// (simd/). Equal calls give equal bits. Without fused multiply-adds (SIMD128 in WebAssembly, SSE2 natively) every sum
// is taken in the same order and every function but sine, cosine, logarithm and power (in double, rounded once to
// float32) is our own, so logits and sampled tokens are the same to the bit natively and as WebAssembly; a test holds
// them to fixed bits. Relaxed SIMD, AVX2 and AVX-512 fuse, and agree to rounding.
//
// Memory: the weights once, and scratch for the largest call so far, kept between calls: a step that fits in it asks
// for no tensor, only for the few numbers of its positions. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "locant/attention/cache.hpp"
#include "locant/decoder/config.hpp"
#include "locant/decoder/weights.hpp"
#include "locant/position/positions.hpp"

namespace locant {

// Where one layer of the decoder keeps its keys and values: layer `layer` of an opened step of a cache.
struct LayerRoute {
  Cache* cache = nullptr;
  const CacheStep* step = nullptr;
  std::int32_t layer = 0;
};

class Decoder {
 public:
  // Takes the weights of decoder_tensors(config) over; others may not be there. Errors: those of require_config;
  // kArgument for a tensor that is missing or not read, kShape for one of another shape.
  Decoder(DecoderConfig config, Weights weights);
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  const DecoderConfig& config() const noexcept;
  std::size_t parameters() const noexcept;
  // Weights as laid out for the kernel, position tables and scratch.
  std::size_t bytes() const noexcept;

  // A copy of the weights under the names of decoder_tensors(), to the bit as they were given: to be written by
  // write_safetensors(). kOutOfMemory.
  Weights weights() const;

  // Keeps the rotations and sinusoids of positions 0 .. count-1; others are computed when met, to the same bits.
  void prepare(std::int64_t count);

  // A cache of this decoder's shape.
  Cache make_cache(std::int32_t sequences = 1, Capacity capacity = Capacity::kGrowing, std::int64_t rows = 0,
                   KeyStorage keys = KeyStorage::kRotated,
                   BackwardPositions backward = BackwardPositions::kRefuse) const;

  // tokens: [positions.tokens()]. wanted: indices of tokens whose logits are asked for, in any order.
  // logits: [wanted.size(), vocabulary]. `mask` adds to the masks of all layers: a prefix, an explicit mask.
  // Errors, before anything is computed: kShape; kArgument for an id outside the vocabulary or an index outside
  // the batch; kTableEnd past a learned table.
  void forward(std::span<const std::int32_t> tokens, const Positions& positions, std::span<const std::size_t> wanted,
               std::span<float> logits, const CallMask& mask = {});

  // The same as a step of `cache`: row r of the positions goes on with sequences[r] (none given: sequence r) and
  // sees all that it holds. Further errors: those of Cache::begin; kShape for a cache of another shape. The cache
  // is as it was after any error.
  void forward(std::span<const std::int32_t> tokens, const Positions& positions, Cache& cache,
               std::span<const std::size_t> wanted, std::span<float> logits,
               std::span<const std::int32_t> sequences = {}, const CallMask& mask = {});

  // The same with each layer in the cache and step of its own route, one per layer: layers of different windows in
  // caches of different length, or, in the audit tests, a fault on purpose. Door 1 reads `positions`, layers the
  // positions of their step, which must have as many tokens. Steps are the caller's to cancel after an error.
  void forward(std::span<const std::int32_t> tokens, const Positions& positions, std::span<const LayerRoute> routes,
               std::span<const std::size_t> wanted, std::span<float> logits, const CallMask& mask = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The last valid token of every row that has one; the indices of all valid tokens.
std::vector<std::size_t> last_tokens(const Positions& positions);
std::vector<std::size_t> valid_tokens(const Positions& positions);

}  // namespace locant
