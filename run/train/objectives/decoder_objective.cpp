#include "tapegrad/run/train/objectives/internal/decoder_objective.h"

#include "tapegrad/base/text/words.h"

namespace tapegrad::run {

std::optional<nn::Decoder> DecoderObjective::make_second(const nn::Decoder&) const {
  const auto second = second_model();
  if (!second) return std::nullopt;
  return nn::Decoder(second->params(), second->config);
}

Loss DecoderObjective::loss(const DecoderModels& models, const data::Batch& batch,
                            Rng* dropout) const {
  const auto [inputs, targets] = tensors_of(batch);
  return {loss_of_rows(models, inputs, targets, dropout), inputs.ids.numel()};
}

std::optional<Losses> DecoderObjective::evaluate(const DecoderModels& models,
                                                 const EvaluationBatches& b) const {
  return estimate_losses(models.trained, b.data, b.plan, b.batches, b.random, b.training_rng,
                         b.processes);
}

std::string seen_text(double share) {
  return share == 1 ? "whole split" : fmt::format("{:.3g} % of the split", 100 * share);
}

FinalLoss final_loss(const TextLoss& loss) {
  return {
      fmt::format("final: val loss {} ({}), perplexity {:.2f}, {:.2f} bits per byte",
                  loss_text(loss.loss), seen_text(loss.share), loss.perplexity, loss.bits_per_byte),
      {{"final_val_loss", loss.loss},
       {"final_val_share", loss.share},
       {"perplexity", loss.perplexity},
       {"bits_per_byte", loss.bits_per_byte}}};
}

}  // namespace tapegrad::run
