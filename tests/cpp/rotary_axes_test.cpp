// Rotation over several axes, and the positions of grids that go with it.
#include "locant/rotary/axes.hpp"

#include "locant/position/grids.hpp"
#include "locant/rotary/rotation.hpp"
#include "locant/rotary/rules.hpp"
#include "support.hpp"
#include "vectors.hpp"

using namespace locant;
using namespace locant::test;

namespace {

// positions: [axes, tokens], one row.
Positions on_axes(const Json& tensor) {
  const auto shape = shape_of(tensor);
  const auto data = ints_of(tensor);
  PositionArrays arrays;
  arrays.row_lengths = {static_cast<std::int32_t>(shape[1])};
  for (std::int64_t a = 0; a < shape[0]; ++a) {
    arrays.position.emplace_back(data.begin() + a * shape[1], data.begin() + (a + 1) * shape[1]);
  }
  return Positions::from_arrays(std::move(arrays));
}

// q and k of a case, rotated by the plan, against the exact values. Tolerance: four roundings of float32 on values
// up to `largest`, and the angle's own error at the farthest position.
void check_rotation(const RotaryPlan& plan, const Positions& positions, const Json& c) {
  for (const char* what : {"q", "k"}) {
    const auto shape = shape_of(c.at("inputs").at(what));
    const auto x = floats_of(c.at("inputs").at(what));
    const auto exact = doubles_of(c.at("exact").at(what));
    std::vector<float> ours(x.size());
    Rotation(plan, static_cast<std::int32_t>(shape[2]))
        .apply(x, positions, static_cast<std::int32_t>(shape[1]), RotationRole::kQuery, ours);
    double largest = 0;
    for (const float value : x) largest = std::max(largest, std::abs(static_cast<double>(value)));
    const double farthest = positions.largest_position().value_or(0);
    const double limit = 2 * largest * (4 * std::ldexp(1.0, -24) + 4 * farthest * std::ldexp(1.0, -52));
    for (std::size_t i = 0; i < ours.size(); ++i) CHECK(std::abs(ours[i] - exact[i]) <= limit);
  }
}

std::vector<std::uint8_t> bytes(std::initializer_list<int> values) { return {values.begin(), values.end()}; }

}  // namespace

TEST_CASE("M-RoPE: axes of pairs and rotated values are those of running code, chunked and interleaved") {
  for (const char* file : {"rotary_mrope_chunked", "rotary_mrope_interleaved"}) {
    const Json vectors = load_vectors(file);
    REQUIRE(!vectors.at("cases").empty());
    for (const Json& c : vectors.at("cases")) {
      INFO(file, ": ", c.at("name").get<std::string>());
      const Json& p = c.at("parameters");
      const auto sections = p.at("sections").get<std::array<std::int32_t, 3>>();
      const auto axes =
          std::string(file) == "rotary_mrope_chunked" ? chunked_axes(sections) : interleaved_axes(sections);
      CHECK(axes == p.at("axis_of_pair").get<std::vector<std::uint8_t>>());
      const RotaryPlan plan = with_axes(resolve(RotaryShape{p.at("rotary_dim"), p.at("base")}), axes);
      check_rotation(plan, on_axes(c.at("inputs").at("positions")), c);
    }
  }
}

TEST_CASE("J06: Qwen3-VL's [24, 20, 20] gives time the pairs 0, 3, .. 57 and 60 to 63") {
  const auto axes = interleaved_axes({24, 20, 20});
  for (std::size_t i = 0; i < 64; ++i) CHECK(int{axes[i]} == (i >= 60 ? 0 : static_cast<int>(i % 3)));
}

TEST_CASE("D09: the order of axes and the pairing of coordinates are two switches of a plan") {
  const RotaryPlan half = with_axes(resolve(RotaryShape{12}), interleaved_axes({2, 2, 2}));
  RotaryPlan inter = half;
  inter.pairing = Pairing::kInterleaved;
  CHECK(half.axis_of_pair == inter.axis_of_pair);
  CHECK(!half.same_rotation(inter));
  const auto names = [](const MethodDescription& d) {
    std::string text = d.name;
    for (const auto& parameter : d.parameters) text += ";" + parameter.name + "=" + parameter.value;
    return text;
  };
  CHECK(names(describe(half)).find("half-split") != std::string::npos);
  CHECK(names(describe(half)).find("axis of pair=012012") != std::string::npos);
  CHECK(names(describe(inter)).find("pairing=interleaved") != std::string::npos);
}

TEST_CASE("M-RoPE: text, the same number on all axes, turns as without axes, to the bit") {
  const RotaryPlan plain = resolve(RotaryShape{32, 1e6});
  const RotaryPlan axes = with_axes(plain, chunked_axes(std::array<std::int32_t, 3>{4, 6, 6}));
  const auto x = random_values(5 * 32, 1);
  std::vector<float> a(x.size()), b(x.size());
  Rotation(plain, 32).apply(x, Positions::range(5, 70), 1, RotationRole::kQuery, a);
  const std::vector<Run> text = {TextRun{75}};
  const Positions three = multimodal_positions(std::span(&text, 1), AfterGrid::kLargestPlusOne, PaddingSide::kLeft);
  Rotation(axes, 32).apply(x, three.slice(70, 5), 1, RotationRole::kQuery, b);
  CHECK(a == b);
}

TEST_CASE("images: Qwen2-VL, Pixtral and Llama 4 plans with their position builders give the values of running code") {
  for (const auto& [file, convention] : {std::pair{"rotary_axial_qwen2vl", AxialConvention::kQwen2Vl},
                                         std::pair{"rotary_axial_pixtral", AxialConvention::kPixtral},
                                         std::pair{"rotary_axial_llama4", AxialConvention::kLlama4}}) {
    const Json vectors = load_vectors(file);
    REQUIRE(!vectors.at("cases").empty());
    for (const Json& c : vectors.at("cases")) {
      INFO(file, ": ", c.at("name").get<std::string>());
      const Json& p = c.at("parameters");
      const RotaryPlan plan = axial_plan(convention, p.at("head_dim"), p.at("base"));
      CHECK(plan.axis_of_pair == p.at("axis_of_pair").get<std::vector<std::uint8_t>>());
      CHECK(std::string(to_string(plan.pairing)) == p.at("pairing").get<std::string>());
      ImageGrid grid;
      if (p.contains("grid_thw")) {
        grid.frames = p.at("grid_thw")[0];
        grid.height = p.at("grid_thw")[1];
        grid.width = p.at("grid_thw")[2];
        grid.merge = p.at("merge");
      } else {
        grid.height = p.at("height");
        grid.width = p.at("width");
      }
      if (convention == AxialConvention::kLlama4) {
        grid.first = 1;
        grid.axes = GridAxes::kColumnRow;
        grid.class_token = ClassToken::kLast;
      }
      const Positions positions = on_axes(c.at("inputs").at("positions"));
      CHECK(grid_positions(grid) == positions);
      check_rotation(plan, positions, c);
    }
  }
}

TEST_CASE("images: the pixel plan gives the angles and values of running code, grids one wide included") {
  const Json vectors = load_vectors("rotary_axial_pixel");
  for (const Json& c : vectors.at("cases")) {
    INFO(c.at("name").get<std::string>());
    const Json& p = c.at("parameters");
    const PixelGrid grid{p.at("features_per_axis"), p.at("max_freq"), p.at("height"), p.at("width")};
    const RotaryPlan plan = pixel_plan(grid);
    ImageGrid image;
    image.height = grid.height;
    image.width = grid.width;
    const Positions positions = grid_positions(image);
    const auto angles = doubles_of(c.at("exact").at("angles"));
    const auto pairs = static_cast<std::size_t>(plan.pairs());
    for (std::size_t t = 0; t < positions.tokens(); ++t) {
      for (std::size_t i = 0; i < pairs; ++i) {
        const std::size_t axis = plan.axis_of_pair[i];
        const double ours = (positions.position(static_cast<std::int32_t>(axis))[t] + plan.axis_offsets[axis]) *
                            plan.inverse_frequencies[i];
        CHECK(std::abs(ours - angles[t * pairs + i]) <= 1e-12);
      }
    }
    check_rotation(plan, positions, c);
  }
}

TEST_CASE("images: timm's plans, of pixels, of positions and of a reference grid, give the values of running code") {
  const Json vectors = load_vectors("rotary_axial_timm");
  REQUIRE(!vectors.at("cases").empty());
  for (const Json& c : vectors.at("cases")) {
    INFO(c.at("name").get<std::string>());
    const Json& p = c.at("parameters");
    ImageGrid grid;
    grid.height = p.at("height");
    grid.width = p.at("width");
    const std::int32_t head_dim = p.at("head_dim");
    RotaryPlan plan = p.at("in_pixels").get<bool>()
                          ? pixel_plan({head_dim / 2, p.at("max_res"), grid.height, grid.width, PixelBands::kPowers})
                          : axial_plan(AxialConvention::kRows, head_dim, p.at("temperature"));
    if (!p.at("reference").is_null()) {
      const double factors[] = {p.at("reference")[0].get<double>() / grid.height,
                                p.at("reference")[1].get<double>() / grid.width};
      plan = scale_axes(plan, factors);
    }
    check_rotation(plan, grid_positions(grid), c);
  }
}

TEST_CASE("images: timm's pixel bands are powers of two, its other kind is the ladder by rows then columns") {
  const RotaryPlan pixels = pixel_plan({8, 224, 3, 5, PixelBands::kPowers});
  const double pi = 3.14159265358979323846;
  // Bands 2^0 .. 2^(log2(224) - 1) = 112, times pi, times the step 2/2 of three rows or 2/4 of five columns.
  CHECK(pixels.inverse_frequencies[0] == doctest::Approx(pi).epsilon(1e-14));
  CHECK(pixels.inverse_frequencies[3] == doctest::Approx(112 * pi).epsilon(1e-14));
  CHECK(pixels.inverse_frequencies[7] == doctest::Approx(56 * pi).epsilon(1e-14));
  const RotaryPlan ladder = axial_plan(AxialConvention::kRows, 16, 10000);
  CHECK(ladder.pairing == Pairing::kInterleaved);
  CHECK(ladder.axis_of_pair == bytes({0, 0, 0, 0, 1, 1, 1, 1}));
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(ladder.inverse_frequencies[i] ==
          doctest::Approx(std::pow(10000.0, -static_cast<double>(i) / 4)).epsilon(1e-15));
    CHECK(ladder.inverse_frequencies[4 + i] == ladder.inverse_frequencies[i]);
  }
}

TEST_CASE("J05: on a grid that is not square, a step along a row changes the pairs of its own axis alone") {
  for (const AxialConvention convention :
       {AxialConvention::kQwen2Vl, AxialConvention::kPixtral, AxialConvention::kLlama4, AxialConvention::kRows}) {
    const RotaryPlan plan = axial_plan(convention, 8);
    ImageGrid grid;
    grid.height = 2;
    grid.width = 3;
    if (convention == AxialConvention::kLlama4) grid.axes = GridAxes::kColumnRow;
    const Positions positions = grid_positions(grid);
    const int column_axis = convention == AxialConvention::kLlama4 ? 0 : 1;
    std::vector<float> cos[2], sin(4);
    for (std::size_t token : {0, 1}) {  // (row 0, column 0) and (row 0, column 1)
      const std::int32_t at[] = {positions.position(0)[token], positions.position(1)[token]};
      cos[token].resize(4);
      Rotation(plan, 8).row(at, RotationRole::kQuery, cos[token].data(), sin.data());
    }
    for (std::size_t i = 0; i < 4; ++i) CHECK((cos[0][i] != cos[1][i]) == (plan.axis_of_pair[i] == column_axis));
  }
}

TEST_CASE("images: scores depend on the displacement on every axis and not on where the pair of patches lies") {
  std::mt19937 random(3);
  for (const AxialConvention convention :
       {AxialConvention::kQwen2Vl, AxialConvention::kPixtral, AxialConvention::kLlama4, AxialConvention::kRows}) {
    const Rotation rotation(axial_plan(convention, 32), 32);
    const auto q = random_values(32, 1), k = random_values(32, 2);
    const auto score = [&](std::int32_t qr, std::int32_t qc, std::int32_t kr, std::int32_t kc) {
      PositionArrays arrays;
      arrays.row_lengths = {2};
      arrays.position = {{qr, kr}, {qc, kc}};
      std::vector<float> x(q);
      x.insert(x.end(), k.begin(), k.end());
      rotation.apply(x, Positions::from_arrays(std::move(arrays)), 1, RotationRole::kQuery, x);
      double sum = 0;
      for (std::size_t i = 0; i < 32; ++i) sum += static_cast<double>(x[i]) * x[32 + i];
      return sum;
    };
    for (int round = 0; round < 20; ++round) {
      const auto any = [&] { return static_cast<std::int32_t>(random() % 50); };
      const std::int32_t a = any(), b = any(), c = any(), d = any(), up = any(), right = any();
      CHECK(std::abs(score(a, b, c, d) - score(a + up, b + right, c + up, d + right)) <= 32 * 4e-6);
    }
    CHECK(std::abs(score(3, 4, 3, 4) - score(3, 4, 4, 3)) > 1e-2);
  }
}

TEST_CASE("axes: sections and sizes that do not hold are refused") {
  check_error(ErrorCode::kArgument, "section 1 is -1", [] { interleaved_axes({1, -1, 1}); });
  check_error(ErrorCode::kArgument, "the sum of the sections is 0", [] { interleaved_axes({0, 0, 0}); });
  check_error(ErrorCode::kArgument, "the number of sections is 0", [] { chunked_axes({}); });
  check_error(ErrorCode::kArgument, "there are 6 axes of pairs, the plan has 4 pairs",
              [] { with_axes(resolve(RotaryShape{8}), interleaved_axes({2, 2, 2})); });
  const double one[] = {1.0}, negative[] = {1.0, -1.0};
  check_error(ErrorCode::kArgument, "there are 1 factors, the plan has 2 axes",
              [&] { scale_axes(axial_plan(AxialConvention::kRows, 8), one); });
  check_error(ErrorCode::kArgument, "the factor of axis 1 is -1",
              [&] { scale_axes(axial_plan(AxialConvention::kRows, 8), negative); });
  check_error(ErrorCode::kArgument, "head_dim is 10, expected a multiple of 4",
              [] { axial_plan(AxialConvention::kRows, 10); });
  check_error(ErrorCode::kArgument, "the base is -1", [] { axial_plan(AxialConvention::kRows, 8, -1); });
  check_error(ErrorCode::kArgument, "there are 3 features per axis", [] { pixel_plan({3, 10, 2, 2}); });
  check_error(ErrorCode::kArgument, "the largest frequency is 1, expected 2 or more", [] { pixel_plan({4, 1, 2, 2}); });
  check_error(ErrorCode::kArgument, "the height is 0", [] { pixel_plan({4, 10, 0, 2}); });
}
