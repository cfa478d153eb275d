// PackedMatrix: y = x W^T against a sum in double, over awkward sizes and every instruction set.
//
// Tolerance: a float32 sum of n products of normal numbers has an error of about 2^-24 n at worst and 2^-24
// sqrt(n) as a rule; 1e-6 * sqrt(n) * 4 holds for both the fused and the separate multiply-add.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "locant/error.hpp"
#include "locant/simd/matrix.hpp"

using namespace locant;
using namespace locant::simd;

namespace {

std::vector<float> random_floats(std::mt19937& random, std::size_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> x(count);
  for (float& value : x) value = normal(random);
  return x;
}

}  // namespace

TEST_CASE("matrix: products equal a sum in double, for any number of rows, outputs and inputs") {
  std::mt19937 random(21);
  Workspace work;
  for (const std::size_t outputs : {1u, 15u, 16u, 17u, 65u, 130u}) {
    for (const std::size_t inputs : {1u, 3u, 64u, 67u, 515u}) {
      const auto w = random_floats(random, outputs * inputs);
      const PackedMatrix matrix(w, static_cast<std::int64_t>(outputs), static_cast<std::int64_t>(inputs));
      for (const std::size_t rows : {0u, 1u, 2u, 5u, 7u, 12u, 13u, 193u}) {
        const auto x = random_floats(random, rows * inputs);
        const auto before = random_floats(random, rows * outputs);
        for (const Write write : {Write::kReplace, Write::kAdd}) {
          std::vector<double> expected(rows * outputs);
          for (std::size_t r = 0; r < rows; ++r) {
            for (std::size_t o = 0; o < outputs; ++o) {
              double sum = write == Write::kAdd ? before[r * outputs + o] : 0;
              for (std::size_t d = 0; d < inputs; ++d) {
                sum += static_cast<double>(x[r * inputs + d]) * w[o * inputs + d];
              }
              expected[r * outputs + o] = sum;
            }
          }
          for (const InstructionSet set : available_sets()) {
            force_set(set);
            auto y = before;
            matrix.multiply(x, rows, y, work, write);
            double most = 0;
            for (std::size_t i = 0; i < y.size(); ++i) most = std::max(most, std::abs(y[i] - expected[i]));
            CAPTURE(std::string(to_string(set)));
            CAPTURE(rows);
            CHECK(most < 4e-6 * std::sqrt(static_cast<double>(inputs)));
          }
        }
      }
    }
  }
  force_set(available_sets().front());
}

TEST_CASE("matrix: rows are read back to the bit") {
  std::mt19937 random(22);
  const auto w = random_floats(random, 19 * 7);
  const PackedMatrix matrix(w, 19, 7);
  std::vector<float> row(7);
  for (std::size_t o = 0; o < 19; ++o) {
    matrix.read_row(o, row);
    for (std::size_t d = 0; d < 7; ++d) CHECK(row[d] == w[o * 7 + d]);
  }
  CHECK_THROWS_AS(matrix.read_row(19, row), Error);
}

TEST_CASE("matrix: tensors of another size are refused with what was held and expected") {
  std::vector<float> w(6), x(3), y(2);
  CHECK_THROWS_AS(PackedMatrix(w, 2, 4), Error);
  CHECK_THROWS_AS(PackedMatrix(w, 0, 4), Error);
  const PackedMatrix matrix(w, 2, 3);
  Workspace work;
  CHECK_THROWS_AS(matrix.multiply(x, 2, y, work), Error);
  CHECK_THROWS_AS(matrix.multiply(x, 1, x, work), Error);
  CHECK_NOTHROW(matrix.multiply(x, 1, y, work));
}
