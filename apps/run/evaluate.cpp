#include "tapegrad/run/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/run/batches.h"
#include "tapegrad/run/interrupt.h"

namespace tapegrad::apps {
namespace {

double batch_loss(const nn::GPT& gpt, const data::Batch& batch) {
  const BatchTensors t = tensors_of(batch);
  return gpt.loss(t.inputs, t.targets).item();
}

// Of so many batches, fewer if a signal comes.
template <class Loader>
double mean_loss(const nn::GPT& gpt, Loader&& loader, int64_t batches) {
  double mean = 0;
  for (int64_t i = 0; i < batches && !interrupted(); ++i) {
    mean += batch_loss(gpt, loader.next()) / static_cast<double>(batches);
  }
  return mean;
}

// Of the first eval_iters batches of a pass of its own, which is drawn from `rng`.
double mean_of_pass(const nn::GPT& gpt, const std::vector<data::Token>& tokens,
                    const TrainOptions& o, bool training, Rng& rng) {
  data::EpochLoader loader(tokens, pass_options(o, training), rng);
  const double mean = mean_loss(gpt, loader, std::min(o.eval_iters, loader.batches_per_epoch()));
  rng = loader.rng();
  return mean;
}

}  // namespace

BatchTensors tensors_of(const data::Batch& batch) {
  const Shape shape{batch.B, batch.T};
  return {Tensor::from(batch.inputs, shape), Tensor::from(batch.targets, shape)};
}

std::optional<Losses> estimate_losses(const nn::GPT& gpt, const Dataset& data,
                                      const TrainOptions& o, Rng& training_rng) {
  // Unless one generator is asked for: another stream than that of the training batches, which
  // begins at the seed itself.
  Rng own(o.seed + 1, Rng::Kind::philox);
  Losses losses;
  if (o.in_passes()) {
    Rng& rng = o.one_generator() ? training_rng : own;
    losses.train = mean_of_pass(gpt, data.train, o, true, rng);
    losses.val = mean_of_pass(gpt, data.val, o, false, rng);
  } else {
    losses.train =
        mean_loss(gpt, data::Loader(data.train, o.batch_size, o.block_size, own), o.eval_iters);
    losses.val =
        mean_loss(gpt, data::Loader(data.val, o.batch_size, o.block_size, own), o.eval_iters);
  }
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
