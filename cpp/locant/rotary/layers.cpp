#include "locant/rotary/layers.hpp"

#include <utility>

namespace locant {
namespace {
constexpr std::int32_t kMostLayers = 65536;
}  // namespace

LayerPlans::LayerPlans(std::int32_t layers, std::optional<RotaryPlan> plan) {
  require_range("LayerPlans", "layers", layers, 1, kMostLayers);
  kinds_.push_back(std::move(plan));
  kind_of_layer_.assign(static_cast<std::size_t>(layers), 0);
}

LayerPlans LayerPlans::every_nth(std::int32_t layers, std::int32_t interval, EveryNth which,
                                 std::optional<RotaryPlan> special, std::optional<RotaryPlan> other) {
  require_range("LayerPlans::every_nth", "layers", layers, 1, kMostLayers);
  require_range("LayerPlans::every_nth", "interval", interval, 1, kMostLayers);
  LayerPlans out;
  out.kinds_ = {std::move(special), std::move(other)};
  const std::int32_t place = which == EveryNth::kLastOfGroup ? interval - 1 : 0;
  for (std::int32_t l = 0; l < layers; ++l) out.kind_of_layer_.push_back(l % interval == place ? 0 : 1);
  return out;
}

LayerPlans LayerPlans::by_kind(std::span<const std::int32_t> kind_of_layer,
                               std::vector<std::optional<RotaryPlan>> kinds) {
  require_range("LayerPlans::by_kind", "layers", static_cast<std::int64_t>(kind_of_layer.size()), 1, kMostLayers);
  for (std::size_t l = 0; l < kind_of_layer.size(); ++l) {
    require_range("LayerPlans::by_kind", sentence("the kind of layer ", l), kind_of_layer[l], 0,
                  static_cast<std::int64_t>(kinds.size()) - 1);
  }
  LayerPlans out;
  out.kinds_ = std::move(kinds);
  out.kind_of_layer_.assign(kind_of_layer.begin(), kind_of_layer.end());
  return out;
}

std::int32_t LayerPlans::kind(std::int32_t layer) const {
  require_range("LayerPlans::kind", "layer", layer, 0, layers() - 1);
  return kind_of_layer_[static_cast<std::size_t>(layer)];
}

const RotaryPlan* LayerPlans::plan(std::int32_t layer) const {
  require_range("LayerPlans::plan", "layer", layer, 0, layers() - 1);
  const std::optional<RotaryPlan>& plan =
      kinds_[static_cast<std::size_t>(kind_of_layer_[static_cast<std::size_t>(layer)])];
  return plan ? &*plan : nullptr;
}

std::vector<std::int32_t> LayerPlans::layers_without_position() const {
  std::vector<std::int32_t> out;
  for (std::int32_t l = 0; l < layers(); ++l) {
    if (plan(l) == nullptr) out.push_back(l);
  }
  return out;
}

std::vector<MethodDescription> LayerPlans::describe() const {
  std::vector<MethodDescription> out;
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    MethodDescription d;
    if (kinds_[kind]) {
      d = locant::describe(*kinds_[kind]);
    } else {
      d.name = "layers without position";
      d.door = Door::kRotation;
      d.reference = Reference::kRelative;
      d.formula = "queries and keys are not turned: scores know the mask alone";
      d.source = "Kazemnejad et al. 2023 (NoPE); SmolLM3, Llama 4";
      d.origin = "none: no position is read";
      d.direction = "none";
      d.past_end = "no end";
    }
    std::string layers;
    for (std::size_t l = 0; l < kind_of_layer_.size(); ++l) {
      if (static_cast<std::size_t>(kind_of_layer_[l]) == kind) layers += (layers.empty() ? "" : ", ") + std::to_string(l);
    }
    d.parameters.push_back({"layers", layers});
    out.push_back(std::move(d));
  }
  return out;
}

}  // namespace locant
