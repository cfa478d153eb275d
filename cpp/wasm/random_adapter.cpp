#include "adapters.hpp"
#include "locant/decoder/random.hpp"

namespace locant::wasm {

void random_numbers(double seed, const std::string& stream, Address out, std::size_t count) noexcept {
  const CounterRandom numbers(static_cast<std::uint64_t>(seed), stream_of(stream));
  const auto values = floats(out, count);
  for (std::size_t i = 0; i < count; ++i) values[i] = numbers.symmetric(i);
}

}  // namespace locant::wasm
