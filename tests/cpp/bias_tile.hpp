// A tile of one head for tests of score terms: owns its positions and contents, and runs a term over them.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "locant/bias/score_term.hpp"
#include "support.hpp"

namespace locant::test {

struct TileCase {
  std::vector<std::int32_t> query_position, key_position;
  std::int32_t head = 0, head_dim = 0;
  float scale = 1;
  std::vector<float> query, key;  // [rows, head_dim + 3], [keys, head_dim + 1]: strides wider than the rows

  TileCase(std::vector<std::int32_t> q, std::vector<std::int32_t> k, std::int32_t head_ = 0)
      : query_position(std::move(q)), key_position(std::move(k)), head(head_) {}

  void fill(std::int32_t dim, unsigned seed) {
    head_dim = dim;
    query = random_values(query_position.size() * static_cast<std::size_t>(dim + 3), seed);
    key = random_values(key_position.size() * static_cast<std::size_t>(dim + 1), seed + 1);
  }
  const float* query_row(std::size_t row) const { return query.data() + row * static_cast<std::size_t>(head_dim + 3); }
  const float* key_row(std::size_t k) const { return key.data() + k * static_cast<std::size_t>(head_dim + 1); }

  ScoreTile tile() const {
    ScoreTile t;
    t.head = t.kv_head = head;
    t.query_rows = query_position.size();
    t.keys = key_position.size();
    t.query_position = query_position.data();
    t.key_position = key_position.data();
    if (head_dim > 0) {
      t.query = query.data();
      t.query_stride = static_cast<std::size_t>(head_dim + 3);
      t.key = key.data();
      t.key_stride = static_cast<std::size_t>(head_dim + 1);
      t.head_dim = head_dim;
    }
    t.scale = scale;
    return t;
  }

  // The term alone, [rows, keys]; checks that nothing is written between the rows.
  std::vector<float> run(const ScoreTerm& term) const {
    const std::size_t keys = key_position.size(), stride = keys + 5;
    std::vector<float> scores(query_position.size() * stride, 0.0f), out;
    for (std::size_t row = 0; row < query_position.size(); ++row) {
      for (std::size_t k = keys; k < stride; ++k) scores[row * stride + k] = 77.0f;
    }
    term.add(tile(), scores.data(), stride);
    for (std::size_t row = 0; row < query_position.size(); ++row) {
      for (std::size_t k = keys; k < stride; ++k) CHECK(scores[row * stride + k] == 77.0f);
      out.insert(out.end(), scores.begin() + static_cast<std::ptrdiff_t>(row * stride),
                 scores.begin() + static_cast<std::ptrdiff_t>(row * stride + keys));
    }
    return out;
  }
};

// Tiles that cover what the kernels meet: consecutive keys as in text, keys with gaps, repeats and disorder, the
// ends of the int32 range, one row, one key.
inline std::vector<TileCase> tile_cases(std::int32_t head, unsigned seed) {
  std::mt19937 random(seed);
  const auto run = [](std::int32_t first, std::size_t count) {
    std::vector<std::int32_t> positions;
    for (std::size_t i = 0; i < count; ++i) positions.push_back(first + static_cast<std::int32_t>(i));
    return positions;
  };
  const auto scattered = [&](std::int32_t limit, std::size_t count) {
    std::vector<std::int32_t> positions;
    for (std::size_t i = 0; i < count; ++i) positions.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(limit)));
    return positions;
  };
  std::vector<TileCase> cases;
  cases.emplace_back(run(0, 20), run(0, 33), head);
  cases.emplace_back(run(190, 7), run(0, 300), head);
  cases.emplace_back(run(0, 3), run(500, 40), head);
  cases.emplace_back(scattered(300, 9), scattered(300, 50), head);
  cases.emplace_back(scattered(2147483647, 5), scattered(2147483647, 20), head);
  cases.emplace_back(std::vector<std::int32_t>{0, 2147483647}, std::vector<std::int32_t>{2147483647, 0, 1}, head);
  cases.emplace_back(run(2147483630, 17), run(2147483630, 18), head);
  cases.emplace_back(run(12, 1), run(0, 13), head);
  cases.emplace_back(run(5, 4), run(2, 1), head);
  return cases;
}

// Adds `by` to every position, where all stay in range.
inline bool shifted(TileCase& tile, std::int64_t by) {
  for (auto* positions : {&tile.query_position, &tile.key_position}) {
    for (const std::int32_t p : *positions) {
      if (p + by > 2147483647) return false;
    }
  }
  for (auto* positions : {&tile.query_position, &tile.key_position}) {
    for (std::int32_t& p : *positions) p = static_cast<std::int32_t>(p + by);
  }
  return true;
}

// Equal bits after a shift of all positions; how many tiles could be shifted is returned.
inline int check_shift_invariant(const ScoreTerm& term, std::int32_t head, std::int32_t head_dim = 0) {
  CHECK(term.shift_invariant());
  int checked = 0;
  for (TileCase tile : tile_cases(head, 7)) {
    if (head_dim > 0) tile.fill(head_dim, 3);
    const auto before = tile.run(term);
    for (const std::int64_t by : {1, 1000, 1 << 30}) {
      TileCase moved = tile;
      if (!shifted(moved, by)) continue;
      CHECK(moved.run(term) == before);
      ++checked;
    }
  }
  return checked;
}

}  // namespace locant::test
