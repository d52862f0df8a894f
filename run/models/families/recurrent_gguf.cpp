#include "tapegrad/run/models/families/internal/recurrent_gguf.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tapegrad::run {
namespace {

using Direction = FamilyKey::Direction;

const std::vector<std::string>* list_of_blocks(const Value& theirs) {
  return std::get_if<std::vector<std::string>>(&theirs);
}

std::int64_t norm_groups(const nn::DecoderConfig& c) { return c.mamba.norm_groups; }

// The only number other than 0 of such a list. 1 if there is none: nothing has what it counts.
Value number_of_blocks(const Value& theirs, std::string_view what) {
  const auto* const list = list_of_blocks(theirs);
  if (list == nullptr) return theirs;
  std::int64_t found = 0;
  for (const std::string& text : *list) {
    const std::int64_t number = std::stoll(text);
    check(number == 0 || found == 0 || number == found, "{} and {} {} are not supported", found,
          number, what);
    if (number != 0) found = number;
  }
  return found == 0 ? 1 : found;
}

}  // namespace

Value key_heads_of_blocks(const Value& theirs) { return number_of_blocks(theirs, "heads of keys"); }

Value widths_of_blocks(const Value& theirs) {
  return number_of_blocks(theirs, "channels of feed-forwards");
}

std::string mixers_of_heads(const Value& theirs, char mixer) {
  std::string pattern;
  if (const auto* const heads = list_of_blocks(theirs)) {
    for (const std::string& text : *heads) pattern += text == "0" ? mixer : 'A';
  }
  return pattern;
}

void take_heads_of_blocks(GgufFamily& f, Value (*mixers)(const Value& theirs)) {
  for (FamilyKey& key : f.keys) {
    if (key.option == "n_kv_head") key.ours = key_heads_of_blocks;
  }
  f.keys.push_back({.key = "attention.head_count_kv",
                    .option = "mixer_pattern",
                    .direction = Direction::in,
                    .ours = mixers});
  f.keys.push_back({.key = "", .option = "mixer_pattern", .direction = Direction::ignored});
}

std::string conv_kernel_obstacle(const nn::DecoderConfig& c) {
  if (c.conv_kernel > 1) return {};
  return fmt::format("conv_kernel {}: llama.cpp wants 2 or more", c.conv_kernel);
}

void take_mamba(GgufFamily& f) {
  using Form = GgufTensorName::Form;
  const std::vector<FamilyKey> own = {
      {.key = "ssm.conv_kernel", .option = "conv_kernel", .needed = true},
      {.key = "ssm.state_size", .option = "mamba_state_size", .needed = true},
      {.key = "ssm.time_step_rank", .option = "mamba_heads", .needed = true},
      {.key = "ssm.group_count", .option = "mamba_groups", .needed = true},
      {.key = "ssm.inner_size", .option = kMambaWidth, .direction = Direction::ignored}};
  f.keys.insert(f.keys.end(), own.begin(), own.end());
  const std::string mamba = "layers.#.mamba.", ssm = "blk.#.ssm_";
  add_name(f, {mamba + "in_proj.weight", ssm + "in.weight"});
  add_name(
      f,
      {.ours = mamba + "conv1d.weight", .theirs = ssm + "conv1d.weight", .form = Form::squeezed});
  add_name(f, {mamba + "conv1d.bias", ssm + "conv1d.bias"});
  add_name(f, {mamba + "dt_bias", ssm + "dt.bias"});
  add_name(f,
           {.ours = mamba + "A_log", .theirs = ssm + "a", .form = Form::column, .is_rate = true});
  add_name(f, {.ours = mamba + "D", .theirs = ssm + "d", .form = Form::column});
  add_name(f, {.ours = mamba + "norm.weight",
               .theirs = ssm + "norm.weight",
               .form = Form::vector,
               .group_count = norm_groups});
  add_name(f, {mamba + "out_proj.weight", ssm + "out.weight"});
}

void add_name(GgufFamily& f, GgufTensorName name) {
  const auto last_norm = std::ranges::find(f.tensors, "norm.weight", &GgufTensorName::ours);
  f.tensors.insert(last_norm, std::move(name));
}

}  // namespace tapegrad::run
