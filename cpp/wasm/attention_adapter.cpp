#include <emscripten/bind.h>

#include "adapters.hpp"

namespace locant::wasm {
namespace {

// Address and count of q, k, v and out, as eight words.
struct Tensors {
  explicit Tensors(Address address) : words_(reinterpret_cast<const std::uint32_t*>(address)) {}
  std::span<float> operator[](std::size_t i) const { return floats(words_[2 * i], words_[2 * i + 1]); }

 private:
  const std::uint32_t* words_;
};

CallMask call_mask(Address prefix, std::size_t prefixes, Address visible, std::size_t visibles) {
  return {integers(prefix, prefixes), bytes(visible, visibles)};
}

Mask read_mask(const Options& given) {
  Mask mask;
  mask.direction = given.choice<Direction>("direction");
  if (given.has("window")) {
    const Options window(given.member("window"));
    mask.window = Window{window.integer("size"), window.choice<WindowConvention>("convention"), window.integer("sinks")};
  }
  if (given.has("chunk")) mask.chunk = given.integer("chunk");
  return mask;
}

}  // namespace

void read_layer(const Options& given, AttentionConfig& config) {
  config.mask = read_mask(Options(given.member("mask")));
  const val terms = given.member("terms");
  const auto count = terms["length"].as<unsigned>();
  for (unsigned i = 0; i < count; ++i) {
    config.score_terms.push_back(terms[i].as<Terms*>(emscripten::allow_raw_pointers())->score);
  }
  if (given.has("valueTerm")) {
    config.value_term = given.member("valueTerm").as<Terms*>(emscripten::allow_raw_pointers())->value;
  }
  config.scale = given.maybe_number("scale");
  config.soft_cap = given.maybe_number("softCap");
  if (given.has("temperature")) {
    const Options temperature(given.member("temperature"));
    config.temperature = Temperature{temperature.number("slope"), temperature.number("period"), temperature.number("shift")};
  }
}

AttentionObject* make_attention(val options) noexcept {
  return guarded([&] {
    const Options given(options);
    AttentionConfig config;
    config.shape = {given.integer("heads"), given.integer("kvHeads"), given.integer("headDim"), given.integer("valueDim")};
    read_layer(given, config);
    std::shared_ptr<Rotation> rotation;
    if (given.has("rotation")) {
      rotation = std::make_shared<Rotation>(read_plan(given.member("rotation")), config.shape.head_dim);
    }
    config.rotation = rotation;
    config.sink_logits = given.floats("sinkLogits");
    return new AttentionObject{std::move(rotation), Attention(std::move(config))};
  });
}

val attention_describe(const AttentionObject& object) noexcept {
  return guarded([&] { return to_object(object.attention.describe()); });
}

void attention_prepare(AttentionObject& object, double count) noexcept {
  guarded([&] {
    if (object.rotation) object.rotation->prepare(static_cast<std::int64_t>(count));
  });
}

void attention_attend(const AttentionObject& object, Address tensors, Address query_block, Address key_block,
                      Address prefix, std::size_t prefixes, Address visible, std::size_t visibles) noexcept {
  guarded([&] {
    const Tensors t(tensors);
    const Positions keys = read_positions(key_block);
    const CallMask mask = call_mask(prefix, prefixes, visible, visibles);
    if (query_block == 0) object.attention.attend(t[0], t[1], t[2], keys, t[3], mask);
    else object.attention.attend(t[0], read_positions(query_block), t[1], t[2], keys, t[3], mask);
  });
}

void attention_attend_cached(const AttentionObject& object, CacheObject& cache, double serial, int layer,
                             Address tensors, Address prefix, std::size_t prefixes, Address visible,
                             std::size_t visibles) noexcept {
  guarded([&] {
    if (!cache.step || cache.serial != serial) {
      fail(ErrorCode::kCacheState, "attend: the step is not the one that the cache has open");
    }
    const Tensors t(tensors);
    object.attention.attend(t[0], t[1], t[2], cache.cache, *cache.step, layer, t[3],
                            call_mask(prefix, prefixes, visible, visibles));
  });
}

val attention_explain(const AttentionObject& object, Address tensors, Address query_block, Address key_block,
                      Address requests, std::size_t request_count, Address prefix, std::size_t prefixes,
                      Address visible, std::size_t visibles) noexcept {
  return guarded([&] {
    const Tensors t(tensors);
    const auto pairs = integers(requests, 2 * request_count);
    std::vector<WeightRequest> wanted;
    for (std::size_t i = 0; i < request_count; ++i) {
      wanted.push_back({pairs[2 * i], static_cast<std::size_t>(pairs[2 * i + 1])});
    }
    const auto parts = object.attention.explain(t[0], read_positions(query_block), t[1], read_positions(key_block), wanted,
                                                call_mask(prefix, prefixes, visible, visibles));
    List list;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      Object entry;
      entry.set("content", to_array(parts[i].content));
      entry.set("position", to_array(parts[i].position));
      entry.set("score", to_array(parts[i].score));
      entry.set("weight", to_array(parts[i].weight));
      list.add(entry);
    }
    return list;
  });
}

}  // namespace locant::wasm
