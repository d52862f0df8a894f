#include "tapegrad/run/models/families/internal/family.h"

#include <algorithm>
#include <tuple>

#include "tapegrad/nn/decoder_names.h"
#include "tapegrad/run/models/families/internal/family_keys.h"
#include "tapegrad/run/models/families/keys/internal/expressible.h"

namespace tapegrad::run {

const std::vector<Family>& families() {
  static const std::vector<Family> all = family_rows();
  return all;
}

FamilyKey& HfFamily::key(std::string_view name) {
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const FamilyKey& k) { return k.key == name; });
  check(found != keys.end(), "the family has no key '{}'", name);
  return *found;
}

void HfFamily::never(std::string_view name, FamilyKey::Direction direction) {
  FamilyKey& own = key(name);
  own = {.key = own.key, .only = false, .direction = direction};
}

namespace {

// The biases that a class or an architecture has or has not, whatever its family is otherwise.
bool is_bias(std::string_view option) { return option == "bias" || option == "mlp_bias"; }

}  // namespace

void GgufFamily::leave_out_biases() {
  std::erase_if(keys, [&](const FamilyKey& key) { return is_bias(key.option); });
  std::erase_if(tensors, [&](const GgufTensorName& name) { return is_bias(name.with); });
}

void HfFamily::take_experts(std::string_view count) {
  keys.push_back({count, "moe_experts"});
  for (const std::string_view other : {"num_experts", "num_local_experts"}) {  // of other versions
    if (other == count) continue;
    keys.push_back({.key = other, .option = "moe_experts", .direction = FamilyKey::Direction::in});
  }
  keys.push_back({"num_experts_per_tok", "moe_top_k"});
  keys.push_back({"router_aux_loss_coef", "moe_balance_loss"});
  // No key: it is the width of feed-forward layers, or has a key of its own.
  keys.push_back({.key = "", .option = "moe_inner", .direction = FamilyKey::Direction::ignored});
}

void HfFamily::take_mamba() {
  const std::vector<FamilyKey> own = {
      {"mamba_n_heads", "mamba_heads"},      {"mamba_n_groups", "mamba_groups"},
      {"mamba_d_state", "mamba_state_size"}, {"mamba_d_conv", "conv_kernel"},
      {"mamba_conv_bias", "conv_bias"},      {.key = "mamba_proj_bias", .only = false},
      {"mamba_d_head", kMambaWidth}};
  keys.insert(keys.end(), own.begin(), own.end());
}

std::vector<HfTensorName> expert_names() {
  return {{"layers.#.mlp.experts.gate_proj.weight", "layers.#.mlp.experts.@.gate_proj.weight"},
          {"layers.#.mlp.experts.up_proj.weight", "layers.#.mlp.experts.@.up_proj.weight"},
          {"layers.#.mlp.experts.down_proj.weight", "layers.#.mlp.experts.@.down_proj.weight"}};
}

void GgufFamily::take_experts() {
  has_experts = true;
  for (FamilyKey& key : keys) {
    if (key.key == "expert_count") key = {.key = key.key, .option = "moe_experts", .needed = true};
    if (key.key == "expert_used_count") {
      key = {.key = key.key, .option = "moe_top_k", .needed = true};
    }
  }
  // No key: it is the width of feed-forward layers, or has a key of its own.
  keys.push_back({.key = "", .option = "moe_inner", .direction = FamilyKey::Direction::ignored});
  std::erase_if(tensors, [](const GgufTensorName& name) {
    return name.ours.find(".mlp.") != std::string::npos;
  });
  const std::string ours = "layers.#.mlp.", theirs = "blk.#.ffn_";
  tensors.push_back({ours + "gate.weight", theirs + "gate_inp.weight"});
  for (const std::string layer : {"gate", "up", "down"}) {
    tensors.push_back(
        {ours + "experts." + layer + "_proj.weight", theirs + layer + "_exps.weight"});
  }
}

void GgufFamily::take_joined_gate() {
  keys.push_back({.key = "", .option = "joined_gate", .direction = FamilyKey::Direction::ignored});
  std::vector<GgufTensorName> names;
  for (GgufTensorName& name : tensors) {
    const bool is_gate = name.ours == "layers.#.mlp.gate_proj.weight";
    if (is_gate || name.ours == "layers.#.mlp.up_proj.weight") {
      names.push_back(name);
      names.back().ours = "layers.#.mlp.gate_up_proj.weight", names.back().with = "joined_gate";
      name.without = "joined_gate";
    }
    names.push_back(name);
  }
  tensors = std::move(names);
}

void HfFamily::set_absent(const std::vector<std::pair<std::string_view, std::int64_t>>& values) {
  for (const auto& [name, value] : values) key(name).absent = value;
}

bool ends_in(std::string_view name, const std::vector<std::string_view>& ends) {
  return std::any_of(ends.begin(), ends.end(), [&](auto end) { return name.ends_with(end); });
}

bool has_tensor(const nn::DecoderConfig& config, int block, std::string_view ours) {
  const nn::DecoderNames names = nn::decoder_names(config);
  const auto has = [&](std::string_view part) { return ours.find(part) != std::string_view::npos; };
  const auto is_norm = [&](const char* norm) { return has(fmt::format(".{}.", norm)); };
  // One name may be of the norm behind a mixer or, in other models, of that before a feed-forward.
  const bool behind = config.norm_place != nn::NormPlace::before;
  const bool of_mixer =
      is_norm(names.before_attention) || (behind && is_norm(names.after_attention));
  const bool of_mlp = is_norm(names.before_mlp) || (behind && is_norm(names.after_mlp));
  if (of_mixer) return config.has_mixer(block);
  if (of_mlp) return config.has_feed_forward(block);
  const std::pair<const char*, char> mixers[] = {
      {names.attention, 'A'}, {names.conv, 'C'}, {names.delta, 'D'}, {names.mamba, 'M'}};
  for (const auto& [part, mixer] : mixers) {
    if (has(fmt::format(".{}.", part)) && !config.mixes_by(block, mixer)) return false;
  }
  const std::string norm = fmt::format(".{}.{}.", names.mamba, names.in_mamba.norm);
  if (has(norm) && config.mamba.norm_groups == 0) return false;
  const std::string mlp = fmt::format(".{}.", names.mlp);
  if (!has(mlp)) return true;
  if (!config.has_feed_forward(block)) return false;
  const nn::ExpertNames& in = names.in_experts;
  const bool of_gate = has(fmt::format("{}{}.", mlp, in.shared_gate));
  if (of_gate || has(fmt::format("{}{}.", mlp, in.shared))) {
    return config.has_experts(block) && config.moe.shared_inner > 0 &&
           (config.moe.shared_gate || !of_gate);
  }
  const bool of_experts = has(fmt::format("{}{}.", mlp, in.router)) ||
                          has(fmt::format("{}{}.", mlp, in.experts)) ||
                          has(mlp + in.selection_bias);
  return of_experts == config.has_experts(block);
}

bool has_single_parts(const nn::DecoderConfig& config) {
  for (int i = 0; i < config.n_layer; ++i) {
    const std::string_view mixers = config.has_feed_forward(i) ? "N" : "AM";
    if (mixers.find(config.mixer(i)) == std::string_view::npos) return false;
  }
  return !config.moe.exist();
}

std::optional<int> leading_dense_blocks(const nn::DecoderConfig& config) {
  int count = 0;
  while (count < config.n_layer && !config.has_experts(count)) ++count;
  for (int i = count; i < config.n_layer; ++i) {
    if (!config.has_experts(i)) return std::nullopt;
  }
  return count;
}

std::string names_of_families(std::string_view (*name)(const Family&)) {
  std::vector<std::string_view> names;
  for (const Family& family : families()) {
    const std::string_view own = name(family);
    const bool is_new = std::find(names.begin(), names.end(), own) == names.end();
    if (!own.empty() && is_new) names.push_back(own);
  }
  return words_in_a_row(names);
}

const std::vector<KnownPreTokenizer>& pre_tokenizers() {
  static const std::vector<KnownPreTokenizer> all = [] {
    std::vector<KnownPreTokenizer> pre;
    for (const Family& family : families()) {
      pre.insert(pre.end(), family.pre_tokenizers.begin(), family.pre_tokenizers.end());
    }
    return pre;
  }();
  return all;
}

const KnownPreTokenizer& pre_tokenizer(std::string_view name) {
  const auto found = std::find_if(pre_tokenizers().begin(), pre_tokenizers().end(),
                                  [&](const KnownPreTokenizer& pre) { return pre.name == name; });
  check(found != pre_tokenizers().end(), "there is no pre-tokenizer '{}'", name);
  return *found;
}

std::string names_of_pre_tokenizers(std::string_view KnownPreTokenizer::*name) {
  std::vector<std::string_view> names;
  for (const KnownPreTokenizer& pre : pre_tokenizers()) names.push_back(pre.*name);
  return words_in_a_row(names);
}

std::string leading_dense_pattern(std::int64_t dense, int blocks) {
  std::string letters(static_cast<std::size_t>(blocks), 'E');
  const auto end = std::min<std::int64_t>(dense, blocks);
  std::fill(letters.begin(), letters.begin() + end, 'D');
  return letters;
}

bool is_own_form(std::string_view option) {
  static constexpr std::string_view kForms[] = {
      kRotation,      kWindows,     kRotaryBlocks, kDenseBlocks, kLeadingDense, kMixers,
      kAdjustedInner, kSharedInner, kMambaWidth,   kDeltaWidth,  kScaleLists,   kSingleParts};
  return std::find(std::begin(kForms), std::end(kForms), option) != std::end(kForms);
}

namespace {

using Keys = const std::vector<FamilyKey>& (*)(const Family&);  // of a format

// How well a family expresses a config; less is better. First by whether it has the config's
// mixers and feed-forwards, without which nothing else is near, then by what differs, biases last,
// then by options that nobody asked for, then by options that differ, though they mean the same for
// so few blocks. A class without biases is no better for that: plain Llama is not Mistral's.
using Distance = std::tuple<bool, std::ptrdiff_t, std::size_t, std::ptrdiff_t, bool>;
Distance distance(const Family& family, const nn::DecoderConfig& config, Keys keys) {
  auto free = options_of(family, keys(family), config);
  free.insert("tied");
  const nn::DecoderConfig model = model_with(family, config, free);
  const bool told_otherwise = model.rope_pattern != config.rope_pattern;
  const auto differences = differences_of(config, model, free);
  const bool mixes_otherwise = std::ranges::any_of(differences, [](const OptionDifference& d) {
    return d.option == "mixer_pattern" || d.option == "ff_pattern";
  });
  const auto others =
      std::count_if(differences.begin(), differences.end(), [](const OptionDifference& difference) {
        return !is_bias(difference.option) && difference.option != "qkv_bias";
      });
  return {mixes_otherwise, others, differences.size(),
          std::count_if(free.begin(), free.end(), [](auto option) { return !is_bias(option); }),
          told_otherwise};
}

const Family& nearest_family(const nn::DecoderConfig& config, Keys keys) {
  const Family* best = nullptr;
  Distance least;
  for (const Family& family : families()) {
    if (keys(family).empty() || family.model.arch != config.arch) continue;
    const auto own = distance(family, config, keys);
    if (best != nullptr && own > least) continue;  // of equals, the last
    best = &family;
    least = own;
  }
  check(best != nullptr, "no family of models has arch {}", name_of_enum(config.arch));
  return *best;
}

}  // namespace

const Family& family_of(const nn::DecoderConfig& config) {
  static const std::vector<FamilyKey> none;
  return nearest_family(
      config, [](const Family& f) -> auto& { return f.hf.is_written ? f.hf.keys : none; });
}

const Family& gguf_family_of(const nn::DecoderConfig& config) {
  return nearest_family(
      config, [](const Family& f) -> auto& { return f.gguf.keys; });
}

}  // namespace tapegrad::run
