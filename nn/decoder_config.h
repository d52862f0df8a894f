#pragma once

#include <array>
#include <optional>
#include <string>

#include "tapegrad/base/option_schema.h"
#include "tapegrad/nn/layers.h"
#include "tapegrad/nn/layers/block_scales.h"
#include "tapegrad/nn/layers/experts.h"
#include "tapegrad/nn/layers/mamba2.h"

namespace tapegrad::nn {

// A set of defaults for the members of DecoderConfig that have none of their own, and the names
// that parameters have in files: see decoder_names.h.
enum class Architecture { gpt2, llama };
inline constexpr std::array<std::string_view, 2> kArchitectureNames = {"gpt2", "llama"};
inline std::span<const std::string_view> names_of(Architecture) { return kArchitectureNames; }

// Where a block has its norms: before each sublayer, x + f(norm(x)); after it, x + norm(f(x)); or
// both.
enum class NormPlace { before, after, both };
inline constexpr std::array<std::string_view, 3> kNormPlaceNames = {"before", "after", "both"};
inline std::span<const std::string_view> names_of(NormPlace) { return kNormPlaceNames; }

// How a block knows where a token stands: a learned embedding for each position is added to the
// token's; or attention turns queries and keys by their positions (rope in ops.h); or not at all,
// but for what the causal mask shows (Kazemnejad et al., "The Impact of Positional Encoding on
// Length Generalization in Transformers", 2023).
enum class Positions { learned, rotary, none };
inline constexpr std::array<std::string_view, 3> kPositionsNames = {"learned", "rotary", "none"};
inline std::span<const std::string_view> names_of(Positions) { return kPositionsNames; }

// How rotary positions go on beyond those of the first training: see RopeScaling in ops.h.
enum class RopeScalingKind { none, llama3, linear, yarn, longrope };
inline constexpr std::array<std::string_view, 5> kRopeScalingNames = {"none", "llama3", "linear",
                                                                      "yarn", "longrope"};
inline std::span<const std::string_view> names_of(RopeScalingKind) { return kRopeScalingNames; }

// The sizes of a gated delta net: see GatedDeltaNetConfig.
struct DeltaSizes {
  std::int64_t heads, key_heads, key_size, value_size;
};

// The parts of a Decoder, with nanoGPT's names. Without further choices it is GPT-2 (Radford et
// al., "Language Models are Unsupervised Multitask Learners", 2019, section 2.3). With
// Architecture::llama it is Llama (Touvron et al., "LLaMA: Open and Efficient Foundation Language
// Models", 2023, section 2.2; Dubey et al., "The Llama 3 Herd of Models", 2024, section 3.2), and
// so are SmolLM, Mistral, Qwen2 (qkv_bias) and Qwen3 (qk_norm). All parts can be combined.
struct DecoderConfig {
  Architecture arch = Architecture::gpt2;
  std::int64_t vocab_size = 50257;
  std::int64_t block_size = 1024;  // the longest sequence
  int n_layer = 12;
  int n_head = 12;
  std::int64_t n_embd = 768;
  double dropout = 0.0;
  std::optional<bool> bias = {};              // in linears and layer norms [with gpt2]
  std::optional<bool> qkv_bias = {};          // in the Q, K, V projections [as bias]
  std::optional<bool> norm_bias = {};         // in layer norms [as bias]
  std::optional<bool> mlp_bias = {};          // in the feed-forward's linears [as bias]
  bool tied = true;                           // the head shares the token embedding's weight
  std::optional<Activation> activation = {};  // of the feed-forward [gelu; with llama, silu]
  std::optional<bool> gated = {};             // see FeedForward [with llama]
  bool joined_gate = false;                   // one projection for the gate and what it gates
  std::optional<bool> separate_qkv = {};      // one projection each for Q, K and V [with llama]
  std::optional<Positions> positions = {};    // [learned; with llama, rotary]
  std::optional<NormKind> norm = {};          // [layer; with llama, rms]
  NormPlace norm_place = NormPlace::before;
  ExpertsConfig moe = {};                      // in place of the feed-forward
  bool ff_dropout = false;                     // dropout also between the feed-forward's linears
  bool attn_out_dropout = true;                // dropout also after the attention's projection
  std::optional<std::int64_t> n_inner = {};    // width of the feed-forward: see inner()
  std::optional<int> n_kv_head = {};           // heads of keys and values [n_head]
  std::optional<std::int64_t> head_size = {};  // channels of a head [n_embd / n_head]
  bool qk_norm = false;                        // norms of each head's Q and K, before they turn
  bool qk_norm_whole = false;                  // over all heads together instead
  bool attn_gate = false;                      // gates of what attention adds: MultiHeadAttention
  double attention_scale = 0;                  // of scores; 0 is 1/√head_size
  double attention_softcap = 0;                // of scores, see softcap() in ops.h; 0: none
  bool attention_sinks = false;                // a learned one for each head: see ScoreOptions
  double logit_scale = 1;                      // logits are multiplied by it, before their cap
  double logit_softcap = 0;                    // of logits; 0: none
  std::int64_t window = 0;                     // positions that a query sees; 0: all
  // Which blocks have the window, as a row of letters that is repeated over the blocks: S (short)
  // has it, L (long) sees all. Empty: all have it.
  std::string window_pattern = {};
  // Which blocks have something in place of attention, as a row of letters that is repeated over
  // the blocks: C has a gated short convolution (ShortConv), D a gated delta net (GatedDeltaNet), M
  // a Mamba-2 (Mamba2), A has attention, and P attention and a Mamba-2 in parallel: both get the
  // same input, and their outputs are added. N has nothing of this, and no norm for it: such a
  // block is a feed-forward alone. Empty: all have attention.
  std::string mixer_pattern = {};
  // Which blocks have a feed-forward, as mixer_pattern: F has one, dense or of experts, N has none,
  // and no norm for it. Empty: all have one.
  std::string ff_pattern = {};
  std::int64_t conv_kernel = 3;  // positions that a convolution of any of them sees
  bool conv_bias = false;        // in all parts of a ShortConv, and in the kernel of a Mamba2
  // Of gated delta nets: see DeltaSizes.
  std::optional<int> delta_heads = {}, delta_key_heads = {};  // [n_head], [delta_heads]
  std::optional<std::int64_t> delta_key_size = {};            // [channels of a head]
  std::optional<std::int64_t> delta_value_size = {};          // [delta_key_size]
  MambaOptions mamba = {};
  BlockScales scales = {};  // of blocks with a P
  double norm_eps = 1e-5;
  // Embeddings of the last 2 … ngrams tokens are added to the token's; 1: none. See NgramEmbedding.
  int ngrams = 1;
  std::int64_t ngram_rows = 16384;  // of each of their tables, at most
  double embedding_scale = 1;       // token embeddings are multiplied by it
  bool embedding_norm = false;      // a norm of what the first block gets
  double residual_scale = 1;        // so is what attention and feed-forward add
  bool residual_scalars = false;    // learned, of a block's input and the embedding: see Block
  std::optional<std::int64_t> rope_channels = {};  // channels of a head that turn [all]
  double rope_base = 10000;
  bool rope_reversed = false;  // pairs turn the other way
  // The base in blocks with the window, whose positions are not scaled then; 0: as in the others.
  double rope_window_base = 0;
  // Which blocks turn queries and keys, as window_pattern: R (rotary) does, N (none) does not.
  // Empty: all do.
  std::string rope_pattern = {};
  RopeScalingKind rope_scaling = RopeScalingKind::none;
  double rope_factor = 1;                                      // of longrope, for the next but one
  double rope_low_freq_factor = 1, rope_high_freq_factor = 4;  // of llama3
  std::int64_t rope_original_positions = 8192;     // of llama3, yarn, longrope and query_scale_beta
  double rope_beta_fast = 32, rope_beta_slow = 1;  // of yarn
  double rope_attention_factor = 0;                // of yarn and longrope; 0: the papers' own
  bool rope_truncate = true;                       // of yarn
  // Of longrope, "1,1.25,2": see RopeScaling.
  std::string rope_short_factors = {}, rope_long_factors = {};
  // Queries at position p are multiplied by 1 + β·ln(1 + ⌊p / rope_original_positions⌋), as in
  // Llama 4 and Ministral 3.
  double query_scale_beta = 0;

  // The values that members without one stand for.
  bool with_bias() const { return bias.value_or(arch == Architecture::gpt2); }
  bool with_qkv_bias() const { return qkv_bias.value_or(with_bias()); }
  bool with_mlp_bias() const { return mlp_bias.value_or(with_bias()); }
  bool with_norm_bias() const { return norm_bias.value_or(with_bias()); }
  Activation activation_kind() const;
  bool with_gate() const { return gated.value_or(arch == Architecture::llama); }
  bool projects_apart() const { return separate_qkv.value_or(arch == Architecture::llama); }
  Positions position_kind() const;
  bool rotary() const { return position_kind() == Positions::rotary; }
  NormKind norm_kind() const;
  int kv_heads() const { return n_kv_head.value_or(n_head); }
  std::int64_t channels_per_head() const { return head_size.value_or(n_embd / n_head); }
  std::int64_t turned_channels() const { return rope_channels.value_or(channels_per_head()); }
  // n_inner, or 4·n_embd. A gated feed-forward has three matrices in place of two: with it,
  // 8/3·n_embd, up to a multiple of 32, so that they have as many weights (Shazeer, "GLU Variants",
  // 2020, section 3).
  std::int64_t inner() const {
    return n_inner.value_or(with_gate() ? (8 * n_embd / 3 + 31) / 32 * 32 : 4 * n_embd);
  }
  // True if a block has a feed-forward, and if it has experts in place of a dense one. The width of
  // an expert.
  bool has_feed_forward(int block) const;
  bool has_experts(int block) const;
  std::int64_t expert_inner() const { return moe.inner.value_or(inner()); }
  bool operator==(const DecoderConfig&) const = default;
  // The same model with a value for each member, and without a window that hides nothing.
  DecoderConfig with_defaults() const;
  // True if a block has the window.
  bool slides(int block) const;
  // True if a block has attention, or one of what may stand in its place. What is not in any of the
  // blocks has no weights.
  bool has_attention(int block) const { return mixes_by(block, 'A'); }
  bool has_conv(int block) const { return mixes_by(block, 'C'); }
  bool has_delta(int block) const { return mixes_by(block, 'D'); }
  bool has_mamba(int block) const { return mixes_by(block, 'M'); }
  char mixer(int block) const;  // the letter of mixer_pattern
  bool has_mixer(int block) const { return mixer(block) != 'N'; }
  // Mixers and feed-forwards of all blocks, which add to the residual stream.
  int residual_parts() const;
  // True if that letter has the part of another one: P has those of A and M.
  bool mixes_by(int block, char part) const;
  bool has_some(char part) const;  // some block has it
  bool is_recurrent() const;       // some block has a gated delta net or a Mamba-2
  DeltaSizes delta_sizes() const;
  MambaSizes mamba_sizes() const;
  // `scales` of a block with a P, and 1 each of others.
  BlockScales scales_of(int block) const { return mixer(block) == 'P' ? scales : BlockScales(); }
  // Options of what stands in place of attention in none of the blocks are as in a new config.
  void forget_unused_mixers();
  // The options for the scores of a block's attention.
  ScoreOptions scores_of(int block) const;
  // True if a block turns queries and keys. The base of its angles.
  bool turns(int block) const;
  double rope_base_of(int block) const;
  // The scaling of rotary positions, if there is one; and if a block has it.
  std::optional<RopeScaling> scaling() const;
  std::optional<RopeScaling> scaling_of(int block) const;
  // False if the angles of a text that may come to have so many tokens are not those of another.
  bool same_angles(std::int64_t tokens, std::int64_t others) const;

  // Throws Error, naming the values, for a config that no model can have.
  void validate() const;

  // The table of its members: see option_schema.h.
  template <class Self, class Table>
  static void describe(Self& c, Table& t) {
    t("vocab_size", c.vocab_size, "tokens", {.least = 1, .most = 1 << 24, .option = false});
    t("arch", c.arch,
      "defaults of the parts below: GPT-2's, or Llama's, which are RMS norms, a gated feed-forward "
      "with silu, rotary positions and no biases",
      {.newer = true});
    t("n_layer", c.n_layer, "blocks", {.least = 1, .most = 4096});
    t("n_head", c.n_head, "attention heads per block", {.least = 1, .most = 1 << 16});
    t("n_embd", c.n_embd, "channels", {.least = 1, .most = 1 << 20});
    t("block_size", c.block_size, "the longest sequence, in tokens",
      {.least = 1, .most = 1 << 24, .option = false});
    t("dropout", c.dropout, "probability that an activation is dropped",
      {.least = 0, .most = 1, .below_most = true, .value = "P"});
    t("ff_dropout", c.ff_dropout, "dropout also between the feed-forward's linears");
    t("attn_out_dropout", c.attn_out_dropout, "also drop out after the attention's projection");
    t("n_inner", c.n_inner,
      "channels inside the feed-forward layer [4 x --n-embd; if gated, 8/3 x --n-embd]",
      {.least = 1, .most = 1 << 22});
    t("bias", c.bias, "biases in linear layers and layer norms [with gpt2, not with llama]");
    t("qkv_bias", c.qkv_bias, "biases of the Q, K, V projections [as --bias]");
    t("norm_bias", c.norm_bias, "biases in layer norms [as --bias]", {.newer = true});
    t("mlp_bias", c.mlp_bias, "biases in the feed-forward's linears [as --bias]", {.newer = true});
    t("tied", c.tied, "the head shares the token embedding");
    t("separate_qkv", c.separate_qkv,
      "a projection each for Q, K and V, drawn one by one [with llama, not with gpt2]");
    t("activation", c.activation, "function inside the feed-forward layer [gelu; of llama, silu]");
    t("gated", c.gated,
      "multiply inside the feed-forward layer by a gate [with llama, not with gpt2]",
      {.newer = true});
    t("joined_gate", c.joined_gate,
      "one projection for the gate and what it multiplies, as in Phi-3", {.newer = true});
    ExpertsConfig::describe(c.moe, t);
    t("positions", c.positions, "how positions are encoded [learned; of llama, rotary]",
      {.newer = true});
    t("norm", c.norm, "layer norms, also with the unbiased variance, or RMS norms [layer; rms]",
      {.newer = true});
    t("norm_place", c.norm_place, "norms before or after attention and feed-forward",
      {.newer = true});
    t("norm_eps", c.norm_eps, "number that norms add to the variance before the root",
      {.least = 1e-12, .most = 1, .newer = true});
    t("n_kv_head", c.n_kv_head,
      "heads of keys and values: each serves n_head / N heads of queries [--n-head]",
      {.least = 1, .most = 1 << 16, .newer = true});
    t("head_size", c.head_size, "channels of a head [--n-embd / --n-head]",
      {.least = 1, .most = 1 << 16, .newer = true});
    t("qk_norm", c.qk_norm, "norms of each head's queries and keys", {.newer = true});
    t("qk_norm_whole", c.qk_norm_whole, "these norms are over all heads together", {.newer = true});
    t("attn_gate", c.attn_gate,
      "multiply each head's output by the sigmoid of a gate, which the projection of queries makes",
      {.newer = true});
    t("attention_scale", c.attention_scale,
      "multiply scores of queries and keys by X; 0 stands for 1 / sqrt(head size)",
      {.least = 0, .most = 1e6, .newer = true});
    t("attention_softcap", c.attention_softcap,
      "bound scores of queries and keys by X, as X tanh(score / X); 0: none",
      {.least = 0, .most = 1e6, .newer = true});
    t("attention_sinks", c.attention_sinks,
      "each head learns a score of no value, to which it may attend in place of keys, as in "
      "gpt-oss",
      {.newer = true});
    t("logit_scale", c.logit_scale, "multiply logits by X",
      {.least = 1e-6, .most = 1e6, .newer = true});
    t("logit_softcap", c.logit_softcap, "bound the logits by X in the same way; 0: none",
      {.least = 0, .most = 1e6, .newer = true});
    t("window", c.window, "each position attends to itself and the N - 1 before it; 0: to all",
      {.least = 0, .most = 1 << 24, .newer = true});
    t("window_pattern", c.window_pattern,
      "which blocks have the window, repeated over the blocks: SSSL gives it to three of four "
      "[all]",
      {.newer = true});
    t("mixer_pattern", c.mixer_pattern,
      "which blocks have something in place of attention, repeated over the blocks: a gated short "
      "convolution in two of three with CCA, a gated delta net in three of four with DDDA, a "
      "Mamba-2 in five of six with MMMMMA; or a Mamba-2 beside attention, P; or neither, N, which "
      "leaves the feed-forward alone [none]",
      {.newer = true});
    t("ff_pattern", c.ff_pattern,
      "which blocks have a feed-forward, repeated over the blocks: NF leaves each first of two "
      "without [all]",
      {.newer = true});
    t("conv_kernel", c.conv_kernel, "positions that a convolution sees, its own and those before",
      {.least = 1, .most = 64, .newer = true});
    t("conv_bias", c.conv_bias,
      "biases in the linear layers and the kernel of convolutions, and in the kernel of Mamba-2",
      {.newer = true});
    t("delta_heads", c.delta_heads, "heads of values of gated delta nets [--n-head]",
      {.least = 1, .most = 1 << 16, .newer = true});
    t("delta_key_heads", c.delta_key_heads,
      "their heads of queries and keys: each serves delta_heads / N heads of values "
      "[--delta-heads]",
      {.least = 1, .most = 1 << 16, .newer = true});
    t("delta_key_size", c.delta_key_size,
      "channels of such a head of queries and keys [--head-size]",
      {.least = 1, .most = 1 << 16, .newer = true});
    t("delta_value_size", c.delta_value_size, "channels of a head of values [--delta-key-size]",
      {.least = 1, .most = 1 << 16, .newer = true});
    MambaOptions::describe(c.mamba, t);
    BlockScales::describe(c.scales, t);
    t("ngrams", c.ngrams,
      "add embeddings of the last 2 ... N tokens to that of the token, which cost memory and no "
      "time; 1: none",
      {.least = 1, .most = 8, .newer = true});
    t("ngram_rows", c.ngram_rows,
      "rows of each of their tables, if there are as many n-grams; fewer share them",
      {.least = 1, .most = 1 << 24, .newer = true});
    t("embedding_scale", c.embedding_scale, "multiply token embeddings by X",
      {.least = 1e-6, .most = 1e6, .newer = true});
    t("embedding_norm", c.embedding_norm, "a norm of the embeddings, before the first block",
      {.newer = true});
    t("residual_scale", c.residual_scale, "multiply the outputs of attention and feed-forward by X",
      {.least = 1e-6, .most = 1e6, .newer = true});
    t("residual_scalars", c.residual_scalars,
      "each block begins with a mixture of its input and the normed embedding, by two learned "
      "numbers, 1 and 0 at first",
      {.newer = true});
    t("rope_channels", c.rope_channels,
      "channels of a head that turn by their position, the first N [--head-size]",
      {.least = 2, .most = 1 << 16, .newer = true});
    t("rope_base", c.rope_base,
      "base of rotary positions, whose slowest pair turns by about 1 / base per token",
      {.least = 1, .most = 1e12, .newer = true});
    t("rope_reversed", c.rope_reversed, "rotary positions turn the other way, as in nanochat",
      {.newer = true});
    t("rope_window_base", c.rope_window_base,
      "base of rotary positions in blocks with the window, where they are not scaled; 0: as in the "
      "others",
      {.least = 0, .most = 1e12, .newer = true});
    t("rope_pattern", c.rope_pattern,
      "which blocks have rotary positions, repeated over the blocks: RRRN leaves each fourth "
      "without [all]",
      {.newer = true});
    t("rope_scaling", c.rope_scaling,
      "which rotary positions turn --rope-factor times slower: llama3 and yarn, slow ones; linear, "
      "all; longrope, by --rope-short-factors and --rope-long-factors",
      {.newer = true});
    t("rope_factor", c.rope_factor, "how much slower scaled rotary positions turn",
      {.least = 1, .most = 1e6, .newer = true});
    t("rope_low_freq_factor", c.rope_low_freq_factor,
      "llama3 slows pairs of channels that turn less than X times in the original positions",
      {.least = 1e-6, .most = 1e6, .newer = true});
    t("rope_high_freq_factor", c.rope_high_freq_factor,
      "llama3 keeps pairs of channels that turn more than X times in the original positions",
      {.least = 1e-6, .most = 1e6, .newer = true});
    t("rope_original_positions", c.rope_original_positions,
      "positions that the model was trained on before it was scaled",
      {.least = 1, .most = 1 << 24, .newer = true});
    t("rope_beta_fast", c.rope_beta_fast,
      "yarn keeps pairs of channels that turn more than X times in the original positions",
      {.least = 1e-6, .most = 1e6, .newer = true});
    t("rope_beta_slow", c.rope_beta_slow,
      "yarn slows pairs of channels that turn less than X times in the original positions",
      {.least = 1e-6, .most = 1e6, .newer = true});
    t("rope_attention_factor", c.rope_attention_factor,
      "yarn and longrope multiply queries and keys by X; 0 stands for 0.1 ln(--rope-factor) + 1, "
      "and for sqrt(1 + ln(--rope-factor) / ln(--rope-original-positions))",
      {.least = 0, .most = 1e6, .newer = true});
    t("rope_truncate", c.rope_truncate,
      "yarn goes from slowed pairs to kept ones between whole pairs", {.newer = true});
    t("rope_short_factors", c.rope_short_factors,
      "longrope turns each pair of channels so many times slower: a number for each, 1,1.25,2",
      {.newer = true});
    t("rope_long_factors", c.rope_long_factors,
      "the same for texts that may become longer than --rope-original-positions", {.newer = true});
    t("query_scale_beta", c.query_scale_beta,
      "multiply queries at position P by 1 + X ln(1 + floor(P / --rope-original-positions)); 0: "
      "none",
      {.least = 0, .most = 1e6, .newer = true});
  }
};

}  // namespace tapegrad::nn
