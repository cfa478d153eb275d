// The native side of the bench: reads one request a line, answers with one line, so that the harness can take
// turns with its peers.
//
//   set NAME                                 -> ok | the sets that there are, best first
//   prefill HEADS KV_HEADS HEAD_DIM T FOLDER -> ready     reads q.f32, k.f32, v.f32 in FOLDER
//   run                                      -> milliseconds of one causal prefill with rotation
//   output                                   -> ready     writes out.f32 in FOLDER
//   peak                                     -> GFLOP/s of multiply-adds, in registers
//   clock wall|processor                     -> ok        what milliseconds are counted by
#include <chrono>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "locant/attention/attention.hpp"
#include "locant/rotary/rules.hpp"
#include "locant/simd/tiles.hpp"

float multiply_add_sse2(std::size_t, std::size_t, float, float, float);
float multiply_add_avx2(std::size_t, std::size_t, float, float, float);
float multiply_add_avx512(std::size_t, std::size_t, float, float, float);

namespace {

using namespace locant;

bool by_processor_time = false;

double milliseconds() {
  if (by_processor_time) return 1000.0 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<float> read_file(const std::string& path, std::size_t count) {
  std::vector<float> x(count);
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(x.data()), static_cast<std::streamsize>(count * sizeof(float)));
  if (!file) fail(ErrorCode::kFormat, "bench: ", path, " could not be read");
  return x;
}

double peak() {
  auto* chains = multiply_add_sse2;
  double lanes = 4;
  if (simd::tiles().set == simd::InstructionSet::kAvx2) chains = multiply_add_avx2, lanes = 8;
  if (simd::tiles().set == simd::InstructionSet::kAvx512) chains = multiply_add_avx512, lanes = 16;
  static volatile float seed[3] = {1.0f, 0.999f, 1e-3f};
  static volatile float sink;
  double best = 0;
  for (int i = 0; i < 40; ++i) {
    for (const std::size_t sums : {8u, 10u, 12u}) {
      constexpr std::size_t kSteps = 100000;
      const double start = milliseconds();
      sink = chains(sums, kSteps, seed[0], seed[1], seed[2]);
      best = std::max(best, 2.0 * lanes * static_cast<double>(sums * kSteps) / (milliseconds() - start) / 1e6);
    }
  }
  (void)sink;
  return best;
}

struct Prefill {
  std::string folder;
  std::unique_ptr<Attention> attention;
  std::vector<float> q, k, v, out;
  Positions positions;
};

}  // namespace

int main() {
  Prefill work;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream request(line);
    std::string what;
    request >> what;
    try {
      if (what == "set") {
        std::string name;
        request >> name;
        std::string all;
        for (const simd::InstructionSet set : simd::available_sets()) {
          if (simd::to_string(set) == name) simd::force_set(set);
          all += std::string(all.empty() ? "" : " ") + std::string(simd::to_string(set));
        }
        std::cout << (name.empty() ? all : "ok");
      } else if (what == "prefill") {
        std::int32_t heads = 0, kv_heads = 0, head_dim = 0, tokens = 0;
        request >> heads >> kv_heads >> head_dim >> tokens >> work.folder;
        AttentionConfig config;
        config.shape = {heads, kv_heads, head_dim, head_dim};
        RotaryShape shape;
        shape.width = head_dim;
        auto rotation = std::make_shared<Rotation>(resolve(shape), head_dim);
        rotation->prepare(tokens);
        config.rotation = rotation;
        const auto size = [&](std::int32_t h) { return static_cast<std::size_t>(tokens) * static_cast<std::size_t>(h * head_dim); };
        work.q = read_file(work.folder + "/q.f32", size(heads));
        work.k = read_file(work.folder + "/k.f32", size(kv_heads));
        work.v = read_file(work.folder + "/v.f32", size(kv_heads));
        work.out.assign(size(heads), 0.0f);
        work.positions = Positions::range(tokens);
        work.attention = std::make_unique<Attention>(config);
        std::cout << "ready";
      } else if (what == "run") {
        const double start = milliseconds();
        work.attention->attend(work.q, work.k, work.v, work.positions, work.out);
        std::cout << milliseconds() - start;
      } else if (what == "output") {
        std::ofstream(work.folder + "/out.f32", std::ios::binary)
            .write(reinterpret_cast<const char*>(work.out.data()),
                   static_cast<std::streamsize>(work.out.size() * sizeof(float)));
        std::cout << "ready";
      } else if (what == "clock") {
        std::string name;
        request >> name;
        by_processor_time = name == "processor";
        std::cout << "ok";
      } else if (what == "peak") {
        std::cout << peak();
      } else {
        std::cout << "error: unknown request " << what;
      }
    } catch (const std::exception& error) {
      std::cout << "error: " << error.what();
    }
    std::cout << std::endl;
  }
}
