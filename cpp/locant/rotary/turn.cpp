#include "locant/rotary/turn.hpp"

#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace locant::detail {
namespace {

typedef float Four __attribute__((vector_size(16)));
typedef float LooseFour __attribute__((vector_size(16), aligned(4), may_alias));

// Outputs above this are larger than most last-level caches, and cannot be there when somebody reads them.
constexpr std::size_t kStreamingBytes = std::size_t{64} << 20;

inline Four load(const float* p) { return *reinterpret_cast<const LooseFour*>(p); }

template <StoreMode mode>
inline void store(float* p, Four x) {
#if defined(__SSE2__)
  if constexpr (mode == StoreMode::kStreaming) {
    _mm_stream_ps(p, x);
    return;
  }
#endif
  *reinterpret_cast<LooseFour*>(p) = x;
}

template <StoreMode mode>
inline void copy(const float* from, float* to, std::size_t count) {
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) store<mode>(to + i, load(from + i));
  for (; i < count; ++i) to[i] = from[i];
}

// u, v: first and second members of `count` pairs. `from` and `to` are the same or do not overlap, and every value is
// read before anything is written over it, so the compiler needs no promise about the two.
template <StoreMode mode>
inline void turn_half_split(const float* u, const float* v, float* u_to, float* v_to, std::size_t count,
                            const float* cos, const float* sin) {
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const Four a = load(u + i), b = load(v + i), c = load(cos + i), s = load(sin + i);
    store<mode>(u_to + i, a * c - b * s);
    store<mode>(v_to + i, a * s + b * c);
  }
  for (; i < count; ++i) {
    const float a = u[i], b = v[i];
    u_to[i] = a * cos[i] - b * sin[i];
    v_to[i] = a * sin[i] + b * cos[i];
  }
}

template <StoreMode mode>
inline void turn_interleaved(const float* x, float* to, std::size_t count, const float* cos, const float* sin) {
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const Four low = load(x + 2 * i), high = load(x + 2 * i + 4), c = load(cos + i), s = load(sin + i);
    const Four a = __builtin_shufflevector(low, high, 0, 2, 4, 6), b = __builtin_shufflevector(low, high, 1, 3, 5, 7);
    const Four first = a * c - b * s, second = a * s + b * c;
    store<mode>(to + 2 * i, __builtin_shufflevector(first, second, 0, 4, 1, 5));
    store<mode>(to + 2 * i + 4, __builtin_shufflevector(first, second, 2, 6, 3, 7));
  }
  for (; i < count; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1];
    to[2 * i] = a * cos[i] - b * sin[i];
    to[2 * i + 1] = a * sin[i] + b * cos[i];
  }
}

template <StoreMode mode>
void turn_apart(const TurnShape& shape, const float* from, float* to, std::size_t heads, const float* cos,
                const float* sin) {
  const std::size_t behind = shape.start + 2 * shape.pairs;
  for (std::size_t h = 0; h < heads; ++h, from += shape.head_dim, to += shape.head_dim) {
    copy<mode>(from, to, shape.start);
    const float* x = from + shape.start;
    float* out = to + shape.start;
    if (shape.pairing == Pairing::kHalfSplit) {
      turn_half_split<mode>(x, x + shape.pairs, out, out + shape.pairs, shape.pairs, cos, sin);
    } else {
      turn_interleaved<mode>(x, out, shape.pairs, cos, sin);
    }
    copy<mode>(from + behind, to + behind, shape.head_dim - behind);
  }
}

}  // namespace

StoreMode store_mode(const TurnShape& shape, const float* to, std::size_t values) noexcept {
#if defined(__SSE2__)
  const bool whole_fours = shape.head_dim % 4 == 0 && shape.start % 4 == 0 && shape.pairs % 4 == 0;
  if (whole_fours && reinterpret_cast<std::uintptr_t>(to) % 16 == 0 && values > kStreamingBytes / sizeof(float)) {
    return StoreMode::kStreaming;
  }
#else
  (void)shape, (void)to, (void)values;
#endif
  return StoreMode::kCached;
}

void turn_in_place(const TurnShape& shape, float* token, std::size_t heads, std::size_t first, std::size_t count,
                   const float* cos, const float* sin) noexcept {
  for (std::size_t h = 0; h < heads; ++h) {
    float* x = token + h * shape.head_dim + shape.start;
    if (shape.pairing == Pairing::kHalfSplit) {
      float *u = x + first, *v = x + shape.pairs + first;
      turn_half_split<StoreMode::kCached>(u, v, u, v, count, cos, sin);
    } else {
      turn_interleaved<StoreMode::kCached>(x + 2 * first, x + 2 * first, count, cos, sin);
    }
  }
}

void turn_apart(const TurnShape& shape, const float* from, float* to, std::size_t heads, const float* cos,
                const float* sin, StoreMode mode) noexcept {
  if (mode == StoreMode::kStreaming) {
    turn_apart<StoreMode::kStreaming>(shape, from, to, heads, cos, sin);
  } else {
    turn_apart<StoreMode::kCached>(shape, from, to, heads, cos, sin);
  }
}

void finish_stores(StoreMode mode) noexcept {
#if defined(__SSE2__)
  if (mode == StoreMode::kStreaming) _mm_sfence();
#else
  (void)mode;
#endif
}

}  // namespace locant::detail
