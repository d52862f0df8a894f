#include "tapegrad/nn/language_model.h"

#include <cmath>

namespace tapegrad::nn {
namespace {

std::variant<GPT, Llama> make_model(const Params& p, const GPTConfig& config) {
  if (config.is_llama()) return Llama(p, config);
  return GPT(p, config);
}

bool projects_into_residual(std::string_view name) {
  return name.ends_with("c_proj.weight") || name.ends_with("o_proj.weight") ||
         name.ends_with("down_proj.weight");
}

}  // namespace

LanguageModel::LanguageModel(const Params& p, const GPTConfig& config)
    : model_(make_model(p, config)) {}

const GPTConfig& LanguageModel::config() const {
  return std::visit([](const auto& m) -> const GPTConfig& { return m.config; }, model_);
}

const Embedding& LanguageModel::tokens() const {
  if (const GPT* gpt = std::get_if<GPT>(&model_)) return gpt->wte;
  return std::get<Llama>(model_).embed_tokens;
}

const Linear& LanguageModel::head() const {
  return std::visit([](const auto& m) -> const Linear& { return m.lm_head; }, model_);
}

void LanguageModel::set_recompute(bool recompute) {
  std::visit([=](auto& m) { m.recompute = recompute; }, model_);
}

Tensor LanguageModel::hidden(const Tensor& ids, Rng* rng) const {
  return std::visit([&](const auto& m) { return m.hidden(ids, rng); }, model_);
}

Tensor LanguageModel::loss(const Tensor& ids, const Tensor& targets, Rng* rng,
                           std::int32_t ignore_index) const {
  return std::visit([&](const auto& m) { return m.loss(ids, targets, rng, ignore_index); }, model_);
}

Tensor LanguageModel::last_logits(const Tensor& ids) const {
  return std::visit([&](const auto& m) { return m.last_logits(ids); }, model_);
}

Tensor LanguageModel::last_logits(const Tensor& ids, KVCache& cache) const {
  return std::visit([&](const auto& m) { return m.last_logits(ids, cache); }, model_);
}

void init_gpt2(const LanguageModel& model, const Params& p, Rng& rng) {
  const GPTConfig& config = model.config();
  for (const auto& [name, t] : p.parameters()) {
    if (t.rank() == 2) refill(t, normal(0, 0.02), rng);
    if (name.ends_with(".bias")) refill(t, zeros(), rng);
  }
  // A tied weight is visited twice: as the embedding's and as the head's.
  if (config.tied) refill(model.tokens().weight, normal(0, 0.02), rng);
  const double projection = 0.02 / std::sqrt(2.0 * config.n_layer);
  for (const auto& [name, t] : p.parameters()) {
    if (projects_into_residual(name)) refill(t, normal(0, projection), rng);
  }
}

}  // namespace tapegrad::nn
