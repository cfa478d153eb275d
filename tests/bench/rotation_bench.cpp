// Rotation of tensors larger than the last-level cache, against a copy of the same bytes.
//
//   rotation_bench [megabytes per tensor, default 600]
//
// Tables are built before. A round copies, then turns to another buffer, then turns in place; each line is the least
// processor time of some rounds, since other work on the machine only ever adds to it. The unit of the ratios is
// memcpy from x to out. Building a table is measured too.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "locant/rotary/rotation.hpp"
#include "locant/rotary/rules.hpp"
#include "processor_time.hpp"

using namespace locant;

namespace {

template <class Work>
void measure(double& best, Work&& work) {
  const double start = processor_time();
  work();
  best = std::min(best, processor_time() - start);
}

}  // namespace

int main(int argc, char** argv) {
  const long megabytes = argc > 1 ? std::atol(argv[1]) : 600;
  const std::int32_t head_dim = 128;
  for (const std::int32_t heads : {32, 8, 1}) {
    const auto tokens = static_cast<std::int32_t>(megabytes * 1000000 / (4L * heads * head_dim));
    const std::size_t size = static_cast<std::size_t>(tokens) * static_cast<std::size_t>(heads * head_dim);
    std::vector<float> x(size, 1.5f), out(size, 0.0f);
    const Positions positions = Positions::range(tokens);
    std::printf("%d tokens x %d heads x %d, %.0f MB\n", tokens, heads, head_dim, static_cast<double>(size) * 4e-6);
    for (const Pairing pairing : {Pairing::kHalfSplit, Pairing::kInterleaved}) {
      for (const std::int32_t width : {128, 64}) {
        Rotation rotation(resolve(RotaryShape{width, 10000, pairing}), head_dim);
        rotation.prepare(tokens);
        double copy = 1e300, apart = 1e300, in_place = 1e300;
        for (int round = 0; round < 7; ++round) {
          measure(copy, [&] { std::memcpy(out.data(), x.data(), size * sizeof(float)); });
          measure(apart, [&] { rotation.apply(x, positions, heads, RotationRole::kQuery, out); });
          measure(in_place, [&] { rotation.apply(out, positions, heads, RotationRole::kQuery, out); });
        }
        std::printf(
            "  %-11s width %3d  copy %6.1f ms  to another buffer %6.1f ms = %.2f copies  in place %6.1f ms = %.2f "
            "copies\n",
            to_string(pairing), width, copy, apart, apart / copy, in_place, in_place / copy);
      }
    }
  }
  double table = 1e300;
  for (int round = 0; round < 5; ++round) {
    measure(table, [] {
      Rotation rotation(resolve(RotaryShape{128}), 128);
      rotation.prepare(4096);
    });
  }
  std::printf("table of 4096 positions x 64 pairs: %.2f ms (%.1f ns per pair)\n", table, table * 1e6 / (4096 * 64));
}
