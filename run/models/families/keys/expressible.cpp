#include "tapegrad/run/models/families/keys/internal/expressible.h"

#include <algorithm>

#include "tapegrad/run/models/families/internal/family_keys.h"
#include "tapegrad/run/models/families/keys/internal/effective_config.h"

namespace tapegrad::run {
namespace {

// Without a base of blocks with a window that is the others' own, whose positions are not scaled.
nn::DecoderConfig without_same_base(nn::DecoderConfig c) {
  if (c.rope_window_base == c.rope_base && !c.scaling()) c.rope_window_base = 0;
  return c;
}

}  // namespace

nn::DecoderConfig model_with(const Family& family, const nn::DecoderConfig& config,
                             const std::set<std::string_view>& free) {
  nn::DecoderConfig model = family.model;
  const Section section = section_of("model", config);
  set_options(model, [&](std::string_view option) {
    return free.count(option) != 0 ? section.find(option) : nullptr;
  });
  if (family.follow != nullptr) family.follow(model);
  return model;
}

std::set<std::string_view> options_of(const Family& family, const std::vector<FamilyKey>& keys,
                                      const nn::DecoderConfig& config) {
  using Kind = nn::RopeScalingKind;
  const bool is_longrope = config.rope_scaling == Kind::longrope;
  std::set<std::string_view> options = {"vocab_size",       "dropout",          "ff_dropout",
                                        "attn_out_dropout", "moe_balance_loss", "moe_z_loss",
                                        "moe_bias_rate"};
  options.insert(family.same_tensors.begin(), family.same_tensors.end());
  for (const FamilyKey& key : keys) {
    if (key.direction == FamilyKey::Direction::in) continue;  // it cannot be written
    options.insert(key.option);
    if (key.option == kWindows) options.insert({"window", "window_pattern"});
    if (key.option == kRotaryBlocks) options.insert("rope_pattern");
    if (key.option == kDenseBlocks || key.option == kLeadingDense) options.insert("moe_pattern");
    if (key.option == kMixers) options.insert("mixer_pattern");
    if (key.option == kSingleParts && has_single_parts(config)) {
      options.insert({"mixer_pattern", "ff_pattern"});
    }
    if (key.option == kMambaWidth) options.insert("mamba_head_size");
    if (key.option == kMambaWidth && family.mixer == 'P') options.insert("mamba_norm_groups");
    if (key.option == kScaleLists) {
      options.insert({"gate_scale", "mlp_scale", "mamba_part_scales"});
    }
    if (key.option == kDeltaWidth) options.insert("delta_value_size");
    if (key.option == kSharedInner) {
      options.insert({"n_inner", "moe_inner"});
      if (config.moe.shared_inner > 0) options.insert("moe_shared_inner");
    }
    if (key.option == kLongRope && is_longrope) {
      for (const auto option : rope_scaling_options(Kind::longrope)) options.insert(option);
    }
    if (key.option != kRotation) continue;
    if (family.hf.scales_queries) {
      options.insert({"query_scale_beta", "rope_original_positions"});
    }
    if (family.model.rope_window_base != 0) options.insert("rope_window_base");
    if (family.hf.turned_share) options.insert("rope_channels");
    options.insert("rope_base");
    const auto scalings = family.hf.scalings;
    const bool scales = scalings == HfFamily::Scalings::all ||
                        (scalings == HfFamily::Scalings::longrope && is_longrope);
    if (!scales) continue;
    for (const std::string_view option : rope_scaling_options()) options.insert(option);
    // transformers looks for it beside the parts for each kind of blocks.
    if (family.model.rope_window_base != 0) options.erase("rope_truncate");
  }
  // No class but that of a family whose dense feed-forward has a key of its own takes 0 of them.
  const bool needs_experts = family.model.moe.exist() && key_of(keys, kSharedInner) == nullptr;
  if (needs_experts && !config.moe.exist()) options.erase("moe_experts");
  const char letters[] = {'A', family.mixer};
  if (options.count("ff_pattern") == 0 &&
      config.mixer_pattern.find_first_not_of(letters, 0, 2) != std::string::npos) {
    options.erase("mixer_pattern");
  }
  return options;
}

std::vector<OptionDifference> differences_of(const nn::DecoderConfig& config,
                                             nn::DecoderConfig only,
                                             const std::set<std::string_view>& free) {
  const Section section = section_of("model", config);
  set_options(only, [&](std::string_view option) {
    return free.count(option) != 0 ? section.find(option) : nullptr;
  });
  const Section ours = effective_section(without_same_base(config)),
                theirs = effective_section(without_same_base(only));
  std::vector<OptionDifference> differences;
  for (std::size_t i = 0; i < ours.values.size(); ++i) {
    const auto& [option, value] = ours.values[i];
    const Value& other = theirs.values[i].second;
    if (value != other) differences.push_back({option, shown(value), shown(other)});
  }
  return differences;
}

void require_expressible(std::string_view format, const nn::DecoderConfig& config,
                         const nn::DecoderConfig& only, const std::set<std::string_view>& free,
                         const Reasons& reasons) {
  const auto differences = differences_of(config, only, free);
  if (differences.empty()) return;
  const OptionDifference& first = differences.front();
  const auto reason = std::find_if(reasons.begin(), reasons.end(),
                                   [&](const auto& r) { return r.first == first.option; });
  fail("{} cannot express a model with {} {}, only with {}{}{}", format, first.option, first.value,
       first.only, reason == reasons.end() ? "" : ": ",
       reason == reasons.end() ? "" : reason->second);
}

void require_leading_dense(std::string_view format, const std::vector<FamilyKey>& keys,
                           const nn::DecoderConfig& config) {
  check(key_of(keys, kLeadingDense) == nullptr || leading_dense_blocks(config),
        "{} cannot express a model with moe_pattern {}, only with dense blocks before all others",
        format, config.moe.pattern);
}

nn::DecoderConfig with_window_base(std::string_view format, const Family& family,
                                   nn::DecoderConfig c) {
  if (family.model.rope_window_base == 0 || c.window == 0 || c.rope_window_base != 0) return c;
  check(!c.scaling(),
        "{} cannot express a model whose blocks with a window have scaled positions: it needs "
        "rope_window_base",
        format);
  c.rope_window_base = c.rope_base;
  return c;
}

}  // namespace tapegrad::run
