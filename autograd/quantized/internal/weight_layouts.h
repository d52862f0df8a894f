#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tapegrad/autograd/quantized/internal/product.h"

namespace tapegrad::quantized {

// A layout of a matrix in panels for products: one row of a table. A layout and its kernels stand
// together, in a header such as block_rows.h; kernels.h lists them.
struct WeightLayout {
  std::string_view name;  // of the StoredType whose rows it packs
  std::int64_t elements;  // a row is a multiple of so many
  bool rounds_x;          // to 8 bits: see RoundedBlock
  std::int64_t (*panel_bytes)(std::int64_t in);
  // True if elements as files store them are all numbers.
  bool (*all_finite)(const std::uint8_t* stored, std::int64_t elements);
  // Sixteen rows as files store them, a null one standing for zeros → a panel.
  void (*pack)(const std::uint8_t* const (&rows)[kRows], std::int64_t in, std::uint8_t* panel);
  // Elements of one column in up to sixteen rows, which stand side by side, → their place in a
  // panel. Null where elements share blocks.
  void (*pack_column)(const std::uint8_t* elements, std::int64_t rows, std::int64_t column,
                      std::uint8_t* panel);
  // Rows [first, last) of a panel, one behind the other, with the numbers that StoredType::to_f32
  // gives.
  void (*unpack)(const std::uint8_t* panel, std::int64_t in, std::int64_t first, std::int64_t last,
                 float* to);
};
std::span<const WeightLayout> layouts();
// The layout of a stored type; null if there is none.
const WeightLayout* find_layout(std::string_view name);
// The best kernel that this processor has.
Multiply kernel_of(const WeightLayout& layout);

// x (columns, in) → (columns, in / kRounded) blocks, by all threads.
void round_to_blocks(const float* x, std::int64_t columns, std::int64_t in, RoundedBlock* to);

// The instruction sets whose kernels this build has, and this processor: "plain", "avx2",
// "avx512", "neon".
// For tests, and to name what is used; the best one stands last.
struct KernelSet {
  std::string_view name;
  const Multiply* kernels;
};
std::span<const KernelSet> kernel_sets();

}  // namespace tapegrad::quantized
