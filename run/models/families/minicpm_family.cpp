#include <cmath>

#include "tapegrad/run/models/families/internal/family_keys.h"

namespace tapegrad::run {
namespace {

using Direction = FamilyKey::Direction;

// Files have what the scale of a block's additions is times the root of their number, and the width
// of the model for which logits would not be scaled.
void scale_by_sizes(nn::DecoderConfig& c) {
  c.residual_scale /= std::sqrt(static_cast<double>(c.n_layer));
  c.logit_scale /= static_cast<double>(c.n_embd);
}

Value divided_logits(const Value& value) {
  const double by = number_of(value);
  check(by > 0, "logits cannot be divided by {}", by);
  return 1 / by;
}

}  // namespace

// Llama with numbers that embeddings, what blocks add and logits are multiplied by; MiniCPM 4 with
// positions scaled by LongRoPE (Hu et al., "MiniCPM: Unveiling the Potential of Small Language
// Models with Scalable Training Strategies", 2024, section 3; MiniCPM Team, "MiniCPM4:
// Ultra-Efficient LLMs on End Devices", 2025). The class comes with the models' files. To
// transformers itself, such a model is a Granite.
Family minicpm_family() {
  Family f = llama_family();
  f.name = "minicpm";
  f.model.tied = true;
  f.hf.model_class = "MiniCPMForCausalLM";
  f.hf.base_class = "MiniCPMModel";
  f.hf.is_written = false;
  f.hf.settle = scale_by_sizes;
  f.hf.never("mlp_bias");
  f.hf.keys.push_back({"scale_emb", "embedding_scale"});
  f.hf.keys.push_back({"scale_depth", "residual_scale"});
  f.hf.keys.push_back({"dim_model_base", "logit_scale"});
  f.hf.keys.push_back({.key = "sparse_config", .only = false, .direction = Direction::in});
  f.gguf.architecture = "minicpm";
  f.gguf.may_scale_rotation = false;
  // Without them, llama.cpp takes the numbers of MiniCPM-2B.
  f.gguf.keys.push_back({.key = "embedding_scale", .option = "embedding_scale", .needed = true});
  f.gguf.keys.push_back({.key = "residual_scale", .option = "residual_scale", .needed = true});
  f.gguf.keys.push_back({.key = "logit_scale",
                         .option = "logit_scale",
                         .needed = true,
                         .ours = divided_logits,
                         .theirs = divided_logits});
  f.gguf.keys.push_back({.key = "", .option = kLongRope, .direction = Direction::ignored});
  f.pre_tokenizers = {};
  return f;
}

}  // namespace tapegrad::run
