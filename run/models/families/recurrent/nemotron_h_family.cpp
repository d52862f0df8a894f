#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/run/models/families/internal/recurrent_gguf.h"

namespace tapegrad::run {
namespace {

using Direction = FamilyKey::Direction;

std::vector<FamilyKey> hf_keys() {
  return {{"vocab_size", "vocab_size"},
          {.key = "tie_word_embeddings", .only = false},  // transformers' class ties none
          {"hidden_size", "n_embd"},
          {"intermediate_size", "n_inner"},
          {"num_hidden_layers", "n_layer"},
          {"num_attention_heads", "n_head"},
          {.key = "num_key_value_heads",
           .option = "n_kv_head",
           .absent = std::int64_t{8},
           .absent_is_not_null = true},
          {"head_dim", "head_size"},
          {"max_position_embeddings", "block_size"},
          {"layer_norm_epsilon", "norm_eps"},
          // Older versions and llama.cpp's converter have it under this name, too.
          {.key = "rms_norm_eps", .option = "norm_eps", .direction = Direction::out},
          {.key = "mlp_hidden_act", .only = std::string("relu2")},
          {.key = "mamba_hidden_act", .only = std::string("silu")},
          {.key = "attention_dropout", .option = "dropout", .direction = Direction::out},
          {.key = "attention_bias", .only = false},
          {"mlp_bias", "mlp_bias"},
          {.key = "use_bias", .only = false},  // of a Mamba-2's projections
          {.key = "mamba_proj_bias", .only = false},
          {"mamba_num_heads", "mamba_heads"},
          {"mamba_head_dim", "mamba_head_size"},
          {"ssm_state_size", "mamba_state_size"},
          {"n_groups", "mamba_groups"},
          {"conv_kernel", "conv_kernel"},
          {"use_conv_bias", "conv_bias"},
          {"hybrid_override_pattern", kSingleParts}};
}

// Each layer has a norm and a mixer, which may be a feed-forward.
std::vector<HfTensorName> hf_names() {
  using Config = nn::DecoderConfig;
  const std::string_view norm = "layers.#.norm.weight";
  return {{"embed_tokens.weight", "embeddings.weight"},
          {"embed_tokens.weight", "embedding.weight"},  // as transformers writes it
          {"layers.#.input_layernorm.weight", norm,
           [](const Config& c, int block) { return c.has_mixer(block); }},
          {"layers.#.post_attention_layernorm.weight", norm,
           [](const Config& c, int block) { return c.has_feed_forward(block); }},
          {"layers.#.self_attn.q_proj.weight", "layers.#.mixer.q_proj.weight"},
          {"layers.#.self_attn.k_proj.weight", "layers.#.mixer.k_proj.weight"},
          {"layers.#.self_attn.v_proj.weight", "layers.#.mixer.v_proj.weight"},
          {"layers.#.self_attn.o_proj.weight", "layers.#.mixer.o_proj.weight"},
          {"layers.#.mamba.in_proj.weight", "layers.#.mixer.in_proj.weight"},
          {"layers.#.mamba.conv1d.weight", "layers.#.mixer.conv1d.weight"},
          {"layers.#.mamba.conv1d.bias", "layers.#.mixer.conv1d.bias"},
          {"layers.#.mamba.dt_bias", "layers.#.mixer.dt_bias"},
          {"layers.#.mamba.A_log", "layers.#.mixer.A_log"},
          {"layers.#.mamba.D", "layers.#.mixer.D"},
          {"layers.#.mamba.norm.weight", "layers.#.mixer.norm.weight"},
          {"layers.#.mamba.out_proj.weight", "layers.#.mixer.out_proj.weight"},
          {"layers.#.mlp.up_proj.weight", "layers.#.mixer.up_proj.weight"},
          {"layers.#.mlp.up_proj.bias", "layers.#.mixer.up_proj.bias"},
          {"layers.#.mlp.down_proj.weight", "layers.#.mixer.down_proj.weight"},
          {"layers.#.mlp.down_proj.bias", "layers.#.mixer.down_proj.bias"},
          {"norm.weight", "norm_f.weight"}};
}

std::string gguf_obstacle(const nn::DecoderConfig& c) {
  if (!c.has_some('M')) return "no M in mixer_pattern: llama.cpp wants a Mamba-2 in some block";
  if (c.channels_per_head() % 2 == 0) return conv_kernel_obstacle(c);
  return fmt::format("head_size {}: llama.cpp's converter exchanges pairs of channels",
                     c.channels_per_head());
}

void take_keys(GgufFamily& f) {
  std::erase_if(
      f.keys, [](const FamilyKey& key) { return key.option == "bias" || key.option == "window"; });
  for (FamilyKey& key : f.keys) {
    if (key.option == "n_kv_head") key.ours = key_heads_of_blocks, key.needed = true;
    if (key.option == "n_inner") key.ours = widths_of_blocks;
    // llama.cpp turns nothing, whatever the file says.
    if (key.key.starts_with("rope.")) key = {.key = key.key, .direction = Direction::ignored};
  }
  f.keys.push_back(
      {.key = "attention.head_count_kv", .option = kSingleParts, .direction = Direction::ignored});
  // The converter writes layer_norm_epsilon of a config.json twice, and llama.cpp asks for both.
  f.keys.push_back(
      {.key = "attention.layer_norm_epsilon", .option = "norm_eps", .direction = Direction::out});
}

void take_gguf(GgufFamily& f) {
  f.architecture = "nemotron_h";
  f.may_scale_rotation = false;
  f.reasons = {{"conv_bias", "llama.cpp wants biases of convolutions"}};
  take_keys(f);
  std::erase_if(f.tensors, [](const GgufTensorName& name) {
    const bool of_attention = name.ours.find(".self_attn.") != std::string::npos;
    return name.with == "qk_norm" || (of_attention && name.ours.ends_with(".bias")) ||
           name.ours.find(".gate_proj.") != std::string::npos;
  });
  for (GgufTensorName& name : f.tensors) {
    if (name.theirs == "blk.#.ffn_norm.weight") name.theirs = "blk.#.attn_norm.weight";
    if (name.ours == "layers.#.mlp.up_proj.bias") name.tells = true;
  }
  take_mamba(f);
  f.obstacle = gguf_obstacle;
}

}  // namespace

// Blocks of one part each: a Mamba-2, attention without positions, or a feed-forward of squared
// ReLU without a gate (NVIDIA, "Nemotron-H: A Family of Accurate and Efficient Hybrid
// Mamba-Transformer Models", 2025; "NVIDIA Nemotron Nano 2", 2025).
Family nemotron_h_family() {
  Family f = llama_family();
  f.name = "nemotron_h";
  f.mixer = 'M';
  f.model.positions = nn::Positions::none;
  f.model.activation = nn::Activation::relu2;
  f.model.gated = false;
  f.model.mixer_pattern = "MN", f.model.ff_pattern = "NF";
  f.model.conv_kernel = 4;
  f.model.conv_bias = true;
  f.model.mamba = {.heads = 128, .head_size = 64, .state_size = 128, .groups = 8, .norm_groups = 8};
  f.model.norm_eps = 1e-5;
  f.model.block_size = 4096;
  // The class norms each group of heads by itself, and so does llama.cpp.
  f.follow = [](nn::DecoderConfig& c) { c.mamba.norm_groups = c.mamba.groups; };
  f.hf = {.model_class = "NemotronHForCausalLM",
          .base_class = "NemotronHModel",
          .keys = hf_keys(),
          .prefix = "backbone.",
          .embedding = "embed_tokens.weight",
          .parts_left_out = {"mtp."},  // a part that predicts more tokens
          .names = hf_names(),
          .scalings = HfFamily::Scalings::none,
          .module_prefix = "model."};
  f.hf.set_absent({{"vocab_size", 131072},
                   {"hidden_size", 4096},
                   {"intermediate_size", 21504},
                   {"num_attention_heads", 32},
                   {"head_dim", 128}});
  take_gguf(f.gguf);
  f.pre_tokenizers = {};
  return f;
}

}  // namespace tapegrad::run
