// Safetensors files: a table of contents and the bytes of tensors, read from memory and written to it.
//
//   8 bytes     n, the length of the header, unsigned little-endian
//   n bytes     JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...} and
//               possibly "__metadata__": {"key": "value", ...}; begins with '{', may end in spaces
//   the rest    the data, little-endian, row-major; offsets count from its first byte
//
// (The format is Hugging Face's; https://github.com/huggingface/safetensors describes it.)
//
// The reader believes nothing. It refuses, with kFormat and the byte of the header or the tensor at which it
// stopped: a file shorter than it says, a header over kLongestHeader, anything but the JSON above (a small strict
// reader: no other keys, no duplicate names, valid UTF-8 and escapes, whole numbers only), offsets outside the
// data or backwards, a shape whose bytes are not end - begin, tensors that overlap, bytes that belong to none.
// Memory grows with the header's length and no number in it. Tensors of any dtype are listed; values are given
// for float32, float16 and bfloat16, all as float32, exactly.
//
// Does not do: files (bytes come from the caller, all at once or as they are asked for), checkpoints of several files
// as one (a reader each; see llama.hpp), writing anything but float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "locant/decoder/weights.hpp"

namespace locant {

struct StoredTensor {
  TensorInfo info;
  std::string dtype;                 // as spelled in the file: "F32", "BF16", "I64", ...
  std::uint64_t begin = 0, end = 0;  // bytes of the data part
};

using Metadata = std::vector<std::pair<std::string, std::string>>;

class Safetensors {
 public:
  static constexpr std::uint64_t kLongestHeader = 100'000'000;

  // Puts bytes [at, at + to.size()) of the file into `to`; never asked for bytes past its size. What it throws passes
  // through.
  using Fetch = std::function<void(std::uint64_t at, std::span<std::uint8_t> to)>;

  // Reads the header of a whole file in memory. `file` must outlive this object.
  explicit Safetensors(std::span<const std::uint8_t> file);
  // Of a file that is fetched as it is read: the header now, tensors in pieces of kPiece bytes, so that a checkpoint
  // need not lie in memory beside its weights.
  Safetensors(std::uint64_t size, Fetch fetch);
  static constexpr std::size_t kPiece = 1 << 20;

  const std::vector<StoredTensor>& tensors() const noexcept { return tensors_; }  // in the header's order
  const Metadata& metadata() const noexcept { return metadata_; }
  // Null where there is none of that name.
  const StoredTensor* find(std::string_view name) const noexcept;

  // The values of a tensor, as float32. kUnsupported for other dtypes; kShape where `out` has another size.
  void read(const StoredTensor& tensor, std::span<float> out) const;

 private:
  Fetch fetch_;
  std::uint64_t data_at_ = 0, data_size_ = 0;  // where the data begins in the file, and its bytes
  std::vector<StoredTensor> tensors_;
  std::vector<std::size_t> by_name_;  // indices of tensors_, sorted by name
  Metadata metadata_;
};

// All tensors of a file, as float32. kUnsupported where one has another dtype than the three.
Weights read_safetensors(std::span<const std::uint8_t> file);

// A file of all tensors, float32, in their order; the data begins at a multiple of 8 bytes. kArgument where a
// name or text is not UTF-8 or a metadata key comes twice.
std::vector<std::uint8_t> write_safetensors(const Weights& weights, const Metadata& metadata = {});

// The float32 of the same value: IEEE half precision (subnormals, infinities and NaN too), and the upper half
// of a float32.
float from_float16(std::uint16_t bits) noexcept;
float from_bfloat16(std::uint16_t bits) noexcept;

}  // namespace locant
