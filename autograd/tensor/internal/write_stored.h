#pragma once

#include <string_view>

#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/base/file.h"

namespace tapegrad {

// How files take tensors of f32: see StoredType::from_f32.

// Writes the elements of `t`, converted piece by piece by all threads. Error, naming the tensor, if
// the type cannot hold a value, or is one that is only read.
void write_stored(FileWriter& file, std::string_view name, const Tensor& t, const StoredType& type);

// The same errors, without a file.
void check_fits(std::string_view name, const Tensor& t, const StoredType& type);

}  // namespace tapegrad
