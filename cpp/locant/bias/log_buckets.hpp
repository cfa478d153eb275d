// Integer thresholds of logarithmic buckets.
//
// T5 and DeBERTa put large distances r into buckets by ln(r/e) / ln(D/e) * n, rounded down or up. At r where
// that number is whole, the last bit of a logarithm decides the bucket. So thresholds are made here, once, in
// exact integer arithmetic, and at run time only integers are compared.
#pragma once

#include <cstdint>

namespace locant {

enum class Threshold { kReaches, kPasses };

// The smallest whole r with  n * ln(r/e) / ln(D/e) >= m  (kReaches) or > m (kPasses), that is with
// (r/e)^n >= (D/e)^m. For 1 <= e < D < 2^31, 1 <= n <= 4096, 0 <= m <= n + 1; not checked.
std::int64_t log_threshold(std::int64_t e, std::int64_t D, std::int32_t n, std::int32_t m, Threshold threshold);

}  // namespace locant
