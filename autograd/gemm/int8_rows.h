#pragma once

#include <cstdint>

#include "tapegrad/base/memory/memory.h"

namespace tapegrad {

// A matrix of floats, rounded to 8 bits. Each row has a scale: the largest magnitude of its numbers
// over 127. A number is its scale times a whole number of -127 to 127: the nearest to its product,
// as a float, with 127 over the largest magnitude; ties go to the even one. A row with NaN or
// infinity has the scale NaN, so that all that is made of it is NaN. A row without a number of
// 2^-119 or more is taken for zeros.
//
// This is for training in int8, after Wortsman et al., "Stable and low-precision training for
// large-scale vision-language models", 2023 (SwitchBack): products with a weight, forward and with
// respect to x. The gradient of the weight has sums along the other dimension: int8_columns.h.
// In place of a second copy of the weight, rounded along the other dimension, the scales of its
// rows go into dy before that is rounded. So backward multiplies by the same numbers as forward.
//
// The gradients of logits (int8_head.h) are rounded stochastically, since nearly all of them are so
// small beside the largest that the nearest whole number is 0, and together they are not.
//
// Sums of 8-bit products are whole numbers, and exact: results do not depend on who adds them up in
// which order, on threads, or on which rows are multiplied together. Error for sums of more than
// 133,144 products, which 32 bits may not hold.
struct Int8RowsOptions {
  const float* factors = nullptr;  // of the columns, which are multiplied by them first
  std::int64_t block = 0;          // neighbours that share a scale; 0 for the whole row
  bool stochastic = false;
};

class Int8Rows {
 public:
  // Of a matrix of floats, with `ld` between stored rows.
  Int8Rows(const float* x, std::int64_t rows, std::int64_t columns, std::int64_t ld,
           const Int8RowsOptions& options = {});

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  const std::int8_t* data() const { return static_cast<const std::int8_t*>(numbers_.data()); }
  std::int64_t block() const { return block_; }  // at least 1
  // (blocks of a row, rows). Without columns, there is one block.
  const float* scales() const { return static_cast<const float*>(scales_.data()); }

 private:
  std::int64_t rows_, columns_, block_;
  Scratch numbers_, scales_;
};

// y = x·Wᵀ, or += with `adds`; y's rows lie `ldy` apart. Errors: x and W differ in columns; they
// have several scales in a row.
void multiply(const Int8Rows& x, const Int8Rows& w, float* y, std::int64_t ldy, bool adds);
// dx = dy·W with dy (rows, W's rows), which is rounded here; without gaps between rows. The factors
// of `how` are the scales of W's rows.
void multiply_back(const float* dy, std::int64_t rows, const Int8Rows& w, float* dx,
                   Int8RowsOptions how = {});

// True if products of 8 bits run on instructions for them here. Otherwise they are multiplied as
// floats, with the same result.
bool has_int8_instructions();

}  // namespace tapegrad
