#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/run/models/families/internal/recurrent_gguf.h"

namespace tapegrad::run {
namespace {

using Direction = FamilyKey::Direction;

bool has_experts(const nn::DecoderConfig& c, int) { return c.moe.exist(); }
bool is_dense(const nn::DecoderConfig& c, int) { return !c.moe.exist(); }

// The feed-forward that all tokens have is a block's only one, or stands beside experts.
void add_shared_names(std::vector<HfTensorName>& names) {
  const std::string_view in = "layers.#.shared_mlp.input_linear.weight",
                         out = "layers.#.shared_mlp.output_linear.weight";
  names.push_back({"layers.#.mlp.gate_up_proj.weight", in, is_dense});
  names.push_back({"layers.#.mlp.down_proj.weight", out, is_dense});
  names.push_back({"layers.#.mlp.shared_expert.gate_up_proj.weight", in, has_experts});
  names.push_back({"layers.#.mlp.shared_expert.down_proj.weight", out, has_experts});
}

std::string gguf_obstacle(const nn::DecoderConfig& c) {
  const nn::MambaSizes sizes = c.mamba_sizes();
  if (!c.has_some('M')) return "mixer_pattern A: llama.cpp wants a Mamba-2 in some block";
  if (std::string any = granite_gguf_obstacle(c); !any.empty()) return any;
  if (sizes.groups != 1) {
    return fmt::format("mamba_groups {}: llama.cpp norms the channels of each group by themselves",
                       sizes.groups);
  }
  if (sizes.channels() == 2 * c.n_embd) return conv_kernel_obstacle(c);
  return fmt::format("{} mamba_heads of {} channels: llama.cpp wants twice n_embd, {}, in all",
                     sizes.heads, sizes.head_size, 2 * c.n_embd);
}

void add_gguf_keys(GgufFamily& f) {
  std::erase_if(f.keys, [](const FamilyKey& key) {
    return key.option == "mlp_bias" || key.option == "joined_gate" ||
           key.key == "expert_shared_feed_forward_length" || key.key.starts_with("ssm.");
  });
  for (FamilyKey& key : f.keys) {
    key.needed |= key.option == "n_kv_head";
    if (key.key == "expert_count") {
      key = {.key = key.key, .option = "moe_experts", .absent = std::int64_t{0}};
    }
    // The format reads and writes these, as each depends on others.
    if (key.key == "feed_forward_length") {
      key = {.key = key.key, .option = kSharedInner, .direction = Direction::ignored};
    }
    if (key.key == "expert_used_count") {
      key = {.key = key.key, .option = "moe_top_k", .direction = Direction::ignored};
    }
  }
  take_heads_of_blocks(f, mixers_of_blocks<'M'>);
  f.keys.push_back({.key = "expert_shared_feed_forward_length", .direction = Direction::ignored});
}

void add_gguf_names(GgufFamily& f) {
  std::erase_if(f.tensors, [](const GgufTensorName& name) {
    return name.ours.find(".mlp.") != std::string::npos;
  });
  take_mamba(f);
  // Of the dense feed-forward, of experts, and of the one beside these: the gate and what it gates
  // are parts of one of ours.
  const std::string mlp = "layers.#.mlp.", ffn = "blk.#.ffn_";
  add_name(f, {mlp + "gate.weight", ffn + "gate_inp.weight"});
  const std::pair<std::string, std::string> kinds[] = {
      {"", ""}, {"experts.", "_exps"}, {"shared_expert.", "_shexp"}};
  for (const auto& [ours, theirs] : kinds) {
    add_name(f, {mlp + ours + "gate_up_proj.weight", ffn + "gate" + theirs + ".weight"});
    add_name(f, {mlp + ours + "gate_up_proj.weight", ffn + "up" + theirs + ".weight"});
    add_name(f, {mlp + ours + "down_proj.weight", ffn + "down" + theirs + ".weight"});
  }
}

void take_gguf(GgufFamily& f) {
  f = granite_family().gguf;
  f.architecture = "granitehybrid";
  add_gguf_keys(f);
  add_gguf_names(f);
  f.obstacle = gguf_obstacle;
  f.reasons = {{"conv_bias", "llama.cpp wants biases of convolutions"},
               {"joined_gate", "--joined-gate"},
               {"moe_pattern", "llama.cpp wants experts in all blocks"}};
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
                                      {"layer_types", kMixers}};
  f.hf.keys.insert(f.hf.keys.end(), own.begin(), own.end());
  f.hf.take_mamba();
  add_shared_names(f.hf.names);
  take_gguf(f.gguf);
  return f;
}

}  // namespace tapegrad::run
