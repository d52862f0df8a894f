#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {
namespace {

using Direction = FamilyKey::Direction;

}  // namespace

// Llama with layer norms, and a quarter of each head's channels that turn (Bellagente et al.,
// "Stable LM 2 1.6B Technical Report", 2024, section 3.1).
Family stablelm_family() {
  Family f = llama_family();
  f.name = "stablelm";
  f.model.norm = nn::NormKind::layer, f.model.norm_bias = true;
  f.model.qkv_bias = false;
  f.model.block_size = 4096;
  f.model.norm_eps = 1e-5;
  f.hf.model_class = "StableLmForCausalLM";
  f.hf.base_class = "StableLmModel";
  f.hf.turned_share = 0.25;
  f.hf.set_absent({{"vocab_size", 50304},
                   {"hidden_size", 2560},
                   {"intermediate_size", 6912},
                   {"num_key_value_heads", 32}});
  f.hf.key("head_dim").direction = Direction::in;
  f.hf.key("rms_norm_eps").key = "layer_norm_eps";
  f.hf.never("attention_bias");
  f.hf.never("mlp_bias");
  std::erase_if(f.hf.keys, [](auto& key) { return key.key == "partial_rotary_factor"; });
  for (const FamilyKey& key : std::initializer_list<FamilyKey>{
           {"use_qkv_bias", "qkv_bias"},
           {.key = "qk_layernorm", .only = false},
           {.key = "use_parallel_residual", .only = false},
           {.key = "hidden_dropout", .option = "dropout", .direction = Direction::out}}) {
    f.hf.keys.push_back(key);
  }
  f.gguf.architecture = "stablelm";
  f.gguf.may_scale_rotation = false;
  f.gguf.leave_out_biases();
  f.gguf.takes_either_head = false;
  f.gguf.reasons.push_back({"tied", "llama.cpp wants a head of its own: --no-tied"});
  for (FamilyKey& key : f.gguf.keys) {
    if (key.option == "head_size") key.direction = Direction::in;
    if (key.key == "rope.dimension_count")
      key = {.key = key.key, .option = "rope_channels", .needed = true};
    if (key.option == "norm_eps") key.key = "attention.layer_norm_epsilon";
  }
  // llama.cpp goes by the tensors: without a second norm, both sublayers have one input.
  f.gguf.keys.push_back(
      {.key = "use_parallel_residual", .only = false, .direction = Direction::out});
  // The tensors tell it.
  f.gguf.keys.push_back(
      {.key = "use_qkv_bias", .option = "qkv_bias", .direction = Direction::ignored});
  std::vector<GgufTensorName> tensors;
  for (GgufTensorName name : f.gguf.tensors) {
    name.exchanged = GgufTensorName::Exchanged::no;
    if (name.with == "qk_norm") continue;
    tensors.push_back(name);
    if (name.ours.find("norm.weight") == std::string::npos) continue;
    for (std::string* text : {&name.ours, &name.theirs}) text->replace(text->size() - 6, 6, "bias");
    tensors.push_back(name);
  }
  f.gguf.tensors = tensors;
  f.pre_tokenizers = {};
  return f;
}

}  // namespace tapegrad::run
