// Stored types whose elements stand one by one: see stored_type.h.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/base/half.h"

namespace tapegrad::detail {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

// Element i of some that need not be aligned.
template <class Stored>
Stored element(const std::byte* from, std::int64_t i) {
  Stored x;
  std::memcpy(&x, from + static_cast<std::size_t>(i) * sizeof x, sizeof x);
  return x;
}

template <class T, class Stored>
void widen(const std::byte* from, std::int64_t n, T* to) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto x = element<Stored>(from, i);
    if constexpr (std::is_arithmetic_v<Stored>) {
      to[i] = static_cast<T>(x);
    } else {
      to[i] = static_cast<T>(to_float(x));
    }
  }
}

void to_i32(const std::byte* from, std::int64_t n, std::int32_t* to) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto x = element<std::int64_t>(from, i);
    to[i] = static_cast<std::int32_t>(x);
    check(to[i] == x, "{} is no i32", x);
  }
}

// A value that is finite may not become infinite.
template <class Stored, Stored (*round)(float)>
std::int64_t narrow(const float* from, std::int64_t n, std::byte* to) {
  bool lost = false;  // no branch, so that compilers vectorise the loop
  for (std::int64_t i = 0; i < n; ++i) {
    const Stored x = round(from[i]);
    std::memcpy(to + static_cast<std::size_t>(i) * sizeof x, &x, sizeof x);
    lost |= std::isfinite(from[i]) && !is_finite(x);
  }
  if (!lost) return n;
  std::int64_t first = 0;
  while (!std::isfinite(from[first]) || is_finite(round(from[first]))) ++first;
  return first;
}

// `from` may be null if n is 0, which memcpy does not allow.
std::int64_t copy(const float* from, std::int64_t n, std::byte* to) {
  std::copy_n(reinterpret_cast<const std::byte*>(from), static_cast<std::size_t>(n) * sizeof(float),
              to);
  return n;
}

constexpr StoredType kTypes[] = {
    {.name = "f32",
     .dtype = DType::f32,
     .block_bytes = 4,
     .safetensors = "F32",
     .torch = "float32",
     .torch_storage = "FloatStorage",
     .ggml = 0,
     .gguf_file = 0,
     .to_f32 = widen<float, float>,
     .to_f64 = widen<double, float>,
     .from_f32 = copy},
    {.name = "f16",
     .dtype = DType::f32,
     .block_bytes = 2,
     .safetensors = "F16",
     .torch = "float16",
     .torch_storage = "HalfStorage",
     .ggml = 1,
     .gguf_file = 1,
     .to_f32 = widen<float, f16>,
     .to_f64 = widen<double, f16>,
     .from_f32 = narrow<f16, to_f16>},
    {.name = "bf16",
     .dtype = DType::f32,
     .block_bytes = 2,
     .safetensors = "BF16",
     .torch = "bfloat16",
     .torch_storage = "BFloat16Storage",
     .ggml = 30,
     .gguf_file = 32,
     .to_f32 = widen<float, bf16>,
     .to_f64 = widen<double, bf16>,
     .from_f32 = narrow<bf16, to_bf16>},
    {.name = "f64",
     .dtype = DType::f64,
     .block_bytes = 8,
     .safetensors = "F64",
     .torch = "float64",
     .torch_storage = "DoubleStorage",
     .ggml = 28,
     .to_f32 = widen<float, double>,
     .to_f64 = widen<double, double>},
    {.name = "i32",
     .dtype = DType::i32,
     .block_bytes = 4,
     .safetensors = "I32",
     .torch = "int32",
     .torch_storage = "IntStorage",
     .ggml = 26},
    {.name = "i64",
     .dtype = DType::i64,
     .block_bytes = 8,
     .safetensors = "I64",
     .torch = "int64",
     .torch_storage = "LongStorage",
     .ggml = 27,
     .to_i32 = to_i32},
    {.name = "u8",
     .dtype = DType::u8,
     .block_bytes = 1,
     .safetensors = "U8",
     .torch = "uint8",
     .torch_storage = "ByteStorage"},
    // Masks, which files of models have beside the weights.
    {.name = "bool",
     .dtype = DType::boolean,
     .block_bytes = 1,
     .safetensors = "BOOL",
     .torch_storage = "BoolStorage"},
};

}  // namespace

std::span<const StoredType> element_types() { return kTypes; }

}  // namespace tapegrad::detail
