#include "tapegrad/run/models/pair_tensors.h"

#include <algorithm>

namespace tapegrad::run {

PairTensors tensors_of(const data::PairBatch& batch, const data::SpecialTokens& special) {
  const auto real = [](const std::vector<data::Token>& tokens, data::Token other) {
    return std::count_if(tokens.begin(), tokens.end(), [=](auto t) { return t != other; });
  };
  PairTensors t{Tensor::from(batch.sources, {batch.B, batch.S}),
                Tensor::from(batch.inputs, {batch.B, batch.T}),
                Tensor::from(batch.labels, {batch.B, batch.T}),
                {},
                real(batch.sources, special.padding) + real(batch.labels, data::kIgnoredLabel)};
  // Targets need no mask: what comes after their ends is hidden by causality, and has no labels.
  t.masks.source = nn::padding_mask(t.sources, special.padding);
  return t;
}

}  // namespace tapegrad::run
