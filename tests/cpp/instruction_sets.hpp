// Tests that hold for every set of tile functions that this machine can run.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "locant/simd/tiles.hpp"

namespace locant::test {

// Runs `test` under each set in turn, and leaves the best one in force.
template <class Test>
void under_every_set(Test test) {
  for (const simd::InstructionSet set : simd::available_sets()) {
    simd::force_set(set);
    INFO("instruction set " << std::string(simd::to_string(set)));
    test();
  }
  simd::force_set(simd::available_sets().front());
}

}  // namespace locant::test
