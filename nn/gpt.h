#pragma once

#include <optional>

#include "tapegrad/base/describe.h"
#include "tapegrad/nn/multi_head_attention.h"

namespace tapegrad::nn {

enum class Architecture { gpt2, llama };
inline constexpr std::array<std::string_view, 2> kArchitectureNames = {"gpt2", "llama"};
inline std::span<const std::string_view> names_of(Architecture) { return kArchitectureNames; }

// A GPT with nanoGPT's names: GPT-2's architecture (Radford et al., "Language Models are
// Unsupervised Multitask Learners", 2019, section 2.3), or Llama's, for which see llama.h.
struct GPTConfig {
  Architecture arch = Architecture::gpt2;
  std::int64_t vocab_size = 50257;
  std::int64_t block_size = 1024;  // the longest sequence
  int n_layer = 12;
  int n_head = 12;
  std::int64_t n_embd = 768;
  double dropout = 0.0;
  std::optional<bool> bias = {};      // in linears and LayerNorms [of gpt2, not of llama]
  std::optional<bool> qkv_bias = {};  // in the Q, K, V projection [as bias]
  bool tied = true;                   // the head shares the token embedding's weight
  Activation activation = Activation::gelu;
  bool separate_qkv = false;     // W_query, W_key and W_value in place of one projection
  bool rope = false;             // rotary positions in each attention in place of learned ones
  bool unbiased_norm = false;    // LayerNorms divide by √(Σ(x − mean)²/(C − 1) + ε)
  bool ff_dropout = false;       // dropout also between the feed-forward's two linears
  bool attn_out_dropout = true;  // dropout also after the attention's projection
  std::optional<std::int64_t> n_inner = {};  // width of the feed-forward: see inner()
  double norm_eps = 1e-5;
  double rope_base = 10000;
  // Of llama alone:
  std::optional<int> n_kv_head = {};           // heads of keys and values [n_head]
  std::optional<std::int64_t> head_size = {};  // channels of a head [n_embd / n_head]
  bool qk_norm = false;                        // RMSNorms of Q and K before they are turned
  // Llama 3's scaling of rotary positions, see RopeScaling in ops.h; none if the factor is 1.
  double rope_factor = 1, rope_low_freq_factor = 1, rope_high_freq_factor = 4;
  std::int64_t rope_original_positions = 8192;

  bool is_llama() const { return arch == Architecture::llama; }
  bool with_bias() const { return bias.value_or(!is_llama()); }
  bool with_qkv_bias() const { return qkv_bias.value_or(with_bias()); }
  bool rotary() const { return rope || is_llama(); }
  int kv_heads() const { return n_kv_head.value_or(n_head); }
  std::int64_t channels_per_head() const { return head_size.value_or(n_embd / n_head); }
  // n_inner, or 4·n_embd. SwiGLU has three matrices in place of two: with it, 8/3·n_embd, up to a
  // multiple of 32, so that they have as many weights (Shazeer, "GLU Variants", 2020, section 3).
  std::int64_t inner() const {
    return n_inner.value_or(is_llama() ? (8 * n_embd / 3 + 31) / 32 * 32 : 4 * n_embd);
  }
  // Throws Error, naming the values, for a config that no model can have, or with options that are
  // not of its architecture.
  void validate() const;

  // The table of its members: see describe.h.
  template <class Self, class Table>
  static void describe(Self& c, Table& t) {
    t("vocab_size", c.vocab_size, "tokens", {.least = 1, .most = 1 << 24, .option = false});
    t("arch", c.arch,
      "GPT-2's architecture, or Llama's: RMSNorm, SwiGLU, rotary positions, no biases",
      {.newer = true});
    t("n_layer", c.n_layer, "blocks", {.least = 1, .most = 4096});
    t("n_head", c.n_head, "attention heads per block", {.least = 1, .most = 1 << 16});
    t("n_embd", c.n_embd, "channels", {.least = 1, .most = 1 << 20});
    t("block_size", c.block_size, "the longest sequence, in tokens", {.least = 1, .most = 1 << 24});
    t("dropout", c.dropout, "share of activations that is dropped",
      {.least = 0, .most = 1, .below_most = true, .value = "P"});
    t("ff_dropout", c.ff_dropout, "dropout also between the feed-forward's two linears");
    t("attn_out_dropout", c.attn_out_dropout, "dropout also after each attention's projection");
    t("n_inner", c.n_inner,
      "channels inside the feed-forward layer [4 x --n-embd; of llama, 8/3 x --n-embd]",
      {.least = 1, .most = 1 << 22});
    t("bias", c.bias, "biases in linear layers and layer norms [of gpt2, not of llama]");
    t("qkv_bias", c.qkv_bias, "biases of the Q, K, V projection [as --bias]");
    t("tied", c.tied, "the head shares the token embedding");
    t("separate_qkv", c.separate_qkv, "a projection each for Q, K and V, drawn one by one");
    t("rope", c.rope, "rotary positions in place of learned ones");
    t("unbiased_norm", c.unbiased_norm, "layer norms with the unbiased variance");
    t("activation", c.activation, "of the feed-forward layer of gpt2");
    t("norm_eps", c.norm_eps, "what norms add to the variance before its root",
      {.least = 1e-12, .most = 1, .newer = true});
    t("rope_base", c.rope_base,
      "base of rotary positions, whose slowest pair turns by about 1 / base per token",
      {.least = 1, .most = 1e12, .newer = true});
    t("n_kv_head", c.n_kv_head,
      "heads of keys and values, of llama: each serves n_head / N heads of queries [--n-head]",
      {.least = 1, .most = 1 << 16, .newer = true});
    t("head_size", c.head_size, "channels of a head, of llama [--n-embd / --n-head]",
      {.least = 2, .most = 1 << 16, .newer = true});
    t("qk_norm", c.qk_norm, "norms of queries and keys, of llama", {.newer = true});
    t("rope_factor", c.rope_factor, "Llama 3's scaling of rotary positions; 1 is none",
      {.least = 1, .most = 1e6, .option = false, .newer = true});
    t("rope_low_freq_factor", c.rope_low_freq_factor, "see RopeScaling",
      {.least = 1e-6, .most = 1e6, .option = false, .newer = true});
    t("rope_high_freq_factor", c.rope_high_freq_factor, "see RopeScaling",
      {.least = 1e-6, .most = 1e6, .option = false, .newer = true});
    t("rope_original_positions", c.rope_original_positions, "see RopeScaling",
      {.least = 1, .most = 1 << 24, .option = false, .newer = true});
  }
};

// Pre-norm: x + attn(ln_1(x)), then x + mlp(ln_2(x)).
struct Block {
  LayerNorm ln_1;
  MultiHeadAttention attn;
  LayerNorm ln_2;
  FeedForward mlp;
  Block(const Params& p, const GPTConfig& config);
  Tensor operator()(const Tensor& x, Rng* rng = nullptr) const;
  Tensor operator()(const Tensor& x, KeysAndValues& cache) const;
  // The attention weights of the block on its input (B, T, C): (B, H, T, T).
  Tensor attention_weights(const Tensor& x) const { return attn.weights(ln_1(x)); }
};

// Names of the parameters are those of Hugging Face's GPT-2 ("h.0.attn.c_attn.weight"); weights lie
// as (out, in). Construction draws what PyTorch draws for the same modules in the same order.
struct GPT {
  GPTConfig config;
  Embedding wte, wpe;  // no wpe with rope
  std::vector<Block> h;
  LayerNorm ln_f;
  Linear lm_head;
  // Keeps only the input of each block for the backward, which runs the block again: see
  // checkpoint() in ops.h. It costs time and saves memory; results stay the same.
  bool recompute = false;

  GPT(const Params& p, const GPTConfig& config);

  // ids (B, T) i32 → what the first block gets, without dropout (B, T, C). Error if first_position
  // + T > block_size.
  Tensor embed(const Tensor& ids, std::int64_t first_position = 0) const;
  // What embed() gives → the n_layer + 1 states (B, T, C) before, between and behind the blocks,
  // without dropout. Each block adds to the state that it gets (Elhage et al., "A Mathematical
  // Framework for Transformer Circuits", 2021).
  std::vector<Tensor> residual_stream(const Tensor& embedded) const;
  // ids (B, T) i32 → the normed output of the last block (B, T, C). Error if T > block_size.
  Tensor hidden(const Tensor& ids, Rng* rng = nullptr) const;
  // ids (B, T) → logits (B, T, V).
  Tensor operator()(const Tensor& ids, Rng* rng = nullptr) const {
    return lm_head(hidden(ids, rng));
  }
  // Mean cross entropy of targets (B, T), of which those that are ignore_index do not count. The
  // logits of all positions, by far the largest tensor of a small model, never exist.
  Tensor loss(const Tensor& ids, const Tensor& targets, Rng* rng = nullptr,
              std::int32_t ignore_index = -100) const {
    return linear_cross_entropy(hidden(ids, rng), lm_head.weight, targets, ignore_index,
                                lm_head.precision);
  }
  // Logits of the last position only: (B, V).
  Tensor last_logits(const Tensor& ids) const;
  // The same for ids (B, T) that follow those in the cache, to which they are added: nothing is
  // computed again. T is 1 unless the cache is empty. For generation: no tape records it. Error if
  // the cache would hold more than block_size positions.
  Tensor last_logits(const Tensor& ids, KVCache& cache) const;
};

}  // namespace tapegrad::nn
