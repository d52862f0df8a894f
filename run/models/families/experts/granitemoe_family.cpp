#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// Granite with experts (Granite Team, "Granite 3.0 Language Models", 2024, section 2). Files have
// one tensor for all experts, the gate's rows and those that it multiplies in one.
Family granitemoe_family() {
  Family f = granite_family();
  f.name = "granitemoe";
  f.model.joined_gate = true;
  f.model.moe = {.experts = 8, .top_k = 2, .balance_loss = 0.001};
  f.hf.model_class = "GraniteMoeForCausalLM";
  f.hf.base_class = "GraniteMoeModel";
  f.hf.never("mlp_bias");
  f.hf.take_experts("num_local_experts");
  f.hf.names = {
      {"layers.#.mlp.gate.weight", "layers.#.block_sparse_moe.router.layer.weight"},
      {"layers.#.mlp.experts.gate_up_proj.weight", "layers.#.block_sparse_moe.input_linear.weight"},
      {"layers.#.mlp.experts.down_proj.weight", "layers.#.block_sparse_moe.output_linear.weight"}};
  f.gguf.architecture = "granitemoe";
  std::erase_if(f.gguf.keys, [](const FamilyKey& key) {
    return key.option == "joined_gate" || key.option == "mlp_bias";
  });
  for (FamilyKey& key : f.gguf.keys) {
    if (key.key == "expert_shared_feed_forward_length") {
      key = {.key = key.key, .only = std::int64_t{0}, .direction = FamilyKey::Direction::in};
    }
  }
  f.gguf.take_experts();
  for (GgufTensorName& name : f.gguf.tensors) {
    const bool is_gate = name.ours.ends_with(".gate_proj.weight");
    if (is_gate || name.ours.ends_with(".up_proj.weight")) {
      name.ours = "layers.#.mlp.experts.gate_up_proj.weight";
    }
  }
  return f;
}

}  // namespace tapegrad::run
