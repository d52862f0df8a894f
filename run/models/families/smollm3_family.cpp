#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// Llama, in which each fourth block has no positions (Bakouch et al., "SmolLM3: smol, multilingual,
// long-context reasoner", 2025; Yang et al., "Rope to Nope and Back Again", 2025).
Family smollm3_family() {
  Family f = llama_family();
  f.name = "smollm3";
  f.model.tied = true;
  f.model.block_size = 32768;
  f.model.rope_base = 2e6, f.model.rope_pattern = "RRRN";
  f.hf.model_class = "SmolLM3ForCausalLM";
  f.hf.base_class = "SmolLM3Model";
  f.hf.set_absent({{"vocab_size", 128256},
                   {"hidden_size", 2048},
                   {"num_hidden_layers", 36},
                   {"num_attention_heads", 16},
                   {"num_key_value_heads", 4}});
  f.hf.key("num_key_value_heads").absent_is_not_null = true;
  f.hf.keys.push_back({"no_rope_layers", kRotaryBlocks});
  // transformers' own number may be beyond the tokens.
  f.hf.keys.push_back({.key = "pad_token_id", .direction = FamilyKey::Direction::out});
  f.hf.keys.push_back({.key = "use_sliding_window", .only = false});
  f.gguf.architecture = "smollm3";
  f.gguf.may_scale_rotation = false;
  f.gguf.leave_out_biases();
  f.gguf.reasons = {{"rope_pattern", "llama.cpp leaves each fourth block without positions"}};
  f.pre_tokenizers = {};
  return f;
}

}  // namespace tapegrad::run
