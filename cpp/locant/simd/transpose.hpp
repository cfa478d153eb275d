// Rows of numbers laid side by side: out[d * stride_out + r] = rows[r][d], four rows and four columns at a time.
//
// Panels of keys, packed rows and packed weights are all made this way. Four lanes suffice: the work is bound
// by its reads and writes.
#pragma once

#include <cstddef>

namespace locant::simd {

typedef float FourFloats __attribute__((vector_size(16)));
typedef float LooseFourFloats __attribute__((vector_size(16), aligned(4), may_alias));

// x: `rows` rows at `stride`, `depth` numbers each. factors: what each row is multiplied by; null: nothing.
inline void lay_side_by_side(const float* x, std::size_t stride, std::size_t rows, std::size_t depth,
                             const float* factors, float* out, std::size_t stride_out) {
  const auto one = [&](std::size_t r, std::size_t d) {
    out[d * stride_out + r] = factors ? x[r * stride + d] * factors[r] : x[r * stride + d];
  };
  const std::size_t whole = depth / 4 * 4;
  for (std::size_t at = 0; rows >= 4 && at < rows; at += 4) {
    const std::size_t r = at + 4 <= rows ? at : rows - 4;  // the last four may be done in part a second time
    for (std::size_t d = 0; d < whole; d += 4) {
      FourFloats a[4];
      for (std::size_t i = 0; i < 4; ++i) {
        a[i] = *reinterpret_cast<const LooseFourFloats*>(x + (r + i) * stride + d);
        if (factors) a[i] = a[i] * FourFloats{factors[r + i], factors[r + i], factors[r + i], factors[r + i]};
      }
      const FourFloats low01 = __builtin_shufflevector(a[0], a[1], 0, 4, 1, 5);
      const FourFloats low23 = __builtin_shufflevector(a[2], a[3], 0, 4, 1, 5);
      const FourFloats high01 = __builtin_shufflevector(a[0], a[1], 2, 6, 3, 7);
      const FourFloats high23 = __builtin_shufflevector(a[2], a[3], 2, 6, 3, 7);
      const FourFloats b[4] = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
                               __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                               __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                               __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
      for (std::size_t i = 0; i < 4; ++i) *reinterpret_cast<LooseFourFloats*>(out + (d + i) * stride_out + r) = b[i];
    }
  }
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t d = rows >= 4 ? whole : 0; d < depth; ++d) one(r, d);
  }
}

}  // namespace locant::simd
