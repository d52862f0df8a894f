#pragma once

#include <functional>
#include <string>

#include "tapegrad/autograd/onnx/internal/onnx_graph.h"

namespace tapegrad::run {

// A tensor of f32 that is made when it is written, as f32 or f16.
OnnxWeight onnx_floats(const std::string& name, const Shape& shape, const StoredType& type,
                       std::function<Tensor()> make);

// A matrix in 8 bits: element x of row r is stored as round(x / scale) + 128, where the scale of
// each row of W (out, in) is its largest magnitude / 127. Bytes have no sign: where processors
// multiply unsigned bytes by signed ones, some cut sums of two products to 16 bits. `transposed`
// stores (in, out). Error, naming the tensor, if a value is not finite.
inline constexpr std::uint8_t kOnnxZeroByte = 128;
OnnxWeight onnx_rounded(const std::string& name, const Tensor& w, bool transposed);
OnnxWeight onnx_scales(const std::string& name, const Tensor& w);  // (out)

}  // namespace tapegrad::run
