#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "locant/decoder/random.hpp"
#include "locant/decoder/safetensors.hpp"

using namespace locant;

namespace {

std::vector<std::uint8_t> file_of(const std::string& header, std::size_t data_bytes) {
  std::vector<std::uint8_t> file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<std::uint8_t>(std::uint64_t{header.size()} >> (8 * i)));
  file.insert(file.end(), header.begin(), header.end());
  for (std::size_t i = 0; i < data_bytes; ++i) file.push_back(static_cast<std::uint8_t>(i));
  return file;
}

// The sentence of the refusal; fails the test where there is none or its code is another.
std::string refusal(const std::vector<std::uint8_t>& file) {
  try {
    Safetensors{file};
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kFormat);
    return error.message();
  }
  FAIL_CHECK("was read without complaint");
  return "";
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

Weights some_weights() {
  Weights weights;
  CounterRandom random(7);
  std::uint64_t i = 0;
  for (float& v : weights.add({"model.embed_tokens.weight", {5, 3}})) v = random.symmetric(i++);
  for (float& v : weights.add({"a \"quoted\" name \\ \xC3\xA9\n", {2}})) v = random.symmetric(i++);
  weights.add({"nothing", {0, 4}});
  weights.add({"one value", {}})[0] = -0.0f;
  const auto odd = weights.add({"odd values", {3}});
  odd[0] = std::numeric_limits<float>::infinity();
  odd[1] = std::numeric_limits<float>::denorm_min();
  odd[2] = std::bit_cast<float>(0x7FC12345u);
  return weights;
}

const char* const kOne = R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

}  // namespace

TEST_CASE("safetensors: what is written is read back to the bit, names and metadata too") {
  const Weights weights = some_weights();
  const Metadata metadata = {{"format", "pt"}, {"note", "tab\t and \x01 and \xF0\x9F\x8D\x8A"}};
  const auto file = write_safetensors(weights, metadata);
  const Safetensors source(file);
  CHECK(source.metadata() == metadata);
  const Weights back = read_safetensors(file);
  REQUIRE(back.tensors() == weights.tensors());
  for (std::size_t i = 0; i < back.tensors(); ++i) {
    CAPTURE(weights.info(i).name);
    CHECK(back.info(i) == weights.info(i));
    REQUIRE(back.values(i).size() == weights.values(i).size());
    CHECK(std::equal(back.values(i).begin(), back.values(i).end(), weights.values(i).begin(), [](float a, float b) {
      return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    }));
  }
  CHECK(write_safetensors(back, metadata) == file);
  CHECK(write_safetensors(Weights{}).size() == 8 + 8);
  CHECK(read_safetensors(write_safetensors(Weights{})).tensors() == 0);
}

TEST_CASE("safetensors: every half-precision value becomes the float32 of the same value") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float half = from_float16(static_cast<std::uint16_t>(bits));
    const int exponent = static_cast<int>(bits >> 10 & 31), fraction = static_cast<int>(bits & 1023);
    double expected = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (bits & 0x8000) expected = -expected;
    if (exponent < 31) {
      REQUIRE(static_cast<double>(half) == expected);
      REQUIRE(std::signbit(half) == ((bits & 0x8000) != 0));
    } else if (fraction == 0) {
      REQUIRE(std::isinf(half));
      REQUIRE(std::signbit(half) == ((bits & 0x8000) != 0));
    } else {
      REQUIRE(std::isnan(half));
    }
    REQUIRE(std::bit_cast<std::uint32_t>(from_bfloat16(static_cast<std::uint16_t>(bits))) == bits << 16);
  }
}

TEST_CASE("safetensors: float16 and bfloat16 files are read as float32, other dtypes are listed and refused by name") {
  const auto file = file_of(R"({"h":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},
    "b":{"dtype":"BF16","shape":[1,1],"data_offsets":[2,4]},"i":{"dtype":"I64","shape":[1],"data_offsets":[4,12]}}  )", 12);
  const Safetensors source(file);
  float value = 0;
  source.read(*source.find("h"), {&value, 1});
  CHECK(value == from_float16(0x0100));
  source.read(*source.find("b"), {&value, 1});
  CHECK(value == from_bfloat16(0x0302));
  REQUIRE(source.find("i") != nullptr);
  CHECK(source.find("i")->dtype == "I64");
  CHECK(source.find("absent") == nullptr);
  try {
    source.read(*source.find("i"), {&value, 1});
    FAIL("an I64 tensor was read");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kUnsupported);
    CHECK(contains(error.message(), "tensor i is I64"));
  }
  CHECK_THROWS_AS(source.read(*source.find("h"), {}), Error);
}

TEST_CASE("safetensors: a header that lies is refused, with the place") {
  CHECK_NOTHROW(Safetensors{file_of(kOne, 8)});
  struct Lie {
    const char* header;
    std::size_t data;
    const char* says;
  };
  const Lie lies[] = {
      {R"({"t":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "tensor t [0, 8): holds 8 bytes, but F32 of 3 takes 12"},
      {kOne, 7, "ends past the data, which has 7 bytes"},
      {kOne, 9, "tensors take 8 bytes of data, the file has 9"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "ends before it begins"},
      {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12, "bytes 0 to 3 of the data belong to no tensor"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12,
       "tensor b [4, 12): overlaps tensor a"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})", 12,
       "bytes 4 to 7"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8,
       "its name comes twice"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]}})", 0, "larger than any file"},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,0]}})", 0, "a number above 2^63-1"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}})", 0, "byte 29 of the header: expected a whole number"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, "byte 29 of the header: expected a whole number"},
      {R"({"a":{"dtype":"F32","shape":[01],"data_offsets":[0,4]}})", 4, "begins with 0"},
      {R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4, "unknown dtype F31"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "needs dtype, shape and data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4, "needs two numbers"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":[1]}})", 4, "expected dtype, shape or data_offsets"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4, "dtype comes twice"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},})", 4, "expected a string"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}x)", 4, "expected the end of the header"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})", 4, "expected ','"},
      {R"([{}])", 0, "byte 0 of the header: expected '{'"},
      {R"({"__metadata__":{"a":1}})", 0, "expected a string"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", 0, "the key a of __metadata__ comes twice"},
      {R"({"__metadata__":{"a":{"a":{"a":{}}}}})", 0, "expected a string"},
      {R"({"\ud800":{}})", 0, "half a surrogate pair"},
      {R"({"\x41":{}})", 0, "an escape that JSON does not have"},
      {R"({"\u12g4":{}})", 0, "four hexadecimal digits"},
      {"{\"a\xC0\x80\":{}}", 0, "byte 3 of the header: bytes that are not UTF-8"},
      {"{\"a\nb\":{}}", 0, "a control character in a string"},
      {R"({"a)", 0, "byte 1 of the header: a string without an end"},
      {"", 0, "expected '{'"},
  };
  for (const Lie& lie : lies) {
    CAPTURE(lie.header);
    const std::string said = refusal(file_of(lie.header, lie.data));
    CAPTURE(said);
    CHECK(contains(said, lie.says));
  }
}

TEST_CASE("safetensors: a file that is fetched piece by piece gives the same values, and is never asked for what it has not") {
  Weights weights;
  CounterRandom random(3);
  std::uint64_t i = 0;
  for (float& v : weights.add({"small", {7}})) v = random.symmetric(i++);
  for (float& v : weights.add({"large", {3, 200'001}})) v = random.symmetric(i++);  // 2.4 MB: three pieces, the last in part
  const auto file = write_safetensors(weights);
  std::size_t largest = 0;
  bool broken = false;
  const Safetensors source(file.size(), [&](std::uint64_t at, std::span<std::uint8_t> to) {
    if (broken) throw 7;
    REQUIRE(at + to.size() <= file.size());
    largest = std::max(largest, to.size());
    std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(at), to.size(), to.begin());
  });
  for (std::size_t t = 0; t < 2; ++t) {
    const StoredTensor& tensor = *source.find(weights.info(t).name);
    std::vector<float> out(weights.values(t).size());
    source.read(tensor, out);
    CHECK(std::equal(out.begin(), out.end(), weights.values(t).begin()));
  }
  CHECK(largest == Safetensors::kPiece);
  broken = true;
  std::vector<float> out(7);
  CHECK_THROWS_AS(source.read(*source.find("small"), out), int);
}

TEST_CASE("safetensors: a length that lies about the header is refused before anything is read") {
  CHECK(contains(refusal({}), "the file has 0 bytes, expected at least 8"));
  CHECK(contains(refusal({1, 0, 0, 0, 0, 0, 0}), "the file has 7 bytes"));
  CHECK(contains(refusal({3, 0, 0, 0, 0, 0, 0, 0, '{', '}'}), "say a header of 3 bytes, the file has 2 after them"));
  CHECK(contains(refusal({255, 255, 255, 255, 255, 255, 255, 255, '{', '}'}), "18446744073709551615 bytes, the limit is 100000000"));
}

TEST_CASE("safetensors: every truncation of a file is refused") {
  const auto file = write_safetensors(some_weights(), {{"format", "pt"}});
  for (std::size_t size = 0; size < file.size(); ++size) {
    REQUIRE(!refusal({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)}).empty());
  }
}

TEST_CASE("safetensors: files with random bytes changed are read or refused with kFormat, nothing else") {
  const auto original = write_safetensors(some_weights(), {{"format", "pt"}});
  const std::size_t header_end = original.size() - 25 * 4;
  int read = 0, refused = 0;
  for (std::uint64_t round = 0; round < 20000; ++round) {
    const CounterRandom random(1, round);
    auto file = original;
    const auto changes = 1 + random.bits(0) % 4;
    for (std::uint64_t c = 0; c < changes; ++c) {
      const auto at = static_cast<std::size_t>(random.bits(3 * c + 1) % header_end);
      // Bytes that JSON reads are likelier to get far than any byte.
      constexpr char kLikely[] = "{}[]\",:0123456789\\uFB ";
      const auto pick = random.bits(3 * c + 2);
      file[at] = pick % 3 == 0 ? static_cast<std::uint8_t>(pick >> 8) : static_cast<std::uint8_t>(kLikely[(pick >> 8) % (sizeof kLikely - 1)]);
    }
    try {
      const Weights weights = read_safetensors(file);
      CHECK(weights.parameters() <= file.size());
      ++read;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kFormat && error.code() != ErrorCode::kUnsupported) FAIL_CHECK(error.message());
      ++refused;
    }
  }
  CHECK(read > 100);      // some only change a name or a value
  CHECK(refused > 10000);
}

TEST_CASE("safetensors: writing refuses what the format cannot hold") {
  Weights weights;
  weights.add({"__metadata__", {1}});
  CHECK_THROWS_AS(write_safetensors(weights), Error);
  Weights bad;
  bad.add({"\xFF", {1}});
  CHECK_THROWS_AS(write_safetensors(bad), Error);
  CHECK_THROWS_AS(write_safetensors(Weights{}, {{"a", ""}, {"a", ""}}), Error);
}
