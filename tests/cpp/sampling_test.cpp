#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "locant/decoder/sampling.hpp"
#include "vectors.hpp"

using namespace locant;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<int> counts(const SamplingConfig& config, const std::vector<float>& logits, int draws) {
  Sampler sampler(config);
  std::vector<int> out(logits.size());
  for (int i = 0; i < draws; ++i) ++out[static_cast<std::size_t>(sampler.sample(logits, 0, static_cast<std::uint64_t>(i)))];
  return out;
}

std::vector<std::int32_t> tokens(Sampler sampler, const std::vector<float>& logits) {
  std::vector<std::int32_t> out;
  for (const auto& candidate : sampler.candidates(logits)) out.push_back(candidate.token);
  return out;
}

ErrorCode code_of(auto&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  FAIL("no error");
  return ErrorCode::kUnsupported;
}

}  // namespace

TEST_CASE("sampling: greedy takes the largest logit, and the lowest id among equals") {
  CHECK(greedy_token(std::vector<float>{1, 3, 2, 3}) == 1);
  CHECK(greedy_token(std::vector<float>{-kInfinity, -5, -kInfinity}) == 1);
  CHECK(greedy_token(std::vector<float>{0.0f, -0.0f}) == 0);
  CHECK(Sampler({}).sample(std::vector<float>{1, 3, 2, 3}, 9, 9) == 1);
}

TEST_CASE("sampling: NaN, +infinity, nothing allowed and nothing at all are errors, whatever the method") {
  const std::vector<std::vector<float>> bad = {{1, kNaN}, {kNaN, 1}, {0, kInfinity}, {-kInfinity, -kInfinity}, {}};
  for (const auto& logits : bad) {
    CHECK(code_of([&] { greedy_token(logits); }) == ErrorCode::kArgument);
    for (const SamplingConfig config : {SamplingConfig{}, SamplingConfig{1.0}, SamplingConfig{1.0, 1}, SamplingConfig{1.0, 0, 0.5}}) {
      CHECK(code_of([&] { Sampler(config).sample(logits, 0, 0); }) == ErrorCode::kArgument);
    }
  }
}

TEST_CASE("sampling: parameters out of range are errors") {
  for (const double temperature : {-1.0, static_cast<double>(kInfinity), static_cast<double>(kNaN)}) {
    CHECK(code_of([&] { Sampler({temperature}); }) == ErrorCode::kArgument);
  }
  CHECK(code_of([] { Sampler({1.0, -1}); }) == ErrorCode::kArgument);
  for (const double top_p : {0.0, -0.5, 1.0001, static_cast<double>(kNaN)}) {
    CHECK(code_of([&] { Sampler({1.0, 0, top_p}); }) == ErrorCode::kArgument);
  }
}

TEST_CASE("sampling: draws have the softmax's distribution at every temperature") {
  const std::vector<float> logits = {0.5f, -1.0f, 2.0f, 0.0f, -kInfinity};
  constexpr int kDraws = 40000;
  for (const double temperature : {0.5, 1.0, 3.0}) {
    const auto seen = counts({temperature, 0, 1, 11}, logits, kDraws);
    double total = 0;
    for (const float logit : logits) total += std::exp(logit / temperature);
    double chi_square = 0;
    for (std::size_t i = 0; i + 1 < logits.size(); ++i) {
      const double expected = kDraws * std::exp(logits[i] / temperature) / total;
      chi_square += (seen[i] - expected) * (seen[i] - expected) / expected;
    }
    CHECK(seen[4] == 0);
    CHECK(chi_square < 16.27);  // 3 degrees of freedom, 0.1 %; the draws are fixed, so this cannot be bad luck
  }
}

TEST_CASE("sampling: top_k keeps the k best, ties by lower id") {
  const std::vector<float> logits = {1, 2, 3, 2, 2};
  CHECK(tokens(Sampler({1.0, 1}), logits) == std::vector<std::int32_t>{2});
  CHECK(tokens(Sampler({1.0, 3}), logits) == std::vector<std::int32_t>{2, 1, 3});
  CHECK(tokens(Sampler({1.0, 99}), logits) == std::vector<std::int32_t>{2, 1, 3, 4, 0});
  CHECK(tokens(Sampler({1.0, 0}), logits) == std::vector<std::int32_t>{2, 1, 3, 4, 0});
}

TEST_CASE("sampling: top_p keeps the fewest that reach the share, at least one, after top_k") {
  // Shares 1/2, 1/4, 1/8, 1/8.
  const std::vector<float> logits = {std::log(2.0f), std::log(1.0f), std::log(4.0f), std::log(1.0f)};
  CHECK(tokens(Sampler({1.0, 0, 0.01}), logits) == std::vector<std::int32_t>{2});
  CHECK(tokens(Sampler({1.0, 0, 0.49}), logits) == std::vector<std::int32_t>{2});
  CHECK(tokens(Sampler({1.0, 0, 0.51}), logits) == std::vector<std::int32_t>{2, 0});
  CHECK(tokens(Sampler({1.0, 0, 0.80}), logits) == std::vector<std::int32_t>{2, 0, 1});
  CHECK(tokens(Sampler({1.0, 0, 1.0}), logits) == std::vector<std::int32_t>{2, 0, 1, 3});
  // Of the two best alone, the first holds 2/3.
  CHECK(tokens(Sampler({1.0, 2, 0.65}), logits) == std::vector<std::int32_t>{2});
  double share = 0;
  Sampler sampler({1.0, 0, 0.8});
  for (const auto& candidate : sampler.candidates(logits)) share += candidate.share;
  CHECK(std::abs(share - 1) < 1e-12);
}

TEST_CASE("sampling: what is kept and its shares equal transformers' warpers, but for equals at the edge of top_k") {
  const auto vectors = test::load_vectors("sampling");
  int exact = 0, fewer = 0;
  for (const auto& c : vectors.at("cases")) {
    const std::string name = c.at("name");
    CAPTURE(name);
    const auto& parameters = c.at("parameters");
    const auto logits = test::floats_of(c.at("inputs").at("logits"));
    const auto kept = test::values_of<int>(c.at("expected").at("kept"));
    const auto shares = test::doubles_of(c.at("expected").at("probabilities"));
    SamplingConfig config;
    config.temperature = test::number_or(parameters, "temperature", 1.0);
    config.top_k = test::number_or(parameters, "top_k", 0);
    config.top_p = test::number_or(parameters, "top_p", 1.0);
    Sampler sampler(config);
    const auto candidates = sampler.candidates(logits);
    std::size_t expected = 0;
    for (const int k : kept) expected += static_cast<std::size_t>(k);
    if (config.top_k > 0 && expected > static_cast<std::size_t>(config.top_k)) {
      // All of these are equal to the k-th; we keep exactly k, those of lower id.
      CHECK(candidates.size() == static_cast<std::size_t>(config.top_k));
      for (const auto& candidate : candidates) CHECK(kept[static_cast<std::size_t>(candidate.token)] == 1);
      ++fewer;
      continue;
    }
    CHECK(candidates.size() == expected);
    for (const auto& candidate : candidates) {
      CHECK(kept[static_cast<std::size_t>(candidate.token)] == 1);
      // The exponent is rounded to float32 before exp: up to 88 * 6e-8 of the share.
      CHECK(std::abs(candidate.share - shares[static_cast<std::size_t>(candidate.token)]) < 1e-6);
    }
    ++exact;
  }
  CHECK(exact >= 40);
  CHECK(fewer >= 1);
}

TEST_CASE("sampling: a draw depends on seed, stream and index, and on nothing that went before") {
  const std::vector<float> logits(50, 0.0f), other(50, 1.0f);
  Sampler a({1.0, 0, 1, 5}), b({1.0, 0, 1, 5}), c({1.0, 0, 1, 6});
  int same_seed = 0, other_seed = 0, other_stream = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const auto token = a.sample(logits, 0, i);
    b.sample(other, 3, 1000 + i);
    same_seed += token == b.sample(logits, 0, i);
    other_seed += token == c.sample(logits, 0, i);
    other_stream += token == b.sample(logits, 1, i);
  }
  CHECK(same_seed == 200);
  CHECK(other_seed < 20);
  CHECK(other_stream < 20);
}

TEST_CASE("sampling: the first draws of seed 1 are these in every build") {
  Sampler sampler({0.8, 20, 0.95, 1});
  std::vector<float> logits;
  for (int i = 0; i < 64; ++i) logits.push_back(static_cast<float>((i * 37) % 64) * 0.125f);
  std::vector<std::int32_t> drawn;
  for (std::uint64_t i = 0; i < 8; ++i) drawn.push_back(sampler.sample(logits, 0, i));
  CHECK(drawn == std::vector<std::int32_t>{24, 57, 12, 10, 38, 50, 12, 38});
}

TEST_CASE("sampling: extreme temperatures stay finite") {
  const std::vector<float> logits = {1000.0f, -1000.0f, 999.0f};
  CHECK(counts({1e-300}, logits, 20)[0] == 20);
  const auto flat = counts({1e300, 0, 1, 2}, logits, 3000);
  for (const int seen : flat) CHECK(seen > 800);
}
