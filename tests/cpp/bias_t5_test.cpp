#include "locant/bias/t5.hpp"

#include "bias_tile.hpp"
#include "locant/bias/log_buckets.hpp"

using namespace locant;
using namespace locant::test;

namespace {
const T5Buckets kBoth(T5Direction::kBidirectional), kPast(T5Direction::kUnidirectional);

// table[b][h] = b + 1000 h: tells its bucket and head.
std::vector<float> telling(std::int32_t buckets, std::int32_t heads) {
  std::vector<float> table;
  for (std::int32_t b = 0; b < buckets; ++b) {
    for (std::int32_t h = 0; h < heads; ++h) table.push_back(static_cast<float>(b + 1000 * h));
  }
  return table;
}
}  // namespace

TEST_CASE("T5: the standard buckets start at the published distances") {
  const auto starts = kBoth.starts();
  CHECK(std::vector<std::int64_t>(starts.begin(), starts.end()) ==
        std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91});
  const auto past = kPast.starts();
  CHECK(std::vector<std::int64_t>(past.begin(), past.end()) ==
        std::vector<std::int64_t>{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                  16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113});
}

TEST_CASE("T5: distances 16, 32 and 64 lie exactly on an edge and open a new bucket") {
  for (const int distance : {16, 32, 64}) {
    CHECK(kBoth.bucket(-distance) == kBoth.bucket(-distance + 1) + 1);
    CHECK(kBoth.bucket(-distance) == kBoth.bucket(-distance - 1));
  }
}

TEST_CASE("H11: the last bucket is not passed, at any distance") {
  CHECK(kBoth.bucket(200) == 31);
  CHECK(kBoth.bucket(-200) == 15);
  CHECK(kPast.bucket(-200) == 31);
  for (std::int64_t d = -300; d <= 300; ++d) {
    CHECK(kBoth.bucket(d) >= (d > 0 ? 17 : 0));
    CHECK(kBoth.bucket(d) <= (d > 0 ? 31 : 15));
    CHECK(kPast.bucket(d) == (d > 0 ? 0 : kPast.bucket(d)));
  }
  for (const std::int64_t d : {kMaxDisplacement, std::int64_t{1} << 40}) {
    CHECK(kBoth.bucket(d) == 31);
    CHECK(kBoth.bucket(-d) == 15);
    CHECK(kPast.bucket(-d) == 31);
    CHECK(kPast.bucket(d) == 0);
  }
}

TEST_CASE("H15: a key 8 to the right of its query reads bucket 24, one 8 to the left bucket 8") {
  CHECK(kBoth.bucket(8) == 24);
  CHECK(kBoth.bucket(-8) == 8);
  const T5Bias bias(kBoth, 1, telling(32, 1));
  CHECK(TileCase({10}, {18, 2}).run(bias) == std::vector<float>{24.0f, 8.0f});
}

TEST_CASE("T5: thresholds equal the logarithm of long double, except where that one cannot decide") {
  for (const auto& [side, distance] : {std::pair{16, 128}, {32, 128}, {20, 1000}, {64, 100000}, {3, 7}, {128, 2147483647}}) {
    const T5Buckets buckets(T5Direction::kUnidirectional, side, distance);
    const int exact = side / 2;
    for (int m = 1; m < side - exact; ++m) {
      const std::int64_t start = buckets.starts()[static_cast<std::size_t>(exact + m)];
      const auto x = [&](std::int64_t r) {
        return std::log(static_cast<long double>(r) / exact) / std::log(static_cast<long double>(distance) / exact) *
               (side - exact);
      };
      CHECK(x(start) >= m - 1e-14L * side);
      CHECK(x(start - 1) < m);
    }
  }
}

TEST_CASE("T5: runs cover every displacement once and agree with bucket()") {
  for (const auto& buckets : {kBoth, kPast, T5Buckets(T5Direction::kBidirectional, 8, 20),
                              T5Buckets(T5Direction::kUnidirectional, 32, 17)}) {
    const auto runs = buckets.runs();
    CHECK(runs.front().first == -kMaxDisplacement);
    CHECK(runs.back().last == kMaxDisplacement);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (i > 0) CHECK(runs[i].first == runs[i - 1].last + 1);
      for (const std::int64_t d : {runs[i].first, runs[i].last}) CHECK(buckets.bucket(d) == runs[i].entry);
    }
  }
  // What the last bucket to the left merges.
  CHECK(kBoth.runs().front() == DisplacementRun{15, -kMaxDisplacement, -91});
  CHECK(kPast.runs().back() == DisplacementRun{0, 0, kMaxDisplacement});
}

TEST_CASE("T5: every cell of a tile reads its bucket and its head, by line and by search alike") {
  for (const auto& buckets : {kBoth, kPast, T5Buckets(T5Direction::kBidirectional, 64, 2147483647)}) {
    const T5Bias bias(buckets, 3, telling(buckets.buckets(), 3));
    for (const TileCase& tile : tile_cases(2, 5)) {
      const auto scores = tile.run(bias);
      for (std::size_t r = 0; r < tile.query_position.size(); ++r) {
        for (std::size_t k = 0; k < tile.key_position.size(); ++k) {
          const std::int64_t d = std::int64_t{tile.key_position[k]} - tile.query_position[r];
          CHECK(scores[r * tile.key_position.size() + k] == static_cast<float>(buckets.bucket(d) + 2000));
        }
      }
    }
  }
}

TEST_CASE("T5: shift invariance, to the bit") {
  CHECK(check_shift_invariant(T5Bias(kBoth, 2, random_values(64, 1)), 1) >= 10);
  CHECK(check_shift_invariant(T5Bias(kPast, 2, random_values(64, 1)), 1) >= 10);
}

TEST_CASE("T5: bad input is answered by its code") {
  using D = T5Direction;
  check_error(ErrorCode::kArgument, "buckets is 1, expected 2", [] { T5Buckets(D::kUnidirectional, 1); });
  check_error(ErrorCode::kArgument, "buckets is 2, expected 4", [] { T5Buckets(D::kBidirectional, 2); });
  check_error(ErrorCode::kArgument, "buckets is 33, expected an even number", [] { T5Buckets(D::kBidirectional, 33); });
  check_error(ErrorCode::kArgument, "max_distance is 16, expected 17", [] { T5Buckets(D::kUnidirectional, 32, 16); });
  check_error(ErrorCode::kShape, "32 buckets x 3 heads = 96", [] { T5Bias(kBoth, 3, random_values(95, 1)); });
  check_error(ErrorCode::kShape, "the attention has 4", [] { T5Bias(kBoth, 3, random_values(96, 1)).require_fits(4, 4, 8); });
  CHECK(T5Bias(kBoth, 3, random_values(96, 1)).describe().past_end == "all distances from 91 on share a bucket");
}
