#include "tapegrad/nn/layers/embedding_bag_layer.h"

#include "tapegrad/autograd/ops/internal/ids.h"

namespace tapegrad::nn {

EmbeddingBag::EmbeddingBag(const Params& p, std::int64_t rows, std::int64_t channels, BagMode m,
                           std::optional<std::int64_t> padding)
    : weight(p.parameter("weight", {rows, channels},
                         zero_row(normal(0, 1), padding_row("EmbeddingBag", padding, rows)))),
      mode(m),
      padding_idx(padding) {}

}  // namespace tapegrad::nn
