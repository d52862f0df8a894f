#include <string>

#include "tapegrad/run/models/families/internal/family_keys.h"
#include "tapegrad/run/models/families/internal/recurrent_gguf.h"

namespace tapegrad::run {
namespace {

// Files have what logits are divided by.
Value divided(const Value& value) {
  const double by = number_of(value);
  check(by > 0, "logits cannot be divided by {}", by);
  return 1 / by;
}

// llama.cpp has rotary positions in all blocks with attention where this is true, and else none.
Value turns(const Value& positions) { return positions == Value(std::string("rotary")); }
Value positions_of(const Value& turns) {
  check(std::holds_alternative<bool>(turns), "it must be true or false");
  return std::string(turns == Value(true) ? "rotary" : "none");
}

void take_positions(GgufFamily& f) {
  for (FamilyKey& key : f.keys) {
    if (key.key != "rope.scaling.finetuned") continue;
    key = {.key = key.key,
           .option = "positions",
           .absent = true,
           .ours = positions_of,
           .theirs = turns};
  }
  f.follow = [](nn::DecoderConfig& c) {  // files have a base of positions that are not there, too
    if (!c.rotary()) c.rope_base = nn::DecoderConfig().rope_base;
  };
}

// A list has as many for each block.
Value key_heads_of_all(const Value& theirs) {
  check(mixers_of_heads(theirs, 'M').find('M') == std::string::npos,
        "blocks without heads of keys are not supported");
  return key_heads_of_blocks(theirs);
}

// llama.cpp's converter makes files of Granite 4 without Mamba-2 in these architectures, too, with
// sizes of Mamba-2 and, where there are no experts, of what stands beside them.
void take_files_without_mamba(GgufFamily& f) {
  for (FamilyKey& key : f.keys) {
    if (key.option == "n_kv_head") key.ours = key_heads_of_all;
  }
  for (const std::string_view name :
       {"ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.inner_size",
        "ssm.time_step_rank", "expert_shared_feed_forward_length"}) {
    f.keys.push_back({.key = name, .direction = FamilyKey::Direction::ignored});
  }
}

void add_scales(std::vector<FamilyKey>& keys, std::string_view scores, std::string_view embeddings,
                std::string_view added, std::string_view logits) {
  keys.push_back({scores, "attention_scale"});
  keys.push_back({embeddings, "embedding_scale"});
  keys.push_back({added, "residual_scale"});
  keys.push_back({.key = logits, .option = "logit_scale", .ours = divided, .theirs = divided});
}

}  // namespace

std::string granite_gguf_obstacle(const nn::DecoderConfig& c) {
  if (!c.rotary() && c.positions != nn::Positions::none) {
    return "other positions than rotary or none";
  }
  return c.joined_gate && c.with_mlp_bias() ? "mlp_bias beside joined_gate" : "";
}

// Llama with numbers that scores, embeddings, what blocks add and logits are multiplied by (Granite
// Team, "Granite 3.0 Language Models", 2024, section 2; Yang et al., "Tensor Programs V", 2022).
Family granite_family() {
  Family f = llama_family();
  f.name = "granite";
  f.model.attention_scale = 1;
  f.hf.model_class = "GraniteForCausalLM";
  f.hf.base_class = "GraniteModel";
  add_scales(f.hf.keys, "attention_multiplier", "embedding_multiplier", "residual_multiplier",
             "logits_scaling");
  f.gguf.architecture = "granite";
  add_scales(f.gguf.keys, "attention.scale", "embedding_scale", "residual_scale", "logit_scale");
  f.gguf.may_scale_rotation = false;
  f.gguf.take_joined_gate();  // of Granite 4 without Mamba-2
  f.gguf.obstacle = granite_gguf_obstacle;
  take_positions(f.gguf);
  take_files_without_mamba(f.gguf);
  // Without it, llama.cpp scales by the width of heads.
  for (FamilyKey& key : f.gguf.keys) key.needed |= key.option == "attention_scale";
  f.pre_tokenizers = {};
  return f;
}

}  // namespace tapegrad::run
