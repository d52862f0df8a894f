#include "tapegrad/run/models/families/internal/family_keys.h"

namespace tapegrad::run {
namespace {

void set_own_rotation(nn::DecoderConfig& c) {
  c.rope_base = 1e6;
  c.rope_scaling = nn::RopeScalingKind::yarn;
  c.rope_factor = 16, c.rope_original_positions = 16384;
  c.rope_attention_factor = 1;
  c.query_scale_beta = 0.1;
}

}  // namespace

// Llama, whose queries grow with their positions beyond those of the first training, which YaRN
// scales (Liu et al., "Ministral 3", 2026, section 2).
Family ministral3_family() {
  Family f = llama_family();
  f.name = "ministral3";
  f.model.block_size = 262144;
  f.model.norm_eps = 1e-5;
  f.hf.model_class = "Ministral3ForCausalLM";
  f.hf.base_class = "Ministral3Model";
  f.hf.own_rotation = set_own_rotation;
  f.hf.scales_queries = true;
  f.hf.never("attention_bias");
  f.hf.never("mlp_bias");
  f.hf.keys.push_back({.key = "sliding_window",
                       .option = "window",
                       .null = std::int64_t{0},
                       .ours = window_above_zero});
  // transformers' own number may be beyond the tokens.
  f.hf.keys.push_back({.key = "pad_token_id", .direction = FamilyKey::Direction::out});
  f.hf.set_absent({{"vocab_size", 131072},
                   {"intermediate_size", 14336},
                   {"num_hidden_layers", 34},
                   {"num_key_value_heads", 8},
                   {"head_dim", 128}});
  f.gguf.architecture = "mistral3";
  f.gguf.may_scale_rotation = false;
  f.gguf.takes_yarn_keys = true;
  f.gguf.leave_out_biases();
  f.gguf.keys.push_back({"attention.temperature_scale", "query_scale_beta"});
  f.pre_tokenizers = {};
  return f;
}

}  // namespace tapegrad::run
