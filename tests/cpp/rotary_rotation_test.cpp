// Rotation against the vectors of running code, its laws over random shapes and positions, and its errors.
#include "locant/rotary/rotation.hpp"

#include <limits>

#include "locant/rotary/rules.hpp"
#include "locant/rotary/turn.hpp"
#include "support.hpp"
#include "vectors.hpp"

using namespace locant;
using namespace locant::test;

namespace {

Positions at(std::vector<std::int32_t> numbers) {
  PositionArrays arrays;
  arrays.row_lengths = {static_cast<std::int32_t>(numbers.size())};
  arrays.position = {std::move(numbers)};
  return Positions::from_arrays(std::move(arrays));
}

std::vector<float> rotated(const Rotation& rotation, std::span<const float> x, const Positions& positions,
                           std::int32_t heads, RotationRole role = RotationRole::kQuery) {
  std::vector<float> out(x.size());
  rotation.apply(x, positions, heads, role, out);
  return out;
}

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// A cosine rounded to float32 is off by 2^-25, and a product and a sum are rounded once each: under 4 x 2^-24 of the
// pair's length. At position p the angle itself is off by p 2^-52.
double tolerance(double largest_value, double largest_position = 0) {
  return largest_value * (4 * std::ldexp(1.0, -24) + 4 * largest_position * std::ldexp(1.0, -52));
}

double largest_of(std::span<const float> values) {
  double largest = 0;
  for (const float v : values) largest = std::max(largest, std::abs(static_cast<double>(v)));
  return largest;
}

Pairing pairing_of(const Json& p) {
  return p.at("pairing") == "interleaved" ? Pairing::kInterleaved : Pairing::kHalfSplit;
}

struct RandomCase {
  RotaryPlan plan;
  std::int32_t head_dim, heads;
};

RandomCase random_case(std::mt19937& random) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  RandomCase c;
  const std::int32_t pairs = pick(1, 40);
  const std::int32_t start = pick(0, 3) * pick(0, 5);
  c.head_dim = start + 2 * pairs + pick(0, 9) * pick(0, 1);
  c.heads = pick(1, 5);
  RotaryShape shape{2 * pairs, pick(0, 1) != 0 ? 10000.0 : 123.0,
                    pick(0, 1) != 0 ? Pairing::kInterleaved : Pairing::kHalfSplit, start};
  c.plan = resolve(shape);
  if (pick(0, 2) == 0) c.plan.attention_factor = 1.1386;
  return c;
}

}  // namespace

TEST_CASE("rotation: both pairings and partial widths give the values of running code") {
  for (const char* file : {"rotary_half_split", "rotary_interleaved", "rotary_partial"}) {
    const Json vectors = load_vectors(file);
    REQUIRE(!vectors.at("cases").empty());
    for (const Json& c : vectors.at("cases")) {
      INFO(file, ": ", c.at("name").get<std::string>());
      const Json& p = c.at("parameters");
      RotaryPlan plan = resolve(RotaryShape{p.at("rotary_dim"), p.at("base"), pairing_of(p), p.at("rotary_start")});
      plan.attention_factor = p.at("attention_factor");
      const auto numbers = ints_of(c.at("inputs").at("positions"));
      const Positions positions = at(numbers);
      const double farthest = positions.largest_position().value();
      for (const char* what : {"q", "k"}) {
        const auto x = floats_of(c.at("inputs").at(what));
        const auto shape = shape_of(c.at("inputs").at(what));
        const Rotation rotation(plan, static_cast<std::int32_t>(shape[2]));
        const auto ours = rotated(rotation, x, positions, static_cast<std::int32_t>(shape[1]));
        const auto exact = doubles_of(c.at("exact").at(what));
        const auto theirs = floats_of(c.at("expected").at(what));
        const double limit = tolerance(2 * largest_of(x), farthest);
        for (std::size_t i = 0; i < ours.size(); ++i) {
          CHECK(std::abs(ours[i] - exact[i]) <= limit);
          CHECK(std::abs(ours[i] - theirs[i]) <= c.at("source_error").get<double>() + limit);
        }
      }
    }
  }
}

TEST_CASE("rotation: xPos gives the values of running code, whose centre moves with the length") {
  const Json vectors = load_vectors("rotary_xpos");
  for (const Json& c : vectors.at("cases")) {
    INFO(c.at("name").get<std::string>());
    const Json& p = c.at("parameters");
    RotaryPlan plan = resolve(RotaryShape{p.at("rotary_dim"), p.at("base"), Pairing::kInterleaved});
    plan.xpos = XPos{0.4, p.at("scale_base"), p.at("center")};
    const Positions positions = at(ints_of(c.at("inputs").at("positions")));
    const Rotation rotation(plan, plan.rotated_width());
    for (const auto& [what, role] : {std::pair{"q", RotationRole::kQuery}, std::pair{"k", RotationRole::kKey}}) {
      const auto x = floats_of(c.at("inputs").at(what));
      const auto ours = rotated(rotation, x, positions, 1, role);
      const auto exact = doubles_of(c.at("exact").at(what));
      for (std::size_t i = 0; i < ours.size(); ++i)
        CHECK(std::abs(ours[i] - exact[i]) <= tolerance(2 * 2 * largest_of(x)));
    }
  }
}

TEST_CASE(
    "A22, A23: under xPos a decode step meets cached keys with the full pass's scores, since its centre is fixed") {
  RotaryPlan plan = resolve(RotaryShape{64, 10000, Pairing::kInterleaved});
  plan.xpos = XPos{};
  Rotation rotation(plan, 64);
  const std::int32_t length = 100;
  const auto q = random_values(length * 64, 1), k = random_values(length * 64, 2);
  const auto full_q = rotated(rotation, q, Positions::range(length), 1, RotationRole::kQuery);
  const auto full_k = rotated(rotation, k, Positions::range(length), 1, RotationRole::kKey);
  const std::span<const float> last(q.data() + 99 * 64, 64);
  const auto step = rotated(rotation, last, Positions::range(1, 99), 1, RotationRole::kQuery);
  for (std::size_t j = 0; j < 100; ++j) {
    const std::span<const float> key(full_k.data() + j * 64, 64);
    CHECK(dot(step, key) == dot(std::span<const float>(full_q.data() + 99 * 64, 64), key));
  }
  // And the scores fall with distance as the paper's formula says, whatever the centre.
  plan.xpos->center = 40;
  const Rotation moved(plan, 64);
  const auto moved_q = rotated(moved, q, Positions::range(length), 1, RotationRole::kQuery);
  const auto moved_k = rotated(moved, k, Positions::range(length), 1, RotationRole::kKey);
  for (std::size_t t = 0; t < 100; t += 7) {
    for (std::size_t j = 0; j <= t; j += 5) {
      const std::span<const float> a(full_q.data() + t * 64, 64), b(full_k.data() + j * 64, 64);
      const std::span<const float> c(moved_q.data() + t * 64, 64), d(moved_k.data() + j * 64, 64);
      CHECK(dot(a, b) == doctest::Approx(dot(c, d)).epsilon(1e-5).scale(64));
    }
  }
}

TEST_CASE("rotation: xPos beyond float32 is an error that leaves the output alone") {
  RotaryPlan plan = resolve(RotaryShape{64});
  plan.xpos = XPos{};
  Rotation rotation(plan, 64);
  const auto reach = static_cast<std::int32_t>(rotation.xpos_reach());
  CHECK(reach > 30000);
  CHECK(reach < 40000);
  const auto x = random_values(2 * 64, 3);
  std::vector<float> out(2 * 64, 7);
  check_error(ErrorCode::kPositionRange, "of xPos, whose scale leaves float32 beyond",
              [&] { rotation.apply(x, at({0, reach + 1}), 1, RotationRole::kKey, out); });
  CHECK(out == std::vector<float>(2 * 64, 7));
  rotation.apply(x, at({0, reach}), 1, RotationRole::kKey, out);
  for (const float value : out) CHECK(std::isfinite(value));
  check_error(ErrorCode::kPositionRange, "prepare: position", [&] { rotation.prepare(reach + 2); });
  CHECK(rotation.prepared() == 0);
}

TEST_CASE("rotation laws: norms, shift invariance, composition, inverse and untouched slices, up to position 2^31-1") {
  std::mt19937 random(20260101);
  for (int round = 0; round < 60; ++round) {
    const RandomCase c = random_case(random);
    const auto width = static_cast<std::size_t>(c.head_dim);
    INFO("round ", round, ": pairs ", c.plan.pairs(), ", start ", c.plan.start, ", head_dim ", c.head_dim, ", ",
         to_string(c.plan.pairing));
    const Rotation rotation(c.plan, c.head_dim);
    const double factor = c.plan.attention_factor;
    const std::int32_t limit = round % 3 == 0 ? kMaxPosition : round % 3 == 1 ? 131072 : 500;
    std::uniform_int_distribution<std::int32_t> any(0, limit);
    // Four tokens: a, b, and both moved by the same shift.
    const std::int32_t a = any(random) / 2, b = any(random) / 2, shift = any(random) / 2;
    const std::size_t token = static_cast<std::size_t>(c.heads) * width;
    const auto two = random_values(2 * token, static_cast<unsigned>(round));
    std::vector<float> four(two);
    four.insert(four.end(), two.begin(), two.end());
    const Positions positions = at({a, b, a + shift, b + shift});
    const auto out = rotated(rotation, four, positions, c.heads);
    const double angle_error = 4.0 * limit * std::ldexp(1.0, -52);
    for (std::size_t h = 0; h < static_cast<std::size_t>(c.heads); ++h) {
      const auto head = [&](std::span<const float> values, std::size_t t) {
        return values.subspan(t * token + h * width, width);
      };
      // Norm over the rotated slice; everything else untouched to the bit.
      for (std::size_t t = 0; t < 4; ++t) {
        const auto before = head(four, t), after = head(out, t);
        double norm_before = 0, norm_after = 0;
        for (std::size_t i = 0; i < width; ++i) {
          const bool turned = i >= static_cast<std::size_t>(c.plan.start) &&
                              i < static_cast<std::size_t>(c.plan.start + c.plan.rotated_width());
          if (!turned) {
            CHECK(before[i] == after[i]);
            continue;
          }
          norm_before += static_cast<double>(before[i]) * before[i];
          norm_after += static_cast<double>(after[i]) * after[i];
        }
        CHECK(std::sqrt(norm_after) == doctest::Approx(factor * std::sqrt(norm_before)).epsilon(2e-7));
      }
      // The score of a against b does not see the shift.
      const double near = dot(head(out, 0), head(out, 1)), far = dot(head(out, 2), head(out, 3));
      const double size = std::sqrt(dot(head(four, 0), head(four, 0)) * dot(head(four, 1), head(four, 1)));
      CHECK(std::abs(near - far) <= factor * factor * size * (4e-7 + angle_error));
    }
    // R(a) R(shift) = R(a + shift), the factor counted twice.
    const std::span<const float> x(two.data(), token);
    auto twice = rotated(rotation, rotated(rotation, x, at({a}), c.heads), at({shift}), c.heads);
    const auto once = rotated(rotation, x, at({a + shift}), c.heads);
    for (std::size_t i = 0; i < token; ++i) {
      const auto column = static_cast<std::int32_t>(i % width);
      const bool turned = column >= c.plan.start && column < c.plan.start + c.plan.rotated_width();
      CHECK(std::abs(twice[i] / (turned ? factor : 1) - once[i]) <= 6 * (3e-7 + angle_error));
    }
    // apply_inverse undoes apply, in place too.
    std::vector<float> back(token);
    rotation.apply_inverse(once, at({a + shift}), c.heads, RotationRole::kQuery, back);
    CHECK(max_difference(back, x) <= 6 * 4e-7);
    std::vector<float> in_place(x.begin(), x.end());
    rotation.apply(in_place, at({a + shift}), c.heads, RotationRole::kQuery, in_place);
    CHECK(in_place == once);
    rotation.apply_inverse(in_place, at({a + shift}), c.heads, RotationRole::kQuery, in_place);
    CHECK(in_place == back);
    // advance_key moves a stored key without applying the factor again.
    std::vector<float> key(once.begin(), once.begin() + c.head_dim);
    rotation.advance_key(key, static_cast<std::int64_t>(b) - (a + shift));
    const auto at_b = rotated(rotation, x, at({b}), c.heads);
    CHECK(max_difference(key, std::span<const float>(at_b).first(width)) <= 6 * (4e-7 + angle_error));
  }
}

TEST_CASE("rotation: table rows and rows computed when met are equal to the bit, for every role and axis") {
  std::mt19937 random(7);
  for (int round = 0; round < 30; ++round) {
    RandomCase c = random_case(random);
    if (round % 3 == 1) c.plan.xpos = XPos{0.4, 512, 20};
    if (round % 3 == 2) {
      c.plan.axis_of_pair.resize(c.plan.inverse_frequencies.size());
      for (auto& axis : c.plan.axis_of_pair) axis = static_cast<std::uint8_t>(random() % 3);
      c.plan.axis_of_pair.back() = 2;
      c.plan.axis_offsets = {0.5, 0, -3.25};
    }
    const Rotation bare(c.plan, c.head_dim);
    Rotation prepared(c.plan, c.head_dim);
    prepared.prepare(20);
    prepared.prepare(33);
    CHECK(prepared.prepared() == 33);
    PositionArrays arrays;
    arrays.row_lengths = {50};
    for (int axis = 0; axis < 3; ++axis) {
      arrays.position.emplace_back();
      for (int t = 0; t < 50; ++t) arrays.position.back().push_back(static_cast<std::int32_t>(random() % 60));
    }
    const Positions positions = Positions::from_arrays(std::move(arrays));
    const auto x = random_values(50 * static_cast<std::size_t>(c.heads * c.head_dim), static_cast<unsigned>(round));
    for (const RotationRole role : {RotationRole::kQuery, RotationRole::kKey}) {
      CHECK(rotated(bare, x, positions, c.heads, role) == rotated(prepared, x, positions, c.heads, role));
      std::vector<float> a(x.size()), b(x.size());
      bare.apply_inverse(x, positions, c.heads, role, a);
      prepared.apply_inverse(x, positions, c.heads, role, b);
      CHECK(a == b);
    }
  }
}

TEST_CASE("rotation: a row handed to kernels turns as apply() does") {
  RotaryPlan plan = resolve(RotaryShape{12, 10000, Pairing::kInterleaved, 2});
  plan.axis_of_pair = {0, 1, 0, 1, 0, 1};
  plan.attention_factor = 1.25;
  Rotation rotation(plan, 16);
  rotation.prepare(8);
  PositionArrays arrays;
  arrays.row_lengths = {1};
  arrays.position = {{3}, {70}};
  const auto x = random_values(16, 5);
  const auto out = rotated(rotation, x, Positions::from_arrays(arrays), 1);
  float cos[6], sin[6];
  const std::int32_t position[] = {3, 70};
  rotation.row(position, RotationRole::kQuery, cos, sin);
  std::vector<float> head(x);
  rotation.turn(head.data(), cos, sin);
  CHECK(head == out);
}

TEST_CASE("rotation: several axes turn each pair by its own axis") {
  RotaryPlan plan = custom_plan({1.0, 0.5, 0.25}, Pairing::kHalfSplit);
  plan.axis_of_pair = {0, 1, 2};
  const Rotation rotation(plan, 6);
  const std::vector<float> x = {1, 1, 1, 0, 0, 0};
  const auto turned = [&](std::int32_t t, std::int32_t h, std::int32_t w) {
    PositionArrays arrays;
    arrays.row_lengths = {1};
    arrays.position = {{t}, {h}, {w}};
    return rotated(rotation, x, Positions::from_arrays(std::move(arrays)), 1);
  };
  CHECK(turned(5, 0, 0) == std::vector<float>{std::cos(5.0f), 1, 1, static_cast<float>(std::sin(5.0)), 0, 0});
  CHECK(turned(0, 5, 0)[1] == static_cast<float>(std::cos(2.5)));
  CHECK(turned(0, 5, 0)[0] == 1);
  CHECK(turned(0, 0, 5)[5] == static_cast<float>(std::sin(1.25)));
}

TEST_CASE("rotation: padded tokens pass through, and NaN in a pair stays in it") {
  const Rotation rotation(resolve(RotaryShape{4}), 6);
  const std::int32_t lengths[] = {1};
  const auto x = random_values(3 * 6, 9);
  auto out = rotated(rotation, x, Positions::padded(lengths, 3, PaddingSide::kLeft), 1);
  CHECK(std::equal(x.begin(), x.begin() + 12, out.begin()));
  std::vector<float> poisoned(x.begin(), x.begin() + 6);
  poisoned[0] = std::numeric_limits<float>::quiet_NaN();
  out = rotated(rotation, poisoned, at({3}), 1);
  CHECK(std::isnan(out[0]));
  CHECK(std::isnan(out[2]));
  CHECK(std::isfinite(out[1]));
  CHECK(std::isfinite(out[3]));
}

TEST_CASE("rotation: bad plans, shapes and overlaps are refused, and the object stays usable") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto refused = [](ErrorCode code, const std::string& part, RotaryPlan plan, std::int32_t head_dim) {
    check_error(code, part, [&] { Rotation(plan, head_dim); });
  };
  refused(ErrorCode::kArgument, "Rotation: the plan has no pair", RotaryPlan{}, 4);
  refused(ErrorCode::kArgument, "the plan rotates coordinates 2 to 5, a head has 5",
          custom_plan({1, 2}, Pairing::kHalfSplit, 2), 5);
  refused(ErrorCode::kArgument, "the plan starts at coordinate -1", custom_plan({1}, Pairing::kHalfSplit, -1), 5);
  refused(ErrorCode::kArgument, "the inverse frequency of pair 1 is nan", custom_plan({1, nan}), 4);
  refused(ErrorCode::kArgument, "head_dim is 0", custom_plan({1}), 0);
  RotaryPlan plan = custom_plan({1, 0.5});
  for (const double factor : {0.0, -1.0, nan, 1e30}) {
    plan.attention_factor = factor;
    refused(ErrorCode::kArgument, "the attention factor is", plan, 4);
  }
  plan = custom_plan({1, 0.5});
  plan.axis_of_pair = {0};
  refused(ErrorCode::kShape, "axes of pairs hold 1 values, expected one for each pair = 2", plan, 4);
  plan.axis_of_pair = {0, 9};
  refused(ErrorCode::kArgument, "the largest axis of a pair is 9, expected 0 to 7", plan, 4);
  plan.axis_of_pair = {0, 1};
  plan.axis_offsets = {0.5};
  refused(ErrorCode::kShape, "axis offsets hold 1 values", plan, 4);
  plan.axis_offsets = {0.5, nan};
  refused(ErrorCode::kArgument, "an axis offset is nan", plan, 4);
  plan = custom_plan({1, 0.5});
  plan.xpos = XPos{0, 512, 0};
  refused(ErrorCode::kArgument, "gamma of xPos is 0", plan, 4);
  plan.xpos = XPos{0.4, -1, 0};
  refused(ErrorCode::kArgument, "the scale base of xPos is -1", plan, 4);

  Rotation rotation(custom_plan({1, 0.5}), 4);
  std::vector<float> x(20, 1), out(12, 7);
  const std::span<float> all(x);
  const auto three = Positions::range(3);
  check_error(ErrorCode::kShape, "apply: x hold 8 values, expected 3 tokens x 1 heads x 4 = 12",
              [&] { rotation.apply(all.first(8), three, 1, RotationRole::kKey, out); });
  check_error(ErrorCode::kShape, "apply: out hold 8 values",
              [&] { rotation.apply(all.first(12), three, 1, RotationRole::kKey, std::span(out).first(8)); });
  check_error(ErrorCode::kArgument, "heads is 0",
              [&] { rotation.apply(all.first(12), three, 0, RotationRole::kKey, out); });
  check_error(ErrorCode::kArgument, "out overlaps x without being x",
              [&] { rotation.apply(all.first(12), three, 1, RotationRole::kKey, all.subspan(4, 12)); });
  check_error(ErrorCode::kArgument, "count is -1", [&] { rotation.prepare(-1); });
  check_error(ErrorCode::kShape, "advance_key: key hold 3 values", [&] { rotation.advance_key(all.first(3), 1); });
  check_error(ErrorCode::kPositionRange, "delta is 2147483648",
              [&] { rotation.advance_key(all.first(4), std::int64_t{kMaxPosition} + 1); });
  RotaryPlan two_axes = custom_plan({1, 0.5});
  two_axes.axis_of_pair = {0, 1};
  const Rotation grid(two_axes, 4);
  check_error(ErrorCode::kArgument, "the positions have 1 axes, the plan reads 2",
              [&] { grid.apply(all.first(12), three, 1, RotationRole::kKey, out); });
  check_error(ErrorCode::kUnsupported, "advance_key: a key with positions on 2 axes",
              [&] { grid.advance_key(all.first(4), 1); });
  CHECK(out == std::vector<float>(12, 7));
  rotation.apply(all.first(12), three, 1, RotationRole::kKey, out);
  CHECK(out[0] == 1);
}

TEST_CASE("A14: every table row is a rotation, cos^2 + sin^2 = 1, none is left at zero") {
  Rotation rotation(resolve(RotaryShape{64}), 64);
  rotation.prepare(50);
  std::vector<float> cos(32), sin(32);
  for (const std::int32_t p : {0, 9, 10, 49, 50, 1000}) {
    rotation.row(std::span(&p, 1), RotationRole::kKey, cos.data(), sin.data());
    for (std::size_t i = 0; i < 32; ++i) CHECK(cos[i] * cos[i] + sin[i] * sin[i] == doctest::Approx(1).epsilon(2e-7));
  }
}

TEST_CASE("A15, A24: a step at position n is turned as position n, exactly, in any chunking") {
  Rotation rotation(resolve(RotaryShape{64}), 64);
  rotation.prepare(280);
  const auto x = random_values(310 * 64, 11);
  const auto full = rotated(rotation, x, Positions::range(310), 1);
  for (const std::int64_t chunk : {1, 7, 310}) {
    for (std::int64_t first = 0; first < 310; first += chunk) {
      const std::int64_t count = std::min<std::int64_t>(chunk, 310 - first);
      const auto part =
          std::span<const float>(x).subspan(static_cast<std::size_t>(first * 64), static_cast<std::size_t>(count * 64));
      const auto out = rotated(rotation, part, Positions::range(count, first), 1);
      CHECK(std::equal(out.begin(), out.end(), full.begin() + first * 64));
    }
  }
}

TEST_CASE("D11: positions run along tokens, not along heads") {
  const Rotation rotation(resolve(RotaryShape{8}), 8);
  std::vector<float> x(3 * 2 * 8, 1);
  const auto out = rotated(rotation, x, Positions::range(3), 2);
  for (std::size_t t = 0; t < 3; ++t) {
    CHECK(std::equal(out.begin() + static_cast<std::ptrdiff_t>(t) * 16,
                     out.begin() + static_cast<std::ptrdiff_t>(t) * 16 + 8,
                     out.begin() + static_cast<std::ptrdiff_t>(t) * 16 + 8));
  }
  CHECK(out[0] != out[16]);
}

TEST_CASE("F01, F02, F03, F04, F08: a short table never ends a sequence, and a long one is enough") {
  Rotation rotation(resolve(RotaryShape{128}), 128);
  rotation.prepare(64);
  const auto x = random_values(128, 1);
  const auto beyond = rotated(rotation, x, at({262143}), 1);
  rotation.prepare(4096);
  CHECK(rotated(rotation, x, at({17}), 1) == rotated(Rotation(rotation.plan(), 128), x, at({17}), 1));
  CHECK(rotated(rotation, x, at({262143}), 1) == beyond);
}

TEST_CASE("G02, G03, G04, G05, G08, G10, G12: no two positions merge and every angle is precise") {
  // Angles against long double, which holds position times frequency exactly enough to judge double's rounding.
  const RotaryPlan plan = resolve(RotaryShape{128});
  const Rotation rotation(plan, 128);
  std::vector<float> cos(64), sin(64);
  double largest = 0, largest_float_angle = 0;
  for (const std::int32_t p : {1, 255, 256, 257, 301, 4095, 15962, 51981, 103963, 131071, 1000000, 16793388}) {
    rotation.row(std::span(&p, 1), RotationRole::kQuery, cos.data(), sin.data());
    for (std::size_t i = 0; i < 64; ++i) {
      const long double angle = static_cast<long double>(p) * static_cast<long double>(plan.inverse_frequencies[i]);
      CHECK(std::abs(cos[i]) <= 1);
      CHECK(std::abs(sin[i]) <= 1);
      largest = std::max(largest, static_cast<double>(std::abs(cos[i] - std::cos(angle))));
      largest = std::max(largest, static_cast<double>(std::abs(sin[i] - std::sin(angle))));
      if (p != 131071) continue;
      const float float_angle = static_cast<float>(p) * static_cast<float>(plan.inverse_frequencies[i]);
      largest_float_angle =
          std::max(largest_float_angle, std::abs(static_cast<double>(float_angle) - static_cast<double>(angle)));
    }
  }
  CHECK(largest <= std::ldexp(1.0, -25) * 1.2);  // half an ulp of float32 below 1, and the angle's own 2^-28 at most
  // What a float32 angle would have cost at 131071: milliradians.
  CHECK(largest_float_angle > 1e-3);
  // Positions that half precision merges stay apart: pair 0 turns by one radian each.
  float previous = 2;
  for (const std::int32_t p : {256, 257, 258, 259, 260}) {
    rotation.row(std::span(&p, 1), RotationRole::kQuery, cos.data(), sin.data());
    CHECK(cos[0] == static_cast<float>(std::cos(static_cast<double>(p))));
    CHECK(cos[0] != previous);
    previous = cos[0];
  }
}

TEST_CASE("plans: equal rotations are equal whatever their provenance, and any number that matters parts them") {
  const RotaryPlan plan = resolve(RotaryShape{8});
  RotaryPlan other = custom_plan(plan.inverse_frequencies);
  CHECK(plan.same_rotation(other));
  other.axis_of_pair = {0, 0, 0, 0};
  other.axis_offsets = {0};
  CHECK(plan.same_rotation(other));
  const auto differs = [&](auto&& change) {
    RotaryPlan changed = plan;
    change(changed);
    CHECK(!plan.same_rotation(changed));
    CHECK(!changed.same_rotation(plan));
  };
  differs([](RotaryPlan& p) { p.inverse_frequencies[3] *= 1 + 1e-15; });
  differs([](RotaryPlan& p) { p.inverse_frequencies.pop_back(); });
  differs([](RotaryPlan& p) { p.pairing = Pairing::kInterleaved; });
  differs([](RotaryPlan& p) { p.start = 1; });
  differs([](RotaryPlan& p) { p.attention_factor = 1.1; });
  differs([](RotaryPlan& p) { p.softmax_scale_factor = 1.1; });
  differs([](RotaryPlan& p) { p.axis_of_pair = {0, 0, 1, 0}; });
  differs([](RotaryPlan& p) { p.axis_offsets = {1}; });
  differs([](RotaryPlan& p) { p.xpos = XPos{}; });
}

TEST_CASE("the turn: four pairs at a time, streamed or not, equals the formula pair by pair, to the bit") {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    const auto pick = [&](std::size_t low, std::size_t high) { return low + random() % (high - low + 1); };
    // Every other round has the whole fours that streaming asks for.
    const std::size_t four = round % 2 == 0 ? 4 : 1;
    detail::TurnShape shape{pick(0, 1) == 0 ? Pairing::kInterleaved : Pairing::kHalfSplit, 0, four * pick(0, 3),
                            four * pick(1, 9)};
    shape.head_dim = shape.start + 2 * shape.pairs + four * pick(0, 3);
    const std::size_t heads = pick(1, 4), size = heads * shape.head_dim;
    const auto x = random_values(size, static_cast<unsigned>(round)), row = random_values(2 * shape.pairs, 99);
    std::vector<float> expected(x);
    for (std::size_t h = 0; h < heads; ++h) {
      for (std::size_t i = 0; i < shape.pairs; ++i) {
        const bool inter = shape.pairing == Pairing::kInterleaved;
        const std::size_t u = h * shape.head_dim + shape.start + (inter ? 2 * i : i),
                          v = inter ? u + 1 : u + shape.pairs;
        expected[u] = x[u] * row[i] - x[v] * row[shape.pairs + i];
        expected[v] = x[u] * row[shape.pairs + i] + x[v] * row[i];
      }
    }
    struct alignas(16) Block {
      float values[4];
    };
    std::vector<Block> blocks(size / 4 + 1);
    float* out = blocks[0].values;
    for (const auto mode : {detail::StoreMode::kCached, detail::StoreMode::kStreaming}) {
      if (mode == detail::StoreMode::kStreaming && four == 1) continue;
      std::fill(out, out + size, 7.0f);
      detail::turn_apart(shape, x.data(), out, heads, row.data(), row.data() + shape.pairs, mode);
      detail::finish_stores(mode);
      CHECK(std::equal(expected.begin(), expected.end(), out));
    }
    std::copy(x.begin(), x.end(), out);
    const std::size_t cut = shape.pairs / 2;
    detail::turn_in_place(shape, out, heads, 0, cut, row.data(), row.data() + shape.pairs);
    detail::turn_in_place(shape, out, heads, cut, shape.pairs - cut, row.data() + cut, row.data() + shape.pairs + cut);
    CHECK(std::equal(expected.begin(), expected.end(), out));
  }
}
