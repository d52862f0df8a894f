#pragma once

#include <filesystem>

#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad::arrays {

// An array in the format of MNIST (LeCun, Cortes and Burges, "The MNIST database of handwritten
// digits": "The IDX file format"), as it is or packed by gzip. Types 0x08 (u8), 0x0C (i32), 0x0D
// (f32) and 0x0E (f64) are read: train-images-idx3-ubyte.gz is (60000, 28, 28) of u8. Errors,
// naming the path: another type, a file that is broken, cut, or longer than its array. No array
// that is larger than the file can hold is allocated.
Tensor load_idx(const std::filesystem::path& path);

}  // namespace tapegrad::arrays
