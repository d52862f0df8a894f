#include "tapegrad/nn/decoder_config.h"

#include <cmath>

#include "tapegrad/nn/internal/decoder_patterns.h"

namespace tapegrad::nn {
namespace {

// The values of an architecture where the config says nothing.
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

// The letter of a block in a row that is repeated over the blocks.
char letter_of(const std::string& pattern, int block) {
  return pattern[static_cast<std::size_t>(block) % pattern.size()];
}

// The shortest row that says the same of so many blocks.
std::string shortest(const std::string& pattern, int blocks) {
  if (pattern.empty()) return pattern;
  std::string letters;
  for (int i = 0; i < blocks; ++i) letters += letter_of(pattern, i);
  std::size_t size = 1;
  while (!std::equal(letters.begin() + static_cast<std::ptrdiff_t>(size), letters.end(),
                     letters.begin())) {
    ++size;
  }
  return letters.substr(0, size);
}

// The attention factor of scaled positions where the config has 0.
double usual_attention_factor(const DecoderConfig& c) {
  return c.rope_scaling == RopeScalingKind::longrope
             ? longrope_attention_factor(c.rope_factor, c.rope_original_positions)
             : yarn_attention_factor(c.rope_factor);
}

}  // namespace

Activation DecoderConfig::activation_kind() const {
  return activation.value_or(defaults_of(arch).activation);
}
Positions DecoderConfig::position_kind() const {
  return positions.value_or(defaults_of(arch).positions);
}
NormKind DecoderConfig::norm_kind() const { return norm.value_or(defaults_of(arch).norm); }

DecoderConfig DecoderConfig::with_defaults() const {
  DecoderConfig c = *this;
  c.bias = with_bias(), c.qkv_bias = with_qkv_bias();
  c.activation = activation_kind(), c.gated = with_gate(), c.n_inner = inner();
  c.separate_qkv = projects_apart(), c.n_kv_head = kv_heads(), c.head_size = channels_per_head();
  c.positions = position_kind(), c.norm = norm_kind();
  // These are written only where they say something.
  const bool has_rms = norm_kind() != NormKind::layer && norm_kind() != NormKind::unbiased;
  if (has_rms || with_norm_bias() == with_bias()) c.norm_bias.reset();
  if (with_mlp_bias() == with_bias()) c.mlp_bias.reset();
  if (!rotary() || turned_channels() == channels_per_head()) c.rope_channels.reset();
  c.moe.pattern = shortest(moe.pattern, n_layer);
  const auto routes = [this](int block) { return has_experts(block); };
  if (moe.exist() && !any_block(routes, n_layer)) c.moe = {};
  if (c.moe.pattern == "E") c.moe.pattern.clear();
  if (c.moe.exist()) c.moe.inner = expert_inner();
  if (c.moe.exist() && c.moe.pattern.empty()) c.n_inner = c.moe.inner;  // nothing else has a width
  c.mixer_pattern = shortest(mixer_pattern, n_layer);
  c.ff_pattern = shortest(ff_pattern, n_layer);
  if (c.ff_pattern == "F") c.ff_pattern.clear();
  const DeltaSizes delta = delta_sizes();
  c.delta_heads = static_cast<int>(delta.heads);
  c.delta_key_heads = static_cast<int>(delta.key_heads);
  c.delta_key_size = delta.key_size, c.delta_value_size = delta.value_size;
  c.mamba.heads = static_cast<int>(mamba_sizes().heads);
  c.forget_unused_mixers();
  c.window_pattern = shortest(window_pattern, n_layer);
  c.rope_pattern = shortest(rope_pattern, n_layer);
  const bool some_slide =
      c.window_pattern.empty() || c.window_pattern.find('S') != std::string::npos;
  const bool hides = window < block_size || rope_window_base != 0;  // or something turns otherwise
  if (!hides || !some_slide) c.window = 0;
  if (c.window == 0) c.rope_window_base = 0;
  const bool all_slide = c.window_pattern.find('L') == std::string::npos;
  if (c.window == 0 || all_slide) c.window_pattern.clear();
  if (c.rope_pattern.find('N') == std::string::npos) c.rope_pattern.clear();
  return c;
}

std::optional<RopeScaling> DecoderConfig::scaling() const {
  using Kind = RopeScaling::Kind;
  const bool is_longrope = rope_scaling == RopeScalingKind::longrope;
  const bool turns_others = rope_factor != 1 || rope_attention_factor != 0 || is_longrope;
  if (rope_scaling == RopeScalingKind::none || !turns_others) return std::nullopt;
  RopeScaling s{.factor = rope_factor,
                .low_freq_factor = rope_low_freq_factor,
                .high_freq_factor = rope_high_freq_factor,
                .original_positions = rope_original_positions,
                .beta_fast = rope_beta_fast,
                .beta_slow = rope_beta_slow,
                .truncate = rope_truncate};
  s.attention_factor =
      rope_attention_factor != 0 ? rope_attention_factor : usual_attention_factor(*this);
  if (rope_scaling == RopeScalingKind::linear) s.kind = Kind::linear;
  if (rope_scaling == RopeScalingKind::yarn) s.kind = Kind::yarn;
  if (!is_longrope) return s;
  s.kind = Kind::longrope;
  s.short_factors = numbers_in("rope_short_factors", rope_short_factors);
  s.long_factors = numbers_in("rope_long_factors", rope_long_factors);
  return s;
}

bool DecoderConfig::same_angles(std::int64_t tokens, std::int64_t others) const {
  const bool is_long = tokens > rope_original_positions;
  return rope_scaling != RopeScalingKind::longrope || is_long == (others > rope_original_positions);
}

std::optional<RopeScaling> DecoderConfig::scaling_of(int block) const {
  return slides(block) && rope_window_base != 0 ? std::nullopt : scaling();
}

bool DecoderConfig::slides(int block) const {
  return window != 0 && (window_pattern.empty() || letter_of(window_pattern, block) == 'S');
}

ScoreOptions DecoderConfig::scores_of(int block) const {
  double scale = attention_scale;
  if (const double key = scales_of(block).key; key != 1) {  // keys are scaled where scores are
    scale = key * (scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(channels_per_head())));
  }
  return {.scale = scale, .softcap = attention_softcap, .window = slides(block) ? window : 0};
}

void DecoderConfig::forget_unused_mixers() {
  const DecoderConfig plain;
  const bool convs = has_some('C'), deltas = has_some('D'), mambas = has_some('M');
  if (!convs && !mambas) conv_bias = plain.conv_bias;
  if (!deltas) {
    delta_heads.reset(), delta_key_heads.reset();
    delta_key_size.reset(), delta_value_size.reset();
  }
  if (!mambas) mamba = {};
  if (!has_some('P')) scales = {};
  if (convs || deltas || mambas) return;
  conv_kernel = plain.conv_kernel;
  if (!has_some('N')) mixer_pattern.clear();
}

char DecoderConfig::mixer(int block) const {
  return mixer_pattern.empty() ? 'A' : letter_of(mixer_pattern, block);
}

bool DecoderConfig::mixes_by(int block, char part) const {
  const char own = mixer(block);
  return own == part || (own == 'P' && (part == 'A' || part == 'M'));
}

bool DecoderConfig::has_some(char part) const {
  return any_block([&](int block) { return mixes_by(block, part); }, n_layer);
}

int DecoderConfig::residual_parts() const {
  int parts = 0;
  for (int i = 0; i < n_layer; ++i) parts += (has_mixer(i) ? 1 : 0) + (has_feed_forward(i) ? 1 : 0);
  return parts;
}

bool DecoderConfig::is_recurrent() const { return has_some('D') || has_some('M'); }

DeltaSizes DecoderConfig::delta_sizes() const {
  const int heads = delta_heads.value_or(n_head);
  const std::int64_t size = delta_key_size.value_or(channels_per_head());
  return {heads, delta_key_heads.value_or(heads), size, delta_value_size.value_or(size)};
}

MambaSizes DecoderConfig::mamba_sizes() const {
  // Also of sizes that validate() will refuse.
  constexpr std::int64_t kMost = 1 << 16;
  const auto width = std::clamp<std::int64_t>(n_embd, 1, kMost * kMost);
  const auto usual =
      std::clamp<std::int64_t>(2 * width / std::max<std::int64_t>(mamba.head_size, 1), 1, kMost);
  return {mamba.heads.value_or(static_cast<int>(usual)), mamba.head_size, mamba.groups,
          mamba.state_size};
}

MambaScales BlockScales::of_mamba() const {
  MambaScales all = {1, 1, 1, 1, 1};
  if (!mamba_parts.empty()) {
    const auto own = numbers_in("mamba_part_scales", mamba_parts);
    check(own.size() == all.size(), "mamba_part_scales must be {} numbers, not {}", all.size(),
          own.size());
    std::copy(own.begin(), own.end(), all.begin());
  }
  for (double& scale : all) scale *= mamba_in;
  return all;
}

bool DecoderConfig::has_feed_forward(int block) const {
  return ff_pattern.empty() || letter_of(ff_pattern, block) == 'F';
}

bool DecoderConfig::has_experts(int block) const {
  return moe.exist() && has_feed_forward(block) &&
         (moe.pattern.empty() || letter_of(moe.pattern, block) == 'E');
}

bool DecoderConfig::turns(int block) const {
  return rotary() && (rope_pattern.empty() || letter_of(rope_pattern, block) == 'R');
}

double DecoderConfig::rope_base_of(int block) const {
  return slides(block) && rope_window_base != 0 ? rope_window_base : rope_base;
}

}  // namespace tapegrad::nn
