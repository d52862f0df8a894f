#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/run/models/families/internal/recurrent_gguf.h"

namespace tapegrad::run {
namespace {

using Direction = FamilyKey::Direction;

std::vector<FamilyKey> own_keys() {
  return {{"embedding_multiplier", "embedding_scale"},
          {"lm_head_multiplier", "logit_scale"},
          {"attention_in_multiplier", "attention_in_scale"},
          {"key_multiplier", "key_scale"},
          {"attention_out_multiplier", "attention_out_scale"},
          {"ssm_in_multiplier", "mamba_in_scale"},
          {"ssm_out_multiplier", "mamba_out_scale"},
          {"ssm_multipliers", kScaleLists},
          {.key = "projectors_bias", .only = false},
          {.key = "mamba_use_mlp", .only = true, .direction = Direction::in}};
}

std::vector<HfTensorName> names() {
  return {{"layers.#.post_attention_layernorm.weight", "layers.#.pre_ff_layernorm.weight"},
          {"layers.#.mlp.gate_proj.weight", "layers.#.feed_forward.gate_proj.weight"},
          {"layers.#.mlp.gate_proj.bias", "layers.#.feed_forward.gate_proj.bias"},
          {"layers.#.mlp.up_proj.weight", "layers.#.feed_forward.up_proj.weight"},
          {"layers.#.mlp.up_proj.bias", "layers.#.feed_forward.up_proj.bias"},
          {"layers.#.mlp.down_proj.weight", "layers.#.feed_forward.down_proj.weight"},
          {"layers.#.mlp.down_proj.bias", "layers.#.feed_forward.down_proj.bias"},
          {"norm.weight", "final_layernorm.weight"}};
}

// A number, or one for each row.
template <class Factor>
void multiply(TensorToMake& t, const Factor& by) {
  t.make = [make = t.make, by] {
    const TapePause pause;
    return make() * by;
  };
}

// llama.cpp's converter multiplies weights by the numbers. A tied head that has another one than
// the embedding becomes a tensor of its own.
void fold(nn::DecoderConfig& c, std::vector<TensorToMake>& tensors) {
  const std::string_view embedding = "embed_tokens.weight", head = "lm_head.weight";
  if (c.tied && c.embedding_scale != c.logit_scale) {
    c.tied = false;
    const auto table = std::ranges::find(tensors, embedding, &TensorToMake::name);
    if (table != tensors.end()) {
      tensors.push_back({std::string(head), table->shape, table->make});
    }
  }
  const nn::BlockScales& s = c.scales;
  const std::pair<std::string_view, double> factors[] = {{embedding, c.embedding_scale},
                                                         {head, c.logit_scale},
                                                         {".q_proj.weight", s.attention_in},
                                                         {".k_proj.weight", s.attention_in * s.key},
                                                         {".v_proj.weight", s.attention_in},
                                                         {".o_proj.weight", s.attention_out},
                                                         {".mamba.out_proj.weight", s.mamba_out},
                                                         {".gate_proj.weight", s.gate},
                                                         {".down_proj.weight", s.mlp}};
  const Tensor of_mamba = scales_of_channels(c.mamba_sizes(), s.of_mamba(), DType::f32);
  for (TensorToMake& t : tensors) {
    for (const auto& [end, by] : factors) {
      if (t.name.ends_with(end) && by != 1) multiply(t, by);
    }
    if (t.name.ends_with(".mamba.in_proj.weight")) multiply(t, unsqueeze(of_mamba, 1));
  }
  c.scales = {}, c.embedding_scale = c.logit_scale = 1;
}

std::string gguf_obstacle(const nn::DecoderConfig& c) {
  const int norms = c.mamba.norm_groups;
  if (norms == 0 || (norms == 1 && c.mamba.groups == 1)) return conv_kernel_obstacle(c);
  return fmt::format(
      "mamba_norm_groups {} and mamba_groups {}: only one norm is known in files, "
      "and llama.cpp norms each group by itself",
      norms, c.mamba.groups);
}

void take_gguf(GgufFamily& f) {
  f.architecture = "falcon-h1";
  f.may_scale_rotation = false;
  f.leave_out_biases();
  f.reasons = {{"conv_bias", "llama.cpp wants biases of convolutions"},
               {"bias", "llama.cpp does not add those of attention's output"}};
  std::erase_if(f.tensors, [](const GgufTensorName& name) { return name.ours.ends_with(".bias"); });
  for (GgufTensorName& name : f.tensors) {
    name.exchanged = GgufTensorName::Exchanged::no;
    if (name.theirs == "blk.#.ffn_norm.weight") name.theirs = "blk.#.ffn_norm";
  }
  take_mamba(f);
  f.obstacle = gguf_obstacle;
  f.fold = fold;
}

}  // namespace

// Llama with a Mamba-2 beside attention in all blocks, and numbers that its parts are multiplied by
// (Zuo et al., "Falcon-H1: A Family of Hybrid-Head Language Models Redefining Efficiency and
// Performance", 2025).
Family falcon_h1_family() {
  Family f = llama_family();
  f.name = "falcon_h1";
  f.mixer = 'P';
  f.model.mixer_pattern = "P";
  f.model.conv_kernel = 4;
  f.model.conv_bias = true;
  f.model.mamba = {.heads = 128, .head_size = 8, .state_size = 256, .norm_groups = 0};
  f.model.norm_eps = 1e-5;
  f.model.block_size = 8192;
  f.hf.model_class = "FalconH1ForCausalLM";
  f.hf.base_class = "FalconH1Model";
  const std::vector<FamilyKey> own = own_keys();
  f.hf.keys.insert(f.hf.keys.end(), own.begin(), own.end());
  f.hf.take_mamba();
  f.hf.names = names();
  f.hf.set_absent(
      {{"vocab_size", 128000}, {"intermediate_size", 14336}, {"num_key_value_heads", 8}});
  f.hf.key("num_key_value_heads").absent_is_not_null = true;
  take_gguf(f.gguf);
  f.pre_tokenizers = {};
  return f;
}

}  // namespace tapegrad::run
