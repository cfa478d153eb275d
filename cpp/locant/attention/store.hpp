// Keys and values of one layer of one sequence, in the layout that the attention kernel reads.
//
// The layout is the kernel's business (see the constants below); everybody else reads and writes rows. A row
// number here is a place in memory and nothing more: positions, orders and segments are kept by the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "locant/attention/aligned.hpp"

namespace locant {

class KeyValueStore {
 public:
  // Keys of kPanel consecutive rows lie together, transposed: panel[key_depth][kPanel], so that a score tile
  // needs no shuffles at any vector width up to 16 lanes. Values of kTile rows lie together, 16 columns at a
  // time: tile[value_stride / 16][kTile][16], so that a kernel reads keys and values from end to end. Both
  // widths are padded with zeros to key_depth() and value_stride(), so that no kernel has a remainder to care
  // for; places past the last row are 0 too.
  static constexpr std::size_t kPanel = 16;
  static constexpr std::size_t kTile = 64;  // and what capacities are multiples of

  KeyValueStore(std::int32_t kv_heads, std::int32_t head_dim, std::int32_t value_dim);

  std::size_t rows() const noexcept { return rows_; }
  std::size_t capacity() const noexcept { return capacity_; }
  std::size_t bytes() const noexcept;
  // What a capacity for `rows` rows takes; in double, since a std::size_t may not hold it.
  double bytes_of(std::size_t rows) const noexcept;

  // Makes room for `rows` rows in all, keeping what is there. Error kOutOfMemory with the bytes asked for,
  // nothing changed. Never shrinks.
  void reserve(std::size_t rows);
  // Sets the number of rows within the capacity. New rows are 0 until written; rows cut off are cleared.
  void resize(std::size_t rows) noexcept;

  // k: [count, kv_heads, head_dim], v: [count, kv_heads, value_dim], into rows first .. first+count-1 < rows().
  void write(std::size_t first, std::size_t count, const float* k, const float* v) noexcept;
  void write_key(std::int32_t kv_head, std::size_t row, const float* key) noexcept;
  void read_key(std::int32_t kv_head, std::size_t row, float* key) const noexcept;
  void read_value(std::int32_t kv_head, std::size_t row, float* value) const noexcept;
  // Copies row `from` over row `to`, all heads.
  void copy_row(std::size_t from, std::size_t to) noexcept;
  // Takes over the rows of another store of the same widths; error kOutOfMemory, nothing changed.
  void assign(const KeyValueStore& other);

  // For kernels: panels of one head, [capacity / kPanel][key_depth][kPanel], and tiles of its values,
  // [capacity / kTile][value_stride / 16][kTile][16].
  std::size_t key_depth() const noexcept { return key_depth_; }
  std::size_t value_stride() const noexcept { return value_stride_; }
  const float* key_panels(std::int32_t kv_head) const noexcept;
  const float* values(std::int32_t kv_head) const noexcept;
  // Where column c of a row lies from values() on.
  std::size_t value_at(std::size_t row, std::size_t c) const noexcept {
    return (row / kTile * value_stride_ + c / kPanel * kPanel) * kTile + row % kTile * kPanel + c % kPanel;
  }
  // Whether any value of rows [first, last) of a head may be NaN or infinite; never false when one is. A
  // hidden row has weight 0, and 0 x NaN must not reach the mixture.
  bool may_be_non_finite(std::int32_t kv_head, std::size_t first, std::size_t last) const noexcept;

 private:
  std::int32_t kv_heads_, head_dim_, value_dim_;
  std::size_t key_depth_, value_stride_;
  std::size_t rows_ = 0, capacity_ = 0;
  AlignedFloats keys_, values_;             // as key_panels() and values(), head after head
  AlignedBytes non_finite_;                 // [kv_heads][capacity / kPanel]
};

}  // namespace locant
