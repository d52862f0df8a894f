#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// Llama with experts, of which a token has those of the highest scores (Jiang et al., "Mixtral of
// Experts", 2024, section 2). In GGUF it is a llama with experts.
Family mixtral_family() {
  Family f = llama_family();
  f.name = "mixtral";
  f.model.block_size = 131072;
  f.model.norm_eps = 1e-5;
  f.model.rope_base = 1e6;
  f.model.moe = {.experts = 8, .top_k = 2, .balance_loss = 0.001};
  f.hf.model_class = "MixtralForCausalLM";
  f.hf.base_class = "MixtralModel";
  f.hf.never("attention_bias");
  f.hf.never("mlp_bias");
  f.hf.take_experts("num_local_experts");
  f.hf.keys.push_back({.key = "sliding_window", .option = "window", .null = std::int64_t{0}});
  f.hf.keys.push_back(
      {.key = "router_jitter_noise", .only = 0.0, .direction = FamilyKey::Direction::in});
  f.hf.set_absent({{"intermediate_size", 14336}, {"num_key_value_heads", 8}});
  f.hf.key("num_key_value_heads").absent_is_not_null = true;
  f.hf.names = {
      {"layers.#.mlp.gate.weight", "layers.#.block_sparse_moe.gate.weight"},
      {"layers.#.mlp.experts.gate_proj.weight", "layers.#.block_sparse_moe.experts.@.w1.weight"},
      {"layers.#.mlp.experts.down_proj.weight", "layers.#.block_sparse_moe.experts.@.w2.weight"},
      {"layers.#.mlp.experts.up_proj.weight", "layers.#.block_sparse_moe.experts.@.w3.weight"}};
  f.gguf.take_experts();
  f.gguf.leave_out_biases();
  for (FamilyKey& key : f.gguf.keys) {
    if (key.option == "rope_base") key.absent = 10000.0;  // as llama.cpp
  }
  f.pre_tokenizers = {};
  return f;
}

}  // namespace tapegrad::run
