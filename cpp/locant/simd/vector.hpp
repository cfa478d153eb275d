// One vector of floats, as wide as the instruction set that the including file is compiled for.
//
//   WebAssembly SIMD128 and relaxed SIMD, SSE2     4 lanes
//   AVX2 with FMA                                  8 lanes
//   AVX-512                                       16 lanes
//   WebAssembly without SIMD, other machines       4 lanes that the compiler takes apart
//
// madd(a, b, c) = a * b + c is fused (one rounding) under relaxed SIMD, AVX2 and AVX-512, and a product and a
// sum (two roundings) elsewhere; every other operation gives the same bits everywhere. Names live in an inline
// namespace of the instruction set, so that files compiled for different sets never share a function.
// Nothing here calls the standard library: the linker may keep any one copy of a shared function, and it
// would have to run on every machine.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__wasm_simd128__)
#include <wasm_simd128.h>
#if defined(__wasm_relaxed_simd__)
#define LOCANT_SIMD_SET relaxed
#else
#define LOCANT_SIMD_SET simd128
#endif
#elif defined(__AVX512F__)
#include <immintrin.h>
#define LOCANT_SIMD_SET avx512
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define LOCANT_SIMD_SET avx2
#elif defined(__SSE2__)
#include <immintrin.h>
#define LOCANT_SIMD_SET sse2
#else
#define LOCANT_SIMD_SET scalar
#endif

#define LOCANT_INLINE inline __attribute__((always_inline))

namespace locant::simd {
inline namespace LOCANT_SIMD_SET {

#if defined(__AVX512F__)
inline constexpr std::size_t kLanes = 16;
#elif defined(__AVX2__) && defined(__FMA__)
inline constexpr std::size_t kLanes = 8;
#else
inline constexpr std::size_t kLanes = 4;
#endif

typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef std::int32_t Ints __attribute__((vector_size(4 * kLanes)));
// The same at any address.
typedef float LooseFloats __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

LOCANT_INLINE Floats load(const float* p) { return *reinterpret_cast<const LooseFloats*>(p); }
LOCANT_INLINE void store(float* p, Floats x) { *reinterpret_cast<LooseFloats*>(p) = x; }
LOCANT_INLINE Ints bits(Floats x) { return reinterpret_cast<Ints>(x); }
LOCANT_INLINE Floats from_bits(Ints x) { return reinterpret_cast<Floats>(x); }

LOCANT_INLINE Floats splat(float x) {
#if defined(__wasm_simd128__)
  return reinterpret_cast<Floats>(wasm_f32x4_splat(x));
#elif defined(__AVX512F__)
  return _mm512_set1_ps(x);
#elif defined(__AVX2__) && defined(__FMA__)
  return _mm256_set1_ps(x);
#else
  return Floats{x, x, x, x};
#endif
}

LOCANT_INLINE Floats load_splat(const float* p) {
#if defined(__wasm_simd128__)
  return reinterpret_cast<Floats>(wasm_v128_load32_splat(p));
#else
  return splat(*p);
#endif
}

LOCANT_INLINE Floats zero() { return Floats{}; }

LOCANT_INLINE Floats madd(Floats a, Floats b, Floats c) {
#if defined(__wasm_relaxed_simd__)
  return reinterpret_cast<Floats>(wasm_f32x4_relaxed_madd(reinterpret_cast<v128_t>(a), reinterpret_cast<v128_t>(b),
                                                          reinterpret_cast<v128_t>(c)));
#elif defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__) && defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

// a where it is not below b, else b. A NaN in a stays, one in b is passed over.
LOCANT_INLINE Floats max_keeping(Floats a, Floats b) {
#if defined(__wasm_simd128__)
  return reinterpret_cast<Floats>(wasm_f32x4_pmax(reinterpret_cast<v128_t>(a), reinterpret_cast<v128_t>(b)));
#elif defined(__AVX512F__)
  return _mm512_mask_max_ps(a, 0xffff, b, a);  // the unmasked form warns of its own variable in GCC 12
#elif defined(__AVX2__) && defined(__FMA__)
  return _mm256_max_ps(b, a);
#elif defined(__SSE2__)
  return _mm_max_ps(b, a);
#else
  Floats out{};
  for (std::size_t i = 0; i < kLanes; ++i) out[i] = a[i] < b[i] ? b[i] : a[i];
  return out;
#endif
}

// a where the mask's bits are set, b where they are not.
LOCANT_INLINE Floats select(Ints mask, Floats a, Floats b) { return from_bits((bits(a) & mask) | (bits(b) & ~mask)); }

// Whether every lane of a comparison is true.
LOCANT_INLINE bool all_of(Ints mask) {
#if defined(__wasm_simd128__)
  return wasm_i32x4_all_true(reinterpret_cast<v128_t>(mask));
#elif defined(__AVX512F__)
  return _mm512_movepi32_mask(reinterpret_cast<__m512i>(mask)) == 0xffff;
#elif defined(__AVX2__) && defined(__FMA__)
  return _mm256_movemask_ps(reinterpret_cast<__m256>(mask)) == 0xff;
#elif defined(__SSE2__)
  return _mm_movemask_ps(reinterpret_cast<__m128>(mask)) == 0xf;
#else
  bool all = true;
  for (std::size_t i = 0; i < kLanes; ++i) all = all && mask[i] != 0;
  return all;
#endif
}

// x with its lanes exchanged over a distance of 1, 2, 4 or 8: what lanes are summed up by.
template <std::size_t distance>
LOCANT_INLINE Floats exchange(Floats x) {
#if defined(__AVX512F__)
  if constexpr (distance == 8) return __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  if constexpr (distance == 4) return __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
  if constexpr (distance == 2) return __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  if constexpr (distance == 1) return __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
#elif defined(__AVX2__) && defined(__FMA__)
  if constexpr (distance == 4) return __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3);
  if constexpr (distance == 2) return __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5);
  if constexpr (distance == 1) return __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
#else
  if constexpr (distance == 2) return __builtin_shufflevector(x, x, 2, 3, 0, 1);
  if constexpr (distance == 1) return __builtin_shufflevector(x, x, 1, 0, 3, 2);
#endif
}

// Of all lanes, the same number in each; in pairs, so that the order depends on the number of lanes alone.
template <std::size_t distance = kLanes / 2>
LOCANT_INLINE Floats sum_of_lanes(Floats x) {
  x = x + exchange<distance>(x);
  if constexpr (distance > 1) x = sum_of_lanes<distance / 2>(x);
  return x;
}

template <std::size_t distance = kLanes / 2>
LOCANT_INLINE Floats max_of_lanes(Floats x) {
  x = max_keeping(x, exchange<distance>(x));
  if constexpr (distance > 1) x = max_of_lanes<distance / 2>(x);
  return x;
}

LOCANT_INLINE float first_lane(Floats x) { return x[0]; }

// What exp2_of needs. Read from memory and not written as constants, since V8 makes a vector
// constant anew at every use, in three instructions, where a broadcast from memory is one; the pointer is
// hidden from the compiler, or it would put the constants back.
inline constexpr float kExp2Numbers[] = {
    -127.0f, 12582912.0f,  // 1.5 * 2^23: its sum with x rounds to a whole number
    0.00015594677824992687f, 0.0013406643411144614f, 0.009617692790925503f, 0.055503103882074356f,
    0.24022652208805084f, 0.6931472420692444f, 1.0f, -126.0f};

LOCANT_INLINE const float* exp2_numbers() {
  const float* numbers = kExp2Numbers;
  __asm__("" : "+r"(numbers));
  return numbers;
}

// 2^x for x <= 126, for N vectors side by side; NaN for NaN. x = n + f with n whole and |f| <= 1/2: 2^n by its
// exponent bits, 2^f by a polynomial of degree 6 (minimax in relative error, 2.6e-9; 1.1e-7 with the float32
// rounding). Below 2^-126 the result is 0.
template <int N>
LOCANT_INLINE void exp2_of(Floats (&x)[N], const float* numbers) {
#if defined(__AVX512F__)
  // There are instructions for f and for p * 2^n.
  const Floats lowest = load_splat(numbers + 9);
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) {
    const Floats f = _mm512_reduce_ps(x[i], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    Floats p = load_splat(numbers + 2);
#pragma GCC unroll 6
    for (int c = 3; c < 9; ++c) p = madd(p, f, load_splat(numbers + c));
    x[i] = _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x[i], lowest, _CMP_NLT_UQ), p, x[i] - f);
  }
#else
  Floats shifted[N], p[N];
  const Floats low = load_splat(numbers), magic = load_splat(numbers + 1);
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) {
    x[i] = max_keeping(x[i], low);
    shifted[i] = x[i] + magic;
    x[i] = x[i] - (shifted[i] - magic);
    p[i] = load_splat(numbers + 2);
  }
#pragma GCC unroll 6
  for (int c = 3; c < 9; ++c) {
    const Floats next = load_splat(numbers + c);
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) p[i] = madd(p[i], x[i], next);
  }
  // The exponent of 1, as integers: 127 << 23.
  const Ints one = bits(load_splat(numbers + 8));
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) x[i] = p[i] * from_bits((bits(shifted[i]) << 23) + one);
#endif
}

// tanh(x): an odd polynomial where |x| < 1/4, (1 - t) / (1 + t) with t = e^(-2|x|) elsewhere. Relative error
// 2e-7; NaN for NaN.
LOCANT_INLINE Floats tanh_of(Floats x) {
  const Ints sign = bits(x) & bits(splat(-0.0f));
  const Floats size = from_bits(bits(x) ^ sign);
  Floats t[1] = {size * splat(-2.8853900817779268f)};
  exp2_of(t, exp2_numbers());
  const Floats far = (splat(1.0f) - t[0]) / (splat(1.0f) + t[0]);
  const Floats y = size * size;
  Floats p = splat(62.0f / 2835.0f);
  p = madd(p, y, splat(-17.0f / 315.0f));
  p = madd(p, y, splat(2.0f / 15.0f));
  p = madd(p, y, splat(-1.0f / 3.0f));
  const Floats near = madd(p * y, size, size);
  return from_bits(bits(select(size < splat(0.25f), near, far)) | sign);
}

}  // namespace LOCANT_SIMD_SET
}  // namespace locant::simd
