#pragma once

#include <string_view>

#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/base/file.h"

namespace tapegrad {

// How files take floats of f32: as "F32", "F16" or "BF16". A value becomes the nearest one, of two
// that are equally near the even one.

// Writes the elements of `t`, converting them piece by piece. Error for another type.
void write_floats(FileWriter& file, const Tensor& t, std::string_view stored);

// Error, naming the tensor, if a finite value of `t` becomes infinite.
void check_fits(std::string_view name, const Tensor& t, std::string_view stored);

}  // namespace tapegrad
