#include "apps/evaluate.h"

#include <cmath>
#include <numbers>

#include "apps/interrupt.h"
#include "autograd/ops.h"

namespace tapegrad::apps {
namespace {

double batch_loss(const nn::GPT& gpt, const data::Batch& batch) {
  const BatchTensors t = tensors_of(batch);
  return cross_entropy(gpt(t.inputs), t.targets).item();
}

}  // namespace

BatchTensors tensors_of(const data::Batch& batch) {
  const Shape shape{batch.B, batch.T};
  return {Tensor::from(batch.inputs, shape), Tensor::from(batch.targets, shape)};
}

std::optional<Losses> estimate_losses(const nn::GPT& gpt, const Dataset& data,
                                      const TrainOptions& o) {
  // Another stream than that of the training batches, which begins at the seed itself.
  Rng rng(o.seed + 1, Rng::Kind::philox);
  Losses losses;
  const auto add = [&](const std::vector<data::Token>& tokens, double& mean) {
    data::Loader loader(tokens, o.batch_size, o.block_size, rng);
    for (int64_t i = 0; i < o.eval_iters && !interrupted(); ++i) {
      mean += batch_loss(gpt, loader.next()) / static_cast<double>(o.eval_iters);
    }
  };
  add(data.train, losses.train);
  add(data.val, losses.val);
  if (interrupted()) return std::nullopt;
  return losses;
}

std::optional<SplitLoss> validation_loss(const nn::GPT& gpt, const Dataset& data,
                                         const TrainOptions& o) {
  data::SequentialBatches batches(data.val, o.batch_size, o.block_size);
  double nats = 0;
  while (const auto batch = batches.next()) {
    if (interrupted()) return std::nullopt;
    nats += batch_loss(gpt, *batch) * static_cast<double>(batch->B * batch->T);
  }
  const std::span<const data::Token> predicted = std::span(data.val).subspan(1);
  const double loss = nats / static_cast<double>(predicted.size());
  const double bits = nats / std::numbers::ln2;
  return SplitLoss{loss, std::exp(loss),
                   bits / static_cast<double>(data.tokenizer.decode(predicted).size())};
}

}  // namespace tapegrad::apps
