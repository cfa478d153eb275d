#include "limits_body.hpp"

float multiply_add_avx2(std::size_t sums, std::size_t steps, float x, float y, float z) {
  return multiply_add_of(sums, steps, x, y, z);
}
float read_avx2(const float* p, std::size_t count) { return read_all(p, count); }
