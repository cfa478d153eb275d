// Door 1 against reference vectors from running code.
//
// Where a file holds exact values (double, from high precision), those are compared: within half a float32 step
// of the value's size, and a little for the double angle. The source's own float32 error is in the file and is
// only used to see that the source agrees with the same exact values.
#include <numeric>

#include "locant/absolute/grid_sinusoidal.hpp"
#include "locant/absolute/interpolation.hpp"
#include "locant/absolute/learned_table.hpp"
#include "locant/absolute/sinusoidal.hpp"
#include "support.hpp"
#include "vectors.hpp"

using namespace locant;
using namespace locant::test;

namespace {

// By value: a range-for keeps it alive, which it would not do for a reference into a temporary.
Json cases_of(const std::string& name) { return load_vectors(name).at("cases"); }

// Half a float32 step of values up to 1.
constexpr double kHalfStep = 3.0e-8;

// Compares with the exact values of a case, and those with the source's.
void check_case(const Json& item, const char* name, std::span<const float> ours, double tolerance) {
  INFO(item.at("name").get<std::string>());
  const auto exact = doubles_of(item.at("exact").at(name));
  REQUIRE(exact.size() == ours.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    INFO("value " << i);
    CHECK(std::abs(ours[i] - exact[i]) <= tolerance);
  }
  if (!item.at("expected").contains(name)) return;
  const auto source = floats_of(item.at("expected").at(name));
  const auto error = item.at("source_error").get<double>();
  for (std::size_t i = 0; i < exact.size(); ++i) CHECK(std::abs(ours[i] - source[i]) <= error * 1.001 + tolerance);
}

void check_sinusoid(const Json& item, const SinusoidalConfig& config, double tolerance) {
  const auto positions = ints_of(item.at("inputs").at("positions"));
  PositionArrays arrays;
  arrays.row_lengths = {static_cast<std::int32_t>(positions.size())};
  arrays.position = {positions};
  const Positions batch = Positions::from_arrays(arrays);
  Sinusoidal encoding(config);
  std::vector<float> out(positions.size() * static_cast<std::size_t>(config.width));
  encoding.encode(batch, out);
  check_case(item, "table", out, tolerance);
  encoding.prepare(301);
  std::vector<float> kept(out.size());
  encoding.encode(batch, kept);
  CHECK(kept == out);
}

}  // namespace

TEST_CASE("vectors: sinusoids, interleaved and concatenated, at every width, base and position of the files") {
  for (const auto& [file, layout] : {std::pair{"sinusoidal_interleaved", SinusoidLayout::kInterleaved},
                                     {"sinusoidal_concatenated", SinusoidLayout::kConcatenated}}) {
    for (const Json& item : cases_of(file)) {
      SinusoidalConfig config;
      config.layout = layout;
      config.width = item.at("parameters").at("width");
      config.base = item.at("parameters").at("base");
      // At 2^31 the double angle is known to 1e-6 (header).
      const auto positions = ints_of(item.at("inputs").at("positions"));
      const bool far = *std::max_element(positions.begin(), positions.end()) > 1 << 26;
      check_sinusoid(item, config, far ? 1e-6 : kHalfStep);
    }
  }
}

TEST_CASE("vectors: sinusoids of tensor2tensor, M2M-100 and Whisper") {
  for (const Json& item : cases_of("sinusoidal_t2t")) {
    SinusoidalConfig config;
    config.layout = SinusoidLayout::kTensor2Tensor;
    config.width = item.at("parameters").at("width");
    const double shortest = item.at("parameters").at("min_timescale"), longest = item.at("parameters").at("max_timescale");
    config.base = longest / shortest;
    config.max_frequency = shortest;  // its code multiplies by min_timescale where a wavelength would divide
    check_sinusoid(item, config, kHalfStep);
  }
}

TEST_CASE("vectors: sinusoids of MLX, cosines first and full turns included") {
  for (const Json& item : cases_of("sinusoidal_mlx")) {
    const Json& p = item.at("parameters");
    SinusoidalConfig config;
    config.layout = SinusoidLayout::kMlx;
    config.width = p.at("width");
    const double least = p.at("min_freq"), most = p.at("max_freq");
    config.base = most / least;
    config.max_frequency = most * (p.at("full_turns").get<bool>() ? 2 * 3.14159265358979323846 : 1);
    config.order = p.at("cos_first").get<bool>() ? SinusoidOrder::kCosineFirst : SinusoidOrder::kSineFirst;
    if (p.at("scale").get<double>() != std::sqrt(2.0 / config.width)) config.scale = p.at("scale").get<double>();
    check_sinusoid(item, config, kHalfStep * std::max(1.0, config.scale.value_or(1)));
  }
}

TEST_CASE("vectors: sinusoids of two axes, rows first, columns first, patches in either order, class tokens") {
  int grids = 0, detr = 0;
  for (const Json& item : cases_of("sinusoidal_2d")) {
    const Json& p = item.at("parameters");
    const GridSize grid{p.at("height"), p.at("width")};
    if (p.contains("features_per_axis")) {
      DetrConfig config;
      config.features_per_axis = p.at("features_per_axis");
      config.base = p.at("base");
      config.normalize = p.at("normalize").get<bool>() ? DetrNormalize::kYes : DetrNormalize::kNo;
      config.scale = p.at("scale");
      config.epsilon = p.at("epsilon");
      std::vector<std::uint8_t> mask(static_cast<std::size_t>(grid.height * grid.width), 1);
      if (item.at("inputs").contains("mask")) mask = values_of<std::uint8_t>(item.at("inputs").at("mask"));
      std::vector<float> out(mask.size() * 2 * static_cast<std::size_t>(config.features_per_axis));
      detr_encode(config, grid, mask, out);
      check_case(item, "table", out, kHalfStep);
      ++detr;
      continue;
    }
    GridSinusoidalConfig config;
    config.features = p.at("features");
    config.base = p.at("base");
    const bool rows_first = p.at("layout").get<std::string>() == "sin row, cos row, sin column, cos column";
    config.order = rows_first ? GridOrder::kRowFirst : GridOrder::kColumnFirst;
    PositionArrays arrays;
    arrays.position.resize(2);
    const bool class_token = p.value("class_token", false);
    if (class_token) {
      arrays.position = {{0}, {0}};
      arrays.valid = {0};
    }
    const bool column_major = p.at("order").get<std::string>() == "column-major";
    for (std::int32_t a = 0; a < (column_major ? grid.width : grid.height); ++a) {
      for (std::int32_t b = 0; b < (column_major ? grid.height : grid.width); ++b) {
        arrays.position[0].push_back(column_major ? b : a);
        arrays.position[1].push_back(column_major ? a : b);
        if (class_token) arrays.valid.push_back(1);
      }
    }
    arrays.row_lengths = {static_cast<std::int32_t>(arrays.position[0].size())};
    if (!class_token && !column_major) {
      arrays.order.clear();
      CHECK(Positions::from_arrays(arrays) == grid_positions(grid));
    }
    const Positions positions = Positions::from_arrays(arrays);
    const GridSinusoidal encoding(config);
    std::vector<float> out(positions.tokens() * static_cast<std::size_t>(config.features), 9.0f);
    encoding.encode(positions, out);
    check_case(item, "table", out, kHalfStep);
    std::vector<float> added = random_values(out.size(), 4);
    const auto before = added;
    encoding.add(added, positions, added);
    for (std::size_t i = 0; i < out.size(); ++i) CHECK(added[i] == before[i] + out[i]);
    ++grids;
  }
  CHECK(grids >= 5);
  CHECK(detr >= 4);
}

TEST_CASE("two axes: the simple ViT baseline's frequencies end at 1/base, and bad input is answered by its code") {
  const GridSinusoidal encoding({16, GridOrder::kColumnFirst, GridSteps::kEndsAtBase, 10000});
  CHECK(encoding.frequencies().back() == doctest::Approx(1e-4).epsilon(1e-14));
  std::vector<float> out(16), untouched(16, 5.0f);
  const Positions one = Positions::from_arrays({{1}, {{3}, {7}}, {}, {}, {}});
  encoding.encode(one, out);
  CHECK(out[0] == static_cast<float>(std::sin(7.0)));   // column first
  CHECK(out[8] == static_cast<float>(std::sin(3.0)));
  CHECK(out[7] == static_cast<float>(std::cos(7.0 * 1e-4)));
  check_error(ErrorCode::kArgument, "features is 10, expected a multiple of 4", [] { GridSinusoidal({.features = 10}); });
  check_error(ErrorCode::kArgument, "features is 4, expected 8", [] {
    GridSinusoidal({.features = 4, .steps = GridSteps::kEndsAtBase});
  });
  check_error(ErrorCode::kArgument, "have 1 axis", [&] { encoding.encode(Positions::range(1), untouched); });
  check_error(ErrorCode::kShape, "1 tokens x 16 features = 16", [&] { encoding.encode(one, std::span(untouched).first(8)); });
  CHECK(untouched == std::vector<float>(16, 5.0f));
  check_error(ErrorCode::kArgument, "height is 0", [] { detr_encode({.features_per_axis = 4}, {0, 2}, {}, {}); });
}

TEST_CASE("vectors: rows of learned tables, as OPT, BART, RoBERTa and M2M-100 count them") {
  int checked = 0;
  for (const Json& item : cases_of("positions_learned")) {
    INFO(item.at("name").get<std::string>());
    const Json& p = item.at("parameters");
    const std::string method = p.at("method");
    const auto rows = ints_of(item.at("expected").at("rows"));
    const auto shape = shape_of(item.at("expected").at("rows"));
    const std::int64_t batch = shape[0], tokens = shape[1];
    const auto cached = number_or<std::int32_t>(p, "cache_length", 0);
    const auto padding_idx = number_or<std::int32_t>(p, "padding_idx", 1);
    const TableIndexing indexing = method == "OPT"    ? TableIndexing::opt()
                                   : method == "BART" ? TableIndexing::bart()
                                                      : TableIndexing::roberta(padding_idx);
    Positions positions;
    if (method == "OPT") {
      // The mask covers what is cached too; the new tokens are its last columns.
      const auto mask = values_of<std::uint8_t>(item.at("inputs").at("attention_mask"));
      positions = Positions::from_padding_mask(batch, cached + tokens, mask).slice(cached, tokens);
    } else if (item.at("inputs").contains("input_ids")) {
      std::vector<std::uint8_t> mask;
      for (const std::int32_t id : ints_of(item.at("inputs").at("input_ids"))) mask.push_back(id != padding_idx);
      const std::vector<std::int32_t> offsets(static_cast<std::size_t>(batch), cached);
      positions = Positions::from_padding_mask(batch, tokens, mask, offsets);
    } else {
      const std::vector<std::int32_t> lengths(static_cast<std::size_t>(batch), static_cast<std::int32_t>(tokens));
      const std::vector<std::int32_t> offsets(static_cast<std::size_t>(batch), cached);
      positions = Positions::ragged(lengths, offsets);
    }
    std::vector<float> values(40);
    std::iota(values.begin(), values.end(), 0.0f);  // row r holds r
    const LearnedTable table({40, 1, indexing, PastEnd::kError, 0}, values);
    CHECK(table.rows_of(positions) == rows);
    ++checked;
  }
  CHECK(checked == 20);
}

TEST_CASE("vectors: tables stretched and shrunk linearly, both ways of placing the samples") {
  for (const Json& item : cases_of("table_interpolation_linear")) {
    const auto table = floats_of(item.at("inputs").at("table"));
    const auto shape = shape_of(item.at("inputs").at("table"));
    const bool align = item.at("parameters").at("align_corners");
    const auto out = interpolate_rows(table, shape[0], static_cast<std::int32_t>(shape[1]), item.at("parameters").at("rows"),
                                      align ? SampleCenters::kAlignCorners : SampleCenters::kHalfPixel);
    // Half a step of values up to 4.
    check_case(item, "table", out, 1.3e-7);
  }
}

TEST_CASE("vectors: grids resampled as ViT, DINOv2, timm, SigLIP 2 and Qwen3-VL do it") {
  for (const Json& item : cases_of("table_interpolation_grid")) {
    const Json& p = item.at("parameters");
    const auto table = floats_of(item.at("inputs").at("table"));
    const auto channels = static_cast<std::int32_t>(shape_of(item.at("inputs").at("table"))[1]);
    const GridSize from{p.at("from")[0], p.at("from")[1]}, to{p.at("to")[0], p.at("to")[1]};
    GridResampling how;
    how.filter = p.at("mode").get<std::string>() == "bicubic" ? GridFilter::kBicubic : GridFilter::kBilinear;
    how.smoothing = p.at("antialias").get<bool>() ? GridSmoothing::kAntialias : GridSmoothing::kNone;
    how.centers = p.at("align_corners").get<bool>() ? SampleCenters::kAlignCorners : SampleCenters::kHalfPixel;
    auto out = interpolate_grid(table, from, to, channels, p.at("prefix_rows"), how);
    if (const auto merge = number_or<std::int32_t>(p, "merge", 1); merge > 1) {
      // Qwen3-VL lists its patches in merge x merge blocks: the same rows in the model's own token order.
      std::vector<float> blocks;
      for (std::int32_t y = 0; y < to.height; y += merge) {
        for (std::int32_t x = 0; x < to.width; x += merge) {
          for (std::int32_t cell = 0; cell < merge * merge; ++cell) {
            const std::int32_t at = (y + cell / merge) * to.width + x + cell % merge;
            for (std::int32_t c = 0; c < channels; ++c) blocks.push_back(out[static_cast<std::size_t>(at * channels + c)]);
          }
        }
      }
      out = blocks;
    }
    check_case(item, "table", out, 1.3e-7);
  }
}

TEST_CASE("interpolation: a grid that keeps its size comes back bit for bit, and bad input is answered by its code") {
  const auto values = random_values(7 * 3, 2);
  CHECK(interpolate_grid(values, {2, 3}, {2, 3}, 3, 1) == values);
  CHECK(interpolate_rows(values, 7, 3, 7) == values);
  // A constant table stays constant whatever the filter: weights sum to 1.
  const std::vector<float> constant(6, 3.0f);
  for (const auto smoothing : {GridSmoothing::kNone, GridSmoothing::kAntialias}) {
    for (const auto filter : {GridFilter::kBilinear, GridFilter::kBicubic}) {
      for (const float value : interpolate_grid(constant, {2, 3}, {5, 1}, 1, 0, {filter, smoothing})) {
        CHECK(value == doctest::Approx(3.0).epsilon(1e-7));
      }
    }
  }
  check_error(ErrorCode::kShape, "(1 + 2 x 3) x 3 = 21", [&] {
    interpolate_grid(std::span(values).first(20), {2, 3}, {4, 4}, 3, 1);
  });
  check_error(ErrorCode::kArgument, "a side of a grid is 0", [&] { interpolate_grid(values, {2, 3}, {0, 4}, 3, 1); });
  check_error(ErrorCode::kArgument, "not defined with aligned corners", [&] {
    interpolate_grid(values, {2, 3}, {4, 4}, 3, 1,
                     {GridFilter::kBilinear, GridSmoothing::kAntialias, SampleCenters::kAlignCorners});
  });
  check_error(ErrorCode::kArgument, "new_rows is 0", [&] { interpolate_rows(values, 7, 3, 0); });
}
