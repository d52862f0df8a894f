#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// Llama, but for attention that slides over a window in all blocks (Jiang et al., "Mistral 7B",
// 2023, section 2). In GGUF it is a llama.
Family mistral_family() {
  Family f = llama_family();
  f.name = "mistral";
  f.model.block_size = 131072;
  f.hf.model_class = "MistralForCausalLM";
  f.hf.base_class = "MistralModel";
  f.hf.never("attention_bias", FamilyKey::Direction::both);
  f.hf.never("mlp_bias", FamilyKey::Direction::both);
  f.hf.window = HfFamily::Window::unless_null;
  f.hf.keys.push_back(
      {.key = "sliding_window", .option = "window", .direction = FamilyKey::Direction::out});
  f.hf.set_absent({{"intermediate_size", 14336}, {"num_key_value_heads", 8}});
  f.gguf = {};
  f.pre_tokenizers = {};
  return f;
}

}  // namespace tapegrad::run
