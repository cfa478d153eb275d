#include "locant/absolute/interpolation.hpp"

#include <algorithm>
#include <cmath>

#include "locant/position/positions.hpp"

namespace locant {
namespace {

// The samples that one output sample reads along one axis, already clamped to the source.
struct Taps {
  std::vector<std::int64_t> index;
  std::vector<double> weight;
};

double cubic(double t, double a) {
  t = std::abs(t);
  if (t < 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  if (t < 2) return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
  return 0;
}

double triangle(double t) { return std::max(0.0, 1 - std::abs(t)); }

double center(std::int64_t i, std::int64_t old_size, std::int64_t new_size, SampleCenters centers) {
  const auto at = static_cast<double>(i), old_count = static_cast<double>(old_size), new_count = static_cast<double>(new_size);
  if (centers == SampleCenters::kHalfPixel) return (at + 0.5) * (old_count / new_count) - 0.5;
  return new_size == 1 ? 0.0 : at * (old_count - 1) / (new_count - 1);
}

Taps plain_taps(std::int64_t i, std::int64_t old_size, std::int64_t new_size, GridFilter filter,
                SampleCenters centers) {
  double source = center(i, old_size, new_size, centers);
  if (filter == GridFilter::kBilinear) source = std::max(source, 0.0);
  const double floor = std::floor(source);
  const auto first = static_cast<std::int64_t>(floor);
  const int before = filter == GridFilter::kBilinear ? 0 : 1;
  const int taps = filter == GridFilter::kBilinear ? 2 : 4;
  Taps out;
  for (int k = 0; k < taps; ++k) {
    const std::int64_t at = first - before + k;
    const double distance = source - floor + before - k;
    out.index.push_back(std::clamp<std::int64_t>(at, 0, old_size - 1));
    out.weight.push_back(filter == GridFilter::kBilinear ? triangle(distance) : cubic(distance, -0.75));
  }
  return out;
}

Taps smoothed_taps(std::int64_t i, std::int64_t old_size, std::int64_t new_size, GridFilter filter) {
  const double scale = static_cast<double>(old_size) / static_cast<double>(new_size);
  const double widen = std::max(scale, 1.0);
  const double support = (filter == GridFilter::kBilinear ? 1 : 2) * widen;
  const double center = (static_cast<double>(i) + 0.5) * scale;
  const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(center - support + 0.5), 0);
  const auto last = std::min<std::int64_t>(static_cast<std::int64_t>(center + support + 0.5), old_size);
  Taps out;
  double sum = 0;
  for (std::int64_t at = first; at < last; ++at) {
    const double t = (static_cast<double>(at) - center + 0.5) / widen;
    out.index.push_back(at);
    out.weight.push_back(filter == GridFilter::kBilinear ? triangle(t) : cubic(t, -0.5));
    sum += out.weight.back();
  }
  for (double& w : out.weight) w /= sum;
  return out;
}

std::vector<Taps> axis_taps(std::int64_t old_size, std::int64_t new_size, const GridResampling& how) {
  std::vector<Taps> taps;
  taps.reserve(static_cast<std::size_t>(new_size));
  for (std::int64_t i = 0; i < new_size; ++i) {
    taps.push_back(how.smoothing == GridSmoothing::kNone
                       ? plain_taps(i, old_size, new_size, how.filter, how.centers)
                       : smoothed_taps(i, old_size, new_size, how.filter));
  }
  return taps;
}

}  // namespace

std::vector<float> interpolate_rows(std::span<const float> values, std::int64_t rows, std::int32_t width,
                                    std::int64_t new_rows, SampleCenters centers) {
  constexpr const char* kCall = "interpolate_rows";
  require_range(kCall, "rows", rows, 1, kMaxPosition);
  require_range(kCall, "new_rows", new_rows, 1, kMaxPosition);
  require_range(kCall, "width", width, 1, 1 << 20);
  require_size(kCall, "the values", values.size(), checked_product(kCall, "the values", {rows, width}),
               sentence(rows, " rows x width ", width));
  std::vector<float> out(checked_product(kCall, "the result", {new_rows, width}));
  const auto w = static_cast<std::size_t>(width);
  for (std::int64_t i = 0; i < new_rows; ++i) {
    const Taps taps = plain_taps(i, rows, new_rows, GridFilter::kBilinear, centers);
    const float* a = values.data() + static_cast<std::size_t>(taps.index[0]) * w;
    const float* b = values.data() + static_cast<std::size_t>(taps.index[1]) * w;
    float* to = out.data() + static_cast<std::size_t>(i) * w;
    for (std::size_t c = 0; c < w; ++c) {
      // A weight of exactly 0 reads nothing, so that what stands beyond (NaN in an unused row) stays there.
      to[c] = static_cast<float>((taps.weight[0] == 0 ? 0 : taps.weight[0] * a[c]) +
                                 (taps.weight[1] == 0 ? 0 : taps.weight[1] * b[c]));
    }
  }
  return out;
}

std::vector<float> interpolate_grid(std::span<const float> values, GridSize from, GridSize to, std::int32_t channels,
                                    std::int32_t prefix_rows, GridResampling resampling) {
  constexpr const char* kCall = "interpolate_grid";
  for (const std::int32_t side : {from.height, from.width, to.height, to.width}) {
    require_range(kCall, "a side of a grid", side, 1, 1 << 15);
  }
  require_range(kCall, "channels", channels, 1, 1 << 20);
  require_range(kCall, "prefix_rows", prefix_rows, 0, 1 << 20);
  if (resampling.smoothing == GridSmoothing::kAntialias && resampling.centers == SampleCenters::kAlignCorners) {
    throw Error(ErrorCode::kArgument, sentence(kCall, ": smoothing is not defined with aligned corners"));
  }
  const auto rows = static_cast<std::int64_t>(from.height) * from.width + prefix_rows;
  require_size(kCall, "the values", values.size(), checked_product(kCall, "the values", {rows, channels}),
               sentence("(", prefix_rows, " + ", from.height, " x ", from.width, ") x ", channels));
  const auto new_rows = static_cast<std::int64_t>(to.height) * to.width + prefix_rows;
  std::vector<float> out(checked_product(kCall, "the result", {new_rows, channels}));
  const auto w = static_cast<std::size_t>(channels);
  const std::size_t prefix = static_cast<std::size_t>(prefix_rows) * w;
  std::copy(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(prefix), out.begin());
  if (from == to) {
    std::copy(values.begin() + static_cast<std::ptrdiff_t>(prefix), values.end(),
              out.begin() + static_cast<std::ptrdiff_t>(prefix));
    return out;
  }
  const std::vector<Taps> vertical = axis_taps(from.height, to.height, resampling);
  const std::vector<Taps> horizontal = axis_taps(from.width, to.width, resampling);
  std::vector<double> sum(w);
  float* place = out.data() + prefix;
  for (const Taps& v : vertical) {
    for (const Taps& h : horizontal) {
      std::fill(sum.begin(), sum.end(), 0.0);
      for (std::size_t y = 0; y < v.index.size(); ++y) {
        for (std::size_t x = 0; x < h.index.size(); ++x) {
          const double weight = v.weight[y] * h.weight[x];
          if (weight == 0) continue;
          const auto cell = static_cast<std::size_t>(v.index[y] * from.width + h.index[x]);
          const float* source = values.data() + prefix + cell * w;
          for (std::size_t c = 0; c < w; ++c) sum[c] += weight * source[c];
        }
      }
      for (std::size_t c = 0; c < w; ++c) place[c] = static_cast<float>(sum[c]);
      place += w;
    }
  }
  return out;
}

MethodDescription describe(GridSize from, GridSize to, std::int32_t channels, std::int32_t prefix_rows,
                           GridResampling resampling) {
  const std::string old_grid = sentence(from.height, " x ", from.width), new_grid = sentence(to.height, " x ", to.width);
  const bool aligned = resampling.centers == SampleCenters::kAlignCorners;
  MethodDescription d;
  d.name = "learned table of a grid, stretched";
  d.door = Door::kInput;
  d.reference = Reference::kAbsolute;
  d.parameters = {{"trained grid", old_grid},
                  {"grid", new_grid},
                  parameter("channels", channels),
                  parameter("rows before the grid", prefix_rows),
                  {"filter", resampling.filter == GridFilter::kBicubic ? "bicubic" : "bilinear"},
                  {"smoothing", resampling.smoothing == GridSmoothing::kAntialias ? "antialias" : "none"},
                  {"sample centers", aligned ? "aligned corners" : "half pixel"}};
  d.formula = sentence("table [", prefix_rows, " + ", old_grid, ", ", channels, "], read at ",
                       aligned ? "i * (old - 1) / (new - 1)" : "(i + 0.5) * old / new - 0.5", " of each axis");
  d.source = "torch.nn.functional.interpolate, as ViT, DINOv2, SigLIP 2 and Qwen3-VL call it";
  d.origin = prefix_rows == 0 ? std::string("row 0 is the top left patch")
                              : sentence("row ", prefix_rows, " is the top left patch; rows before it belong to no patch");
  d.direction = "none";
  d.past_end = sentence("the grid ends at ", new_grid, "; another size is another stretching, and another vector everywhere");
  return d;
}

}  // namespace locant
