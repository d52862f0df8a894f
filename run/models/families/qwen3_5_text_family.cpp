#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// The text model of Qwen 3.5's dense models: gated delta nets in three of four blocks, and gated
// attention (Qwen team, "Qwen3.5", 2026).
Family qwen3_5_text_family() {
  Family f = qwen3_family();
  f.name = "qwen3_5_text";
  take_gated_delta_nets(f);
  f.hf.model_class = "Qwen3_5ForCausalLM";
  f.hf.base_class = "Qwen3_5TextModel";
  f.hf.wrapper = "qwen3_5";
  f.hf.wrapper_class = "Qwen3_5ForConditionalGeneration";
  f.hf.wrapper_prefix = "model.language_model.";
  f.hf.parts_left_out.push_back("model.visual.");
  f.hf.set_absent({{"vocab_size", 248320},
                   {"hidden_size", 4096},
                   {"intermediate_size", 12288},
                   {"num_key_value_heads", 4},
                   {"num_hidden_layers", 32},
                   {"num_attention_heads", 16}});
  f.hf.own_pre_tokenizer = f.hf.own_pre_tokenizer_only = {};  // the files' own
  return f;
}

}  // namespace tapegrad::run
