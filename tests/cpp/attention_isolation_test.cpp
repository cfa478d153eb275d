// What may not be seen may not be felt: pokes of hidden keys and values.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "locant/attention/attention.hpp"
#include "locant/simd/tiles.hpp"
#include "support.hpp"

using namespace locant;
using locant::test::random_values;

TEST_CASE("attention: what a hidden key or value holds changes no bit, NaN and infinity included, in every set") {
  const simd::InstructionSet before = simd::tiles().set;
  for (const simd::InstructionSet set : simd::available_sets()) {
    simd::force_set(set);
    INFO("instruction set " << std::string(simd::to_string(set)));
    for (const std::int32_t tokens : {5, 17, 65, 130}) {
      for (const std::int32_t dim : {4, 17, 64}) {
        AttentionConfig config;
        config.shape = {4, 2, dim, dim};
        const Attention attention(config);
        const auto n = static_cast<std::size_t>(tokens), d = static_cast<std::size_t>(dim);
        const auto q = random_values(n * 4 * d, 1);
        auto k = random_values(n * 2 * d, 2), v = random_values(n * 2 * d, 3);
        // The last token is seen by itself alone, the first two are padding.
        std::vector<std::uint8_t> valid(n, 1);
        valid[0] = valid[1] = 0;
        const Positions positions = Positions::from_padding_mask(1, tokens, valid);
        std::vector<float> clean(n * 4 * d), poked(n * 4 * d);
        attention.attend(q, k, v, positions, clean);
        for (const float poison : {NAN, INFINITY, 1e30f}) {
          for (const std::size_t token : {std::size_t{0}, std::size_t{1}, n - 1}) {
            std::fill_n(k.begin() + static_cast<std::ptrdiff_t>(token * 2 * d), 2 * d, poison);
            std::fill_n(v.begin() + static_cast<std::ptrdiff_t>(token * 2 * d), 2 * d, poison);
          }
          attention.attend(q, k, v, positions, poked);
          CHECK(std::equal(clean.begin(), clean.end() - static_cast<std::ptrdiff_t>(4 * d), poked.begin()));
        }
      }
    }
  }
  simd::force_set(before);
}
