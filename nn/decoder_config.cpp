#include "tapegrad/nn/decoder_config.h"

#include <cmath>
#include <numbers>

#include "tapegrad/base/text/internal/number_text.h"

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

// True if has(block) of some block of so many.
template <class Has>
bool any_block(const Has& has, int blocks) {
  for (int i = 0; i < blocks; ++i) {
    if (has(i)) return true;
  }
  return false;
}

// The numbers of "1,1.25,2". Error, naming the option, for another text.
std::vector<double> numbers_in(std::string_view option, std::string_view text) {
  std::vector<double> numbers;
  for (std::string_view rest = text; numbers.empty() || rest.starts_with(',');) {
    if (!numbers.empty()) rest.remove_prefix(1);
    const auto number = take_number<double>(rest);
    check(number && (rest.empty() || rest.starts_with(',')),
          "{} must be numbers with commas between them, as 1,1.25,2, not '{}'", option, text);
    check(*number >= 1e-6 && *number <= 1e6, "{} are from 1e-6 to 1e6, not {}", option, *number);
    numbers.push_back(*number);
  }
  return numbers;
}

// Options that change nothing unless another part is there.
void check_needs(const DecoderConfig& c) {
  const DecoderConfig plain;
  const bool scaled = c.rope_scaling != RopeScalingKind::none;
  const bool llama3 = c.rope_scaling == RopeScalingKind::llama3;
  const bool yarn = c.rope_scaling == RopeScalingKind::yarn, moe = c.moe.exist();
  const bool longrope = c.rope_scaling == RopeScalingKind::longrope;
  const bool mixers = !c.mixer_pattern.empty();
  const auto has = [&](char mixer) { return c.mixer_pattern.find(mixer) != std::string::npos; };
  const bool mamba = has('M') || has('P');
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
      {llama3 || yarn || longrope || c.query_scale_beta != 0,
       c.rope_original_positions != plain.rope_original_positions, "rope_original_positions",
       "rope_scaling llama3, yarn or longrope, or query_scale_beta"},
      {yarn, c.rope_beta_fast != plain.rope_beta_fast, "rope_beta_fast", "rope_scaling yarn"},
      {yarn, c.rope_beta_slow != plain.rope_beta_slow, "rope_beta_slow", "rope_scaling yarn"},
      {yarn || longrope, c.rope_attention_factor != plain.rope_attention_factor,
       "rope_attention_factor", "rope_scaling yarn or longrope"},
      {yarn, c.rope_truncate != plain.rope_truncate, "rope_truncate", "rope_scaling yarn"},
      {longrope, !c.rope_short_factors.empty(), "rope_short_factors", "rope_scaling longrope"},
      {longrope, !c.rope_long_factors.empty(), "rope_long_factors", "rope_scaling longrope"},
      {c.rotary(), c.rope_reversed, "rope_reversed", "positions rotary"},
      {c.window != 0, !c.window_pattern.empty(), "window_pattern", "window"},
      {c.rotary(), c.rope_window_base != 0, "rope_window_base", "positions rotary"},
      {c.window != 0, c.rope_window_base != 0, "rope_window_base", "window"},
      {c.rotary(), !c.rope_pattern.empty(), "rope_pattern", "positions rotary"},
      {mixers, c.conv_kernel != plain.conv_kernel, "conv_kernel", "mixer_pattern"},
      {mixers && (has('C') || mamba || !has('D')), c.conv_bias, "conv_bias",
       "mixer_pattern with a C, an M or a P"},
      {has('D'), c.delta_heads.has_value(), "delta_heads", "mixer_pattern with a D"},
      {has('D'), c.delta_key_heads.has_value(), "delta_key_heads", "mixer_pattern with a D"},
      {has('D'), c.delta_key_size.has_value(), "delta_key_size", "mixer_pattern with a D"},
      {has('D'), c.delta_value_size.has_value(), "delta_value_size", "mixer_pattern with a D"},
      {mamba, c.mamba != plain.mamba, c.mamba.first_given(), "mixer_pattern with an M or a P"},
      {has('P'), c.scales != plain.scales, c.scales.first_given(), "mixer_pattern with a P"},
      {c.with_gate() && !moe, c.scales.gate != 1, "gate_scale", "gated, and no moe_experts"},
      {c.ngrams > 1, c.ngram_rows != plain.ngram_rows, "ngram_rows", "ngrams"},
      {c.qk_norm, c.qk_norm_whole, "qk_norm_whole", "qk_norm"},
      {c.projects_apart(), c.attn_gate, "attn_gate", "separate_qkv"},
      {c.with_gate(), c.joined_gate, "joined_gate", "gated"},
      {c.with_gate(), c.activation == Activation::clamped_swiglu, "activation clamped-swiglu",
       "gated"},
      {c.rotary(), c.rope_channels.has_value(), "rope_channels", "positions rotary"},
      {moe, c.moe.top_k != plain.moe.top_k, "moe_top_k", "moe_experts"},
      {moe, c.moe.inner.has_value(), "moe_inner", "moe_experts"},
      {moe, !c.moe.pattern.empty(), "moe_pattern", "moe_experts"},
      {moe, c.moe.scores != plain.moe.scores, "moe_scores", "moe_experts"},
      {moe, c.moe.router_bias, "moe_router_bias", "moe_experts"},
      {moe, c.moe.selection_bias, "moe_selection_bias", "moe_experts"},
      {moe, c.moe.normalize != plain.moe.normalize, "moe_normalize", "moe_experts"},
      {moe, c.moe.scale != plain.moe.scale, "moe_scale", "moe_experts"},
      {moe, c.moe.shared_inner != 0, "moe_shared_inner", "moe_experts"},
      {c.moe.shared_inner != 0, c.moe.shared_gate, "moe_shared_gate", "moe_shared_inner"},
      {moe, c.moe.balance_loss != plain.moe.balance_loss, "moe_balance_loss", "moe_experts"},
      {c.moe.selection_bias, c.moe.bias_rate != plain.moe.bias_rate, "moe_bias_rate",
       "moe_selection_bias"},
      {moe, c.moe.z_loss != plain.moe.z_loss, "moe_z_loss", "moe_experts"},
  };
  for (const auto& need : needs) {
    check(need.has_part || !need.given, "{} needs {}", need.option, need.part);
  }
}

// Each block has a part, and some block one that mixes positions.
void check_parts(const DecoderConfig& c) {
  check(c.ff_pattern.find_first_not_of("FN") == std::string::npos,
        "ff_pattern '{}' must be a row of F, for blocks with a feed-forward, and N", c.ff_pattern);
  for (int i = 0; i < c.n_layer; ++i) {
    check(c.has_mixer(i) || c.has_feed_forward(i),
          "mixer_pattern {} and ff_pattern {} leave block {} without a part", c.mixer_pattern,
          c.ff_pattern, i);
  }
  check(any_block([&](int block) { return c.has_mixer(block); }, c.n_layer),
        "mixer_pattern {} leaves no block that mixes positions", c.mixer_pattern);
}

// As where transformers counts: both ends of the ramp lie among the pairs then.
void check_yarn(const DecoderConfig& c) {
  check(c.rope_base > 1, "rope_scaling yarn needs rope_base above 1, not {}", c.rope_base);
  check(c.rope_beta_slow <= c.rope_beta_fast,
        "rope_beta_slow {} must not be above rope_beta_fast {}", c.rope_beta_slow,
        c.rope_beta_fast);
  const double turn = 2 * std::numbers::pi, least = turn * c.rope_beta_slow,
               most = turn * c.rope_beta_fast * c.rope_base;
  const auto positions = static_cast<double>(c.rope_original_positions);
  check(positions > least && positions < most,
        "rope_original_positions {} of rope_scaling yarn must be above {:.6g}, which is 2 pi "
        "rope_beta_slow, and below {:.6g}, which is 2 pi rope_beta_fast rope_base",
        c.rope_original_positions, least, most);
}

void check_longrope(const DecoderConfig& c) {
  check(c.rope_original_positions >= 2,
        "rope_original_positions of rope_scaling longrope must be 2 or more, not {}",
        c.rope_original_positions);
  const std::int64_t pairs = c.turned_channels() / 2;
  const auto check_count = [&](std::string_view option, const std::string& text) {
    const auto numbers = std::ssize(numbers_in(option, text));
    check(numbers == pairs,
          "{} must be {} numbers, one for each pair of channels that turn, not {}", option, pairs,
          numbers);
  };
  check_count("rope_short_factors", c.rope_short_factors);
  check_count("rope_long_factors", c.rope_long_factors);
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

void DecoderConfig::validate() const {
  check_rules(*this);
  check_needs(*this);
  check(head_size || n_embd % n_head == 0, "n_embd {} is not divisible by n_head {}", n_embd,
        n_head);
  check(!rotary() || channels_per_head() % 2 == 0,
        "positions rotary need an even number of channels per head, not {} (n_embd {}, n_head {})",
        channels_per_head(), n_embd, n_head);
  check(!rope_channels || (*rope_channels % 2 == 0 && *rope_channels <= channels_per_head()),
        "rope_channels must be even, and at most {}, the channels of a head, not {}",
        channels_per_head(), rope_channels.value_or(0));
  check(n_head % kv_heads() == 0, "n_head {} is not divisible by n_kv_head {}", n_head, kv_heads());
  check(rope_high_freq_factor > rope_low_freq_factor || rope_scaling != RopeScalingKind::llama3,
        "rope_high_freq_factor {} must be above rope_low_freq_factor {}", rope_high_freq_factor,
        rope_low_freq_factor);
  check(rope_attention_factor == 0 || rope_attention_factor >= 1e-6,
        "rope_attention_factor is 0, for that of the factor, or at least 1e-6, not {}",
        rope_attention_factor);
  if (rope_scaling == RopeScalingKind::yarn) check_yarn(*this);
  if (rope_scaling == RopeScalingKind::longrope) check_longrope(*this);
  for (const double cap : {attention_softcap, logit_softcap}) {
    check(cap == 0 || cap >= 1e-3, "a soft cap is 0, for none, or at least 0.001, not {}", cap);
  }
  check(window_pattern.find_first_not_of("SL") == std::string::npos,
        "window_pattern '{}' must be a row of S, for blocks with the window, and L",
        window_pattern);
  check(rope_pattern.find_first_not_of("RN") == std::string::npos,
        "rope_pattern '{}' must be a row of R, for blocks with rotary positions, and N",
        rope_pattern);
  check(mixer_pattern.find_first_not_of("ACDMNP") == std::string::npos,
        "mixer_pattern '{}' must be a row of C, for blocks with a convolution, D, for those with a "
        "gated delta net, M, for those with a Mamba-2, P, for those with one beside attention, N, "
        "for a feed-forward alone, and A",
        mixer_pattern);
  check_parts(*this);
  scales.of_mamba();
  check(delta_sizes().heads % delta_sizes().key_heads == 0,
        "delta_heads {} are not divisible by delta_key_heads {}", delta_sizes().heads,
        delta_sizes().key_heads);
  check(!has_some('M') || mamba_sizes().heads % mamba.groups == 0,
        "mamba_heads {} are not divisible by mamba_groups {}", mamba_sizes().heads, mamba.groups);
  check(mamba.norm_groups == 0 || mamba_sizes().channels() % mamba.norm_groups == 0,
        "mamba_norm_groups {} do not divide {} channels", mamba.norm_groups,
        mamba_sizes().channels());
  check(mixer_pattern.find('C') == std::string::npos || n_embd % 2 == 0,
        "mixer_pattern with convolutions needs an even n_embd, not {}", n_embd);
  check(moe.pattern.find_first_not_of("ED") == std::string::npos,
        "moe_pattern '{}' must be a row of E, for blocks with experts, and D, for dense ones",
        moe.pattern);
  check(!moe.exist() || moe.top_k <= moe.experts, "moe_top_k {} is more than moe_experts {}",
        moe.top_k, moe.experts);
  const double weights = 3.0 * n_layer * static_cast<double>(moe.experts) *
                         static_cast<double>(expert_inner()) * static_cast<double>(n_embd);
  check(weights < 0x1p60, "{} blocks with moe_experts {} of {} x {} have too many weights to count",
        n_layer, moe.experts, expert_inner(), n_embd);
  check(rope_window_base == 0 || rope_window_base >= 1,
        "rope_window_base is 0, for that of the others, or at least 1, not {}", rope_window_base);
  check(norm_kind() != NormKind::unbiased || (n_embd > 1 && (!qk_norm || channels_per_head() > 1)),
        "norm unbiased needs 2 channels or more: the unbiased variance of one number does not "
        "exist");
}

}  // namespace tapegrad::nn
