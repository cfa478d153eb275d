#include "locant/rotary/rotation.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <utility>

#include "locant/memory.hpp"
#include "locant/rotary/turn.hpp"

namespace locant {
namespace {

// Pairs whose row lies on the stack at a time where it cannot be read from the table.
constexpr std::size_t kBlock = 256;
constexpr std::size_t kMostAxes = 8;

detail::TurnShape shape_of(const RotaryPlan& plan, std::int32_t head_dim) {
  return {plan.pairing, static_cast<std::size_t>(head_dim), static_cast<std::size_t>(plan.start),
          plan.inverse_frequencies.size()};
}

double reach_of(const RotaryPlan& plan, std::span<const double> log_zeta) {
  double steepest = 0;
  for (const double l : log_zeta) steepest = std::max(steepest, std::abs(l));
  if (steepest == 0) return std::numeric_limits<double>::infinity();
  // factor * scale and factor / scale both within the normal numbers of float32.
  const double up = std::log(static_cast<double>(std::numeric_limits<float>::max()) / plan.attention_factor);
  const double down = std::log(plan.attention_factor / static_cast<double>(std::numeric_limits<float>::min()));
  return std::floor(std::min(up, down) / steepest);
}

}  // namespace

Rotation::Rotation(RotaryPlan plan, std::int32_t head_dim) : plan_(std::move(plan)), head_dim_(head_dim) {
  require_plan("Rotation", plan_, head_dim);
  const auto pairs = plan_.inverse_frequencies.size();
  offset_.resize(pairs);
  for (std::size_t i = 0; i < pairs; ++i) offset_[i] = plan_.axis_offsets.empty() ? 0 : plan_.axis_offsets[axis_of(i)];
  if (plan_.xpos) {
    log_zeta_.resize(pairs);
    for (std::size_t i = 0; i < pairs; ++i) {
      const double along = static_cast<double>(i) / static_cast<double>(pairs);
      log_zeta_[i] = std::log((along + plan_.xpos->gamma) / (1 + plan_.xpos->gamma)) / plan_.xpos->scale_base;
    }
  }
  xpos_reach_ = reach_of(plan_, log_zeta_);
}

const std::vector<float>& Rotation::table(RotationRole role) const noexcept {
  return role == RotationRole::kKey && plan_.xpos ? key_table_ : query_table_;
}

// Every row comes from here, whether it is kept in the table or not.
void Rotation::compute(double position, std::size_t pair, RotationRole role, float& cos, float& sin) const noexcept {
  const double angle = (position + offset_[pair]) * plan_.inverse_frequencies[pair];
  double factor = plan_.attention_factor;
  if (plan_.xpos) {
    const double exponent = log_zeta_[pair] * (position - plan_.xpos->center);
    factor *= std::exp(role == RotationRole::kQuery ? exponent : -exponent);
  }
  cos = static_cast<float>(factor * std::cos(angle));
  sin = static_cast<float>(factor * std::sin(angle));
}

void Rotation::prepare(std::int64_t count) {
  constexpr const char* kCall = "prepare";
  require_range(kCall, "count", count, 0, std::int64_t{kMaxPosition} + 1);
  if (count <= prepared_) return;
  for (std::int32_t axis = 0; axis < plan_.axes(); ++axis) {
    require_reach(kCall, axis, 0);
    require_reach(kCall, axis, static_cast<std::int32_t>(count - 1));
  }
  const std::size_t pairs = plan_.inverse_frequencies.size();
  const std::size_t size = checked_product(kCall, "the table", {count, 2, static_cast<std::int64_t>(pairs)});
  const auto grown = [&](const std::vector<float>& kept, RotationRole role) {
    std::vector<float> table;
    table.reserve(size);
    table = kept;  // fits what is reserved
    table.resize(size);
    for (std::int64_t p = prepared_; p < count; ++p) {
      float* row = table.data() + static_cast<std::size_t>(p) * 2 * pairs;
      for (std::size_t i = 0; i < pairs; ++i) compute(static_cast<double>(p), i, role, row[i], row[pairs + i]);
    }
    return table;
  };
  const double bytes = static_cast<double>(size) * sizeof(float) * (plan_.xpos ? 2 : 1);
  with_memory(kCall, bytes, [&] {
    std::vector<float> query = grown(query_table_, RotationRole::kQuery);
    if (plan_.xpos) key_table_ = grown(key_table_, RotationRole::kKey);
    query_table_ = std::move(query);
  });
  prepared_ = count;
}

void Rotation::require_reach(const char* call, std::int32_t axis, std::int32_t position) const {
  if (!plan_.xpos) return;
  const double distance = std::abs(position - plan_.xpos->center);
  if (distance <= xpos_reach_) return;
  throw Error(ErrorCode::kPositionRange,
              sentence(call, ": position ", position, " on axis ", axis, " lies ", distance, " from the centre ",
                       plan_.xpos->center, " of xPos, whose scale leaves float32 beyond ", xpos_reach_),
              position, xpos_reach_);
}

void Rotation::fill(const Token& token, RotationRole role, std::size_t first, std::size_t count, float* cos,
                    float* sin) const noexcept {
  const std::size_t pairs = plan_.inverse_frequencies.size();
  const std::vector<float>& rows = table(role);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t pair = first + i;
    const std::int32_t position = token.axis[axis_of(pair)][token.index];
    if (position >= 0 && position < prepared_) {
      const float* row = rows.data() + static_cast<std::size_t>(position) * 2 * pairs;
      cos[i] = row[pair];
      sin[i] = row[pairs + pair];
    } else {
      compute(position, pair, role, cos[i], sin[i]);
    }
  }
}

void Rotation::apply(std::span<const float> x, const Positions& positions, std::int32_t heads, RotationRole role,
                     std::span<float> out) const {
  apply("apply", x, positions, heads, role, Sense::kForward, out);
}

void Rotation::apply_inverse(std::span<const float> x, const Positions& positions, std::int32_t heads,
                             RotationRole role, std::span<float> out) const {
  apply("apply_inverse", x, positions, heads, role, Sense::kBackward, out);
}

void Rotation::apply(const char* call, std::span<const float> x, const Positions& positions, std::int32_t heads,
                     RotationRole role, Sense sense, std::span<float> out) const {
  require_range(call, "heads", heads, 1, 65536);
  const std::size_t tokens = positions.tokens();
  const std::size_t size = checked_product(call, "x", {static_cast<std::int64_t>(tokens), heads, head_dim_});
  if (x.size() != size || out.size() != size) {
    const std::string shape = sentence(tokens, " tokens x ", heads, " heads x ", head_dim_);
    require_size(call, "x", x.size(), size, shape);
    require_size(call, "out", out.size(), size, shape);
  }
  require_positions(call, positions);
  const std::less<const float*> before;
  if (x.data() != out.data() && before(x.data(), out.data() + size) && before(out.data(), x.data() + size)) {
    fail(ErrorCode::kArgument, call, ": out overlaps x without being x");
  }
  const detail::StoreMode mode = x.data() == out.data()
                                     ? detail::StoreMode::kCached
                                     : detail::store_mode(shape_of(plan_, head_dim_), out.data(), size);
  const auto count = static_cast<std::size_t>(heads);
  turn_range(x.data(), positions, {0, tokens, count, count, mode}, role, sense, out.data());
  detail::finish_stores(mode);
}

void Rotation::require_positions(const char* call, const Positions& positions) const {
  const std::int32_t axes = plan_.axes();
  if (positions.axes() < axes) {
    throw Error(ErrorCode::kArgument,
                sentence(call, ": the positions have ", positions.axes(), " axes, the plan reads ", axes),
                positions.axes(), axes);
  }
  if (!plan_.xpos) return;
  const auto valid = positions.valid();
  for (std::int32_t a = 0; a < axes; ++a) {
    const auto position = positions.position(a);
    for (std::size_t t = 0; t < positions.tokens(); ++t) {
      if (valid[t]) require_reach(call, a, position[t]);
    }
  }
}

void Rotation::turn_tokens(const float* x, const Positions& positions, std::size_t first, std::size_t count,
                           std::int32_t heads, std::int32_t group, RotationRole role, float* out) const noexcept {
  turn_range(x, positions,
             {first, count, static_cast<std::size_t>(heads), static_cast<std::size_t>(group), detail::StoreMode::kCached},
             role, Sense::kForward, out);
}

void Rotation::turn_range(const float* x, const Positions& positions, const Range& range, RotationRole role, Sense sense,
                          float* out) const noexcept {
  const std::int32_t axes = plan_.axes();
  std::array<const std::int32_t*, kMostAxes> axis{};
  for (std::int32_t a = 0; a < axes; ++a) axis[static_cast<std::size_t>(a)] = positions.position(a).data();
  const auto valid = positions.valid();
  const detail::TurnShape shape = shape_of(plan_, head_dim_);
  const std::size_t pairs = shape.pairs, width = range.group * shape.head_dim;  // of a token's part of a group
  const std::size_t groups = range.heads / range.group;
  // Backwards: cos / (A scale) = (cos A / scale) / A^2, the row of the other role, so that no square of a scale
  // is ever formed.
  const RotationRole row_role = sense == Sense::kForward       ? role
                                : role == RotationRole::kQuery ? RotationRole::kKey
                                                               : RotationRole::kQuery;
  const auto unscale = static_cast<float>(1 / (plan_.attention_factor * plan_.attention_factor));
  float cos_block[kBlock], sin_block[kBlock];
  for (std::size_t t = range.first; t < range.first + range.count; ++t) {
    const std::size_t i = t - range.first;
    const float* const from = x + i * groups * width;
    float* const to = out + i * width;
    const std::int32_t position = axis[0][t];
    if (valid[t] && sense == Sense::kForward && axes == 1 && position < prepared_) {
      const float* row = table(role).data() + static_cast<std::size_t>(position) * 2 * pairs;
      for (std::size_t g = 0; g < groups; ++g) {
        float* const part = to + g * range.count * width;
        if (from == to) {
          detail::turn_in_place(shape, part, range.group, 0, pairs, row, row + pairs);
        } else {
          detail::turn_apart(shape, from + g * width, part, range.group, row, row + pairs, range.mode);
        }
      }
      continue;
    }
    for (std::size_t g = 0; g < groups && from != to; ++g) {
      std::memcpy(to + g * range.count * width, from + g * width, width * sizeof(float));
    }
    if (!valid[t]) continue;
    for (std::size_t first = 0; first < pairs; first += kBlock) {
      const std::size_t count = std::min(kBlock, pairs - first);
      fill({axis.data(), t}, row_role, first, count, cos_block, sin_block);
      if (sense == Sense::kBackward) {
        for (std::size_t p = 0; p < count; ++p) {
          cos_block[p] *= unscale;
          sin_block[p] *= -unscale;
        }
      }
      for (std::size_t g = 0; g < groups; ++g) {
        detail::turn_in_place(shape, to + g * range.count * width, range.group, first, count, cos_block, sin_block);
      }
    }
  }
}

void Rotation::row(std::span<const std::int32_t> position_of_axis, RotationRole role, float* cos, float* sin) const {
  const auto axes = static_cast<std::size_t>(plan_.axes());
  if (position_of_axis.size() < axes) {
    throw Error(ErrorCode::kArgument,
                sentence("row: there are ", position_of_axis.size(), " positions, the plan reads ", axes, " axes"),
                static_cast<double>(position_of_axis.size()), static_cast<double>(axes));
  }
  std::array<const std::int32_t*, kMostAxes> axis{};
  for (std::size_t a = 0; a < axes; ++a) {
    require_reach("row", static_cast<std::int32_t>(a), position_of_axis[a]);
    axis[a] = position_of_axis.data() + a;
  }
  fill({axis.data(), 0}, role, 0, plan_.inverse_frequencies.size(), cos, sin);
}

void Rotation::advance_row(std::int64_t delta, float* cos, float* sin) const {
  if (plan_.xpos) fail(ErrorCode::kUnsupported, "advance_key: a key scaled by xPos cannot be moved by a rotation");
  if (plan_.axes() > 1) {
    fail(ErrorCode::kUnsupported, "advance_key: a key with positions on ", plan_.axes(),
         " axes cannot be moved by one number");
  }
  if (delta < -std::int64_t{kMaxPosition} || delta > kMaxPosition) {
    throw Error(ErrorCode::kPositionRange,
                sentence("advance_key: delta is ", delta, ", expected at most ", kMaxPosition, " either way"),
                static_cast<double>(delta), kMaxPosition);
  }
  for (std::size_t i = 0; i < plan_.inverse_frequencies.size(); ++i) {
    const double angle = static_cast<double>(delta) * plan_.inverse_frequencies[i];
    cos[i] = static_cast<float>(std::cos(angle));
    sin[i] = static_cast<float>(std::sin(angle));
  }
}

void Rotation::turn(float* head, const float* cos, const float* sin) const noexcept {
  detail::turn_in_place(shape_of(plan_, head_dim_), head, 1, 0, plan_.inverse_frequencies.size(), cos, sin);
}

void Rotation::advance_key(std::span<float> key, std::int64_t delta) const {
  require_size("advance_key", "key", key.size(), static_cast<std::size_t>(head_dim_), "head_dim");
  std::vector<float> row(2 * plan_.inverse_frequencies.size());
  advance_row(delta, row.data(), row.data() + plan_.inverse_frequencies.size());
  turn(key.data(), row.data(), row.data() + plan_.inverse_frequencies.size());
}

}  // namespace locant
