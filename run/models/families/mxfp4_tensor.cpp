#include "tapegrad/run/models/families/internal/mxfp4_tensor.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace tapegrad::run {
namespace {

constexpr std::uint64_t kHalf = 16, kStored = 1 + kHalf;  // bytes of a block's elements, of a block
constexpr std::uint64_t kBlocksAtOnce = 1 << 12;

// Sixteen bytes with neighbours in each → with elements i and i + 16 in byte i.
void repack(const std::byte* from, std::byte* to) {
  std::uint8_t pairs[kHalf], elements[2 * kHalf], packed[kHalf];
  std::memcpy(pairs, from, kHalf);
  for (std::size_t i = 0; i < kHalf; ++i) {
    elements[2 * i] = pairs[i] & 15, elements[2 * i + 1] = pairs[i] >> 4;
  }
  for (std::size_t i = 0; i < kHalf; ++i) {
    packed[i] = static_cast<std::uint8_t>(elements[i] | elements[i + kHalf] << 4);
  }
  std::memcpy(to, packed, kHalf);
}

}  // namespace

Shape mxfp4_shape(const TensorSource& blocks, const std::string& blocks_name,
                  const TensorSource& scales, const std::string& scales_name) {
  const auto& b = blocks.at(blocks_name);
  const auto& s = scales.at(scales_name);
  const bool fits = b.dtype == DType::u8 && s.dtype == DType::u8 && s.shape.rank() >= 2 &&
                    b.shape == s.shape.inserted(s.shape.rank(), kHalf);
  check(
      fits,
      "{}: '{}' of {} and {} does not fit '{}' of {} and {}: MXFP4 is (…, n, 16) and (…, n) of u8",
      blocks.name(), blocks_name, name_of(b.dtype), b.shape, scales_name, name_of(s.dtype),
      s.shape);
  return s.shape.with(-1, 32 * s.shape[-1]);
}

StoredTensor mxfp4_rows(const StoredTensor& blocks, const StoredTensor& scales) {
  const Shape& s = scales.shape();
  const std::int64_t in = s[-1] * 32, rows = s.with(-1, 1).numel();
  const auto read = [blocks, scales](std::uint64_t offset, std::byte* to, std::size_t bytes) {
    std::vector<std::byte> halves, factors, whole;
    while (bytes > 0) {
      const std::uint64_t begin = offset / kStored, within = offset % kStored;
      const std::uint64_t count = std::min(kBlocksAtOnce, (within + bytes + kStored - 1) / kStored);
      halves.resize(count * kHalf), factors.resize(count), whole.resize(count * kStored);
      if (!blocks.read(begin * kHalf, halves.data(), halves.size()) ||
          !scales.read(begin, factors.data(), factors.size())) {
        return false;
      }
      for (std::uint64_t i = 0; i < count; ++i) {
        whole[i * kStored] = factors[i];
        repack(halves.data() + i * kHalf, whole.data() + i * kStored + 1);
      }
      const std::size_t size = std::min<std::size_t>(bytes, whole.size() - within);
      std::memcpy(to, whole.data() + within, size);
      offset += size, to += size, bytes -= size;
    }
    return true;
  };
  return {stored_type("mxfp4"), {rows, in}, read, blocks.label()};
}

StoredTensor reshaped(const StoredTensor& from, const Shape& shape) {
  const auto read = [from](std::uint64_t offset, std::byte* to, std::size_t bytes) {
    return from.read(offset, to, bytes);
  };
  return {from.type(), shape, read, from.label()};
}

}  // namespace tapegrad::run
