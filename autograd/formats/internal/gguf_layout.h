#pragma once

#include <cstdint>

namespace tapegrad {

// Constants that the reader and the writer of GGUF share.

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

}  // namespace tapegrad
