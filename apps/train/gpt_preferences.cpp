#include "tapegrad/apps/train/gpt_preferences.h"

#include <memory>

#include "tapegrad/apps/train/gpt_program.h"
#include "tapegrad/apps/train/init_from.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/make_decoder.h"
#include "tapegrad/run/models/tensor_views.h"
#include "tapegrad/run/record/report.h"

namespace tapegrad::gpt {
namespace {

// Pairs that fill their rows, one in each, of these tokens.
data::Batch full_rows(std::vector<data::Token> inputs, std::vector<data::Token> targets,
                      std::int64_t B, std::int64_t T) {
  data::Batch batch{.B = B, .T = T, .inputs = std::move(inputs), .targets = std::move(targets)};
  for (std::int64_t i = 0; i < B * T; ++i) {
    batch.document_starts.push_back(static_cast<std::int32_t>(i % T < T / 2 ? 0 : T / 2));
  }
  return batch;
}

// The rows of such a batch, whose values do not matter.
run::PairRows unread_rows(std::int64_t B, std::int64_t T) {
  const DryRun dry;
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

std::vector<data::Token> values_of(const Tensor& ids) {
  const auto values = ids.values<std::int32_t>();
  return {values.begin(), values.end()};
}

}  // namespace

std::optional<nn::Decoder> reference_model(const Plan& o, const nn::Decoder& gpt) {
  if (!o.prefers() || !o.preference.has_reference()) return std::nullopt;
  if (!o.copies_start()) return nn::without_adapters(gpt);
  return nn::Decoder(start_params(weight_plan(o)), o.model);
}

void add_preference_memory(const Plan& o, run::MemoryOptions& memory) {
  if (!o.prefers()) return;
  if (o.copies_start()) {
    memory.second_model = {.config = o.model,
                           .params = [&o] { return start_params(weight_plan(o)); }};
  }
  const run::PairRows rows = unread_rows(o.optimizer.batch_size, o.text.block_size);
  memory.loss = [rows, &o](const nn::Decoder& gpt, const nn::Decoder* second_model, Rng* dropout) {
    std::optional<nn::Decoder> plain;
    if (o.preference.has_reference() && second_model == nullptr) plain = nn::without_adapters(gpt);
    return run::preference_loss(gpt, plain ? &*plain : second_model, rows, o.preference, dropout)
        .value;
  };
}

std::function<Tensor(const nn::Decoder&, const nn::TokenRows&, const Tensor&, Rng*)>
preference_trial(const Plan& o) {
  if (!o.prefers()) return {};
  auto reference = std::make_shared<std::optional<nn::Decoder>>();
  return [reference, &o](const nn::Decoder& gpt, const nn::TokenRows& inputs, const Tensor& targets,
                         Rng* dropout) {
    if (!*reference) *reference = reference_model(o, gpt);
    const run::PairRows rows = run::pair_rows(
        full_rows(values_of(inputs.ids), values_of(targets), inputs.ids.dim(0), inputs.ids.dim(1)));
    const nn::Decoder* const with = *reference ? &**reference : nullptr;
    return run::preference_loss(gpt, with, rows, o.preference, dropout).value;
  };
}

run::PreferenceModel Program::preferring() const {
  return {gpt_, reference_ ? &*reference_ : nullptr, plan_.preference};
}

run::Loss Program::next_preference_loss() {
  const run::PairRows rows = run::pair_rows(batches_.next());
  const run::PairLoss loss = preferring()(rows, &dropout());
  run::Loss told(loss.value, rows.inputs.ids.numel());
  const run::Margins margins = run::margins_of(loss.margins);
  told.metrics = {margins.mean, margins.accuracy};
  return told;
}

void Program::finish_preferences(run::Report& report, const run::WindowOptions& windows) const {
  const auto mean = run::loss_of_pairs(preferring(), data_.chat->val, windows);
  if (!mean) return;
  const std::string seen =
      mean->share == 1 ? "whole split" : fmt::format("{:.3g} % of the split", 100 * mean->share);
  report.result(
      fmt::format("final: val loss {} ({}), reward margin {:.4f}, reward accuracy {:.4f}",
                  loss_text(mean->loss), seen, mean->margins.mean, mean->margins.accuracy),
      {{"final_val_loss", mean->loss},
       {"final_val_share", mean->share},
       {"final_reward_margin", mean->margins.mean},
       {"final_reward_accuracy", mean->margins.accuracy}});
}

}  // namespace tapegrad::gpt
