#pragma once

#include <string>

#include "tapegrad/autograd/formats/tensor_source.h"
#include "tapegrad/autograd/tensor/stored_tensor.h"

namespace tapegrad::run {

// Matrices of MXFP4 as safetensors' files have them: blocks (…, out, in / 32, 16) and scales (…,
// out, in / 32), both u8. Byte i of a block has elements 2i, in its lower bits, and 2i + 1.

// The shape (…, out, in) of the matrices. Error, naming file and tensor, if types or shapes are
// others.
Shape mxfp4_shape(const TensorSource& blocks, const std::string& blocks_name,
                  const TensorSource& scales, const std::string& scales_name);
// All rows of these, (… · out, in), in blocks as GGUF has them.
StoredTensor mxfp4_rows(const StoredTensor& blocks, const StoredTensor& scales);

// The same elements in another shape.
StoredTensor reshaped(const StoredTensor& from, const Shape& shape);

}  // namespace tapegrad::run
