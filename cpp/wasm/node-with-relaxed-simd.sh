#!/bin/sh
# The node that the linker runs the module in to write its call wrappers (EMBIND_AOT). Before Node 22 it needs a flag to
# take relaxed SIMD, which later ones may not know.
if node --experimental-wasm-relaxed-simd -e 0 2>/dev/null; then
  exec node --experimental-wasm-relaxed-simd "$@"
fi
exec node "$@"
