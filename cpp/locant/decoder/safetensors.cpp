#include "locant/decoder/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

namespace locant {
namespace {

constexpr const char* kRead = "read_safetensors";

struct DType {
  const char* name;
  std::uint64_t bits;
};
constexpr DType kDTypes[] = {
    {"F32", 32}, {"F16", 16}, {"BF16", 16}, {"F64", 64}, {"I64", 64}, {"U64", 64}, {"C64", 64}, {"I32", 32},
    {"U32", 32}, {"I16", 16}, {"U16", 16}, {"I8", 8}, {"U8", 8}, {"BOOL", 8}, {"F8_E4M3", 8}, {"F8_E5M2", 8},
    {"F8_E8M0", 8},
};

std::uint64_t bits_of(std::string_view dtype) {
  for (const DType& known : kDTypes) {
    if (dtype == known.name) return known.bits;
  }
  return 0;
}

// Length of the UTF-8 character that begins `text`, or 0 where it is none (overlong forms, surrogates and
// values past U+10FFFF included).
std::size_t utf8_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<std::uint8_t>(text[i]) : 0u; };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned a = byte(0), b = byte(1);
  if (a < 0x80) return 1;
  if (a >= 0xC2 && a <= 0xDF) return follows(1) ? 2 : 0;
  if (a >= 0xE0 && a <= 0xEF) {
    if (!follows(1) || !follows(2) || (a == 0xE0 && b < 0xA0) || (a == 0xED && b > 0x9F)) return 0;
    return 3;
  }
  if (a >= 0xF0 && a <= 0xF4) {
    if (!follows(1) || !follows(2) || !follows(3) || (a == 0xF0 && b < 0x90) || (a == 0xF4 && b > 0x8F)) return 0;
    return 4;
  }
  return 0;
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6), put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 0x3F)), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  }
}

// The JSON of a header and no other. Not recursive: its depth is the format's.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  void read(std::vector<StoredTensor>& tensors, Metadata& metadata) {
    if (text_.empty() || text_[0] != '{') refuse("expected '{'");
    bool metadata_seen = false;
    object([&] {
      const std::size_t at = at_;
      std::string name = string();
      expect(':');
      if (name == "__metadata__") {
        if (metadata_seen) refuse("__metadata__ comes twice", at);
        metadata_seen = true;
        object([&] {
          std::string key = string();
          expect(':');
          metadata.emplace_back(std::move(key), string());
        });
        std::vector<std::string_view> keys;
        for (const auto& entry : metadata) keys.push_back(entry.first);
        std::sort(keys.begin(), keys.end());
        const auto twice = std::adjacent_find(keys.begin(), keys.end());
        if (twice != keys.end()) refuse(sentence("the key ", *twice, " of __metadata__ comes twice"), at);
      } else {
        tensors.push_back(tensor(std::move(name), at));
      }
    });
    space();
    if (at_ != text_.size()) refuse("expected the end of the header");
  }

 private:
  [[noreturn]] void refuse(std::string_view why) const { refuse(why, at_); }
  [[noreturn]] void refuse(std::string_view why, std::size_t at) const {
    throw Error(ErrorCode::kFormat, sentence(kRead, ": byte ", at, " of the header: ", why), static_cast<double>(at),
                static_cast<double>(text_.size()));
  }

  void space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) ++at_;
  }
  bool next_is(char c) const { return at_ < text_.size() && text_[at_] == c; }
  void expect(char c) {
    space();
    if (!next_is(c)) refuse(sentence("expected '", std::string(1, c), "'"));
    ++at_;
  }

  // {member, member, ...}; each call of `member` reads one, its name first.
  template <class Member>
  void object(Member&& member) {
    expect('{');
    space();
    if (next_is('}')) {
      ++at_;
      return;
    }
    for (;;) {
      space();
      member();
      space();
      if (next_is('}')) break;
      expect(',');
    }
    ++at_;
  }

  std::uint64_t number() {
    space();
    const std::size_t at = at_;
    std::uint64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      const auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
      if (value > (static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) - digit) / 10) {
        refuse("a number above 2^63-1", at);
      }
      value = value * 10 + digit;
      ++at_;
    }
    if (at_ == at) refuse("expected a whole number, 0 or more");
    if (at_ - at > 1 && text_[at] == '0') refuse("a number that begins with 0", at);
    if (next_is('.') || next_is('e') || next_is('E')) refuse("expected a whole number", at);
    return value;
  }

  std::vector<std::uint64_t> numbers() {
    std::vector<std::uint64_t> out;
    expect('[');
    space();
    if (next_is(']')) {
      ++at_;
      return out;
    }
    for (;;) {
      out.push_back(number());
      space();
      if (next_is(']')) break;
      expect(',');
    }
    ++at_;
    return out;
  }

  std::uint32_t four_hex_digits() {
    std::uint32_t code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = at_ < text_.size() ? text_[at_] : '"';
      const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
      if (digit < 0) refuse("expected four hexadecimal digits");
      code = code * 16 + static_cast<std::uint32_t>(digit);
    }
    return code;
  }

  void escape(std::string& out) {
    const std::size_t at = at_ - 1;
    if (at_ >= text_.size()) refuse("a string without an end");
    switch (const char c = text_[at_++]) {
      case '"': case '\\': case '/': out.push_back(c); return;
      case 'b': out.push_back('\b'); return;
      case 'f': out.push_back('\f'); return;
      case 'n': out.push_back('\n'); return;
      case 'r': out.push_back('\r'); return;
      case 't': out.push_back('\t'); return;
      case 'u': break;
      default: refuse("an escape that JSON does not have", at);
    }
    std::uint32_t code = four_hex_digits();
    if (code >= 0xDC00 && code <= 0xDFFF) refuse("half a surrogate pair", at);
    if (code >= 0xD800 && code <= 0xDBFF) {
      if (text_.substr(at_, 2) != "\\u") refuse("half a surrogate pair", at);
      at_ += 2;
      const std::uint32_t low = four_hex_digits();
      if (low < 0xDC00 || low > 0xDFFF) refuse("half a surrogate pair", at);
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(out, code);
  }

  std::string string() {
    space();
    if (!next_is('"')) refuse("expected a string");
    const std::size_t begin = at_++;
    std::string out;
    for (;;) {
      if (at_ >= text_.size()) refuse("a string without an end", begin);
      const char c = text_[at_];
      if (c == '"') break;
      if (static_cast<std::uint8_t>(c) < 0x20) refuse("a control character in a string");
      if (c == '\\') {
        ++at_;
        escape(out);
        continue;
      }
      const std::size_t length = utf8_character(text_.substr(at_, 4));
      if (length == 0) refuse("bytes that are not UTF-8");
      out.append(text_, at_, length);
      at_ += length;
    }
    ++at_;
    return out;
  }

  StoredTensor tensor(std::string name, std::size_t at) {
    StoredTensor out;
    bool dtype = false, shape = false, offsets = false;
    object([&] {
      space();
      const std::size_t key_at = at_;
      const std::string key = string();
      expect(':');
      bool& seen = key == "dtype" ? dtype : key == "shape" ? shape : offsets;
      if (&seen == &offsets && key != "data_offsets") refuse("expected dtype, shape or data_offsets", key_at);
      if (seen) refuse(sentence(key, " comes twice"), key_at);
      seen = true;
      if (&seen == &dtype) {
        space();
        const std::size_t value_at = at_;
        out.dtype = string();
        if (bits_of(out.dtype) == 0) refuse(sentence("tensor ", name, " has the unknown dtype ", out.dtype), value_at);
      } else if (&seen == &shape) {
        for (const std::uint64_t length : numbers()) out.info.shape.push_back(static_cast<std::int64_t>(length));
      } else {
        space();
        const std::size_t value_at = at_;
        const auto pair = numbers();
        if (pair.size() != 2) refuse("data_offsets needs two numbers", value_at);
        out.begin = pair[0], out.end = pair[1];
      }
    });
    if (!dtype || !shape || !offsets) refuse(sentence("tensor ", name, " needs dtype, shape and data_offsets"), at);
    out.info.name = std::move(name);
    return out;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

[[noreturn]] void refuse_tensor(const StoredTensor& tensor, std::string_view why) {
  fail(ErrorCode::kFormat, kRead, ": tensor ", tensor.info.name, " [", tensor.begin, ", ", tensor.end, "): ", why);
}

// Offsets inside the data and as many bytes as shape and dtype say.
void require_extent(const StoredTensor& tensor, std::uint64_t data_size) {
  if (tensor.begin > tensor.end) refuse_tensor(tensor, "ends before it begins");
  if (tensor.end > data_size) refuse_tensor(tensor, sentence("ends past the data, which has ", data_size, " bytes"));
  std::uint64_t bits = bits_of(tensor.dtype);
  for (const std::int64_t length : tensor.info.shape) {
    if (__builtin_mul_overflow(bits, static_cast<std::uint64_t>(length), &bits)) {
      refuse_tensor(tensor, sentence("a shape of ", shape_text(tensor.info.shape), " is larger than any file"));
    }
  }
  if (bits != 8 * (tensor.end - tensor.begin)) {
    refuse_tensor(tensor, sentence("holds ", tensor.end - tensor.begin, " bytes, but ", tensor.dtype, " of ",
                                   shape_text(tensor.info.shape), " takes ", bits / 8));
  }
}

std::uint32_t little_endian(const std::uint8_t* p, int bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= static_cast<std::uint32_t>(p[i]) << (8 * i);
  return value;
}

void append_string(std::string& out, std::string_view text) {
  out.push_back('"');
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_character(text.substr(at, 4));
    if (length == 0) fail(ErrorCode::kArgument, "write_safetensors: byte ", at, " of a name or text is not UTF-8");
    const char c = text[at];
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<std::uint8_t>(c) < 0x20) {
      constexpr char kHex[] = "0123456789abcdef";
      out.append("\\u00");
      out.push_back(kHex[c >> 4]);
      out.push_back(kHex[c & 15]);
    } else {
      out.append(text, at, length);
    }
    at += length;
  }
  out.push_back('"');
}

}  // namespace

float from_float16(std::uint16_t bits) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1Fu, fraction = bits & 0x3FFu;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 31 ? 255u : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

float from_bfloat16(std::uint16_t bits) noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

Safetensors::Safetensors(std::span<const std::uint8_t> file)
    : Safetensors(file.size(), [file](std::uint64_t at, std::span<std::uint8_t> to) {
        std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(at), to.size(), to.begin());
      }) {}

Safetensors::Safetensors(std::uint64_t size, Fetch fetch) : fetch_(std::move(fetch)) {
  if (size < 8) {
    throw Error(ErrorCode::kFormat, sentence(kRead, ": the file has ", size, " bytes, expected at least 8"),
                static_cast<double>(size), 8);
  }
  std::uint8_t prefix[8];
  fetch_(0, prefix);
  const std::uint64_t length = little_endian(prefix, 4) | static_cast<std::uint64_t>(little_endian(prefix + 4, 4)) << 32;
  if (length > kLongestHeader) {
    throw Error(ErrorCode::kFormat, sentence(kRead, ": bytes 0 to 7 say a header of ", length, " bytes, the limit is ",
                kLongestHeader), static_cast<double>(length), static_cast<double>(kLongestHeader));
  }
  if (length > size - 8) {
    throw Error(ErrorCode::kFormat, sentence(kRead, ": bytes 0 to 7 say a header of ", length, " bytes, the file has ",
                size - 8, " after them"), static_cast<double>(length), static_cast<double>(size - 8));
  }
  std::string header(static_cast<std::size_t>(length), '\0');
  fetch_(8, {reinterpret_cast<std::uint8_t*>(header.data()), header.size()});
  data_at_ = 8 + length;
  data_size_ = size - data_at_;
  HeaderReader(header).read(tensors_, metadata_);

  for (const StoredTensor& tensor : tensors_) require_extent(tensor, data_size_);

  const auto sorted = [&](auto&& before) {
    std::vector<std::size_t> order(tensors_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return before(tensors_[a], tensors_[b]); });
    return order;
  };
  by_name_ = sorted([](const auto& a, const auto& b) { return a.info.name < b.info.name; });
  for (std::size_t i = 1; i < by_name_.size(); ++i) {
    const StoredTensor& tensor = tensors_[by_name_[i]];
    if (tensor.info.name == tensors_[by_name_[i - 1]].info.name) refuse_tensor(tensor, "its name comes twice");
  }
  std::uint64_t covered = 0;
  const StoredTensor* before = nullptr;
  for (const std::size_t i : sorted([](const auto& a, const auto& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); })) {
    const StoredTensor& tensor = tensors_[i];
    if (tensor.begin < covered) refuse_tensor(tensor, sentence("overlaps tensor ", before->info.name));
    if (tensor.begin > covered) refuse_tensor(tensor, sentence("bytes ", covered, " to ", tensor.begin - 1, " of the data belong to no tensor"));
    covered = tensor.end;
    before = &tensor;
  }
  if (covered != data_size_) {
    throw Error(ErrorCode::kFormat, sentence(kRead, ": tensors take ", covered, " bytes of data, the file has ", data_size_),
                static_cast<double>(covered), static_cast<double>(data_size_));
  }
}

const StoredTensor* Safetensors::find(std::string_view name) const noexcept {
  const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                      [&](std::size_t i, std::string_view wanted) { return tensors_[i].info.name < wanted; });
  return found != by_name_.end() && tensors_[*found].info.name == name ? &tensors_[*found] : nullptr;
}

void Safetensors::read(const StoredTensor& tensor, std::span<float> out) const {
  const auto size = static_cast<std::size_t>((tensor.end - tensor.begin) * 8 / bits_of(tensor.dtype));
  require_size(kRead, sentence("the values of tensor ", tensor.info.name), out.size(), size, shape_text(tensor.info.shape));
  const std::size_t width = tensor.dtype == "F32" ? 4 : 2;
  if (tensor.dtype != "F32" && tensor.dtype != "F16" && tensor.dtype != "BF16") {
    fail(ErrorCode::kUnsupported, kRead, ": tensor ", tensor.info.name, " is ", tensor.dtype, ", expected F32, F16 or BF16");
  }
  const auto convert = tensor.dtype == "F16" ? &from_float16 : &from_bfloat16;
  std::vector<std::uint8_t> piece(std::min(kPiece, out.size() * width));
  std::uint64_t at = data_at_ + tensor.begin;
  for (std::size_t first = 0; first < out.size();) {
    const std::size_t count = std::min(out.size() - first, piece.size() / width);
    fetch_(at, std::span(piece).first(count * width));
    const std::uint8_t* from = piece.data();
    for (std::size_t i = 0; i < count; ++i, from += width) {
      out[first + i] = width == 4 ? std::bit_cast<float>(little_endian(from, 4))
                                  : convert(static_cast<std::uint16_t>(little_endian(from, 2)));
    }
    first += count;
    at += count * width;
  }
}

Weights read_safetensors(std::span<const std::uint8_t> file) {
  const Safetensors source(file);
  Weights weights;
  for (const StoredTensor& tensor : source.tensors()) source.read(tensor, weights.add(tensor.info));
  return weights;
}

std::vector<std::uint8_t> write_safetensors(const Weights& weights, const Metadata& metadata) {
  std::string header = "{";
  const auto comma = [&] {
    if (header.size() > 1) header.push_back(',');
  };
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (std::size_t i = 0; i < metadata.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (metadata[i].first == metadata[j].first) {
          fail(ErrorCode::kArgument, "write_safetensors: the metadata key ", metadata[i].first, " comes twice");
        }
      }
      if (i > 0) header.push_back(',');
      append_string(header, metadata[i].first);
      header.push_back(':');
      append_string(header, metadata[i].second);
    }
    header.push_back('}');
  }
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < weights.tensors(); ++i) {
    const TensorInfo& info = weights.info(i);
    if (info.name == "__metadata__") fail(ErrorCode::kArgument, "write_safetensors: a tensor cannot be called __metadata__");
    comma();
    append_string(header, info.name);
    header += ":{\"dtype\":\"F32\",\"shape\":[";
    for (std::size_t d = 0; d < info.shape.size(); ++d) {
      if (d > 0) header.push_back(',');
      header += std::to_string(info.shape[d]);
    }
    const std::uint64_t end = at + std::uint64_t{4} * weights.values(i).size();
    header += sentence("],\"data_offsets\":[", at, ",", end, "]}");
    at = end;
  }
  header.push_back('}');
  while (header.size() % 8 != 0) header.push_back(' ');
  if (header.size() > Safetensors::kLongestHeader) {
    fail(ErrorCode::kArgument, "write_safetensors: the header takes ", header.size(), " bytes, the limit is ", Safetensors::kLongestHeader);
  }

  std::vector<std::uint8_t> file;
  try {
    file.reserve(8 + header.size() + static_cast<std::size_t>(at));
  } catch (const std::exception&) {
    throw Error(ErrorCode::kOutOfMemory, sentence("write_safetensors: could not get ", at, " bytes of memory"), static_cast<double>(at));
  }
  const auto put = [&](std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) file.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
  };
  put(header.size(), 8);
  file.insert(file.end(), header.begin(), header.end());
  for (std::size_t i = 0; i < weights.tensors(); ++i) {
    for (const float value : weights.values(i)) put(std::bit_cast<std::uint32_t>(value), 4);
  }
  return file;
}

}  // namespace locant
