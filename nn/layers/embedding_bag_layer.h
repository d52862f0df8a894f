#pragma once

#include <optional>

#include "tapegrad/autograd/ops/composed_ops.h"
#include "tapegrad/nn/params.h"

namespace tapegrad::nn {

// The rows of a bag of ids as one, see embedding_bag in composed_ops.h. Initialised N(0, 1), the
// row of padding_idx 0, as nn.EmbeddingBag.
struct EmbeddingBag {
  Tensor weight;  // (V, C)
  BagMode mode = BagMode::mean;
  std::optional<std::int64_t> padding_idx;
  bool include_last_offset = false;  // in the offsets of calls that have some
  EmbeddingBag() = default;
  EmbeddingBag(const Params& p, std::int64_t rows, std::int64_t channels,
               BagMode mode = BagMode::mean, std::optional<std::int64_t> padding_idx = {});
  Tensor operator()(const Tensor& ids, const Tensor& offsets = {},
                    const Tensor& per_sample_weights = {}) const {
    return embedding_bag(weight, ids,
                         {mode, offsets, per_sample_weights, padding_idx, include_last_offset});
  }
};

}  // namespace tapegrad::nn
