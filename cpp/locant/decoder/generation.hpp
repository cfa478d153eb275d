// Generation: prompts in, tokens out, one cache step at a time.
//
// Every row of the batch stands at the positions of its own sequence, whatever the length of the others: a step
// asks the cache what comes next for each row and decodes the rows that are not finished. Prompts go in by chunks;
// the split changes nothing but memory.
//
// The token that a stop rule names is part of the result. A row's draws are those of stream r and index n (the
// n-th new token of row r), so they do not depend on the other rows.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "locant/decoder/decoder.hpp"
#include "locant/decoder/sampling.hpp"

namespace locant {

struct GenerationConfig {
  std::int32_t new_tokens = 32;             // the most a row gets; 1 or more
  std::vector<std::int32_t> stop_tokens;    // a row ends after one of these
  SamplingConfig sampling;
  std::int32_t prefill_chunk = 512;         // prompt tokens of a row that go in at once
};

enum class StopReason { kLength, kStopToken, kCancelled };

struct GeneratedRow {
  std::vector<std::int32_t> tokens;  // the new ones
  StopReason reason = StopReason::kLength;
};

// Reported after every step. In the prefill `done` and `total` count prompt tokens, then steps; `tokens` are the
// new tokens of this step, one for each of `rows`.
enum class Phase { kPrefill, kDecode };
enum class Continue { kYes, kNo };
struct Progress {
  Phase phase = Phase::kPrefill;
  std::size_t done = 0, total = 0;
  std::span<const std::int32_t> rows, tokens;
};
using OnProgress = std::function<Continue(const Progress&)>;

// Goes on with what the cache holds: prompt r after sequence r. Afterwards the cache holds every prompt and every
// new token but the last of each row (which was never an input). Errors: kArgument for an empty prompt, a cache
// of fewer sequences, or parameters out of range; those of Decoder::forward and Sampler. An error thrown by
// `progress` passes through. What was stored before an error or a cancellation stays.
std::vector<GeneratedRow> generate(Decoder& decoder, Cache& cache, std::span<const std::vector<std::int32_t>> prompts,
                                   const GenerationConfig& config = {}, const OnProgress& progress = {});

// The same with a cache of its own, which grows to what is needed.
std::vector<GeneratedRow> generate(Decoder& decoder, std::span<const std::vector<std::int32_t>> prompts,
                                   const GenerationConfig& config = {}, const OnProgress& progress = {});

}  // namespace locant
