#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tapegrad/base/half.h"
#include "tapegrad/nn/formats/gguf.h"

namespace tapegrad::nn {

// Elements as GGUF stores them, for gguf.cpp and gguf_writer.cpp.

inline constexpr char kGgufMagic[] = {'G', 'G', 'U', 'F'};
inline constexpr std::int64_t kGgufAlignment = 32;  // where general.alignment does not say another

// The types of values, as files number them.
enum class GgufValueType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  text,
  list,
  u64,
  i64,
  f64  // clang-format keeps the row
};

// So many elements are stored together in so many bytes.
struct GgufBlock {
  std::int64_t elements, bytes;
};
GgufBlock block_of(GgufType type);

// Converts `n` elements of Q8_0, whole blocks, to T or from float. Encoding returns false if an
// element is no number, or too large.
template <class T>
void decode_q8(const std::byte* from, std::int64_t n, T* to);
bool encode_q8(const float* from, std::int64_t n, std::byte* to);

}  // namespace tapegrad::nn
