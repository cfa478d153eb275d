// Two loops that several terms of door 3 share. Not for users of the library.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "locant/bias/displacement.hpp"

namespace locant::detail {

// Smallest and largest key position of a tile with at least one key.
inline std::pair<std::int64_t, std::int64_t> key_range(const ScoreTile& tile) {
  const auto [low, high] = std::minmax_element(tile.key_position, tile.key_position + tile.keys);
  return {*low, *high};
}

// scores += f(displacement) for a function of displacement alone: each displacement of the tile is computed
// once where the positions lie close together, once a cell where they do not.
template <class Function>
void add_function(const ScoreTile& tile, Function f, float* scores, std::size_t stride) {
  if (tile.keys == 0 || tile.query_rows == 0) return;
  const auto [key_low, key_high] = key_range(tile);
  const auto [low, high] = std::minmax_element(tile.query_position, tile.query_position + tile.query_rows);
  const std::int64_t first = key_low - *high, last = key_high - *low;
  if (last - first < 2 * static_cast<std::int64_t>(tile.keys + tile.query_rows)) {
    std::vector<float> line;
    line.reserve(static_cast<std::size_t>(last - first + 1));
    for (std::int64_t d = first; d <= last; ++d) line.push_back(static_cast<float>(f(d)));
    add_clamped_line(tile, line.data(), first, last, scores, stride);
    return;
  }
  for (std::size_t row = 0; row < tile.query_rows; ++row) {
    for (std::size_t k = 0; k < tile.keys; ++k) {
      scores[row * stride + k] += static_cast<float>(f(displacement(tile, row, k)));
    }
  }
}

// to[key] += factor * x . vector_of(entry_of(displacement)) for one query row of the tile, where entry_of is
// monotone: each vector meets x once, unless the keys stand so far apart that most would not be read.
template <class EntryOf, class VectorOf>
void add_products(const ScoreTile& tile, std::size_t row, const float* x, std::size_t width, float factor,
                  EntryOf entry_of, VectorOf vector_of, std::vector<float>& products, float* to) {
  const auto [key_low, key_high] = key_range(tile);
  std::int64_t low = entry_of(key_low - tile.query_position[row]), high = entry_of(key_high - tile.query_position[row]);
  if (low > high) std::swap(low, high);
  if (high - low < 2 * static_cast<std::int64_t>(tile.keys)) {
    products.resize(static_cast<std::size_t>(high - low + 1));
    for (std::int64_t e = low; e <= high; ++e) {
      products[static_cast<std::size_t>(e - low)] = factor * dot(x, vector_of(e), width);
    }
    for (std::size_t k = 0; k < tile.keys; ++k) {
      to[k] += products[static_cast<std::size_t>(entry_of(displacement(tile, row, k)) - low)];
    }
    return;
  }
  for (std::size_t k = 0; k < tile.keys; ++k) {
    to[k] += factor * dot(x, vector_of(entry_of(displacement(tile, row, k))), width);
  }
}

}  // namespace locant::detail
