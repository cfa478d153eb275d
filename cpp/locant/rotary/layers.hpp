// Plans by layer: models whose layers do not all rotate alike, or do not all rotate.
//
//   Gemma 3     every 6th layer (5, 11, ...) attends fully with base 10^6, the others within a window with base
//               10^4; a scaling rule is for the full layers alone
//   Gemma 4     the same, the full layers proportional (p-RoPE) on a wider head
//   ModernBERT  every 3rd layer (0, 3, ...) full with base 160000, the others local with base 10^4; a
//               scaling rule is for both
//   SmolLM3, Llama 4    every 4th layer (3, 7, ...) does not rotate at all (their configuration's no_rope_layers lists
//               1 for the layers that DO rotate)
//
// A layer without a plan opens no door 2: its scores know nothing of position beyond the mask. Two layers with
// different plans hold differently rotated keys, so each layer of a cache keeps the plan of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "locant/rotary/plan.hpp"

namespace locant {

// Which layer of each group of `interval` is the special one: l % interval == interval - 1, or l % interval == 0.
enum class EveryNth { kLastOfGroup, kFirstOfGroup };

class LayerPlans {
public:
  // All `layers` layers alike; no plan: none rotates. kArgument unless 1 <= layers <= 65536.
  LayerPlans(std::int32_t layers, std::optional<RotaryPlan> plan);

  // One special layer in every group, by the convention stated. kArgument unless interval >= 1.
  static LayerPlans every_nth(std::int32_t layers, std::int32_t interval, EveryNth which,
                              std::optional<RotaryPlan> special, std::optional<RotaryPlan> other);

  // Layer l has the plan kinds[kind_of_layer[l]]. kArgument where a kind does not exist.
  static LayerPlans by_kind(std::span<const std::int32_t> kind_of_layer, std::vector<std::optional<RotaryPlan>> kinds);

  std::int32_t layers() const noexcept { return static_cast<std::int32_t>(kind_of_layer_.size()); }
  // The plan of a layer, or null where it does not rotate. kArgument for a layer that is not there.
  const RotaryPlan* plan(std::int32_t layer) const;
  // The different kinds of layer and which each layer is, so that rotations are built once per kind.
  const std::vector<std::optional<RotaryPlan>>& kinds() const noexcept { return kinds_; }
  std::int32_t kind(std::int32_t layer) const;
  // Ascending.
  std::vector<std::int32_t> layers_without_position() const;
  // One description a kind, with the layers of that kind among its parameters.
  std::vector<MethodDescription> describe() const;

private:
  LayerPlans() = default;
  std::vector<std::optional<RotaryPlan>> kinds_;
  std::vector<std::int32_t> kind_of_layer_;
};

}  // namespace locant
