#include "adapters.hpp"

namespace locant::wasm {

CacheObject* make_cache(val options) noexcept {
  return guarded([&] {
    const Options given(options);
    CacheConfig config;
    const std::int32_t kv_heads = given.integer("kvHeads");
    config.shape = {kv_heads, kv_heads, given.integer("headDim"), given.integer("valueDim")};
    config.layers = given.integer("layers");
    config.sequences = given.integer("sequences");
    config.capacity = given.choice<Capacity>("capacity");
    config.rows = given.long_integer("rows");
    config.keys = given.choice<KeyStorage>("keys");
    config.backward = given.choice<BackwardPositions>("backward");
    return new CacheObject{Cache(config), std::nullopt};
  });
}

double cache_rows(const CacheObject& object, int sequence) noexcept {
  return guarded([&] { return static_cast<double>(object.cache.rows(sequence)); });
}

double cache_capacity(const CacheObject& object, int sequence) noexcept {
  return guarded([&] { return static_cast<double>(object.cache.capacity(sequence)); });
}

double cache_bytes(const CacheObject& object) noexcept { return static_cast<double>(object.cache.bytes()); }

Address cache_positions(const CacheObject& object, int sequence) noexcept {
  return guarded([&] { return reply(object.cache.positions(sequence)); });
}

Address cache_next(const CacheObject& object, Address counts, std::size_t count, Address sequences,
                   std::size_t sequence_count) noexcept {
  return guarded([&] { return reply(object.cache.next(integers(counts, count), integers(sequences, sequence_count))); });
}

double cache_begin(CacheObject& object, Address block, Address sequences, std::size_t sequence_count) noexcept {
  return guarded([&] {
    object.step = object.cache.begin(read_positions(block), integers(sequences, sequence_count));
    return object.serial += 1;
  });
}

void cache_cancel(CacheObject& object, double serial) noexcept {
  guarded([&] {
    if (!object.step || object.serial != serial) {
      fail(ErrorCode::kCacheState, "cancel: the step is not the one that the cache has open");
    }
    object.cache.cancel(*object.step);
    object.step.reset();
  });
}

void cache_truncate(CacheObject& object, int sequence, double rows) noexcept {
  guarded([&] { object.cache.truncate(sequence, static_cast<std::size_t>(rows)); });
}

void cache_evict(CacheObject& object, int sequence, Address rows, std::size_t count) noexcept {
  guarded([&] {
    const auto given = integers(rows, count);
    object.cache.evict(sequence, std::vector<std::size_t>(given.begin(), given.end()));
  });
}

void cache_keep_window(CacheObject& object, int sequence, double sinks, double window) noexcept {
  guarded([&] {
    object.cache.keep_window(sequence, static_cast<std::size_t>(sinks), static_cast<std::size_t>(window));
  });
}

void cache_clear(CacheObject& object, int sequence) noexcept {
  guarded([&] { object.cache.clear(sequence); });
}

void cache_fork(CacheObject& object, int from, int to) noexcept {
  guarded([&] { object.cache.fork(from, to); });
}

void cache_shift(CacheObject& object, int sequence, double first, double last, double delta, int positions_in) noexcept {
  guarded([&] {
    object.cache.shift(sequence, static_cast<std::size_t>(first), static_cast<std::size_t>(last),
                       static_cast<std::int64_t>(delta), static_cast<Cache::PositionsIn>(positions_in));
  });
}

void cache_divide(CacheObject& object, int sequence, double first, double last, int divisor, int positions_in) noexcept {
  guarded([&] {
    object.cache.divide(sequence, static_cast<std::size_t>(first), static_cast<std::size_t>(last), divisor,
                        static_cast<Cache::PositionsIn>(positions_in));
  });
}

void cache_read(const CacheObject& object, int sequence, int layer, int kv_head, double row, Address key,
                std::size_t key_count, Address value, std::size_t value_count) noexcept {
  guarded([&] {
    object.cache.read(sequence, layer, kv_head, static_cast<std::size_t>(row), floats(key, key_count),
                      floats(value, value_count));
  });
}

}  // namespace locant::wasm
