#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/tensor/stored_tensor.h"
#include "tapegrad/base/memory/memory.h"

namespace tapegrad {

namespace quantized {
struct WeightLayout;
}

// A matrix W (out, in) whose elements stay as short as files store them, in an order that suits
// products with few columns: these read each byte of W once, at the speed of memory. It is never
// changed. Types: f32, bf16, f16, and those of blocks (q8_0 and the like).
//
// A product with a matrix of blocks rounds its input to 8 bits, in blocks of 32 with a scale of
// their own, as llama.cpp does. An element of a product is computed by the same operations,
// whatever other rows of x there are and however many threads: of matrices of blocks, it is the
// same to the bit on every processor, too.
class QuantizedMatrix {
 public:
  // The rows of a matrix as type `as`, which all threads read and convert, some rows at a time; one
  // that is transposed is widened first if it becomes blocks. Errors, which begin with the label of
  // `from`: it is no matrix, or empty; `as` has no quantised form, or its blocks do not fill the
  // rows; a value is no number, or does not fit; reading fails; a live tape tracks the tensor.
  QuantizedMatrix(const StoredTensor& from, const StoredType& as);
  ~QuantizedMatrix();
  QuantizedMatrix(const QuantizedMatrix&) = delete;
  QuantizedMatrix& operator=(const QuantizedMatrix&) = delete;

  // True if matrices of this type can be quantised, with rows of so many elements.
  static bool can_quantize(const StoredType& type, std::int64_t in);

  const StoredType& type() const { return *type_; }
  std::int64_t out() const { return out_; }
  std::int64_t in() const { return in_; }
  Shape shape() const { return {out_, in_}; }
  std::uint64_t bytes() const;  // that a product reads
  std::span<const std::byte> memory() const;

  // The matrix as a tensor of f32; its rows [first, last), which all threads write to `to` one
  // behind the other; and its rows `ids` (…) i32 → (…, in). Error if there is no such row.
  Tensor dequantized() const;
  void dequantize(std::int64_t first, std::int64_t last, float* to) const;
  Tensor rows(const Tensor& ids) const;

 private:
  friend class QuantizedProducts;
  void fill(const StoredTensor& from);

  const StoredType* type_;
  const quantized::WeightLayout* layout_;
  std::int64_t out_, in_, panel_bytes_;
  std::unique_ptr<Scratch> panels_;
};

// The name of the kernels that multiply quantised matrices in this process: "avx512".
std::string_view quantized_kernels();

}  // namespace tapegrad
