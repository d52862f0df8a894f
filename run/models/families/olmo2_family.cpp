#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// Llama with norms behind each sublayer alone, and norms of queries and keys over all heads (OLMo
// Team, "2 OLMo 2 Furious", 2024, section 2.1).
Family olmo2_family() {
  Family f = llama_family();
  f.name = "olmo2";
  f.model.norm_place = nn::NormPlace::after;
  f.model.qk_norm = f.model.qk_norm_whole = true;
  f.model.norm_eps = 1e-5;
  f.hf.model_class = "Olmo2ForCausalLM";
  f.hf.base_class = "Olmo2Model";
  f.hf.set_absent({{"vocab_size", 50304}});
  // transformers' own number may be beyond the tokens.
  f.hf.keys.push_back({.key = "pad_token_id", .direction = FamilyKey::Direction::out});
  f.hf.never("mlp_bias");
  f.gguf.architecture = "olmo2";
  f.gguf.may_scale_rotation = false;
  f.gguf.leave_out_biases();
  f.gguf.takes_either_head = false;
  // llama.cpp's matrices of heads are as wide as the residual stream.
  for (FamilyKey& key : f.gguf.keys) {
    if (key.option == "head_size") key.direction = FamilyKey::Direction::in;
  }
  f.gguf.reasons.push_back({"tied", "llama.cpp wants a head of its own: --no-tied"});
  std::erase_if(f.gguf.tensors, [](const GgufTensorName& name) {
    return name.ours.ends_with(".bias") || name.ours.ends_with("input_layernorm.weight");
  });
  for (GgufTensorName& name : f.gguf.tensors) {
    name.exchanged = GgufTensorName::Exchanged::no;
    if (name.theirs == "blk.#.ffn_norm.weight") name.theirs = "blk.#.post_attention_norm.weight";
  }
  f.gguf.tensors.push_back(
      {"layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight"});
  f.pre_tokenizers = {};
  return f;
}

}  // namespace tapegrad::run
