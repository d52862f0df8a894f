#pragma once

#include <string_view>

#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/base/file.h"

namespace tapegrad {

// Fills `out` with the elements that a file has from byte `at` on, side by side and little-endian,
// as all threads can read them. `stored` is F32, F64, F16 or BF16, which become the floats of
// `out`, or I32 or U8, which `out` must have. False if reading fails.
[[nodiscard]] bool read_stored(const InputFile& file, std::uint64_t at, std::string_view stored,
                               Tensor& out);

}  // namespace tapegrad
