#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/autograd/tensor/dtype.h"
#include "tapegrad/autograd/tensor/shape.h"

namespace tapegrad {

// A type in which files store tensors: one row of a table that readers, writers and options share.
// Elements stand one by one, or in blocks: some elements of a row that share bytes, such as a
// scale. A row of the table and its functions stand together, in stored_elements.cpp,
// stored_blocks.cpp, stored_super_blocks.cpp or stored_short_blocks.cpp; nothing else knows of a
// single type unless a format has one for a purpose.
struct StoredType {
  std::string_view name;         // "bf16"; that of a DType, if elements in memory have these bytes
  DType dtype;                   // of the tensor that it is read as, unless another is asked for
  std::int64_t block = 1;        // elements
  std::int64_t block_bytes = 0;  // of a block

  // Its names in formats. Without a name, files of the format cannot have it.
  std::string_view safetensors = {};                // "BF16"
  std::string_view torch = {}, torch_storage = {};  // "bfloat16", "BFloat16Storage"
  std::optional<std::uint32_t> ggml = {};           // ggml_type of a tensor in GGUF
  std::optional<std::int64_t> gguf_file = {};       // general.file_type, if weights are of it

  // These convert n elements, whole blocks. Null: there is no such conversion.
  void (*to_f32)(const std::byte* from, std::int64_t n, float* to) = nullptr;
  void (*to_f64)(const std::byte* from, std::int64_t n, double* to) = nullptr;
  // Error if an element does not fit.
  void (*to_i32)(const std::byte* from, std::int64_t n, std::int32_t* to) = nullptr;
  // Rounds to the nearest. Returns how many elements stand before the first one that the type
  // cannot hold, n if there is none; behind it, `to` is unspecified.
  std::int64_t (*from_f32)(const float* from, std::int64_t n, std::byte* to) = nullptr;

  // True if tensors of `other` have these bytes in memory.
  bool is(DType other) const { return name == name_of(other); }
};

// The table. The order is that of messages and help; a row lives as long as the program.
const std::vector<StoredType>& stored_types();
// The row of this name. Error, naming all, if there is none.
const StoredType& stored_type(std::string_view name);
// The row whose bytes are those of tensors of this dtype.
const StoredType& stored_type(DType dtype);

// The rows for which `has(row)`, and their names for messages: "f32, f16".
template <class Has>
std::vector<const StoredType*> stored_types_where(const Has& has) {
  std::vector<const StoredType*> rows;
  for (const StoredType& type : stored_types()) {
    if (has(type)) rows.push_back(&type);
  }
  return rows;
}
std::string names_of(const std::vector<const StoredType*>& types);

// Bytes of a tensor of this shape. Nothing if a row, the last dimension, is not of whole blocks, or
// if no file has so many bytes.
std::optional<std::uint64_t> stored_bytes(const StoredType& type, const Shape& shape);

namespace detail {
std::span<const StoredType> element_types();      // stored_elements.cpp
std::span<const StoredType> block_types();        // stored_blocks.cpp
std::span<const StoredType> super_block_types();  // stored_super_blocks.cpp
std::span<const StoredType> short_block_types();  // stored_short_blocks.cpp
}  // namespace detail

}  // namespace tapegrad
