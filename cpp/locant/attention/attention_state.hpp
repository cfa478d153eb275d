// The insides of an Attention, shared by attention.cpp (self-contained calls) and cached.cpp (over a cache).
#pragma once

#include "locant/attention/attention.hpp"
#include "locant/attention/kernel.hpp"
#include "locant/attention/store.hpp"

namespace locant {

struct Attention::State {
  explicit State(AttentionConfig checked)
      : config(std::move(checked)),
        kernel(config),
        store(config.shape.kv_heads, config.shape.head_dim, config.shape.value_dim) {}
  State(const State&) = delete;

  const AttentionConfig config;  // the kernel reads it here, so it stays where it is
  Kernel kernel;

  // Work memory of calls, kept for the next one.
  KeyValueStore store;   // keys and values of calls without a cache
  WorkFloats block;      // a few keys, turned
  WorkFloats q, k;       // rotated, of explanations

  // Memory that write() turns keys in: to be had before anything is written. kOutOfMemory.
  void prepare_write();
  // Writes `count` tokens, of which `first` is the number of the first in `positions`, into rows [slot, slot + count)
  // of a store; k and v are those of all tokens. Keys are turned on their way where a rotation is given, which
  // must have accepted the positions: a few at a time, so that they are written while they are near.
  void write(KeyValueStore& store, std::size_t slot, std::size_t count, const float* k, const float* v,
             const Positions& positions, std::size_t first, const Rotation* rotation) noexcept;

  // All of x [tokens, heads, head_dim] turned by the rotation, if there is one: x itself or a buffer of this state.
  // kOutOfMemory.
  const float* turned_queries(std::span<const float> x, const Positions& positions);
  const float* turned_keys(std::span<const float> x, const Positions& positions);
};

// kShape unless the tensor holds tokens x heads x width values.
void require_tensor(std::string_view call, std::string_view what, std::size_t held, std::size_t tokens,
                    std::int32_t heads, std::int32_t width);

}  // namespace locant
