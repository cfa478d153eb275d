#include "locant/bias/decay.hpp"

#include <cmath>

#include "locant/bias/tile_products.hpp"
#include "locant/position/angle.hpp"

namespace locant {
namespace {

void require_heads(const char* call, std::size_t held, std::int32_t heads) {
  if (held == static_cast<std::size_t>(heads)) return;
  throw Error(ErrorCode::kShape, sentence(call, ": it was made for ", held, " heads, the attention has ", heads),
              static_cast<double>(held), heads);
}

MethodDescription description(const char* name, const char* source) {
  MethodDescription d;
  d.name = name;
  d.door = Door::kScore;
  d.reference = Reference::kRelative;
  d.source = source;
  d.origin = "displacement 0 is the query itself";
  d.direction = "displacement = key - query; only its size is read";
  d.past_end = "no end";
  return d;
}

}  // namespace

Kerple::Kerple(KerpleKernel kernel, std::vector<double> r1, std::vector<double> r2)
    : kernel_(kernel), r1_(std::move(r1)), r2_(std::move(r2)) {
  constexpr const char* kCall = "Kerple";
  if (r1_.empty()) throw Error(ErrorCode::kArgument, sentence(kCall, ": r1 is empty, expected one value a head"), 0, 1);
  require_size(kCall, "r2", r2_.size(), r1_.size(), "one value for each of r1");
  for (const double r : r1_) {
    require_positive(kCall, "a value of r1", r);
    require_magnitude(kCall, "a value of r1", r);
  }
  for (const double r : r2_) {
    require_positive(kCall, "a value of r2", r);
    require_magnitude(kCall, "a value of r2", r);
    if (kernel_ == KerpleKernel::kPower && r > 2) {
      throw Error(ErrorCode::kArgument, sentence(kCall, ": a value of r2 is ", r, ", expected at most 2"), r, 2);
    }
  }
}

void Kerple::add(const ScoreTile& tile, float* scores, std::size_t stride) const {
  const double r1 = r1_[static_cast<std::size_t>(tile.head)], r2 = r2_[static_cast<std::size_t>(tile.head)];
  if (kernel_ == KerpleKernel::kLogarithmic) {
    const auto f = [=](std::int64_t d) { return -r1 * std::log1p(r2 * std::abs(static_cast<double>(d))); };
    detail::add_function(tile, f, scores, stride);
  } else {
    const auto f = [=](std::int64_t d) { return -r1 * std::pow(std::abs(static_cast<double>(d)), r2); };
    detail::add_function(tile, f, scores, stride);
  }
}

void Kerple::require_fits(std::int32_t heads, std::int32_t, std::int32_t) const {
  require_heads("Kerple", r1_.size(), heads);
}

MethodDescription Kerple::describe() const {
  const bool log = kernel_ == KerpleKernel::kLogarithmic;
  MethodDescription d = description(log ? "KERPLE, logarithmic" : "KERPLE, power", "Chi et al. 2022, eq. 3 and 4");
  d.formula = log ? "-r1 * ln(1 + r2 * |j - t|)" : "-r1 * |j - t|^r2";
  std::string first, second;
  for (std::size_t h = 0; h < r1_.size(); ++h) {
    first += (h > 0 ? ", " : "") + number_text(r1_[h]);
    second += (h > 0 ? ", " : "") + number_text(r2_[h]);
  }
  d.parameters = {parameter("heads", static_cast<double>(r1_.size())), {"r1", first}, {"r2", second}};
  return d;
}

Sandwich::Sandwich(std::int32_t heads, std::int32_t width, double base) : heads_(heads), width_(width), base_(base) {
  constexpr const char* kCall = "Sandwich";
  require_range(kCall, "heads", heads, 1, 1 << 16);
  require_range(kCall, "width", width, 2, 1 << 16);
  if (width % 2 != 0) {
    throw Error(ErrorCode::kArgument, sentence(kCall, ": width is ", width, ", expected an even number"), width);
  }
  require_positive(kCall, "base", base);
  for (std::int32_t i = 0; i < width / 2; ++i) {
    frequencies_.push_back(std::pow(base, -2.0 * i / width));
    require_frequency(kCall, sentence("the frequency of pair ", i), frequencies_.back());
  }
  constexpr std::int64_t kKept = 4096;
  kept_.reserve(kKept);
  for (std::int64_t d = 0; d < kKept; ++d) kept_.push_back(sum(d));
}

double Sandwich::sum(std::int64_t displacement) const noexcept {
  double sum = 0;
  for (const double frequency : frequencies_) sum += std::cos(static_cast<double>(displacement) * frequency);
  return sum;
}

void Sandwich::add(const ScoreTile& tile, float* scores, std::size_t stride) const {
  const double ratio = heads_ / (8.0 * (tile.head + 1));
  const auto f = [&](std::int64_t d) {
    const std::int64_t distance = d < 0 ? -d : d;
    return ratio * (distance < static_cast<std::int64_t>(kept_.size()) ? kept_[static_cast<std::size_t>(distance)] : sum(distance));
  };
  detail::add_function(tile, f, scores, stride);
}

void Sandwich::require_fits(std::int32_t heads, std::int32_t, std::int32_t) const {
  require_heads("Sandwich", static_cast<std::size_t>(heads_), heads);
}

MethodDescription Sandwich::describe() const {
  MethodDescription d = description("Sandwich", "Chi et al. 2023, section 5");
  d.parameters = {parameter("heads", heads_), parameter("width", width_), parameter("base", base_)};
  d.formula = "heads / (8 (h + 1)) * sum_i cos((j - t) * base^(-2i / width))";
  return d;
}

}  // namespace locant
