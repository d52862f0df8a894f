#include <cmath>

#include "tapegrad/run/models/families/internal/family_keys.h"

namespace tapegrad::run {
namespace {

// The embeddings are multiplied by the root of their width.
void scale_embeddings(nn::DecoderConfig& c) {
  c.embedding_scale = std::sqrt(static_cast<double>(c.n_embd));
}

}  // namespace

// Llama with norms of 1 + w, GELU in place of silu, and embeddings of a larger scale (Gemma Team,
// "Gemma: Open Models Based on Gemini Research and Technology", 2024, section 2).
Family gemma_family() {
  Family f = llama_family();
  f.name = "gemma";
  f.model.tied = true;
  f.model.norm = nn::NormKind::rms_plus;
  f.model.activation = nn::Activation::gelu;
  f.model.block_size = 8192;
  f.follow = scale_embeddings;
  f.hf.model_class = "GemmaForCausalLM";
  f.hf.base_class = "GemmaModel";
  // Of "gelu", transformers 5 makes the exact one, and 4 the one by tanh.
  f.hf.key("hidden_act").only = std::string("gelu_pytorch_tanh");
  f.hf.never("mlp_bias");
  f.hf.keys.push_back({.key = "use_bidirectional_attention", .only = false});
  // transformers' own would not be trained.
  f.hf.keys.push_back({.key = "pad_token_id", .direction = FamilyKey::Direction::out});
  f.hf.set_absent({{"vocab_size", 256000},
                   {"hidden_size", 3072},
                   {"intermediate_size", 24576},
                   {"num_hidden_layers", 28},
                   {"num_attention_heads", 16},
                   {"num_key_value_heads", 16},
                   {"head_dim", 256}});
  f.gguf.architecture = "gemma";
  f.gguf.may_scale_rotation = false;
  f.gguf.leave_out_biases();
  f.gguf.takes_either_head = false;
  std::erase_if(f.gguf.tensors, [](const GgufTensorName& name) { return !name.with.empty(); });
  for (GgufTensorName& name : f.gguf.tensors) {
    name.exchanged = GgufTensorName::Exchanged::no;
    if (name.ours.ends_with("norm.weight")) name.plus = 1;
  }
  f.pre_tokenizers = {};
  return f;
}

}  // namespace tapegrad::run
