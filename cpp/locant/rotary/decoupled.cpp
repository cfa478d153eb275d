#include "locant/rotary/decoupled.hpp"

#include <algorithm>

namespace locant {
namespace {

// The plan on a whole head, once it is known to hold on the rotary part.
RotaryPlan behind_plain_part(RotaryPlan plan, std::int32_t plain_dim, std::int32_t rotary_dim) {
  require_plan("DecoupledRotation", plan, rotary_dim);
  plan.start += plain_dim;
  return plan;
}

std::int32_t whole(std::int32_t plain_dim, std::int32_t rotary_dim) {
  require_range("DecoupledRotation", "the plain width", plain_dim, 0, 65535);
  require_range("DecoupledRotation", "the rotary width", rotary_dim, 2, 65536 - plain_dim);
  return plain_dim + rotary_dim;
}

}  // namespace

DecoupledRotation::DecoupledRotation(const RotaryPlan& plan, std::int32_t plain_dim, std::int32_t rotary_dim)
    : query_(behind_plain_part(plan, plain_dim, rotary_dim), whole(plain_dim, rotary_dim)), key_(plan, rotary_dim) {}

void DecoupledRotation::prepare(std::int64_t count) {
  query_.prepare(count);
  key_.prepare(count);
}

MethodDescription DecoupledRotation::describe() const {
  MethodDescription d = locant::describe(key_.plan());
  d.name = sentence("decoupled rotary (MLA), ", d.name);
  d.parameters.push_back(parameter("plain width", plain_dim()));
  d.parameters.push_back(parameter("rotary width", rotary_dim()));
  d.formula = sentence("[plain; R(position) rotary], the rotary part of a key shared by all heads; ", d.formula);
  d.source = sentence("DeepSeek-AI 2024 (DeepSeek-V2), section 2.1.3; ", d.source);
  return d;
}

void DecoupledRotation::apply_query(std::span<const float> q, const Positions& positions, std::int32_t heads,
                                    std::span<float> out) const {
  query_.apply(q, positions, heads, RotationRole::kQuery, out);
}

void DecoupledRotation::join_key(std::span<const float> plain, std::span<const float> shared,
                                 const Positions& positions, std::int32_t heads, std::span<float> out) const {
  constexpr const char* kCall = "join_key";
  require_range(kCall, "heads", heads, 1, 65536);
  const auto tokens = static_cast<std::int64_t>(positions.tokens());
  require_size(kCall, "plain keys", plain.size(), checked_product(kCall, "plain keys", {tokens, heads, plain_dim()}),
               sentence(tokens, " tokens x ", heads, " heads x ", plain_dim()));
  require_size(kCall, "shared keys", shared.size(), checked_product(kCall, "shared keys", {tokens, rotary_dim()}),
               sentence(tokens, " tokens x ", rotary_dim()));
  require_size(kCall, "out", out.size(), checked_product(kCall, "out", {tokens, heads, head_dim()}),
               sentence(tokens, " tokens x ", heads, " heads x ", head_dim()));
  std::vector<float> turned(shared.size());
  key_.apply(shared, positions, 1, RotationRole::kKey, turned);
  const auto plain_width = static_cast<std::size_t>(plain_dim()), rotary_width = static_cast<std::size_t>(rotary_dim());
  float* to = out.data();
  const float* from = plain.data();
  for (std::size_t t = 0; t < positions.tokens(); ++t) {
    for (std::int32_t h = 0; h < heads; ++h) {
      to = std::copy_n(from, plain_width, to);
      to = std::copy_n(turned.data() + t * rotary_width, rotary_width, to);
      from += plain_width;
    }
  }
}

}  // namespace locant
