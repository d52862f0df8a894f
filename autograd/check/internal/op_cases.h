#pragma once

#include <cstdint>
#include <vector>

#include "tapegrad/autograd/check/op_table.h"

namespace tapegrad {

// Parts of the op table. Matmul and linear, einsum, convolutions:
void add_product_cases(std::vector<OpCase>& cases);
// Attention and rotary positions:
void add_attention_cases(std::vector<OpCase>& cases);
// What is composed of other ops:
void add_composed_cases(std::vector<OpCase>& cases);
// Losses that are ops themselves:
void add_loss_cases(std::vector<OpCase>& cases);
// Recurrent networks:
void add_recurrent_cases(std::vector<OpCase>& cases);
// Ops on images:
void add_image_cases(std::vector<OpCase>& cases);

// Token ids for a case.
inline Tensor ids(const std::vector<std::int32_t>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}
inline Tensor ids(const std::vector<std::int32_t>& values) {
  return ids(values, {static_cast<std::int64_t>(values.size())});
}

}  // namespace tapegrad
