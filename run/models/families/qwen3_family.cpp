#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// Qwen2 with norms of queries and keys in place of biases, and heads of any size (Yang et al.,
// "Qwen3 Technical Report", 2025, section 2).
Family qwen3_family() {
  Family f = qwen2_family();
  f.name = "qwen3";
  f.model.qkv_bias = std::nullopt;
  f.model.qk_norm = true;
  f.hf.model_class = "Qwen3ForCausalLM";
  f.hf.base_class = "Qwen3Model";
  f.hf.set_absent({{"head_dim", 128}});
  f.hf.key("attention_bias") = {"attention_bias", "bias"};
  f.gguf.architecture = "qwen3";
  f.pre_tokenizers = {};
  return f;
}

}  // namespace tapegrad::run
