#include "tapegrad/nn/decoder_config.h"

namespace tapegrad::nn {
namespace {

// What an architecture stands for where the config says nothing.
struct Defaults {
  NormKind norm;
  Positions positions;
  Activation activation;
};
constexpr Defaults kDefaults[] = {
    {NormKind::layer, Positions::learned, Activation::gelu},  // gpt2
    {NormKind::rms, Positions::rotary, Activation::silu},     // llama
};
const Defaults& defaults_of(Architecture arch) { return kDefaults[static_cast<std::size_t>(arch)]; }

// Options that change nothing unless another part is there.
void check_needs(const DecoderConfig& c) {
  const DecoderConfig plain;
  const bool scaled = c.rope_scaling != RopeScalingKind::none;
  const bool llama3 = c.rope_scaling == RopeScalingKind::llama3;
  const struct {
    bool has_part, given;
    std::string_view option, part;
  } needs[] = {
      {c.rotary(), c.rope_base != plain.rope_base, "rope_base", "positions rotary"},
      {c.rotary(), scaled, "rope_scaling", "positions rotary"},
      {scaled, c.rope_factor != plain.rope_factor, "rope_factor", "rope_scaling"},
      {llama3, c.rope_low_freq_factor != plain.rope_low_freq_factor, "rope_low_freq_factor",
       "rope_scaling llama3"},
      {llama3, c.rope_high_freq_factor != plain.rope_high_freq_factor, "rope_high_freq_factor",
       "rope_scaling llama3"},
      {llama3, c.rope_original_positions != plain.rope_original_positions,
       "rope_original_positions", "rope_scaling llama3"},
      {c.window != 0, !c.window_pattern.empty(), "window_pattern", "window"},
  };
  for (const auto& need : needs) {
    check(need.has_part || !need.given, "{} needs {}", need.option, need.part);
  }
}

}  // namespace

Activation DecoderConfig::activation_kind() const {
  return activation.value_or(defaults_of(arch).activation);
}
Positions DecoderConfig::position_kind() const {
  return positions.value_or(defaults_of(arch).positions);
}
NormKind DecoderConfig::norm_kind() const { return norm.value_or(defaults_of(arch).norm); }

DecoderConfig DecoderConfig::settled() const {
  DecoderConfig c = *this;
  c.bias = with_bias(), c.qkv_bias = with_qkv_bias();
  c.activation = activation_kind(), c.gated = with_gate(), c.n_inner = inner();
  c.separate_qkv = projects_apart(), c.n_kv_head = kv_heads(), c.head_size = channels_per_head();
  c.positions = position_kind(), c.norm = norm_kind();
  const bool some_slide = window_pattern.empty() || window_pattern.find('S') != std::string::npos;
  if (window >= block_size || !some_slide) c.window = 0;  // it hides nothing
  const bool all_slide = window_pattern.find('L') == std::string::npos;
  if (c.window == 0 || all_slide) c.window_pattern.clear();
  return c;
}

std::optional<RopeScaling> DecoderConfig::scaling() const {
  if (rope_scaling == RopeScalingKind::none || rope_factor == 1) return std::nullopt;
  return RopeScaling{.factor = rope_factor,
                     .low_freq_factor = rope_low_freq_factor,
                     .high_freq_factor = rope_high_freq_factor,
                     .original_positions = rope_original_positions,
                     .kind = rope_scaling == RopeScalingKind::linear ? RopeScaling::Kind::linear
                                                                     : RopeScaling::Kind::llama3};
}

ScoreOptions DecoderConfig::scores_of(int block) const {
  const auto letter = static_cast<std::size_t>(block);
  const bool sees_all =
      !window_pattern.empty() && window_pattern[letter % window_pattern.size()] == 'L';
  return {.scale = attention_scale, .softcap = attention_softcap, .window = sees_all ? 0 : window};
}

void DecoderConfig::validate() const {
  check_rules(*this);
  check_needs(*this);
  check(head_size || n_embd % n_head == 0, "n_embd {} is not divisible by n_head {}", n_embd,
        n_head);
  check(!rotary() || channels_per_head() % 2 == 0,
        "positions rotary need an even number of channels per head, not {} (n_embd {}, n_head {})",
        channels_per_head(), n_embd, n_head);
  check(n_head % kv_heads() == 0, "n_head {} is not divisible by n_kv_head {}", n_head, kv_heads());
  check(rope_high_freq_factor > rope_low_freq_factor || rope_scaling != RopeScalingKind::llama3,
        "rope_high_freq_factor {} must be above rope_low_freq_factor {}", rope_high_freq_factor,
        rope_low_freq_factor);
  for (const double cap : {attention_softcap, logit_softcap}) {
    check(cap == 0 || cap >= 1e-3, "a soft cap is 0, for none, or at least 0.001, not {}", cap);
  }
  check(window_pattern.find_first_not_of("SL") == std::string::npos,
        "window_pattern '{}' must be a row of S, for blocks with the window, and L",
        window_pattern);
  check(norm_kind() != NormKind::unbiased || (n_embd > 1 && (!qk_norm || channels_per_head() > 1)),
        "norm unbiased needs 2 channels or more: the unbiased variance of one number does not "
        "exist");
}

}  // namespace tapegrad::nn
