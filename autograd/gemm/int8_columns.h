#pragma once

#include <cstdint>

#include "tapegrad/base/memory/memory.h"

namespace tapegrad {

// A matrix of floats, rounded to 8 bits for sums along its rows, which are as long as a batch: for
// the gradient of a weight. Its rows are cut into blocks of kBlock, so that a row of large numbers
// takes digits from its neighbours alone, and each column of a block has a scale. Otherwise,
// numbers are rounded as int8_rows.h says.
//
// Blocks are as in Xi et al., "Jetfire: Efficient and Accurate Transformer Pretraining with INT8
// Data Flow and Per-Block Quantization", 2024, but one column wide. Each is multiplied for itself:
// products of shorter ones are slower.
class Int8Columns {
 public:
  static constexpr std::int64_t kBlock = 256;

  // Of a matrix without gaps between rows.
  Int8Columns(const float* x, std::int64_t rows, std::int64_t columns, bool stochastic = false);

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t ld() const { return ld_; }  // between rows
  const std::int8_t* data() const { return static_cast<const std::int8_t*>(numbers_.data()); }
  // (blocks, columns). Without rows, there is one block.
  const float* scales() const { return static_cast<const float*>(scales_.data()); }

 private:
  std::int64_t rows_, columns_, ld_;
  Scratch numbers_, scales_;
};

// C = AᵀB, (columns of a, columns of b), or += with `adds`. Error if a and b differ in rows. The
// products of the blocks are added up in order, as floats.
void multiply_columns(const Int8Columns& a, const Int8Columns& b, float* c, bool adds = false);

}  // namespace tapegrad
