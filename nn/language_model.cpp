#include "tapegrad/nn/language_model.h"

#include <cmath>

#include "tapegrad/autograd/tape.h"

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

Tensor LanguageModel::embed(const Tensor& ids) const {
  return std::visit([&](const auto& m) { return m.embed(ids); }, model_);
}

std::vector<Tensor> LanguageModel::residual_stream(const Tensor& embedded) const {
  return std::visit([&](const auto& m) { return m.residual_stream(embedded); }, model_);
}

Tensor LanguageModel::attention_weights(int layer, const Tensor& state) const {
  check(layer >= 0 && layer < config().n_layer, "[attention_weights] there is no block {} of {}",
        layer, config().n_layer);
  const auto i = static_cast<std::size_t>(layer);
  if (const GPT* gpt = std::get_if<GPT>(&model_)) return gpt->h[i].attention_weights(state);
  return std::get<Llama>(model_).layers[i].attention_weights(state);
}

Tensor LanguageModel::norm(const Tensor& x) const {
  if (const GPT* gpt = std::get_if<GPT>(&model_)) return gpt->ln_f(x);
  return std::get<Llama>(model_).norm(x);
}

Tensor LanguageModel::logits_of(const Tensor& state) const { return head()(norm(state)); }

Tensor LanguageModel::input_gradient(const Tensor& ids, const Tensor& targets,
                                     std::int32_t ignore_index) const {
  const Tensor x = embed(ids);
  Tape tape;
  tape.watch(x);
  const Tensor loss = linear_cross_entropy(norm(residual_stream(x).back()), head().weight, targets,
                                           ignore_index, head().precision);
  return tape.gradient(loss, {x})[0];
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
