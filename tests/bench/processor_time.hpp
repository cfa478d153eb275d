// Processor time of this process, for figures that other work on the machine must not change. Included once a program.
#pragma once

#include <ctime>

#ifdef __EMSCRIPTEN__
#include <emscripten.h>
#endif

// Milliseconds (WebAssembly: of Node, whose process it is).
// clang-format off
#ifdef __EMSCRIPTEN__
EM_JS(double, processor_time, (), {
  const used = process.cpuUsage();
  return (used.user + used.system) / 1000;
});
#else
inline double processor_time() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }
#endif
// clang-format on
