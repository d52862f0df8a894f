#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// Qwen3 with experts in all blocks or some (Yang et al., "Qwen3 Technical Report", 2025, section
// 2).
Family qwen3_moe_family() {
  Family f = qwen3_family();
  f.name = "qwen3_moe";
  f.model.moe = {.experts = 128, .top_k = 8, .inner = 768, .balance_loss = 0.001};
  f.hf.model_class = "Qwen3MoeForCausalLM";
  f.hf.base_class = "Qwen3MoeModel";
  f.hf.window = HfFamily::Window::none;
  std::erase_if(f.hf.keys, [](const FamilyKey& key) { return key.option == kWindows; });
  f.hf.keys.push_back({.key = "use_sliding_window", .only = false});
  f.hf.take_experts("num_experts");
  f.hf.keys.push_back({.key = "norm_topk_prob", .option = "moe_normalize", .absent = false});
  f.hf.keys.push_back({"moe_intermediate_size", "moe_inner"});
  f.hf.keys.push_back({"mlp_only_layers", kDenseBlocks});
  f.hf.set_absent({{"hidden_size", 2048},
                   {"intermediate_size", 6144},
                   {"num_hidden_layers", 24},
                   {"num_key_value_heads", 4}});
  f.hf.key("head_dim").absent = {};
  f.hf.names = expert_names();
  f.gguf.architecture = "qwen3moe";
  f.gguf.take_experts();
  f.gguf.keys.push_back({"expert_feed_forward_length", "moe_inner"});
  f.gguf.reasons.push_back({"moe_normalize", "llama.cpp divides scores by their sum"});
  return f;
}

}  // namespace tapegrad::run
