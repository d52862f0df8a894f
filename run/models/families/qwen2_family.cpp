#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {

// Llama with biases of Q, K and V (Yang et al., "Qwen2 Technical Report", 2024, section 2.2).
Family qwen2_family() {
  Family f = llama_family();
  f.name = "qwen2";
  f.model.qkv_bias = true;
  f.model.block_size = 32768;
  f.hf.model_class = "Qwen2ForCausalLM";
  f.hf.base_class = "Qwen2Model";
  f.hf.window = HfFamily::Window::if_asked;
  f.hf.set_absent(
      {{"vocab_size", 151936}, {"intermediate_size", 22016}, {"num_key_value_heads", 32}});
  f.hf.key("num_key_value_heads").absent_is_not_null = true;
  f.hf.never("attention_bias");
  f.hf.never("mlp_bias");
  f.hf.keys.push_back({"use_sliding_window", kWindows});
  f.hf.own_pre_tokenizer = "qwen2";
  f.hf.own_pre_tokenizer_only =
      "transformers takes a model with qkv_bias or qk_norm for one of Qwen's, and reads its "
      "tokenizer as Qwen2's, which would give other ids than this one";
  f.gguf.architecture = "qwen2";
  f.gguf.may_scale_rotation = false;
  f.gguf.leave_out_biases();
  for (GgufTensorName& name : f.gguf.tensors) name.exchanged = GgufTensorName::Exchanged::no;
  f.pre_tokenizers = {{.name = "qwen2",
                       .title = "Qwen2",
                       .steps =
                           R"(Split:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                           R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ ByteLevel)",
                       .nfc = true}};
  return f;
}

}  // namespace tapegrad::run
