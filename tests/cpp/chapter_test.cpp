// What the text that the project set out from prints, and the exercises that have a number for an answer.
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "locant/absolute/learned_table.hpp"
#include "locant/absolute/sinusoidal.hpp"
#include "locant/attention/attention.hpp"
#include "locant/rotary/rotation.hpp"
#include "locant/rotary/rules.hpp"
#include "support.hpp"

using namespace locant;
using locant::test::check_error;
using locant::test::max_difference;
using locant::test::random_values;
using Floats = std::vector<float>;

namespace {

Sinusoidal sinusoid(std::int32_t width) {
  SinusoidalConfig config;
  config.width = width;
  return Sinusoidal(config);
}

Floats encode(const Sinusoidal& encoding, const Positions& positions) {
  Floats out(positions.tokens() * static_cast<std::size_t>(encoding.width()));
  encoding.encode(positions, out);
  return out;
}

Rotation adjacent_pairs(std::int32_t width) {
  RotaryShape shape;
  shape.width = width;
  shape.pairing = Pairing::kInterleaved;
  return Rotation(resolve(shape), width);
}

Floats turned(const Rotation& rotation, const Floats& x, std::int64_t position) {
  Floats out(x.size());
  rotation.apply(x, Positions::range(1, position), 1, RotationRole::kQuery, out);
  return out;
}

double dot(const Floats& a, const Floats& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

}  // namespace

TEST_CASE("chapter: content (0.8, 0.1) at position 0 enters attention as (0.8, 1.1), and elsewhere as something else") {
  const Sinusoidal encoding = sinusoid(8);
  const Floats table = encode(encoding, Positions::range(4));
  const std::array<float, 2> content{0.8f, 0.1f};
  const std::array<float, 2> here{content[0] + table[0], content[1] + table[1]};
  CHECK(here[0] == doctest::Approx(0.8f));
  CHECK(here[1] == doctest::Approx(1.1f));
  // Moved to position 1 the same content is another input.
  const std::array<float, 2> moved{content[0] + table[8], content[1] + table[9]};
  CHECK_FALSE(max_difference(here, moved) < 1e-6);
}

TEST_CASE("chapter: a module of width 6 gives rows 0 and 1 apart and shares a position across the batch") {
  const Sinusoidal encoding = sinusoid(6);
  const Positions batch = Positions::ragged(std::array{4, 4});
  const Floats zeros(2 * 4 * 6, 0.0f);
  Floats positioned(zeros.size());
  encoding.add(zeros, batch, positioned);
  const auto row = [&](std::size_t b, std::size_t t) {
    const auto first = positioned.begin() + static_cast<std::ptrdiff_t>((b * 4 + t) * 6);
    return Floats(first, first + 6);
  };
  CHECK(positioned.size() == 2 * 4 * 6);
  CHECK(max_difference(row(0, 0), row(0, 1)) > 0.5);
  CHECK(row(0, 2) == row(1, 2));
}

TEST_CASE("chapter: a continuation at offset 4 agrees with the full sequence, at offset 0 it does not") {
  const Sinusoidal encoding = sinusoid(6);
  const Floats full = encode(encoding, Positions::range(5));
  const Floats last(full.begin() + 4 * 6, full.end());
  CHECK(encode(encoding, Positions::range(1, 4)) == last);
  CHECK(encode(encoding, Positions::range(4).next(std::array{1})) == last);
  CHECK(max_difference(encode(encoding, Positions::range(1)), last) > 0.5);
}

TEST_CASE("chapter: the same displacement gives the same product, q at 3 with k at 5 as q at 8 with k at 10") {
  const Rotation rotation = adjacent_pairs(4);
  const Floats q{1, 0, 0.4f, -0.2f}, k{0.7f, 0.5f, -0.1f, 0.9f};
  const double near = dot(turned(rotation, q, 3), turned(rotation, k, 5));
  CHECK(near == doctest::Approx(dot(turned(rotation, q, 8), turned(rotation, k, 10))).epsilon(1e-6));
  CHECK(near != doctest::Approx(dot(turned(rotation, q, 3), turned(rotation, k, 6))).epsilon(1e-3));
  // Exercise: each pair keeps its norm.
  const Floats r = turned(rotation, q, 12345);
  for (const std::size_t pair : {0, 2}) {
    CHECK(std::hypot(r[pair], r[pair + 1]) == doctest::Approx(std::hypot(q[pair], q[pair + 1])).epsilon(1e-6));
  }
}

TEST_CASE("chapter: attention without position answers a permuted input with the permuted output") {
  AttentionConfig config;
  config.shape = {2, 2, 3, 3};
  config.mask.direction = Direction::kBidirectional;
  const Attention attention(config);
  const std::array<std::size_t, 4> order{2, 0, 3, 1};
  const Floats x = random_values(4 * 6, 21);
  const auto permuted = [&](const Floats& rows) {
    Floats out;
    for (const std::size_t t : order) out.insert(out.end(), rows.begin() + static_cast<std::ptrdiff_t>(t * 6), rows.begin() + static_cast<std::ptrdiff_t>(t * 6 + 6));
    return out;
  };
  const auto run = [](const Attention& a, const Floats& rows) {
    Floats out(rows.size());
    a.attend(rows, rows, rows, Positions::range(4), out);
    return out;
  };
  CHECK(max_difference(run(attention, permuted(x)), permuted(run(attention, x))) < 1e-6);
  // A causal mask alone changes the symmetry ...
  config.mask.direction = Direction::kCausal;
  const Attention causal(config);
  CHECK(max_difference(run(causal, permuted(x)), permuted(run(causal, x))) > 1e-2);
  // ... and still supplies no distance: tokens ten times as far apart get the same output.
  Floats apart(x.size()), close(x.size());
  causal.attend(x, x, x, Positions::range(4), close);
  causal.attend(x, x, x, Positions::from_arrays({.row_lengths = {4}, .position = {{0, 10, 20, 30}}, .order = {}, .segment = {}, .valid = {}}), apart);
  CHECK(apart == close);
}

TEST_CASE("chapter: exercises with a number for an answer") {
  // Width eight, positions zero to three: pair i is (sin, cos) of t / 10000^(2i/8).
  const Floats table = encode(sinusoid(8), Positions::range(4));
  for (int t = 0; t < 4; ++t) {
    for (int i = 0; i < 4; ++i) {
      const double angle = t / std::pow(10000.0, 2.0 * i / 8);
      const auto at = static_cast<std::size_t>(t * 8 + 2 * i);
      CHECK(table[at] == doctest::Approx(std::sin(angle)).epsilon(1e-7));
      CHECK(table[at + 1] == doctest::Approx(std::cos(angle)).epsilon(1e-7));
    }
  }
  // A table of length 2,048 and width 768 holds 1,572,864 parameters, and its end is an error.
  TableConfig config;
  config.rows = 2048;
  config.width = 768;
  const LearnedTable learned(config, Floats(2048 * 768, 0.5f));
  CHECK(learned.parameter_count() == 1572864);
  Floats row(768);
  learned.encode(Positions::range(1, 2047), row);
  check_error(ErrorCode::kTableEnd, "2048", [&] { learned.encode(Positions::range(1, 2048), row); });
}
