// Prefill: prompts into a cache, chunk by chunk, each row at the positions that its own sequence has reached.
//
// The split changes nothing but memory and how often the caller is heard in between. Only the last token of a prompt
// gets logits: the product with the vocabulary is the largest of all, and nobody reads the others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "locant/decoder/decoder.hpp"

namespace locant {

using Prompts = std::span<const std::vector<std::int32_t>>;

class Prefill {
 public:
  // Prompt r goes on after what sequence r holds. Keeps decoder and cache by reference; `chunk`: prompt tokens of a row
  // that go in at once. kArgument, in a sentence that begins with `call`, for an empty prompt, more prompts than the
  // cache has sequences, tokens outside the vocabulary, a chunk below 1; kCacheFull where prompts cannot fit a fixed cache.
  Prefill(std::string_view call, Decoder& decoder, Cache& cache, Prompts prompts, std::int32_t chunk);

  bool ended() const noexcept { return done_ == total_; }
  std::size_t done() const noexcept { return done_; }    // prompt tokens, of all rows
  std::size_t total() const noexcept { return total_; }

  // The next chunk of every row that is not through: the rows that came to the end of their prompt. Call until ended().
  // Errors of Decoder::forward, and kCacheState where others have changed the cache in between; the rows written by earlier chunks are then still there (roll_back()).
  std::span<const std::int32_t> step();
  // After the last token of row r's prompt, [vocabulary]; once step() has named the row.
  std::span<const float> logits(std::int32_t row) const;
  // All of them, [prompts, vocabulary].
  std::span<const float> logits() const noexcept { return logits_; }

  // Takes back the rows that the cache has got since the start, generated ones included, and never more. kCacheState,
  // nothing done, where others have changed the cache in between.
  void roll_back();

  // For who goes on where the prefill ends. kCacheState, in a sentence that begins with `call`, where others have
  // changed the cache since the last note().
  void require_untouched(std::string_view call) const;
  void note() noexcept { revision_ = cache_->revision(); }

 private:
  Decoder* decoder_;
  Cache* cache_;
  std::vector<std::vector<std::int32_t>> prompts_;
  std::int32_t chunk_;
  std::uint64_t revision_;
  std::size_t done_ = 0, total_ = 0;
  std::vector<std::size_t> fed_, rows_before_, wanted_;
  std::vector<std::int32_t> tokens_, counts_, sequences_, through_;
  std::vector<float> logits_, last_;
};

}  // namespace locant
