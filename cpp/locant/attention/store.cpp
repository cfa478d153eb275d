#include "locant/attention/store.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "locant/memory.hpp"
#include "locant/simd/tiles.hpp"
#include "locant/simd/transpose.hpp"

namespace locant {
namespace {

constexpr std::size_t kPanel = KeyValueStore::kPanel;
constexpr std::size_t kTile = KeyValueStore::kTile;
static_assert(kPanel == simd::kPanelWidth && kTile == simd::kTileKeys);

constexpr std::size_t round_up(std::size_t x, std::size_t step) { return (x + step - 1) / step * step; }

// Copies kPanel values and says whether one has all exponent bits set: NaN or infinite.
bool copy_panel(const float* from, float* to) noexcept {
  typedef std::int32_t FourInts __attribute__((vector_size(16)));
  typedef std::int32_t LooseFourInts __attribute__((vector_size(16), aligned(4), may_alias));
  const FourInts exponent = {0x7f800000, 0x7f800000, 0x7f800000, 0x7f800000};
  FourInts found = {};
  for (std::size_t i = 0; i < kPanel; i += 4) {
    const FourInts x = *reinterpret_cast<const LooseFourInts*>(from + i);
    *reinterpret_cast<LooseFourInts*>(to + i) = x;
    found |= (x & exponent) == exponent;
  }
  return (found[0] | found[1] | found[2] | found[3]) != 0;
}

}  // namespace

KeyValueStore::KeyValueStore(std::int32_t kv_heads, std::int32_t head_dim, std::int32_t value_dim)
    : kv_heads_(kv_heads),
      head_dim_(head_dim),
      value_dim_(value_dim),
      key_depth_(round_up(static_cast<std::size_t>(head_dim), simd::kDepthStep)),
      value_stride_(round_up(static_cast<std::size_t>(value_dim), simd::kPanelWidth)) {}

std::size_t KeyValueStore::bytes() const noexcept {
  const std::size_t row = key_depth_ + value_stride_;
  return static_cast<std::size_t>(kv_heads_) * (capacity_ * row * sizeof(float) + capacity_ / kPanel);
}

namespace {
// For `rows` rows: whole tiles, without an overflow.
std::size_t panels_of(std::size_t rows) noexcept { return (rows / kTile + (rows % kTile != 0)) * (kTile / kPanel); }
}  // namespace

double KeyValueStore::bytes_of(std::size_t rows) const noexcept {
  return static_cast<double>(kv_heads_) * static_cast<double>(panels_of(rows)) *
         (static_cast<double>(kPanel) * sizeof(float) * static_cast<double>(key_depth_ + value_stride_) + 1);
}

void KeyValueStore::reserve(std::size_t rows) {
  if (rows <= capacity_) return;
  require_memory("cache", bytes_of(rows));
  const std::size_t panels = panels_of(rows);
  const std::size_t heads = static_cast<std::size_t>(kv_heads_), capacity = panels * kPanel;
  const std::size_t depth = key_depth_, stride = value_stride_;
  AlignedFloats keys = aligned_zeros<float>("cache", heads * capacity * depth);
  AlignedFloats values = aligned_zeros<float>("cache", heads * capacity * stride);
  AlignedBytes non_finite = aligned_zeros<std::uint8_t>("cache", heads * panels);

  if (capacity_ != 0) {
    const std::size_t held = (rows_ + kPanel - 1) / kPanel;
    for (std::size_t h = 0; h < heads; ++h) {
      std::copy_n(keys_.get() + h * capacity_ * depth, held * kPanel * depth, keys.get() + h * capacity * depth);
      std::copy_n(values_.get() + h * capacity_ * stride, capacity_ * stride, values.get() + h * capacity * stride);
      std::copy_n(non_finite_.get() + h * (capacity_ / kPanel), held, non_finite.get() + h * panels);
    }
  }
  keys_ = std::move(keys);
  values_ = std::move(values);
  non_finite_ = std::move(non_finite);
  capacity_ = capacity;
}

void KeyValueStore::resize(std::size_t rows) noexcept {
  rows = std::min(rows, capacity_);
  if (rows < rows_) {
    const std::size_t heads = static_cast<std::size_t>(kv_heads_), panels = capacity_ / kPanel;
    const std::size_t depth = key_depth_, stride = value_stride_;
    const std::size_t held = (rows_ + kPanel - 1) / kPanel;       // panels with something in them
    const std::size_t kept = (rows + kPanel - 1) / kPanel;        // panels that keep something
    for (std::size_t h = 0; h < heads; ++h) {
      float* keys = keys_.get() + h * capacity_ * depth;
      if (const std::size_t lane = rows % kPanel; lane != 0) {
        float* panel = keys + (kept - 1) * kPanel * depth;
        for (std::size_t d = 0; d < depth; ++d) std::fill(panel + d * kPanel + lane, panel + (d + 1) * kPanel, 0.0f);
      }
      std::fill(keys + kept * kPanel * depth, keys + held * kPanel * depth, 0.0f);
      float* values = values_.get() + h * capacity_ * stride;
      for (std::size_t row = rows; row < rows_; ++row) {
        if (row % kTile == 0) {  // from here on whole tiles go
          std::fill(values + row * stride, values + round_up(rows_, kTile) * stride, 0.0f);
          break;
        }
        for (std::size_t c = 0; c < stride; c += kPanel) std::fill_n(values + value_at(row, c), kPanel, 0.0f);
      }
      std::uint8_t* flags = non_finite_.get() + h * panels;
      std::fill(flags + kept, flags + held, std::uint8_t{0});
    }
  }
  rows_ = rows;
}

void KeyValueStore::write(std::size_t first, std::size_t count, const float* k, const float* v) noexcept {
  const std::size_t heads = static_cast<std::size_t>(kv_heads_), panels = capacity_ / kPanel;
  const std::size_t head_dim = static_cast<std::size_t>(head_dim_), value_dim = static_cast<std::size_t>(value_dim_);
  const std::size_t key_stride = heads * head_dim, value_stride = heads * value_dim;
  // Panel after panel and in it head after head, so that k and v are read in the order in which they lie.
  for (std::size_t i = 0; i < count;) {
    const std::size_t row = first + i, lane = row % kPanel;
    const std::size_t run = std::min(kPanel - lane, count - i);  // rows that fall into one panel
    for (std::size_t h = 0; h < heads; ++h) {
      float* panel = keys_.get() + (h * capacity_ + row / kPanel * kPanel) * key_depth_ + lane;
      simd::lay_side_by_side(k + i * key_stride + h * head_dim, key_stride, run, head_dim, nullptr, panel, kPanel);
      float* values = values_.get() + h * capacity_ * value_stride_;
      bool bad = false;
      for (std::size_t r = 0; r < run; ++r) {
        const float* value = v + (i + r) * value_stride + h * value_dim;
        float* to = values + value_at(row + r, 0);
        std::size_t c = 0;
        for (; c + kPanel <= value_dim; c += kPanel, to += kTile * kPanel) bad = copy_panel(value + c, to) || bad;
        for (; c < value_dim; ++c, ++to) {
          *to = value[c];
          bad = bad || !std::isfinite(value[c]);
        }
      }
      // A panel written whole is judged anew; else what other rows left stays (may be, never is not).
      std::uint8_t& flag = non_finite_[h * panels + row / kPanel];
      flag = static_cast<std::uint8_t>(bad || (run != kPanel && flag != 0));
    }
    i += run;
  }
}

void KeyValueStore::write_key(std::int32_t kv_head, std::size_t row, const float* key) noexcept {
  const std::size_t head_dim = static_cast<std::size_t>(head_dim_);
  float* at = keys_.get() + (static_cast<std::size_t>(kv_head) * capacity_ + row / kPanel * kPanel) * key_depth_ + row % kPanel;
  for (std::size_t d = 0; d < head_dim; ++d) at[d * kPanel] = key[d];
}

void KeyValueStore::read_key(std::int32_t kv_head, std::size_t row, float* key) const noexcept {
  const std::size_t head_dim = static_cast<std::size_t>(head_dim_);
  const float* at = key_panels(kv_head) + row / kPanel * kPanel * key_depth_ + row % kPanel;
  for (std::size_t d = 0; d < head_dim; ++d) key[d] = at[d * kPanel];
}

void KeyValueStore::read_value(std::int32_t kv_head, std::size_t row, float* value) const noexcept {
  const std::size_t value_dim = static_cast<std::size_t>(value_dim_);
  for (std::size_t c = 0; c < value_dim; ++c) value[c] = values(kv_head)[value_at(row, c)];
}

void KeyValueStore::copy_row(std::size_t from, std::size_t to) noexcept {
  if (from == to) return;
  const std::size_t panels = capacity_ / kPanel;
  const std::size_t head_dim = static_cast<std::size_t>(head_dim_), value_dim = static_cast<std::size_t>(value_dim_);
  for (std::size_t h = 0; h < static_cast<std::size_t>(kv_heads_); ++h) {
    float* keys = keys_.get() + h * capacity_ * key_depth_;
    const float* source = keys + from / kPanel * kPanel * key_depth_ + from % kPanel;
    float* target = keys + to / kPanel * kPanel * key_depth_ + to % kPanel;
    for (std::size_t d = 0; d < head_dim; ++d) target[d * kPanel] = source[d * kPanel];
    float* values = values_.get() + h * capacity_ * value_stride_;
    for (std::size_t c = 0; c < value_dim; ++c) values[value_at(to, c)] = values[value_at(from, c)];
    std::uint8_t* flags = non_finite_.get() + h * panels;
    flags[to / kPanel] |= flags[from / kPanel];
  }
}

void KeyValueStore::assign(const KeyValueStore& other) {
  if (this == &other) return;
  reserve(other.rows_);
  resize(0);  // clears what was here, so that the lanes past the new end are 0
  const std::size_t held = (other.rows_ + kPanel - 1) / kPanel;
  const std::size_t depth = key_depth_, stride = value_stride_;
  for (std::size_t h = 0; h < static_cast<std::size_t>(kv_heads_) && held != 0; ++h) {
    std::copy_n(other.keys_.get() + h * other.capacity_ * depth, held * kPanel * depth,
                keys_.get() + h * capacity_ * depth);
    std::copy_n(other.values_.get() + h * other.capacity_ * stride, round_up(other.rows_, kTile) * stride,
                values_.get() + h * capacity_ * stride);
    std::copy_n(other.non_finite_.get() + h * (other.capacity_ / kPanel), held,
                non_finite_.get() + h * (capacity_ / kPanel));
  }
  rows_ = other.rows_;
}

const float* KeyValueStore::key_panels(std::int32_t kv_head) const noexcept {
  return keys_.get() + static_cast<std::size_t>(kv_head) * capacity_ * key_depth_;
}

const float* KeyValueStore::values(std::int32_t kv_head) const noexcept {
  return values_.get() + static_cast<std::size_t>(kv_head) * capacity_ * value_stride_;
}

bool KeyValueStore::may_be_non_finite(std::int32_t kv_head, std::size_t first, std::size_t last) const noexcept {
  if (first >= last) return false;
  const std::uint8_t* flags = non_finite_.get() + static_cast<std::size_t>(kv_head) * (capacity_ / kPanel);
  const std::size_t end = (last + kPanel - 1) / kPanel;
  return std::any_of(flags + first / kPanel, flags + end, [](std::uint8_t flag) { return flag != 0; });
}

}  // namespace locant
