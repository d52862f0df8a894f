#include <algorithm>

#include "tapegrad/run/models/families/internal/recurrent_gguf.h"

namespace tapegrad::run {
namespace {

using Direction = FamilyKey::Direction;
using Exchanged = GgufTensorName::Exchanged;

std::vector<FamilyKey> hf_keys() {
  return {{"vocab_size", "vocab_size"},
          {.key = "tie_embedding", .option = "tied", .direction = Direction::in},
          {"tie_word_embeddings", "tied"},
          {"hidden_size", "n_embd"},
          {.key = "block_ff_dim", .option = "n_inner", .direction = Direction::in},
          {"intermediate_size", "n_inner"},
          {"num_hidden_layers", "n_layer"},
          {"num_attention_heads", "n_head"},
          {"num_key_value_heads", "n_kv_head"},
          {"head_dim", "head_size"},
          {"max_position_embeddings", "block_size"},
          {"norm_eps", "norm_eps"},
          // Older versions of transformers take it for rope_theta, newer ones do not.
          {.key = "theta", .only = 1e6, .direction = Direction::in},
          {"rope_parameters", kRotation},
          {"layer_types", kMixers},
          {"conv_L_cache", "conv_kernel"},
          {"conv_bias", "conv_bias"},
          {"block_auto_adjust_ff_dim", kAdjustedInner}};
}

std::vector<HfTensorName> hf_names() {
  return {{"layers.#.input_layernorm.weight", "layers.#.operator_norm.weight"},
          {"layers.#.self_attn.o_proj.weight", "layers.#.self_attn.out_proj.weight"},
          {"layers.#.self_attn.q_norm.weight", "layers.#.self_attn.q_layernorm.weight"},
          {"layers.#.self_attn.k_norm.weight", "layers.#.self_attn.k_layernorm.weight"},
          {"layers.#.post_attention_layernorm.weight", "layers.#.ffn_norm.weight"},
          {"layers.#.mlp.gate_proj.weight", "layers.#.feed_forward.w1.weight"},
          {"layers.#.mlp.up_proj.weight", "layers.#.feed_forward.w3.weight"},
          {"layers.#.mlp.down_proj.weight", "layers.#.feed_forward.w2.weight"},
          {"norm.weight", "embedding_norm.weight"}};
}

void take_gguf(GgufFamily& f) {
  f.architecture = "lfm2";
  f.may_scale_rotation = false;
  f.obstacle = conv_kernel_obstacle;
  f.leave_out_biases();
  f.reasons = {{"conv_bias", "llama.cpp reads no biases of convolutions"}};
  // llama.cpp's matrices of heads are as wide as the residual stream.
  for (FamilyKey& key : f.keys) {
    if (key.option == "head_size") key.direction = Direction::in;
  }
  take_heads_of_blocks(f, mixers_of_blocks<'C'>);
  f.keys.push_back({.key = "shortconv.l_cache", .option = "conv_kernel", .needed = true});
  std::erase_if(f.tensors, [](const GgufTensorName& name) { return name.ours.ends_with(".bias"); });
  for (GgufTensorName& name : f.tensors) {
    name.exchanged = Exchanged::no;
    if (name.ours == "norm.weight") name.theirs = "token_embd_norm.weight";
  }
  const std::string ours = "layers.#.conv.", theirs = "blk.#.shortconv.";
  add_name(f, {.ours = ours + "conv.weight",
               .theirs = theirs + "conv.weight",
               .form = GgufTensorName::Form::squeezed});
  add_name(f, {ours + "in_proj.weight", theirs + "in_proj.weight"});
  add_name(f, {ours + "out_proj.weight", theirs + "out_proj.weight"});
}

}  // namespace

// Llama with norms of queries and keys, and gated short convolutions in place of attention in most
// blocks (Liquid AI, "LFM2 Technical Report", 2025, section 2).
Family lfm2_family() {
  Family f = llama_family();
  f.name = "lfm2";
  f.model.qk_norm = true;
  f.model.tied = true;
  f.model.norm_eps = 1e-5;
  f.model.block_size = 128000;
  f.model.rope_base = 1e6;
  f.hf.model_class = "Lfm2ForCausalLM";
  f.hf.base_class = "Lfm2Model";
  f.hf.keys = hf_keys();
  f.hf.names = hf_names();
  f.hf.set_absent({{"vocab_size", 65536},
                   {"hidden_size", 2560},
                   {"intermediate_size", 12288},
                   {"num_hidden_layers", 32},
                   {"num_attention_heads", 32},
                   {"num_key_value_heads", 8}});
  take_gguf(f.gguf);
  f.pre_tokenizers = {};
  return f;
}

}  // namespace tapegrad::run
