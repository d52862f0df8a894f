#pragma once

#include <memory>
#include <utility>

#include "tapegrad/autograd/gemm/precision.h"
#include "tapegrad/autograd/tensor/tensor.h"

namespace tapegrad {

class QuantizedMatrix;  // quantized/quantized_matrix.h

// The weight W (out, in) of a linear layer, an embedding or a head: a tensor, which may be trained,
// or a matrix as short as files store it, which has no gradient. Then the tensor is undefined.
struct Weight : Tensor {
  Precision precision = Precision::full;  // of products with it: see matmul() in ops.h
  std::shared_ptr<const QuantizedMatrix> quantized;
  // Of a quantised one. True, for training: products are gemm()'s in this precision with the
  // dequantised matrix, some hundred rows of which are dequantised at a time, so that x is not
  // rounded to 8 bits. They suit many rows of x. Where rows are kept apart (BatchInvariant in
  // ops.h), as where texts are made, they are multiplied as with false: by kernels that read each
  // byte of W once.
  bool exact = false;

  Weight() = default;
  Weight(Tensor tensor, Precision products = Precision::full)
      : Tensor(std::move(tensor)), precision(products) {}
  Weight(std::shared_ptr<const QuantizedMatrix> matrix) : quantized(std::move(matrix)) {}
  static Weight exactly(std::shared_ptr<const QuantizedMatrix> matrix,
                        Precision products = Precision::full) {
    Weight weight(std::move(matrix));
    weight.precision = products;
    weight.exact = true;
    return weight;
  }
  // Another tensor in place of this weight, for products of the same precision.
  Weight& operator=(Tensor tensor) {
    Tensor::operator=(std::move(tensor));
    quantized = nullptr;
    return *this;
  }

  bool exists() const { return defined() || quantized != nullptr; }
};

}  // namespace tapegrad
