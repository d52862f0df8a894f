#include "tapegrad/run/models/families/internal/gpt2_weights.h"

#include <algorithm>

namespace tapegrad::run {

GPT2Weights::GPT2Weights(const nn::Params& params, const nn::DecoderConfig& c) {
  for (const auto& [name, t] : params.tensors()) ours_.emplace(name, t);
  entries_ = {{"wte.weight", {c.vocab_size, c.n_embd}}, {"wpe.weight", {c.block_size, c.n_embd}}};
  for (int i = 0; i < c.n_layer; ++i) add_layer(fmt::format("h.{}.", i), c);
  entries_.push_back({"ln_f.weight", {c.n_embd}});
  entries_.push_back({"ln_f.bias", {c.n_embd}});
  if (!c.tied) entries_.push_back({"lm_head.weight", {c.vocab_size, c.n_embd}});
  for (const Entry& entry : entries_) shapes_.emplace(entry.name, entry.shape);
}

void GPT2Weights::add_layer(const std::string& prefix, const nn::DecoderConfig& c) {
  const auto add = [&](const std::string& name, const Shape& weight) {
    entries_.push_back({prefix + name + ".weight", weight});
    entries_.push_back({prefix + name + ".bias", {weight[0]}});
  };
  add("ln_1", {c.n_embd});
  add("attn.c_attn", {3 * c.n_embd, c.n_embd});
  add("attn.c_proj", {c.n_embd, c.n_embd});
  add("ln_2", {c.n_embd});
  add("mlp.c_fc", {c.inner(), c.n_embd});
  add("mlp.c_proj", {c.n_embd, c.inner()});
}

Tensor GPT2Weights::operator()(const std::string& name) const {
  const auto found = ours_.find(name);
  if (found != ours_.end()) return found->second;
  const Shape& shape = shapes_.at(name);
  const std::size_t c_attn = name.rfind("c_attn.");
  if (c_attn != std::string::npos) {
    return joined(name.substr(0, c_attn), name.substr(name.rfind('.')), shape);
  }
  check(name.ends_with(".bias"), "the model has no tensor '{}'", name);
  return Tensor::zeros(shape);
}

// The projections of Q, K and V one below the other.
Tensor GPT2Weights::joined(const std::string& prefix, const std::string& suffix,
                           const Shape& shape) const {
  Tensor all = Tensor::zeros(shape);
  float* out = all.mutable_data<float>();
  for (const char* part : {"W_query", "W_key", "W_value"}) {
    const auto found = ours_.find(prefix + part + suffix);
    if (found == ours_.end()) {
      check(suffix == ".bias", "the model has no tensor '{}{}{}'", prefix, part, suffix);
      return all;
    }
    const auto values = found->second.values<float>();
    out = std::copy(values.begin(), values.end(), out);
  }
  return all;
}

}  // namespace tapegrad::run
