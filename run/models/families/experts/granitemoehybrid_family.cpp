#include <algorithm>

#include "tapegrad/run/models/families/internal/family.h"

namespace tapegrad::run {
namespace {

bool has_experts(const nn::DecoderConfig& c) { return c.moe.exist(); }
bool is_dense(const nn::DecoderConfig& c) { return !c.moe.exist(); }

// The feed-forward that all tokens have is a block's only one, or stands beside experts.
void add_shared_names(std::vector<HfTensorName>& names) {
  const std::string_view in = "layers.#.shared_mlp.input_linear.weight",
                         out = "layers.#.shared_mlp.output_linear.weight";
  names.push_back({"layers.#.mlp.gate_up_proj.weight", in, is_dense});
  names.push_back({"layers.#.mlp.down_proj.weight", out, is_dense});
  names.push_back({"layers.#.mlp.shared_expert.gate_up_proj.weight", in, has_experts});
  names.push_back({"layers.#.mlp.shared_expert.down_proj.weight", out, has_experts});
}

}  // namespace

// Granite 4: Mamba-2 in place of attention in most blocks, attention without positions, or with
// rotary ones, and a feed-forward alone or beside experts (IBM, "Granite 4.0", 2025; Dao & Gu,
// "Transformers are SSMs", 2024).
Family granitemoehybrid_family() {
  Family f = granitemoe_family();
  f.name = "granitemoehybrid";
  f.mixer = 'M';
  f.model.positions = nn::Positions::none;
  f.model.mixer_pattern = "M";
  f.model.conv_kernel = 4;
  f.model.conv_bias = true;
  f.model.mamba = {.heads = 128, .head_size = 64, .state_size = 256, .groups = 1};
  f.model.moe.shared_inner = 1024;
  f.follow = [](nn::DecoderConfig& c) {
    if (!c.moe.exist()) c.moe = {};
  };
  f.hf.model_class = "GraniteMoeHybridForCausalLM";
  f.hf.base_class = "GraniteMoeHybridModel";
  f.hf.settle =
      [](nn::DecoderConfig& c) {  // files may have numbers of positions that are not there
        const nn::DecoderConfig plain;
        if (c.rotary()) return;
        c.rope_base = plain.rope_base, c.rope_scaling = plain.rope_scaling;
        c.rope_factor = plain.rope_factor;
        c.rope_original_positions = plain.rope_original_positions;
      };
  std::erase_if(f.hf.keys, [](const FamilyKey& key) {
    return key.key == "mlp_bias" || key.option == "n_inner" || key.option == "moe_inner";
  });
  const std::vector<FamilyKey> own = {{"shared_intermediate_size", kSharedInner},
                                      {.key = "position_embedding_type",
                                       .option = "positions",
                                       .null = std::string("none"),
                                       .words = {{"rope", "rotary"}, {"nope", "none"}}},
                                      {"layer_types", kMixers},
                                      {"mamba_n_heads", "mamba_heads"},
                                      {"mamba_n_groups", "mamba_groups"},
                                      {"mamba_d_state", "mamba_state_size"},
                                      {"mamba_d_conv", "conv_kernel"},
                                      {"mamba_conv_bias", "conv_bias"},
                                      {.key = "mamba_proj_bias", .only = false},
                                      {"mamba_d_head", kMambaWidth}};
  f.hf.keys.insert(f.hf.keys.end(), own.begin(), own.end());
  add_shared_names(f.hf.names);
  return f;
}

}  // namespace tapegrad::run
