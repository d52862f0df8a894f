#include "tapegrad/run/train/objectives/internal/decoder_training.h"

#include <utility>

#include "tapegrad/base/memory/dry_run.h"

namespace tapegrad::run {
namespace {

constexpr const char *kBalanceLoss = "balance_loss", *kZLoss = "z_loss";

}  // namespace

DecoderTraining::DecoderTraining(const Parts& parts) : parts_(parts) {
  std::size_t experts = 0;
  for (const nn::Block& block : parts.models.trained.h) {
    if (!block.experts.exists()) continue;
    const bool moves = block.experts.balances();
    balanced_.push_back(moves ? &block.experts : nullptr);
    if (moves) experts += static_cast<std::size_t>(block.experts.options.experts);
  }
  tokens_.resize(experts);
}

void DecoderTraining::count(const nn::RouterLosses& routers) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < balanced_.size(); ++i) {
    if (balanced_[i] == nullptr) continue;
    for (const std::int64_t tokens : routers.tokens_of(i)) tokens_[at++] += tokens;
  }
}

std::vector<std::int64_t> DecoderTraining::take_counts() {
  return std::exchange(tokens_, std::vector<std::int64_t>(tokens_.size()));
}

void DecoderTraining::end_step(std::span<const std::int64_t> counts, bool updated) {
  if (!updated) return;
  for (const nn::Experts* const experts : balanced_) {
    if (experts == nullptr) continue;
    const auto own = static_cast<std::size_t>(experts->options.experts);
    experts->balance(counts.first(own));
    counts = counts.subspan(own);
  }
}

Rng& DecoderTraining::dropout() {
  return parts_.random.one_generator() ? parts_.batches.rng() : parts_.own_dropout;
}

Loss DecoderTraining::loss() {
  nn::RouterLosses routers;
  DecoderModels models = parts_.models;
  models.routers = &routers;
  Loss loss = parts_.objective.loss(models, parts_.batches.next(), &dropout());
  if (!routers.balance.defined()) return loss;
  count(routers);
  const std::size_t at = parts_.objective.metrics().size();
  loss.metrics.at(at) = routers.balance.item();
  loss.metrics.at(at + 1) = routers.z.item();
  return loss;
}

// What else draws is the dropout of the model, whatever stands in its rows.
void DecoderTraining::skip_batch() {
  parts_.batches.skip();
  const nn::Decoder& model = parts_.models.trained;
  if (model.config.dropout == 0) return;
  const DryRun dry(DryRun::Draws::made);
  const Tensor ids = Tensor::zeros({parts_.plan.batch_size, parts_.plan.block_size}, DType::i32);
  model.loss(ids, ids, &dropout());
}

std::vector<std::int64_t> DecoderTraining::counted(std::int64_t batches) const {
  return parts_.batches.counted(batches);
}

// Beside the objective's own: those of routers, without the factors that they count in the loss.
std::vector<std::string> DecoderTraining::metrics() const {
  std::vector<std::string> names = parts_.objective.metrics();
  if (parts_.models.trained.config.moe.exist()) names.insert(names.end(), {kBalanceLoss, kZLoss});
  return names;
}

std::optional<Losses> DecoderTraining::evaluate() {
  return parts_.objective.evaluate(parts_.models,
                                   {parts_.data, parts_.plan, parts_.eval_iters, parts_.random,
                                    parts_.batches.rng(), parts_.processes});
}

std::optional<Losses> DecoderTraining::evaluate(std::int64_t batches, Rng& rng) const {
  return parts_.objective.evaluate(parts_.models,
                                   {parts_.data, parts_.plan, batches, parts_.random, rng});
}

std::optional<FinalLoss> DecoderTraining::evaluate_all(const WindowOptions& windows) const {
  return parts_.objective.evaluate_all(parts_.models, parts_.data, windows);
}

}  // namespace tapegrad::run
