#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// Llama with norms that have no weights, another one of the embeddings, squared ReLU in place of
// the gate, and a cap of logits (Karpathy, nanochat, 2025, nanochat/gpt.py of its first version).
// There, the norms of queries and keys are behind their turns, which change no norm.
Family nanochat_family() {
  Family f = llama_family();
  f.name = "nanochat";
  f.model.norm = nn::NormKind::rms_bare;
  f.model.embedding_norm = f.model.qk_norm = true;
  f.model.activation = nn::Activation::relu2;
  f.model.gated = false;
  f.model.rope_reversed = true;
  f.model.logit_softcap = 15;
  f.hf.model_class = "NanoChatForCausalLM";
  f.hf.base_class = "NanoChatModel";
  f.hf.scalings = HfFamily::Scalings::none;
  f.hf.key("hidden_act").only = std::string("relu2");
  f.hf.never("mlp_bias");
  f.hf.keys.push_back({.key = "final_logit_softcapping", .option = "logit_softcap", .null = 0.0});
  // transformers' own number may be beyond the tokens.
  f.hf.keys.push_back({.key = "pad_token_id", .direction = FamilyKey::Direction::out});
  f.hf.names = {{"layers.#.mlp.up_proj.weight", "layers.#.mlp.fc1.weight"},
                {"layers.#.mlp.down_proj.weight", "layers.#.mlp.fc2.weight"}};
  f.hf.set_absent({{"vocab_size", 50304},
                   {"hidden_size", 768},
                   {"intermediate_size", 8192},
                   {"num_hidden_layers", 12},
                   {"num_attention_heads", 6}});
  f.gguf = {};
  f.pre_tokenizers = {};
  return f;
}

}  // namespace tapegrad::run
