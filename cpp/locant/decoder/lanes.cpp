#include "locant/decoder/lanes.hpp"

#include <algorithm>
#include <cmath>

#include "locant/decoder/sampling.hpp"

namespace locant {
namespace {

constexpr const char* kCall = "compare_lanes";

std::int32_t placed(Offset offset, std::int32_t true_position, std::int32_t prompt) {
  switch (offset) {
    case Offset::kRestarted: return true_position - prompt;
    case Offset::kOffByOne: return true_position + 1;
    case Offset::kTrue: break;
  }
  return true_position;
}

// One token of a text at a position of its own; its order is its place in the text.
Positions one_token(std::int32_t position, std::int32_t order) {
  PositionArrays arrays;
  arrays.row_lengths = {1};
  arrays.position = {{position}};
  arrays.order = {order};
  return Positions::from_arrays(std::move(arrays));
}

}  // namespace

Lanes compare_lanes(Decoder& decoder, std::span<const std::int32_t> prompt, const LanesConfig& config) {
  require_range(kCall, "the length of the prompt", static_cast<std::int64_t>(prompt.size()), 1, 1 << 24);
  require_range(kCall, "steps", config.steps, 1, 1 << 24);
  require_range(kCall, "prefill_chunk", config.prefill_chunk, 1, kMaxPosition);
  require_positive(kCall, "tolerance", config.tolerance);

  const auto vocabulary = static_cast<std::size_t>(decoder.config().vocabulary);
  const auto length = static_cast<std::int32_t>(prompt.size());
  std::vector<std::int32_t> text(prompt.begin(), prompt.end());
  std::vector<float> full(vocabulary), cached(vocabulary);
  // Restarted positions go backwards, which a cache refuses unless it is meant. Here it is.
  Cache cache = decoder.make_cache(1, Capacity::kGrowing, 0, KeyStorage::kRotated, BackwardPositions::kAllow);

  Lanes lanes;
  for (std::int32_t s = 0; s <= config.steps; ++s) {
    LaneStep step;
    const std::size_t last[] = {text.size() - 1};
    decoder.forward(text, Positions::range(static_cast<std::int64_t>(text.size())), last, full);
    step.full_position = length + s - 1;
    if (s == 0) {
      for (std::int32_t first = 0; first < length; first += config.prefill_chunk) {
        const std::int32_t count = std::min(config.prefill_chunk, length - first);
        const std::size_t wanted[] = {static_cast<std::size_t>(count) - 1};
        decoder.forward(prompt.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
                        Positions::range(count, first), cache, wanted, cached);
      }
      step.cached_position = step.full_position;
    } else {
      const std::size_t only[] = {0};
      step.cached_position = placed(config.offset, step.full_position, length);
      decoder.forward(std::span(text).last(1), one_token(step.cached_position, step.full_position), cache, only, cached);
    }
    step.full_token = greedy_token(full);
    step.cached_token = greedy_token(cached);
    step.full_logit = full[static_cast<std::size_t>(step.full_token)];
    step.cached_logit = cached[static_cast<std::size_t>(step.full_token)];
    for (std::size_t i = 0; i < vocabulary; ++i) {
      step.difference = std::max(step.difference, std::abs(static_cast<double>(full[i]) - cached[i]));
    }
    lanes.largest_difference = std::max(lanes.largest_difference, step.difference);
    if (!lanes.first_past_tolerance && step.difference > config.tolerance) lanes.first_past_tolerance = s;
    if (!lanes.first_other_token && step.cached_token != step.full_token) lanes.first_other_token = s;
    text.push_back(step.full_token);
    lanes.steps.push_back(step);
  }
  return lanes;
}

}  // namespace locant
