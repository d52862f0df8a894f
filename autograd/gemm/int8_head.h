#pragma once

#include <cstdint>

#include "tapegrad/autograd/gemm/int8_columns.h"
#include "tapegrad/autograd/gemm/int8_rows.h"

namespace tapegrad {

// The products of a loss's head in 8 bits: x (N, C) by weight (V, C), some rows at a time, with
// what the rows' gradients of logits make of x and of the weight. Where the classes are many,
// nearly all gradients of a row are far smaller than the largest of them, and matter together. So
//   - the largest of each row, the target's as a rule, is multiplied for itself, in floats;
//   - the others have a scale for each kBlock classes (for x's gradient), or for each class of
//     Int8Columns::kBlock rows (for the weight's);
//   - they are rounded stochastically, by a hash of the scale and the place: their sums are right
//     in the mean, and the same in each run.
class Int8Head {
 public:
  static constexpr std::int64_t kBlock = 1024;
  static constexpr std::int64_t kRows = 2 * Int8Columns::kBlock;  // at a time

  // The gradients may be null. Rounds the weight.
  Int8Head(const float* x, const float* weight, std::int64_t classes, std::int64_t channels,
           float* dx, float* dweight);

  std::int64_t classes() const { return classes_; }
  bool differentiates() const { return dx_ != nullptr || dweight_ != nullptr; }
  // Of rows [first, first + n), (n, V).
  void logits(std::int64_t first, std::int64_t n, float* to) const;
  // Sets the largest magnitude of each row of gradients (n, V) to 0. The chunk at first = 0
  // overwrites dweight, others add to it.
  void add_gradients(std::int64_t first, std::int64_t n, float* of_logits) const;

 private:
  const float *x_, *weight_;
  std::int64_t classes_, channels_;
  float *dx_, *dweight_;
  Int8Rows rounded_;  // the weight
};

}  // namespace tapegrad
