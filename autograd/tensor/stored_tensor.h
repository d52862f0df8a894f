#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/tensor/stored_type.h"
#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/base/file.h"

namespace tapegrad {

// A tensor as a file or memory has it. Nothing is read before somebody asks for bytes or for
// widened(). It reads from the source that gave it, and must not outlive that.
class StoredTensor {
 public:
  // Copies bytes [offset, offset + bytes) of the tensor to `to`. False if that fails. Any thread
  // may call it.
  using Read = std::function<bool(std::uint64_t offset, std::byte* to, std::size_t bytes)>;

  // `label` begins messages: "PATH: tensor 'x'". Errors: the rows are not of whole blocks.
  StoredTensor(const StoredType& type, const Shape& shape, Read read, std::string label);
  // Elements that a file has from byte `at` on.
  StoredTensor(const StoredType& type, const Shape& shape, const InputFile& file, std::uint64_t at,
               std::string label);
  // The elements of a tensor in memory. No gradient flows from them, also not through widened().
  StoredTensor(const Tensor& t, std::string label);

  const StoredType& type() const { return *type_; }
  const Shape& shape() const { return shape_; }
  std::uint64_t bytes() const { return bytes_; }
  const std::string& label() const { return label_; }
  // The tensor that these elements are of, all or some; undefined for those of a file.
  const Tensor& in_memory() const { return in_memory_; }
  bool is_transposed() const { return transposed_; }  // its bytes are those of the other order
  // False if reading fails, or if there are no such bytes.
  [[nodiscard]] bool read(std::uint64_t offset, std::byte* to, std::size_t bytes) const;

  // True if `other` has the same type, shape and bytes. Error if reading fails.
  bool same_bytes(const StoredTensor& other) const;
  // A new tensor with the elements as this dtype, read and converted by all threads. Errors, which
  // begin with the label: there is no such conversion; an element does not fit; reading fails.
  Tensor widened(DType as) const;

  // The same bytes seen in another way: a matrix (m, n) as (n, m), or matrices (E, m, n) as (E, n,
  // m). Errors: other dimensions; elements that are stored in blocks.
  StoredTensor transposed() const;
  // Rows of the first dimension, which move as bytes: row i is row place(i) of this one. Errors: a
  // row is no whole number of blocks; this one is transposed.
  using RowPlace = std::function<std::int64_t(std::int64_t)>;
  StoredTensor rows(std::int64_t count, RowPlace place) const;
  StoredTensor first_rows(std::int64_t count) const;
  // Element i of the first dimension, without that dimension. Error if there is none, or for a
  // transposed matrix.
  StoredTensor part(std::int64_t i) const;
  // Tensors of one type and shape, one behind the other in a first dimension of their own. Errors:
  // there are none; they differ; one is transposed.
  static StoredTensor stack(std::vector<StoredTensor> parts, std::string label);

 private:
  template <class T>
  void fill(T* out) const;
  template <class T>
  void fill_transposed(T* out) const;
  template <class T>
  void fill_matrix(std::uint64_t at, T* out) const;
  void read_or_fail(std::uint64_t offset, void* to, std::size_t bytes) const;

  const StoredType* type_;
  Shape shape_;
  Read read_;
  std::string label_;
  std::uint64_t bytes_;
  Tensor in_memory_;
  bool transposed_ = false;
};

// The elements of a tensor as they are in memory.
std::string_view bytes_of(const Tensor& t);

}  // namespace tapegrad
