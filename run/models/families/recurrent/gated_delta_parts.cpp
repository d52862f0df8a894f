#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/run/models/families/internal/family_keys.h"
#include "tapegrad/run/models/families/internal/recurrent_gguf.h"

namespace tapegrad::run {
namespace {

using Direction = FamilyKey::Direction;
using Form = GgufTensorName::Form;

Value mixers_of_interval(const Value& interval) {
  return pattern_with_last('D', 'A', whole_number_of(interval));
}

// Of a list with 1 for each block without attention.
Value mixers_of_recurrent(const Value& theirs) {
  const auto* const list = std::get_if<std::vector<std::string>>(&theirs);
  check(list != nullptr, "it must be a list with a number for each block");
  std::string pattern;
  for (const std::string& text : *list) pattern += text == "0" ? 'A' : 'D';
  return pattern;
}

std::string gguf_obstacle(const nn::DecoderConfig& c) {
  const nn::DeltaSizes sizes = c.delta_sizes();
  if (!c.has_some('D')) return "mixer_pattern A: llama.cpp wants a gated delta net in some block";
  if (sizes.value_size == sizes.key_size) return conv_kernel_obstacle(c);
  return fmt::format("delta_value_size {}: llama.cpp wants delta_key_size, {}", sizes.value_size,
                     sizes.key_size);
}

void add_keys(GgufFamily& f) {
  for (FamilyKey& key : f.keys) {
    if (key.key == "rope.dimension_count") key = {key.key, "rope_channels"};
  }
  const std::vector<FamilyKey> own = {
      {.key = "attention.recurrent_layers",
       .option = "mixer_pattern",
       .direction = Direction::in,
       .ours = mixers_of_recurrent},
      {.key = "full_attention_interval",
       .option = "mixer_pattern",
       .direction = Direction::in,
       .absent = std::int64_t{4},
       .ours = mixers_of_interval},
      {.key = "", .option = "mixer_pattern", .direction = Direction::ignored},
      {.key = "ssm.conv_kernel", .option = "conv_kernel", .needed = true},
      {.key = "ssm.state_size", .option = "delta_key_size", .needed = true},
      {.key = "ssm.group_count", .option = "delta_key_heads", .needed = true},
      {.key = "ssm.time_step_rank", .option = "delta_heads", .needed = true},
      {.key = "ssm.inner_size", .option = kDeltaWidth, .direction = Direction::ignored}};
  f.keys.insert(f.keys.end(), own.begin(), own.end());
}

}  // namespace

void take_gated_delta_gguf(GgufFamily& f) {
  f.obstacle = gguf_obstacle;
  add_keys(f);
  for (GgufTensorName& name : f.tensors) {
    if (name.theirs == "blk.#.ffn_norm.weight") name.theirs = "blk.#.post_attention_norm.weight";
    if (name.ours.ends_with("norm.weight")) name.plus = 1;
  }
  const std::string ours = "layers.#.linear_attn.", ssm = "blk.#.ssm_";
  add_name(f, {ours + "in_proj_qkv.weight", "blk.#.attn_qkv.weight"});
  add_name(f, {ours + "in_proj_z.weight", "blk.#.attn_gate.weight"});
  add_name(
      f, {.ours = ours + "conv1d.weight", .theirs = ssm + "conv1d.weight", .form = Form::squeezed});
  add_name(f, {ours + "dt_bias", ssm + "dt.bias"});
  add_name(f, {.ours = ours + "A_log", .theirs = ssm + "a", .is_rate = true});
  add_name(f, {ours + "norm.weight", ssm + "norm.weight"});
  add_name(f, {ours + "out_proj.weight", ssm + "out.weight"});
}

void take_gated_delta_nets(Family& f) {
  f.mixer = 'D';
  f.model.mixer_pattern = "DDDA";
  f.model.conv_kernel = 4;
  f.model.delta_heads = 32, f.model.delta_key_heads = 16;
  f.model.delta_key_size = f.model.delta_value_size = 128;
  f.model.attn_gate = true;
  f.model.head_size = 256;
  f.model.norm = nn::NormKind::rms_plus;
  f.hf.window = HfFamily::Window::none;
  f.hf.turned_share = 0.25;
  std::erase_if(f.hf.keys, [](const FamilyKey& key) {
    return key.key == "partial_rotary_factor" || key.key == "use_sliding_window";
  });
  f.hf.set_absent({{"head_dim", 256}});
  f.hf.key("num_key_value_heads").absent_is_not_null = false;
  f.hf.parts_left_out = {
      "mtp."};  // a part that predicts more tokens, which transformers leaves out
  f.hf.keys.push_back(
      {.key = "attn_output_gate", .only = true, .direction = FamilyKey::Direction::in});
  const std::vector<FamilyKey> own = {{"layer_types", kMixers},
                                      {"linear_conv_kernel_dim", "conv_kernel"},
                                      {"linear_key_head_dim", "delta_key_size"},
                                      {"linear_value_head_dim", "delta_value_size"},
                                      {"linear_num_key_heads", "delta_key_heads"},
                                      {"linear_num_value_heads", "delta_heads"}};
  f.hf.keys.insert(f.hf.keys.end(), own.begin(), own.end());
}

}  // namespace tapegrad::run
