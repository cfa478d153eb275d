#include "locant/rotary/pairing.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "locant/rotary/rotation.hpp"

namespace locant {
namespace {

void require_heads(std::string_view call, const RotatedHeads& heads) {
  require_range(call, "heads", heads.heads, 1, 65536);
  require_range(call, "head_dim", heads.head_dim, 1, 65536);
  require_range(call, "start", heads.start, 0, heads.head_dim);
  require_range(call, "the rotated width", heads.width, 0, heads.head_dim - heads.start);
  if (heads.width % 2 != 0) {
    throw Error(ErrorCode::kArgument,
                sentence(call, ": the rotated width is ", heads.width, ", expected an even number"), heads.width,
                heads.width - 1);
  }
}

// Rows of `columns` values; head after head.
void permute(std::string_view call, std::span<const float> x, std::int64_t all_heads, const RotatedHeads& heads,
             std::int64_t columns, Pairing from, Pairing to, std::span<float> out) {
  require_range(call, "columns", columns, 1, kMaxPosition);
  const std::size_t size = checked_product(call, "the input", {all_heads, heads.head_dim, columns});
  const std::string shape = sentence(all_heads, " heads x ", heads.head_dim, " x ", columns);
  require_size(call, "the input", x.size(), size, shape);
  require_size(call, "out", out.size(), size, shape);
  const std::less<const float*> before;
  if (x.data() != out.data() && before(x.data(), out.data() + size) && before(out.data(), x.data() + size)) {
    fail(ErrorCode::kArgument, call, ": out overlaps the input without being it");
  }
  const std::vector<std::int32_t> source = pairing_order(heads, from, to);
  const auto row = static_cast<std::size_t>(columns);
  const std::size_t head_size = static_cast<std::size_t>(heads.head_dim) * row;
  std::vector<float> head(head_size);
  for (std::int64_t h = 0; h < all_heads; ++h) {
    const std::size_t at = static_cast<std::size_t>(h) * head_size;
    std::memcpy(head.data(), x.data() + at, head_size * sizeof(float));
    for (std::size_t i = 0; i < source.size(); ++i) {
      std::memcpy(out.data() + at + i * row, head.data() + static_cast<std::size_t>(source[i]) * row,
                  row * sizeof(float));
    }
  }
}

}  // namespace

std::vector<std::int32_t> pairing_order(const RotatedHeads& heads, Pairing from, Pairing to) {
  require_heads("pairing_order", heads);
  std::vector<std::int32_t> source(static_cast<std::size_t>(heads.head_dim));
  std::iota(source.begin(), source.end(), 0);
  if (from == to) return source;
  const std::int32_t pairs = heads.width / 2;
  for (std::int32_t i = 0; i < pairs; ++i) {
    const std::int32_t inter[2] = {heads.start + 2 * i, heads.start + 2 * i + 1};
    const std::int32_t half[2] = {heads.start + i, heads.start + i + pairs};
    for (int member = 0; member < 2; ++member) {
      if (to == Pairing::kHalfSplit) {
        source[static_cast<std::size_t>(half[member])] = inter[member];
      } else {
        source[static_cast<std::size_t>(inter[member])] = half[member];
      }
    }
  }
  return source;
}

void convert_weight(std::span<const float> weight, const RotatedHeads& heads, std::int64_t columns, Pairing from,
                    Pairing to, std::span<float> out) {
  require_heads("convert_weight", heads);
  permute("convert_weight", weight, heads.heads, heads, columns, from, to, out);
}

void convert_heads(std::span<const float> x, std::int64_t tokens, const RotatedHeads& heads, Pairing from, Pairing to,
                   std::span<float> out) {
  require_heads("convert_heads", heads);
  require_range("convert_heads", "tokens", tokens, 0, kMaxPosition);
  permute("convert_heads", x, tokens * heads.heads, heads, 1, from, to, out);
}

PairingResidual compare_pairings(const RotaryPlan& plan, std::int32_t head_dim, std::span<const float> x,
                                 std::span<const float> rotated, const Positions& positions, std::int32_t heads) {
  require_size("compare_pairings", "rotated", rotated.size(), x.size(), "as many as x");
  PairingResidual residual;
  std::vector<float> ours(x.size());
  for (const Pairing pairing : {Pairing::kInterleaved, Pairing::kHalfSplit}) {
    RotaryPlan tried = plan;
    tried.pairing = pairing;
    Rotation(std::move(tried), head_dim).apply(x, positions, heads, RotationRole::kQuery, ours);
    double largest = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      // NaN on either side must not count as agreement.
      const double difference = std::abs(static_cast<double>(ours[i]) - static_cast<double>(rotated[i]));
      largest = difference <= largest ? largest : difference;
    }
    (pairing == Pairing::kInterleaved ? residual.interleaved : residual.half_split) = largest;
  }
  return residual;
}

}  // namespace locant
