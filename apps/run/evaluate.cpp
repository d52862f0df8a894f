#include "tapegrad/run/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "tapegrad/run/interrupt.h"

namespace tapegrad::run {
namespace {

double batch_loss(const nn::GPT& gpt, const data::Batch& batch) {
  const BatchTensors t = tensors_of(batch);
  return gpt.loss(t.inputs, t.targets).item();
}

// The mean over so many batches; over fewer, and not valid, if a signal comes.
template <class Loader>
double mean_loss(const nn::GPT& gpt, Loader&& loader, std::int64_t batches) {
  double mean = 0;
  for (std::int64_t i = 0; i < batches && !interrupted(); ++i) {
    mean += batch_loss(gpt, loader.next()) / static_cast<double>(batches);
  }
  return mean;
}

// The mean over the first batches of a new pass, whose order is drawn from `rng`.
double mean_of_pass(const nn::GPT& gpt, const std::vector<data::Token>& tokens,
                    const BatchPlan& plan, bool training, std::int64_t batches, Rng& rng) {
  data::EpochLoader loader(tokens, pass_options(plan, training), rng);
  const double mean = mean_loss(gpt, loader, std::min(batches, loader.batches_per_epoch()));
  rng = loader.rng();
  return mean;
}

}  // namespace

BatchTensors tensors_of(const data::Batch& batch) {
  const Shape shape{batch.B, batch.T};
  return {Tensor::from(batch.inputs, shape), Tensor::from(batch.targets, shape)};
}

std::optional<Losses> estimate_losses(const nn::GPT& gpt, const TextData& data,
                                      const BatchPlan& plan, std::int64_t batches,
                                      const RandomOptions& random, Rng& training_rng) {
  // Unless there is one generator for everything: a stream other than that of the training batches,
  // whose seed is `seed` itself.
  Rng own(random.seed + 1, Rng::Kind::philox);
  Losses losses;
  if (plan.kind == BatchKind::epochs) {
    Rng& rng = random.one_generator() ? training_rng : own;
    losses.train = mean_of_pass(gpt, data.train, plan, true, batches, rng);
    losses.val = mean_of_pass(gpt, data.val, plan, false, batches, rng);
  } else {
    const auto mean = [&](const std::vector<data::Token>& tokens) {
      return mean_loss(gpt, data::Loader(tokens, plan.batch_size, plan.block_size, own), batches);
    };
    losses.train = mean(data.train);
    losses.val = mean(data.val);
  }
  if (interrupted()) return std::nullopt;
  return losses;
}

std::int64_t evaluation_batches(const TextData& data, const BatchPlan& plan, std::int64_t batches) {
  if (plan.kind != BatchKind::epochs) return 2 * batches;
  const auto of = [&](const std::vector<data::Token>& tokens, bool training) {
    const data::EpochLoader loader(tokens, pass_options(plan, training), Rng(0));
    return std::min(batches, loader.batches_per_epoch());
  };
  return of(data.train, true) + of(data.val, false);
}

std::optional<SplitLoss> loss_of_tokens(const nn::GPT& gpt, const data::Tokenizer& tokenizer,
                                        const std::vector<data::Token>& tokens,
                                        std::int64_t batch_size, std::int64_t block_size) {
  data::SequentialBatches batches(tokens, batch_size, block_size);
  double nats = 0;
  while (const auto batch = batches.next()) {
    if (interrupted()) return std::nullopt;
    nats += batch_loss(gpt, *batch) * static_cast<double>(batch->B * batch->T);
  }
  const std::span<const data::Token> predicted = std::span(tokens).subspan(1);
  const double loss = nats / static_cast<double>(predicted.size());
  const double bits = nats / std::numbers::ln2;
  return SplitLoss{loss, std::exp(loss),
                   bits / static_cast<double>(tokenizer.decode(predicted).size())};
}

}  // namespace tapegrad::run
