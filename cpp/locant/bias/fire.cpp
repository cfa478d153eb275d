#include "locant/bias/fire.hpp"

#include <algorithm>
#include <cmath>

#include "locant/bias/displacement.hpp"

namespace locant {

Fire::Fire(FireConfig config) : config_(std::move(config)) {
  constexpr const char* kCall = "Fire";
  const std::size_t hidden = config_.w1.size(), heads = config_.b2.size();
  if (hidden == 0 || heads == 0) {
    throw Error(ErrorCode::kArgument, sentence(kCall, ": there are ", hidden, " hidden units and ", heads,
                " heads, expected at least one of each"), 0, 1);
  }
  require_size(kCall, "b1", config_.b1.size(), hidden, "one value a hidden unit");
  require_size(kCall, "w2", config_.w2.size(), hidden * heads, sentence(heads, " heads x ", hidden, " hidden units"));
  for (const auto* weights : {&config_.w1, &config_.b1, &config_.w2, &config_.b2}) {
    for (const double w : *weights) require_finite(kCall, "a weight", w);
  }
  require_positive(kCall, "c", config_.c);
  require_positive(kCall, "threshold", config_.threshold);
  require_finite(kCall, "epsilon", config_.epsilon);
  if (config_.epsilon < 0) {
    throw Error(ErrorCode::kArgument, sentence(kCall, ": epsilon is ", config_.epsilon, ", expected 0 or more"),
                config_.epsilon, 0);
  }
  // The largest share of any distance, and what the network can make of it.
  const double farthest = std::log1p(config_.c * kMaxDisplacement);
  const double share = farthest / (std::log1p(config_.c * config_.threshold) + config_.epsilon);
  if (!std::isfinite(farthest) || !std::isfinite(share)) {
    throw Error(ErrorCode::kArgument, sentence(kCall, ": c ", config_.c, ", threshold ", config_.threshold, " and epsilon ",
                config_.epsilon, " give the farthest key no finite share"), config_.c);
  }
  for (std::size_t h = 0; h < heads; ++h) {
    double most = std::abs(config_.b2[h]);
    for (std::size_t u = 0; u < hidden; ++u) {
      most += std::abs(config_.w2[h * hidden + u]) * (std::abs(config_.w1[u]) * share + std::abs(config_.b1[u]));
    }
    require_magnitude(kCall, sentence("the largest bias that the weights can give head ", h), most);
  }
}

void Fire::add(const ScoreTile& tile, float* scores, std::size_t stride) const {
  const std::size_t hidden = config_.w1.size();
  const auto head = static_cast<std::size_t>(tile.head);
  const double* w2 = config_.w2.data() + head * hidden;
  for (std::size_t row = 0; row < tile.query_rows; ++row) {
    const double whole = std::log1p(config_.c * std::max<double>(config_.threshold, tile.query_position[row])) + config_.epsilon;
    for (std::size_t k = 0; k < tile.keys; ++k) {
      const double distance = std::abs(static_cast<double>(displacement(tile, row, k)));
      const double x = std::log1p(config_.c * distance) / whole;
      double sum = config_.b2[head];
      for (std::size_t u = 0; u < hidden; ++u) sum += w2[u] * std::max(config_.w1[u] * x + config_.b1[u], 0.0);
      scores[row * stride + k] += static_cast<float>(sum);
    }
  }
}

void Fire::require_fits(std::int32_t heads, std::int32_t, std::int32_t) const {
  if (config_.b2.size() == static_cast<std::size_t>(heads)) return;
  throw Error(ErrorCode::kShape, sentence("Fire: it was made for ", config_.b2.size(), " heads, the attention has ",
              heads), static_cast<double>(config_.b2.size()), heads);
}

MethodDescription Fire::describe() const {
  MethodDescription d;
  d.name = "FIRE";
  d.door = Door::kScore;
  d.reference = Reference::kRelative;
  d.parameters = {parameter("heads", static_cast<double>(config_.b2.size())),
                  parameter("hidden", static_cast<double>(config_.w1.size())), parameter("c", config_.c),
                  parameter("threshold", config_.threshold), parameter("epsilon", config_.epsilon)};
  d.formula = "f(ln(c |t - j| + 1) / (ln(c max(L, t) + 1) + epsilon)), f = w2 relu(w1 x + b1) + b2";
  d.source = "Li et al. 2023, eq. 9 to 11";
  d.origin = "position 0 is the first token";
  d.direction = "displacement = key - query; only its size is read, divided by the query's position";
  d.past_end = "no end: distances are shares of the query's position";
  return d;
}

}  // namespace locant
