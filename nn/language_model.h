#pragma once

#include <variant>

#include "tapegrad/nn/gpt.h"
#include "tapegrad/nn/llama.h"

namespace tapegrad::nn {

// A GPT or a Llama, as its config's arch says: what programs train, evaluate and sample, whichever
// it is. Its forward functions are those of GPT.
class LanguageModel {
 public:
  LanguageModel(const Params& p, const GPTConfig& config);
  LanguageModel(GPT gpt) : model_(std::move(gpt)) {}
  LanguageModel(Llama llama) : model_(std::move(llama)) {}

  const GPTConfig& config() const;
  const Embedding& tokens() const;
  const Linear& head() const;
  void set_recompute(bool recompute);  // see GPT::recompute

  Tensor hidden(const Tensor& ids, Rng* rng = nullptr) const;
  Tensor operator()(const Tensor& ids, Rng* rng = nullptr) const {
    return head()(hidden(ids, rng));
  }
  Tensor loss(const Tensor& ids, const Tensor& targets, Rng* rng = nullptr,
              std::int32_t ignore_index = -100) const;
  Tensor last_logits(const Tensor& ids) const;
  Tensor last_logits(const Tensor& ids, KVCache& cache) const;

  // For looking inside; see GPT. No function here drops anything out.
  Tensor embed(const Tensor& ids) const;
  std::vector<Tensor> residual_stream(const Tensor& embedded) const;
  // The attention weights of a block on the state before it, residual_stream()[layer]: (B, H, T,
  // T).
  Tensor attention_weights(int layer, const Tensor& state) const;
  // The final norm and the head on any of these states (B, T, C) → (B, T, V): of the last one, they
  // are the model's logits. Of the others, they are what the model would say there (the logit lens:
  // nostalgebraist, "interpreting GPT: the logit lens", 2020).
  Tensor logits_of(const Tensor& state) const;
  // The gradient of loss(ids, targets, nullptr, ignore_index) with respect to what embed(ids) gives
  // (B, T, C), that is to each position's token embedding. No grad() changes.
  Tensor input_gradient(const Tensor& ids, const Tensor& targets,
                        std::int32_t ignore_index = -100) const;

 private:
  Tensor norm(const Tensor& x) const;

  std::variant<GPT, Llama> model_;
};

// nanoGPT's initialisation, drawn after the construction as its apply(_init_weights) does: N(0,
// 0.02) for linears and embeddings, biases 0, and projections into the residual stream N(0,
// 0.02/√(2·n_layer)).
void init_gpt2(const LanguageModel& model, const Params& p, Rng& rng);

}  // namespace tapegrad::nn
