#include <memory>
#include <optional>
#include <utility>

#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/make_decoder.h"
#include "tapegrad/run/train/evaluation/preference_evaluation.h"
#include "tapegrad/run/train/objectives/internal/decoder_objective.h"

namespace tapegrad::run {
namespace {

std::vector<data::Token> values_of(const Tensor& ids) {
  const auto values = ids.values<std::int32_t>();
  return {values.begin(), values.end()};
}

// Pairs that fill their rows, one in each, of these tokens.
data::Batch full_rows(const Tensor& inputs, const Tensor& targets) {
  const std::int64_t B = inputs.dim(0), T = inputs.dim(1);
  data::Batch batch{.B = B, .T = T, .inputs = values_of(inputs), .targets = values_of(targets)};
  for (std::int64_t i = 0; i < B * T; ++i) {
    batch.document_starts.push_back(static_cast<std::int32_t>(i % T < T / 2 ? 0 : T / 2));
  }
  return batch;
}

// The rows of such a batch, in a dry run: their values do not matter.
PairRows unread_rows(const Tensor& inputs) {
  const std::int64_t B = inputs.dim(0), T = inputs.dim(1);
  const auto ids = [](const Shape& shape) { return Tensor::empty(shape, DType::i32); };
  const Shape of_pairs{B, 2, T - T / 2};
  return {.inputs = {ids({B, T}), ids({B, T})},
          .places = ids({B * T}),
          .targets = ids({B * T}),
          .pairs = B,
          .tokens = ids(of_pairs),
          .counts = Tensor::empty(of_pairs),
          .shares = Tensor::empty(of_pairs)};
}

// Which of two answers is preferred: see preferences.h.
class PairObjective final : public DecoderObjective {
 public:
  PairObjective(const PreferenceOptions& options,
                std::optional<MemoryOptions::SecondModel> reference)
      : options_(options), reference_(std::move(reference)) {}

  std::string_view name() const override { return "pairs"; }
  std::vector<std::string> metrics() const override { return {"reward_margin", "reward_accuracy"}; }

  std::optional<MemoryOptions::SecondModel> second_model() const override { return reference_; }
  std::optional<nn::Decoder> make_second(const nn::Decoder& trained) const override {
    if (reference_ || !options_.has_reference()) return DecoderObjective::make_second(trained);
    return nn::without_adapters(trained);
  }

  Loss loss(const DecoderModels& models, const data::Batch& batch, Rng* dropout) const override {
    const PairRows rows = pair_rows(batch);
    const PairLoss pairs =
        preference_loss(models.trained, models.second, rows, options_, dropout, models.routers);
    Loss loss(pairs.value, rows.inputs.ids.numel());
    const Margins margins = margins_of(pairs.margins);
    loss.metrics = {margins.mean, margins.accuracy};
    return loss;
  }
  Tensor loss_of_rows(const DecoderModels& models, const nn::TokenRows& inputs,
                      const Tensor& targets, Rng* dropout) const override {
    std::optional<nn::Decoder> plain;
    if (models.second == nullptr) plain = make_second(models.trained);
    const nn::Decoder* const reference = plain ? &*plain : models.second;
    const PairRows rows =
        in_dry_run() ? unread_rows(inputs.ids) : pair_rows(full_rows(inputs.ids, targets));
    return preference_loss(models.trained, reference, rows, options_, dropout).value;
  }

  std::optional<Losses> evaluate(const DecoderModels& models,
                                 const EvaluationBatches& b) const override {
    return estimate_preferences(of(models), *b.data.chat, b.plan, b.batches, b.random,
                                b.training_rng, b.processes);
  }
  std::optional<FinalLoss> evaluate_all(const DecoderModels& models, const TextData& data,
                                        const WindowOptions& windows) const override {
    const auto mean = loss_of_pairs(of(models), data.chat->val, windows);
    if (!mean) return std::nullopt;
    return FinalLoss{
        fmt::format("final: val loss {} ({}), reward margin {:.4f}, reward accuracy {:.4f}",
                    loss_text(mean->loss), seen_text(mean->share), mean->margins.mean,
                    mean->margins.accuracy),
        {{"final_val_loss", mean->loss},
         {"final_val_share", mean->share},
         {"final_reward_margin", mean->margins.mean},
         {"final_reward_accuracy", mean->margins.accuracy}}};
  }

 private:
  PreferenceModel of(const DecoderModels& models) const {
    return {models.trained, models.second, options_};
  }

  const PreferenceOptions options_;
  const std::optional<MemoryOptions::SecondModel> reference_;
};

}  // namespace

std::unique_ptr<const DecoderObjective> pair_objective(
    const PreferenceOptions& options, std::optional<MemoryOptions::SecondModel> reference) {
  return std::make_unique<PairObjective>(options, std::move(reference));
}

}  // namespace tapegrad::run
