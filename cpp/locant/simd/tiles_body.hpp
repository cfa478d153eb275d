// The one source of the tile functions. A file that is compiled for an instruction set includes it once and
// names the table that it makes:   LOCANT_TILES(tiles_avx2, InstructionSet::kAvx2)
//
// How many accumulators. A multiply-add has a latency of about 4 cycles and two may start in each, so 8 or
// more independent sums must be under way; WebAssembly on x64 leaves 15 registers. 6 rows x 2 vectors = 12
// sums, 2 registers for the panel and 1 for the row's number: 15. Without a fused multiply-add the product
// needs a register of its own and one sum goes through memory: 3 % slower than 5 rows would be, and rows are
// shared with SSE2, whose bits are the same. With fewer rows the sums are split by depth ("phases").
#pragma once

#include "locant/simd/tiles.hpp"
#include "locant/simd/vector.hpp"

namespace locant::simd {
inline namespace LOCANT_SIMD_SET {

#if defined(__AVX512F__)
inline constexpr int kRows = 12;
#else
inline constexpr int kRows = 6;
#endif
inline constexpr int kVectorsOfPanel = static_cast<int>(kPanelWidth / kLanes);

// How many vectors beside each other, and how many phases, serve R rows best.
template <int R>
struct Shape {
#if defined(__AVX512F__)
  static constexpr int vectors = 2;
  static constexpr int phases = R >= 5 ? 1 : R >= 3 ? 2 : 4;
#elif defined(__AVX2__) && defined(__FMA__)
  static constexpr int vectors = 2;
  static constexpr int phases = R >= 4 ? 1 : R >= 2 ? 2 : 4;
#else
  // With one or two rows the work is to read: a whole line at once.
  static constexpr int vectors = R >= 3 ? 2 : 4;
  static constexpr int phases = R == 1 ? 2 : 1;
#endif
};

// Steps of depth in one turn of a product's loop. In WebAssembly as few as the phases allow: of several steps
// the compilers (LLVM, wasm-opt and V8 alike) make one chain a sum, which wants every step's vectors at once and
// pushes the sums out to memory. A turn of one step stays in registers: 97 % of the multiply-add peak, against
// 85 % with four.
template <int P>
inline constexpr int kSteps = P;

inline constexpr std::size_t kTurn = 16;  // steps of a part in a turn; 8 and 32 are slower

// What a caller that waits for memory will read next is touched, a few lines at a time, while the sums go on. A
// processor fetches ahead by itself, but within a page of 4 KB and not far enough; four quarters at once are four
// pages. From memory, against none of this: 3 rows 9 to 12 GB/s, 4 rows 8 to 11 (a plain read: 9 in one stream, 13 in
// four); from the third-level cache 5 % are lost.
class Ahead {
 public:
  explicit Ahead(std::span<const float> next)
      : at_(next.data()), quarter_(next.size() / (4 * kStep) * kStep), end_(at_ + quarter_) {}
  // Two lines of each quarter.
  LOCANT_INLINE void touch() {
    if (at_ == end_) return;
    for (std::size_t quarter = 0; quarter < 4; ++quarter) {
      for (std::size_t i = 0; i < kStep; i += kLine) touch_line(at_ + quarter * quarter_ + i);
    }
    at_ += kStep;
  }

 private:
  static constexpr std::size_t kLine = 16, kStep = 2 * kLine;
  static LOCANT_INLINE void touch_line(const float* line) {
#if defined(__wasm__)
    static_cast<void>(*static_cast<const volatile float*>(line));  // WebAssembly has no instruction for it
#else
    __builtin_prefetch(line);
#endif
  }
  const float* at_;
  std::size_t quarter_;
  const float* end_;
};

// Where vector v lies: in the same panel, or in one that follows.
LOCANT_INLINE std::size_t beside(int v, std::size_t panel_stride) {
  const std::size_t at = static_cast<std::size_t>(v) * kLanes;
  return at / kPanelWidth * panel_stride + at % kPanelWidth;
}

// Sums of R rows times V vectors, in P phases.
template <int R, int V, int P>
struct Sums {
  Floats at[P][R][V];

  LOCANT_INLINE void clear() {
    for (auto& phase : at)
      for (auto& row : phase)
        for (Floats& sum : row) sum = zero();
  }
  LOCANT_INLINE Floats total(int r, int v) const {
    Floats sum = at[0][r][v];
    for (int p = 1; p < P; ++p) sum = sum + at[p][r][v];
    return sum;
  }
  // Adds a row's numbers times vectors, for `steps` steps, a multiple of P. A row's number is kRowStep from step to
  // step and kRowStride from row to row, a vector's next step is kPanelWidth away; `beyond` is where the panel that
  // follows begins.
  template <std::size_t kRowStep, std::size_t kRowStride>
  LOCANT_INLINE void add(const float* rows, const float* vectors, std::size_t beyond, std::size_t steps) {
    const float* const end = rows + steps * kRowStep;
    do {
#pragma GCC unroll 4
      for (int step = 0; step < kSteps<P>; ++step) {
        Floats x[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) x[v] = load(vectors + beside(v, beyond) + step * kPanelWidth);
#pragma GCC unroll 12
        for (int r = 0; r < R; ++r) {
          const Floats n = load_splat(rows + step * kRowStep + r * kRowStride);
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) at[step % P][r][v] = madd(n, x[v], at[step % P][r][v]);
        }
      }
      rows += kSteps<P> * kRowStep;
      vectors += kSteps<P> * kPanelWidth;
    } while (rows != end);
  }
};

// The same where there are so few rows that memory is waited for. A panel wider than the vectors of a pass is read in
// parts, and only the first part of a line waits. So the parts take turns every few steps, and the lines of one turn
// arrive while the sums of another go on: from the third-level cache 25 instead of 20 GB/s with 4 rows, 29 instead of
// 25 with 3 (a plain read reaches 29). Between turns the sums wait in memory; their order, and so every bit, stays.
template <int R, int V, int P>
struct SumsInTurns {
  static constexpr int kParts = V < kVectorsOfPanel ? kVectorsOfPanel / V : 1;
  Sums<R, V, P> parts[kParts];

  template <std::size_t kRowStep, std::size_t kRowStride>
  LOCANT_INLINE void add(const float* rows, const float* vectors, std::size_t beyond, std::size_t steps, Ahead& ahead) {
    for (std::size_t i = 0; i < steps; i += kTurn) {
      const std::size_t turn = steps - i < kTurn ? steps - i : kTurn;
      for (int part = 0; part < kParts; ++part) {
        ahead.touch();
        Sums<R, V, P> sums = parts[part];
        sums.template add<kRowStep, kRowStride>(rows + i * kRowStep, vectors + i * kPanelWidth + part * V * kLanes,
                                                beyond, turn);
        parts[part] = sums;
      }
    }
  }
};

// What the sums of a product leave behind, and those of a mixture start from.
template <int R, int V, int P>
LOCANT_INLINE void write_sums(const Sums<R, V, P>& sums, float* out, std::size_t stride, Write write) {
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      float* at = out + r * stride + v * kLanes;
      store(at, write == Write::kAdd ? load(at) + sums.total(r, v) : sums.total(r, v));
    }
  }
}
template <int R, int V, int P>
LOCANT_INLINE void start_from(Sums<R, V, P>& sums, const float* mixture, std::size_t width) {
  sums.clear();
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) sums.at[0][r][v] = load(mixture + r * width + v * kLanes);
}

template <int R, int V, int P>
__attribute__((noinline)) void product_part(const float* packed, const float* panel, std::size_t panel_stride,
                                            std::size_t depth, float* out, std::size_t stride, Write write) {
  Sums<R, V, P> sums;
  sums.clear();
  sums.template add<R, 1>(packed, panel, panel_stride, depth);
  write_sums(sums, out, stride, write);
}

template <int R, int V, int P>
__attribute__((noinline)) void product_in_turns(const float* packed, const float* panel, std::size_t panel_stride,
                                                std::size_t depth, float* out, std::size_t stride, Write write,
                                                Ahead& ahead) {
  SumsInTurns<R, V, P> sums;
  for (auto& part : sums.parts) part.clear();
  sums.template add<R, 1>(packed, panel, panel_stride, depth, ahead);
  for (int part = 0; part < sums.kParts; ++part) write_sums(sums.parts[part], out + part * V * kLanes, stride, write);
}

template <int R>
void product_rows(const float* packed, const float* panels, std::size_t panel_stride, std::size_t panel_count,
                  std::size_t depth, float* out, std::size_t stride, Write write, std::span<const float> next) {
  constexpr int V = Shape<R>::vectors, P = Shape<R>::phases;
  constexpr std::size_t kPanels = V > kVectorsOfPanel ? V / kVectorsOfPanel : 1;  // that one part covers
  std::size_t p = 0;
  if (!next.empty()) {
    Ahead ahead(next);
    for (; p + kPanels <= panel_count; p += kPanels) {
      product_in_turns<R, V, P>(packed, panels + p * panel_stride, panel_stride, depth, out + p * kPanelWidth, stride,
                                write, ahead);
    }
  }
  for (; p + kPanels <= panel_count; p += kPanels) {
    for (int v = 0; v < kVectorsOfPanel; v += V) {
      product_part<R, V, P>(packed, panels + p * panel_stride + v * kLanes, panel_stride, depth,
                            out + p * kPanelWidth + v * kLanes, stride, write);
    }
  }
  if constexpr (kPanels > 1) {
    for (; p < panel_count; ++p) {
      product_part<R, 1, P>(packed, panels + p * panel_stride, panel_stride, depth, out + p * kPanelWidth, stride, write);
    }
  }
}

template <int R, int V, int P>
__attribute__((noinline)) void mixture_part(const float* weights, std::size_t keys, const float* values,
                                            std::size_t width, float* mixture) {
  Sums<R, V, P> sums;
  start_from(sums, mixture, width);
  sums.template add<1, kTileKeys>(weights, values, kTileKeys * kPanelWidth, keys);
  write_sums(sums, mixture, width, Write::kReplace);
}

template <int R, int V, int P>
__attribute__((noinline)) void mixture_in_turns(const float* weights, std::size_t keys, const float* values,
                                                std::size_t width, float* mixture, Ahead& ahead) {
  SumsInTurns<R, V, P> sums;
  for (int part = 0; part < sums.kParts; ++part) start_from(sums.parts[part], mixture + part * V * kLanes, width);
  sums.template add<1, kTileKeys>(weights, values, kTileKeys * kPanelWidth, keys, ahead);
  for (int part = 0; part < sums.kParts; ++part) {
    write_sums(sums.parts[part], mixture + part * V * kLanes, width, Write::kReplace);
  }
}

// Where a column of values lies in a tile, from the first column on.
LOCANT_INLINE std::size_t column(std::size_t c) {
  return c / kPanelWidth * kTileKeys * kPanelWidth + c % kPanelWidth;
}

template <int R>
void mixture_rows(const float* weights, std::size_t keys, const float* values, std::size_t width, float* mixture,
                  std::span<const float> next) {
  constexpr int V = Shape<R>::vectors, P = Shape<R>::phases;
  std::size_t c = 0;
  if (!next.empty()) {
    constexpr std::size_t kColumns = V * kLanes > kPanelWidth ? V * kLanes : kPanelWidth;
    Ahead ahead(next);
    for (; c + kColumns <= width; c += kColumns) {
      mixture_in_turns<R, V, P>(weights, keys, values + column(c), width, mixture + c, ahead);
    }
  }
  for (; c + V * kLanes <= width; c += V * kLanes) {
    mixture_part<R, V, P>(weights, keys, values + column(c), width, mixture + c);
  }
  if constexpr (V * kLanes > kPanelWidth) {
    for (; c < width; c += kLanes) mixture_part<R, 1, P>(weights, keys, values + column(c), width, mixture + c);
  }
}

// Bases are changed for as many rows as a vector has lanes, without a branch: comparisons of scores cannot be
// foreseen by a processor. That none is to be changed can.
__attribute__((noinline)) inline void rebase(std::size_t rows, const float* top, SoftmaxRows& state) {
  const float* const numbers = exp2_numbers();
  const Floats lowest = splat(-__builtin_inff()), slack = splat(kSoftmaxSlack);
  for (std::size_t r = 0; r < rows; r += kLanes) {
    const Floats base = load(state.base + r), limit = load(state.limit + r), high = load(top + r);
    const Ints exceeds = high > limit;
    store(state.base + r, select(exceeds, high, base));
    store(state.limit + r, select(exceeds, high + slack, limit));
    // Of a row that had seen nothing yet there is nothing to carry.
    Floats change[1] = {select(exceeds, select(limit == lowest, lowest, base - high), zero())};
    exp2_of(change, numbers);
    store(state.carry + r, change[0]);
  }
  for (std::size_t r = 0; r < rows; ++r) {
    float* sum = state.sum + r * kLanes;
    store(sum, load(sum) * load_splat(state.carry + r));
  }
}

// N vectors of scores to weights, and their sum.
template <int N>
LOCANT_INLINE Floats weigh(float* scores, Floats base, const float* numbers, Floats sum) {
  Floats w[N];
#pragma GCC unroll 4
  for (int v = 0; v < N; ++v) w[v] = load(scores + v * kLanes) - base;
  exp2_of(w, numbers);
#pragma GCC unroll 4
  for (int v = 0; v < N; ++v) store(scores + v * kLanes, w[v]);
  if constexpr (N == 4) return sum + ((w[0] + w[1]) + (w[2] + w[3]));
#pragma GCC unroll 4
  for (int v = 0; v < N; ++v) sum = sum + w[v];
  return sum;
}

inline bool softmax_tile(std::size_t rows, float* scores, std::size_t keys, SoftmaxRows& state) {
  const float* const numbers = exp2_numbers();
  Floats high[kRows];
  Ints within = ~Ints{};
  for (std::size_t r = 0; r < rows; ++r) {
    const float* s = scores + r * kTileKeys;
    const float* const end = s + keys;
    Floats high0 = splat(-__builtin_inff()), high1 = high0;
    for (; end - s >= static_cast<std::ptrdiff_t>(4 * kLanes); s += 4 * kLanes) {
      high0 = max_keeping(max_keeping(high0, load(s)), load(s + 2 * kLanes));
      high1 = max_keeping(max_keeping(high1, load(s + kLanes)), load(s + 3 * kLanes));
    }
    for (; s != end; s += kLanes) high0 = max_keeping(high0, load(s));
    high[r] = max_keeping(high0, high1);
    within &= high[r] <= load_splat(state.limit + r);
  }
  const bool rebased = !all_of(within);
  if (rebased) {
    alignas(64) float top[kSoftmaxRows] = {};
    for (std::size_t r = 0; r < rows; ++r) top[r] = first_lane(max_of_lanes(high[r]));
    rebase(rows, top, state);
  }
  for (std::size_t r = 0; r < rows; ++r) {
    float* s = scores + r * kTileKeys;
    float* const end = s + keys;
    const Floats base = load_splat(state.base + r);
    Floats sum = load(state.sum + r * kLanes);
    // Four vectors at a time where there are as many, since one alone waits for each of its steps.
    if constexpr (kVectorsOfPanel < 4) {
      for (; end - s >= static_cast<std::ptrdiff_t>(4 * kLanes); s += 4 * kLanes) sum = weigh<4>(s, base, numbers, sum);
    }
    for (; s != end; s += kPanelWidth) sum = weigh<kVectorsOfPanel>(s, base, numbers, sum);
    store(state.sum + r * kLanes, sum);
  }
  return rebased;
}

inline void soften_scores(float* scores, std::size_t count, float soft_cap) {
  const Floats cap = splat(soft_cap), inverse = splat(1.0f / soft_cap);
  for (std::size_t i = 0; i < count; i += kLanes) store(scores + i, cap * tanh_of(load(scores + i) * inverse));
}

inline void multiply_scores(float* scores, std::size_t count, float factor) {
  const Floats f = splat(factor);
  for (std::size_t i = 0; i < count; i += kLanes) store(scores + i, load(scores + i) * f);
}

inline void hide_scores(float* scores, const std::uint8_t* visible, std::size_t count) {
  const Floats hidden = splat(-__builtin_inff());
  for (std::size_t i = 0; i < count; i += kLanes) {
    Ints seen;
    for (std::size_t lane = 0; lane < kLanes; ++lane) seen[lane] = visible[i + lane];
    store(scores + i, select(seen != 0, load(scores + i), hidden));
  }
}

// Picks the function of a number of rows: a jump, then code with every loop of known length.
#define LOCANT_EACH_ROWS(call) \
  switch (rows) {              \
    LOCANT_ROWS_CASES(call)    \
    default:                   \
      break;                   \
  }
#define LOCANT_ROWS_CASES_6(call) \
  case 1: call(1); break;         \
  case 2: call(2); break;         \
  case 3: call(3); break;         \
  case 4: call(4); break;         \
  case 5: call(5); break;         \
  case 6: call(6); break;
#if defined(__AVX512F__)
#define LOCANT_ROWS_CASES(call)  \
  LOCANT_ROWS_CASES_6(call)      \
  case 7: call(7); break;        \
  case 8: call(8); break;        \
  case 9: call(9); break;        \
  case 10: call(10); break;      \
  case 11: call(11); break;      \
  case 12: call(12); break;
#else
#define LOCANT_ROWS_CASES(call) LOCANT_ROWS_CASES_6(call)
#endif

inline void product_tile(std::size_t rows, const float* packed, const float* panels, std::size_t panel_stride,
                         std::size_t panel_count, std::size_t depth, float* out, std::size_t stride, Write write,
                         std::span<const float> next) {
#define LOCANT_CALL(R) product_rows<R>(packed, panels, panel_stride, panel_count, depth, out, stride, write, next)
  LOCANT_EACH_ROWS(LOCANT_CALL)
#undef LOCANT_CALL
}

// A pass of its own: bases change seldom, and a branch among the sums would send them through memory.
inline void carry_mixture(std::size_t rows, const float* carry, std::size_t width, float* mixture) {
  for (std::size_t r = 0; r < rows; ++r) {
    const Floats c = load_splat(carry + r);
    for (std::size_t i = 0; i < width; i += kLanes) store(mixture + r * width + i, load(mixture + r * width + i) * c);
  }
}

inline void mixture_tile(std::size_t rows, const float* weights, std::size_t keys, const float* values,
                         std::size_t width, const float* carry, float* mixture, std::span<const float> next) {
  if (carry != nullptr) carry_mixture(rows, carry, width, mixture);
#define LOCANT_CALL(R) mixture_rows<R>(weights, keys, values, width, mixture, next)
  LOCANT_EACH_ROWS(LOCANT_CALL)
#undef LOCANT_CALL
}

}  // namespace LOCANT_SIMD_SET

#define LOCANT_TILES(name, set) \
  extern const Tiles name;      \
  const Tiles name{set, static_cast<std::size_t>(kRows), kLanes, product_tile, softmax_tile, \
                   mixture_tile, soften_scores, multiply_scores, hide_scores};

}  // namespace locant::simd
