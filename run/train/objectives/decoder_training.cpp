#include "tapegrad/run/train/objectives/internal/decoder_training.h"

#include "tapegrad/base/memory/dry_run.h"

namespace tapegrad::run {

Rng& DecoderTraining::dropout() {
  return parts_.random.one_generator() ? parts_.batches.rng() : parts_.own_dropout;
}

Loss DecoderTraining::loss() {
  return parts_.objective.loss(parts_.models, parts_.batches.next(), &dropout());
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

std::vector<std::string> DecoderTraining::metrics() const { return parts_.objective.metrics(); }

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
