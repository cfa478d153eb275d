#include "locant/decoder/generation.hpp"

#include <algorithm>
#include <limits>

namespace locant {
namespace {

constexpr const char* kCall = "generate";
constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();

void check(const Decoder& decoder, std::int32_t sequences, std::span<const std::vector<std::int32_t>> prompts,
           const GenerationConfig& config) {
  require_range(kCall, "new_tokens", config.new_tokens, 1, kMost);
  require_range(kCall, "prefill_chunk", config.prefill_chunk, 1, kMost);
  require_range(kCall, "the number of prompts", static_cast<std::int64_t>(prompts.size()), 1, sequences);
  for (std::size_t r = 0; r < prompts.size(); ++r) {
    require_range(kCall, sentence("the length of prompt ", r), static_cast<std::int64_t>(prompts[r].size()), 1, kMost);
    for (const std::int32_t token : prompts[r]) {
      require_range(kCall, sentence("a token of prompt ", r), token, 0, decoder.config().vocabulary - 1);
    }
  }
}

}  // namespace

std::vector<GeneratedRow> generate(Decoder& decoder, Cache& cache, std::span<const std::vector<std::int32_t>> prompts,
                                   const GenerationConfig& config, const OnProgress& progress) {
  check(decoder, cache.config().sequences, prompts, config);
  Sampler sampler(config.sampling);
  const auto vocabulary = static_cast<std::size_t>(decoder.config().vocabulary);
  const std::size_t rows = prompts.size();
  std::vector<GeneratedRow> out(rows);

  // The rows still at work, and what they feed next: the rest of the prompt, then their last new token.
  std::vector<std::int32_t> active(rows);
  for (std::size_t r = 0; r < rows; ++r) active[r] = static_cast<std::int32_t>(r);
  std::vector<std::size_t> fed(rows, 0);
  std::size_t prompt_tokens = 0, prompt_done = 0, step = 0;
  for (const auto& prompt : prompts) prompt_tokens += prompt.size();

  std::vector<std::int32_t> tokens, counts, sequences, new_rows, new_tokens;
  std::vector<std::size_t> wanted;
  std::vector<float> logits;
  while (!active.empty()) {
    tokens.clear(), counts.clear(), sequences.clear(), wanted.clear(), new_rows.clear(), new_tokens.clear();
    // Rows whose prompt has ended wait until every prompt has, so that prefill and decode steps do not mix.
    const bool prefill = prompt_done < prompt_tokens;
    for (const std::int32_t row : active) {
      const auto r = static_cast<std::size_t>(row);
      if (prefill) {
        const std::size_t count = std::min(prompts[r].size() - fed[r], static_cast<std::size_t>(config.prefill_chunk));
        if (count == 0) continue;
        const auto first = prompts[r].begin() + static_cast<std::ptrdiff_t>(fed[r]);
        tokens.insert(tokens.end(), first, first + static_cast<std::ptrdiff_t>(count));
        fed[r] += count;
        prompt_done += count;
        counts.push_back(static_cast<std::int32_t>(count));
        if (fed[r] == prompts[r].size()) wanted.push_back(tokens.size() - 1), new_rows.push_back(row);
      } else {
        tokens.push_back(out[r].tokens.back());
        counts.push_back(1);
        wanted.push_back(tokens.size() - 1), new_rows.push_back(row);
      }
      sequences.push_back(row);
    }
    logits.resize(wanted.size() * vocabulary);
    decoder.forward(tokens, cache.next(counts, sequences), cache, wanted, logits, sequences);
    for (std::size_t i = 0; i < new_rows.size(); ++i) {
      GeneratedRow& row = out[static_cast<std::size_t>(new_rows[i])];
      const std::int32_t token = sampler.sample(std::span(logits).subspan(i * vocabulary, vocabulary),
                                                static_cast<std::uint64_t>(new_rows[i]), row.tokens.size());
      row.tokens.push_back(token);
      new_tokens.push_back(token);
      if (std::find(config.stop_tokens.begin(), config.stop_tokens.end(), token) != config.stop_tokens.end()) {
        row.reason = StopReason::kStopToken;
      }
    }
    std::erase_if(active, [&](std::int32_t r) {
      const GeneratedRow& row = out[static_cast<std::size_t>(r)];
      return row.reason == StopReason::kStopToken || row.tokens.size() == static_cast<std::size_t>(config.new_tokens);
    });
    if (!prefill) ++step;
    if (!progress) continue;
    Progress report;
    report.phase = prefill ? Phase::kPrefill : Phase::kDecode;
    report.done = prefill ? prompt_done : step;
    report.total = prefill ? prompt_tokens : static_cast<std::size_t>(config.new_tokens) - 1;
    report.rows = new_rows;
    report.tokens = new_tokens;
    if (progress(report) == Continue::kYes) continue;
    for (const std::int32_t r : active) out[static_cast<std::size_t>(r)].reason = StopReason::kCancelled;
    break;
  }
  return out;
}

std::vector<GeneratedRow> generate(Decoder& decoder, std::span<const std::vector<std::int32_t>> prompts,
                                   const GenerationConfig& config, const OnProgress& progress) {
  require_range(kCall, "the number of prompts", static_cast<std::int64_t>(prompts.size()), 1, 1 << 20);
  Cache cache = decoder.make_cache(static_cast<std::int32_t>(prompts.size()));
  return generate(decoder, cache, prompts, config, progress);
}

}  // namespace locant
