// Generation: prompts in, tokens out, one cache step at a time.
//
// Every row of the batch stands at the positions of its own sequence, whatever the length of the others: a step
// asks the cache what comes next for each row and decodes the rows that are not finished. Prompts go in by chunks
// (prefill.hpp); rows whose prompt has ended wait until every prompt has, so that prefill and decode do not mix.
//
// The token that a stop rule names is part of the result. A row's draws are those of stream r and index n (the
// n-th new token of row r), so they do not depend on the other rows.
//
// The cache afterwards
//   ended, or cancelled   every prompt and every new token but the last of each row, which was never an input: give that
//                         one as the next prompt and generation goes on
//   an error              as before the call: the rows that it wrote are taken back (a fixed cache that fills up too).
//                         Had a callback or the caller meanwhile taken rows out itself, no more than the rows beyond
//                         the number at the start are taken.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "locant/decoder/prefill.hpp"
#include "locant/decoder/sampling.hpp"

namespace locant {

struct GenerationConfig {
  std::int32_t new_tokens = 32;             // the most a row gets; 1 or more
  std::vector<std::int32_t> stop_tokens;    // a row ends after one of these
  SamplingConfig sampling;
  std::int32_t prefill_chunk = 512;         // prompt tokens of a row that go in at once
};

enum class StopReason { kUnfinished, kLength, kStopToken, kCancelled };

struct GeneratedRow {
  std::vector<std::int32_t> tokens;  // the new ones
  StopReason reason = StopReason::kUnfinished;
};

// What a step did. In the prefill `done` and `total` count prompt tokens, then steps; `tokens` are the
// new tokens of this step, one for each of `rows`; both are valid until the next step.
enum class Phase { kPrefill, kDecode };
enum class Continue { kYes, kNo };
struct Progress {
  Phase phase = Phase::kPrefill;
  std::size_t done = 0, total = 0;
  std::span<const std::int32_t> rows, tokens;
};
using OnProgress = std::function<Continue(const Progress&)>;

// Step by step, for callers that have other things to do in between.
class Generation {
 public:
  // Prompt r goes on after sequence r of the cache. Keeps decoder and cache by reference. Errors, before anything is
  // computed: those of Prefill and Sampler; kArgument for new_tokens below 1.
  Generation(Decoder& decoder, Cache& cache, Prompts prompts, GenerationConfig config = {});

  bool ended() const noexcept { return active_.empty(); }
  // One chunk of the prefill or one new token of every row at work. Errors: those of Decoder::forward and Sampler::sample,
  // after which everything is taken back and it has ended; kCacheState once it has ended, and where others have
  // changed the cache since the last step: it has ended then and the cache is left as they made it.
  Progress step();
  // Ends it where it is; rows at work get the reason kCancelled.
  void cancel() noexcept;
  // Ends it and takes back what it wrote; the decoder may be gone. kCacheState, nothing done, where others have changed the
  // cache since.
  void roll_back();

  const std::vector<GeneratedRow>& rows() const noexcept { return out_; }

 private:
  void take(std::int32_t row, std::span<const float> logits);

  Decoder* decoder_;
  Cache* cache_;
  GenerationConfig config_;
  Sampler sampler_;
  Prefill prefill_;
  std::vector<GeneratedRow> out_;
  std::size_t steps_ = 0;
  std::vector<std::int32_t> active_;  // rows at work
  std::vector<std::int32_t> tokens_, counts_, new_rows_, new_tokens_;
  std::vector<std::size_t> wanted_;
  std::vector<float> logits_;
};

// All steps. `progress` is told of each and may end it (Continue::kNo: cancelled); an error that it throws passes
// through. Errors: those of Generation.
std::vector<GeneratedRow> generate(Decoder& decoder, Cache& cache, Prompts prompts, const GenerationConfig& config = {},
                                   const OnProgress& progress = {});

// The same with a cache of its own, which grows to what is needed.
std::vector<GeneratedRow> generate(Decoder& decoder, Prompts prompts, const GenerationConfig& config = {},
                                   const OnProgress& progress = {});

}  // namespace locant
