// KeyValueStore: rows go in and come out as they were, whatever the panels make of them.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "locant/attention/store.hpp"

using namespace locant;

namespace {

struct Rows {
  std::int32_t kv_heads, head_dim, value_dim;
  std::vector<float> k, v;  // token-major
  std::size_t count() const { return k.size() / static_cast<std::size_t>(kv_heads * head_dim); }
};

Rows random_rows(std::mt19937& random, std::size_t count, std::int32_t kv_heads, std::int32_t head_dim,
                 std::int32_t value_dim) {
  std::normal_distribution<float> normal;
  Rows rows{kv_heads, head_dim, value_dim, std::vector<float>(count * static_cast<std::size_t>(kv_heads * head_dim)),
            std::vector<float>(count * static_cast<std::size_t>(kv_heads * value_dim))};
  for (float& x : rows.k) x = normal(random);
  for (float& x : rows.v) x = normal(random);
  return rows;
}

void check_row(const KeyValueStore& store, std::size_t row, const Rows& rows, std::size_t from) {
  std::vector<float> key(static_cast<std::size_t>(rows.head_dim)), value(static_cast<std::size_t>(rows.value_dim));
  for (std::int32_t h = 0; h < rows.kv_heads; ++h) {
    store.read_key(h, row, key.data());
    store.read_value(h, row, value.data());
    const std::size_t head = from * static_cast<std::size_t>(rows.kv_heads) + static_cast<std::size_t>(h);
    for (std::size_t d = 0; d < key.size(); ++d) REQUIRE(key[d] == rows.k[head * key.size() + d]);
    for (std::size_t d = 0; d < value.size(); ++d) REQUIRE(value[d] == rows.v[head * value.size() + d]);
  }
}

}  // namespace

TEST_CASE("store: rows written in any chunks, across any growth, are read back to the bit") {
  std::mt19937 random(1);
  for (const std::size_t count : {1u, 15u, 16u, 17u, 65u, 200u}) {
    for (const std::int32_t head_dim : {1, 7, 64}) {
      const Rows rows = random_rows(random, count, 3, head_dim, head_dim + 2);
      KeyValueStore store(3, head_dim, head_dim + 2);
      std::size_t at = 0;
      while (at < count) {
        const std::size_t chunk = std::min<std::size_t>(count - at, 1 + random() % 40);
        store.reserve(at + chunk);
        store.resize(at + chunk);
        store.write(at, chunk, rows.k.data() + at * static_cast<std::size_t>(3 * head_dim),
                    rows.v.data() + at * static_cast<std::size_t>(3 * (head_dim + 2)));
        at += chunk;
      }
      CHECK(store.rows() == count);
      for (std::size_t i = 0; i < count; ++i) check_row(store, i, rows, i);
    }
  }
}

TEST_CASE("store: rows cut off and lanes never written are 0, in keys and values") {
  std::mt19937 random(2);
  const Rows rows = random_rows(random, 50, 2, 5, 3);
  KeyValueStore store(2, 5, 3);
  store.reserve(50);
  store.resize(50);
  store.write(0, 50, rows.k.data(), rows.v.data());
  store.resize(19);
  for (std::size_t i = 0; i < 19; ++i) check_row(store, i, rows, i);
  for (std::int32_t h = 0; h < 2; ++h) {
    std::vector<float> key(5), value(3);
    for (std::size_t i = 19; i < store.capacity(); ++i) {
      store.read_key(h, i, key.data());
      store.read_value(h, i, value.data());
      for (const float x : key) CHECK(x == 0.0f);
      for (const float x : value) CHECK(x == 0.0f);
    }
  }
}

TEST_CASE("store: copy_row, write_key and assign move whole rows") {
  std::mt19937 random(3);
  const Rows rows = random_rows(random, 40, 2, 9, 4);
  KeyValueStore store(2, 9, 4), other(2, 9, 4);
  store.reserve(40);
  store.resize(40);
  store.write(0, 40, rows.k.data(), rows.v.data());
  store.copy_row(33, 5);
  check_row(store, 5, rows, 33);
  check_row(store, 33, rows, 33);
  other.reserve(100);
  other.resize(100);
  other.assign(store);
  CHECK(other.rows() == 40);
  check_row(other, 5, rows, 33);
  check_row(other, 39, rows, 39);
  std::vector<float> key(9, 2.5f), read(9);
  other.write_key(1, 17, key.data());
  other.read_key(1, 17, read.data());
  CHECK(read == key);
  other.read_key(0, 17, read.data());
  CHECK(read != key);
}

TEST_CASE("store: a NaN or infinite value is never said to be finite, and is forgotten with its panel") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    std::mt19937 random(4);
    Rows rows = random_rows(random, 64, 2, 4, 4);
    rows.v[(35 * 2 + 1) * 4 + 2] = bad;  // row 35, head 1
    KeyValueStore store(2, 4, 4);
    store.reserve(64);
    store.resize(64);
    store.write(0, 64, rows.k.data(), rows.v.data());
    CHECK(store.may_be_non_finite(1, 35, 36));
    CHECK(store.may_be_non_finite(1, 0, 64));
    CHECK_FALSE(store.may_be_non_finite(1, 0, 32));
    CHECK_FALSE(store.may_be_non_finite(0, 0, 64));
    store.copy_row(35, 3);
    CHECK(store.may_be_non_finite(1, 3, 4));
    store.reserve(500);
    CHECK(store.may_be_non_finite(1, 35, 36));
    store.resize(32);
    store.resize(64);
    CHECK_FALSE(store.may_be_non_finite(1, 32, 64));
  }
}

TEST_CASE("store: a reservation that cannot be had is an error with its bytes, and nothing changes") {
  std::mt19937 random(5);
  const Rows rows = random_rows(random, 3, 1, 2, 2);
  KeyValueStore store(1, 2, 2);
  store.reserve(3);
  store.resize(3);
  store.write(0, 3, rows.k.data(), rows.v.data());
  const std::size_t capacity = store.capacity();
  try {
    store.reserve(std::numeric_limits<std::size_t>::max() / 4);
    FAIL("the reservation was granted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kOutOfMemory);
    CHECK(error.value() > 1e9);
  }
  CHECK(store.capacity() == capacity);
  for (std::size_t i = 0; i < 3; ++i) check_row(store, i, rows, i);
}
