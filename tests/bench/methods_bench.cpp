// Doors 1 and 3 against a copy of the same bytes.
//
//   methods_bench
//
// Door 1: adding to 4096 x 768, tables already built (the output is another array, so three streams move where a
// copy moves two). Door 3: score terms over 64 queries x 4096 keys of one head, in tiles of 64 x 256 as the
// kernel asks for them; "ns a cell" beside that of copying the scores. Each figure is the least processor time
// of some rounds, since other work on the machine only ever adds to it.
#include <cstdio>
#include <cstring>
#include <vector>

#include "locant/absolute/learned_table.hpp"
#include "locant/absolute/sinusoidal.hpp"
#include "locant/bias/alibi.hpp"
#include "locant/bias/deberta.hpp"
#include "locant/bias/decay.hpp"
#include "locant/bias/shaw.hpp"
#include "locant/bias/t5.hpp"
#include "locant/bias/transformer_xl.hpp"
#include "processor_time.hpp"

using namespace locant;

namespace {

// The work is done `times` times a round, so that a round is long against the clock's steps.
template <class Work>
double fastest(int times, Work&& work) {
  double best = 1e300;
  for (int round = 0; round < 25; ++round) {
    const double start = processor_time();
    for (int i = 0; i < times; ++i) work();
    const double took = (processor_time() - start) / times;
    if (took < best) best = took;
  }
  return best;
}

constexpr std::size_t kRows = 64, kTile = 256, kKeys = 4096, kDim = 64;
std::vector<std::int32_t> query_position(kRows), key_position(kKeys);
std::vector<float> scores(kRows* kTile), query(kRows* kDim, 0.1f), keys(kKeys* kDim, 0.1f);

void measure(const char* name, int times, const ScoreTerm& term) {
  const double took = fastest(times, [&] {
    for (std::size_t first = 0; first < kKeys; first += kTile) {
      ScoreTile tile;
      tile.query_rows = kRows;
      tile.keys = kTile;
      tile.first_key = first;
      tile.query_position = query_position.data();
      tile.key_position = key_position.data() + first;
      tile.query = query.data();
      tile.key = keys.data() + first * kDim;
      tile.query_stride = tile.key_stride = kDim;
      tile.head_dim = kDim;
      term.add(tile, scores.data(), kTile);
    }
  });
  std::printf("  %-24s %7.3f ms  %6.2f ns a cell\n", name, took, took * 1e6 / (kRows * kKeys));
}

std::vector<float> filled(std::size_t count) { return std::vector<float>(count, 0.1f); }

}  // namespace

int main() {
  const std::int32_t tokens = 4096, width = 768;
  const std::size_t size = static_cast<std::size_t>(tokens) * width;
  std::vector<float> x(size, 1.5f), out(size);
  const Positions positions = Positions::range(tokens);
  Sinusoidal sinusoidal({.width = width});
  const double build = fastest(1, [&] { Sinusoidal({.width = width}).prepare(tokens); });
  sinusoidal.prepare(tokens);
  const LearnedTable table({tokens, width, {}, PastEnd::kError, 0}, x);
  const double copy = fastest(3, [&] { std::memcpy(out.data(), x.data(), size * sizeof(float)); });
  std::printf("4096 x 768: copy %.3f ms, building the sinusoids %.1f ms\n", copy, build);
  const auto line = [&](const char* name, double took) { std::printf("  %-24s %7.3f ms  %.2f copies\n", name, took, took / copy); };
  line("sinusoids added", fastest(3, [&] { sinusoidal.add(x, positions, out); }));
  line("sinusoids, in place", fastest(3, [&] { sinusoidal.add(out, positions, out); }));
  line("sinusoids encoded", fastest(3, [&] { sinusoidal.encode(positions, out); }));
  line("learned table added", fastest(3, [&] { table.add(x, positions, out); }));

  for (std::size_t i = 0; i < kKeys; ++i) key_position[i] = static_cast<std::int32_t>(i);
  for (std::size_t i = 0; i < kRows; ++i) query_position[i] = static_cast<std::int32_t>(4000 + i);
  std::vector<float> other(scores.size());
  const double score_copy = fastest(200, [&] { std::memcpy(other.data(), scores.data(), scores.size() * sizeof(float)); });
  std::printf("64 queries x 4096 keys, head_dim 64: copying a tile of scores %.2f ns a cell\n", score_copy * 1e6 / (kRows * kTile));
  measure("ALiBi, causal", 50, Alibi(alibi_slopes(8)));
  measure("ALiBi, symmetric", 50, Alibi(alibi_slopes(8), AlibiForm::kSymmetric));
  measure("T5, bidirectional", 100, T5Bias(T5Buckets(T5Direction::kBidirectional), 1, filled(32)));
  measure("KERPLE, logarithmic", 50, Kerple(KerpleKernel::kLogarithmic, {1}, {1}));
  measure("Sandwich, width 128", 50, Sandwich(1, 128));
  measure("Shaw, K = 16", 20, ShawKeys(ShawTable({16, 1, kDim, ShawSides::kBoth}, filled(33 * kDim))));
  measure("Shaw, K = 128", 20, ShawKeys(ShawTable({128, 1, kDim, ShawSides::kBoth}, filled(257 * kDim))));
  measure("Transformer-XL, kept", 3, TransformerXl({.heads = 1, .head_dim = kDim, .model_width = 64, .kept_before = 4200},
                                                   filled(64 * kDim), filled(kDim), filled(kDim)));
  measure("DeBERTa, c2p and p2c", 3, Deberta(DebertaBuckets({256, 512, DebertaFar::kHuggingFace}), 1, kDim,
                                             filled(512 * kDim), filled(512 * kDim)));
}
