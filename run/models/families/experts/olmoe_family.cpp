#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// Llama with experts whose scores are not made to sum to 1, and norms of queries and keys over all
// heads (Muennighoff et al., "OLMoE: Open Mixture-of-Experts Language Models", 2024, section 2).
Family olmoe_family() {
  Family f = llama_family();
  f.name = "olmoe";
  f.model.block_size = 4096;
  f.model.norm_eps = 1e-5;
  f.model.qk_norm = f.model.qk_norm_whole = true;
  f.model.moe = {.experts = 64, .top_k = 8, .normalize = false};
  f.hf.model_class = "OlmoeForCausalLM";
  f.hf.base_class = "OlmoeModel";
  f.hf.never("mlp_bias");
  f.hf.take_experts("num_experts");
  f.hf.keys.push_back({"norm_topk_prob", "moe_normalize"});
  f.hf.keys.push_back({.key = "clip_qkv", .only = 0.0, .direction = FamilyKey::Direction::in});
  // transformers' own number may be beyond the tokens.
  f.hf.keys.push_back({.key = "pad_token_id", .direction = FamilyKey::Direction::out});
  f.hf.set_absent({{"vocab_size", 50304},
                   {"hidden_size", 2048},
                   {"intermediate_size", 2048},
                   {"num_hidden_layers", 16},
                   {"num_attention_heads", 16}});
  f.hf.names = expert_names();
  f.gguf.architecture = "olmoe";
  f.gguf.may_scale_rotation = false;
  f.gguf.takes_either_head = false;
  f.gguf.leave_out_biases();
  f.gguf.take_experts();
  // llama.cpp's matrices of heads are as wide as the residual stream.
  for (FamilyKey& key : f.gguf.keys) {
    if (key.option == "head_size") key.direction = FamilyKey::Direction::in;
    if (key.option == "n_kv_head") {
      key = {.key = key.key, .option = "n_head", .direction = FamilyKey::Direction::same};
    }
  }
  f.gguf.reasons.push_back({"n_kv_head", "llama.cpp wants as many heads of keys as of queries"});
  f.gguf.reasons.push_back({"tied", "llama.cpp wants a head of its own: --no-tied"});
  for (GgufTensorName& name : f.gguf.tensors) name.exchanged = GgufTensorName::Exchanged::no;
  f.pre_tokenizers = {};
  return f;
}

}  // namespace tapegrad::run
