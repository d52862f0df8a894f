#include "tapegrad/nn/layers/embedding_bag_layer.h"

#include "tapegrad/autograd/ops.h"

namespace tapegrad::nn {

EmbeddingBag::EmbeddingBag(const Params& p, std::int64_t rows, std::int64_t channels, BagMode m,
                           std::optional<std::int64_t> padding)
    : mode(m), padding_idx(padding) {
  check(!padding || (*padding >= -rows && *padding < rows),
        "[EmbeddingBag] padding_idx {} is outside the {} rows", padding.value_or(0), rows);
  weight = p.parameter("weight", {rows, channels}, [=](Tensor& t, Rng& rng) {
    normal(0, 1)(t, rng);
    if (!padding) return;
    const std::int64_t row = *padding < 0 ? *padding + rows : *padding;
    Tensor unused = t.rows(row, row + 1);
    fill(unused, 0);
  });
}

}  // namespace tapegrad::nn
