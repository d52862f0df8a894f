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

 private:
  std::variant<GPT, Llama> model_;
};

// nanoGPT's initialisation, drawn after the construction as its apply(_init_weights) does: N(0,
// 0.02) for linears and embeddings, biases 0, and projections into the residual stream N(0,
// 0.02/√(2·n_layer)).
void init_gpt2(const LanguageModel& model, const Params& p, Rng& rng);

}  // namespace tapegrad::nn
