// The rules of a config: what its options need of each other.

#include <iterator>
#include <numbers>

#include "tapegrad/nn/decoder_config.h"
#include "tapegrad/nn/internal/decoder_patterns.h"

namespace tapegrad::nn {
namespace {

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

}  // namespace

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
