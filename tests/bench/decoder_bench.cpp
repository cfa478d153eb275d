// Decode and prefill of a 135M-parameter Llama shape with random float32 weights, against what the machine can do:
// reading as many bytes once (decode) and the multiply-add peak (prefill). One thread, processor time. Prints one JSON
// object.
//
//   decode_ms, decode_gb_per_s   a step at `context` tokens; bytes are those of the weights that a step reads
//   read_gb_per_s                the same number of bytes summed once, best of three
//   prefill_ms, prefill_gflops   512 tokens from an empty cache; 2 operations per weight and token, and
//                                4 x heads x head_dim x pairs of attention, logits of the last token only
//   peak_gflops                  ten chains of multiply-adds from registers
//
//   decoder_bench [context]     the least of 3 prefills and 30 steps
//
// Natively, after `npm run build -- native`:
//   g++ -std=c++20 -O3 -Icpp -I/usr/include/eigen3 tests/bench/decoder_bench.cpp build/native/liblocant.a -o build/decoder_bench
// As WebAssembly, after `npm run build -- relaxed` (npm run toolchain -- COMMAND runs em++):
//   em++ -std=c++20 -O3 -msimd128 -mrelaxed-simd -fwasm-exceptions -Icpp -isystem /usr/include/eigen3
//     tests/bench/decoder_bench.cpp build/wasm/relaxed/liblocant.a -sSTACK_SIZE=1MB -sALLOW_MEMORY_GROWTH
//     -sMAXIMUM_MEMORY=4GB -sENVIRONMENT=node -sEXIT_RUNTIME -o build/decoder_bench.cjs
//   node --experimental-wasm-relaxed-simd build/decoder_bench.cjs        (the option is not needed from Node 22)
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#ifdef __wasm__
#include <emscripten.h>
#include <wasm_simd128.h>
#endif

#include "locant/decoder/decoder.hpp"
#include "locant/decoder/llama.hpp"
#include "locant/simd/tiles.hpp"
#include "processor_time.hpp"

namespace {

// Seconds: other work on the machine only ever adds to a figure, so the least is taken.
double now() { return processor_time() / 1000; }

volatile float sink;

using Vector = float __attribute__((vector_size(16)));

// Small and called often: an engine replaces its first code only between calls.
__attribute__((noinline)) float total(const float* p, std::size_t floats) {
  Vector sums[8] = {};
  for (std::size_t i = 0; i + 32 <= floats; i += 32) {
    for (int k = 0; k < 8; ++k) sums[k] += *reinterpret_cast<const Vector*>(p + i + 4 * static_cast<std::size_t>(k));
  }
  float sum = 0;
  for (const Vector& s : sums) sum += s[0] + s[1] + s[2] + s[3];
  return sum;
}

Vector multiply_add(Vector a, Vector b, Vector c) {
#if defined(__wasm_relaxed_simd__)
  return (Vector)wasm_f32x4_relaxed_madd((v128_t)a, (v128_t)b, (v128_t)c);
#else
  return a * b + c;
#endif
}

__attribute__((noinline)) float chains(int count, float x) {
  Vector sums[10], b = Vector{} + 0.999f, c = Vector{} + 1e-3f;
  for (int k = 0; k < 10; ++k) sums[k] = Vector{} + (x + static_cast<float>(k));
  for (int i = 0; i < count; ++i) {
    for (Vector& s : sums) s = multiply_add(s, b, c);
  }
  float sum = 0;
  for (const Vector& s : sums) sum += s[0] + s[1] + s[2] + s[3];
  return sum;
}

double peak_gflops() {
  double best = 0;
  for (int round = 0; round < 20; ++round) {
    const double start = now();
    for (int i = 0; i < 20; ++i) sink = chains(20000, 0.5f + static_cast<float>(i));
    best = std::max(best, 20 * 20000.0 * 10 * 4 * 2 / (now() - start) / 1e9);
  }
  return best;
}

double least(const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); }

}  // namespace

int main(int argc, char** argv) {
  const int context = argc > 1 ? std::atoi(argv[1]) : 512;
  locant::LlamaParameters p;
  p.vocab_size = 49152, p.hidden_size = 576, p.intermediate_size = 1536, p.num_hidden_layers = 30;
  p.num_attention_heads = 9, p.num_key_value_heads = 3, p.embeddings = locant::Embeddings::kTied, p.rope_theta = 100000;
  const locant::DecoderConfig config = locant::llama_config(p);
  double start = now();
  locant::Decoder decoder(config, locant::random_weights(config, 1));
  const double made = now() - start;
  decoder.prepare(2048);
  const std::size_t parameters = decoder.parameters();

  std::vector<std::int32_t> tokens(static_cast<std::size_t>(context));
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * 97 % 49152);
  std::vector<float> logits(49152);
  const std::vector<std::size_t> last = {tokens.size() - 1};
  std::vector<double> prefill, decode;
  locant::Cache cache = decoder.make_cache(1, locant::Capacity::kFixed, 2048);
  for (int round = 0; round < 4; ++round) {
    cache.clear(0);
    start = now();
    decoder.forward(tokens, locant::Positions::range(context), cache, last, logits);
    if (round > 0) prefill.push_back(now() - start);
  }
  const std::vector<std::size_t> first = {0};
  const std::vector<std::int32_t> one = {1};
  for (int step = 0; step < 34; ++step) {
    const std::int32_t token[] = {step};
    start = now();
    decoder.forward(token, cache.next(one), cache, first, logits);
    if (step >= 4) decode.push_back(now() - start);
  }
  sink = logits[0];

  const double bytes = static_cast<double>(parameters) * 4;
  double read = 0;
  {
    std::vector<float> buffer(parameters, 1.0f);
    for (int round = 0; round < 4; ++round) {
      start = now();
      float sum = 0;
      constexpr std::size_t kPart = 1 << 20;
      for (std::size_t at = 0; at + kPart <= buffer.size(); at += kPart) sum += total(buffer.data() + at, kPart);
      sink = sum;
      read = std::max(read, bytes / (now() - start) / 1e9);
    }
  }
  const double matrices = static_cast<double>(parameters) - 49152.0 * 576;
  const double pairs = context * (context + 1.0) / 2;
  const double operations = 2 * matrices * context + 2 * 49152.0 * 576 + 30 * 4 * 9 * 64 * pairs;
  const double peak = peak_gflops(), gflops = operations / least(prefill) / 1e9, rate = bytes / least(decode) / 1e9;
  std::printf("{\"set\": \"%s\", \"parameters\": %zu, \"context\": %d, \"made_s\": %.2f, \"decode_ms\": %.2f, \"decode_gb_per_s\": %.2f, "
              "\"read_gb_per_s\": %.2f, \"decode_of_read\": %.3f, \"prefill_ms\": %.1f, \"prefill_gflops\": %.2f, \"peak_gflops\": %.2f, "
              "\"prefill_of_peak\": %.3f}\n",
              std::string(locant::simd::to_string(locant::simd::tiles().set)).c_str(), parameters, context, made,
              1e3 * least(decode), rate, read, rate / read, 1e3 * least(prefill), gflops, peak, gflops / peak);
}
