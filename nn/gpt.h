#pragma once

#include <optional>

#include "tapegrad/autograd/base/describe.h"
#include "tapegrad/nn/multi_head_attention.h"

namespace tapegrad::nn {

// GPT-2's architecture (Radford et al., "Language Models are Unsupervised Multitask Learners",
// 2019, section 2.3) with nanoGPT's names.
struct GPTConfig {
  std::int64_t vocab_size = 50257;
  std::int64_t block_size = 1024;  // the longest sequence
  int n_layer = 12;
  int n_head = 12;
  std::int64_t n_embd = 768;
  double dropout = 0.0;
  bool bias = true;                   // in linears and LayerNorms
  std::optional<bool> qkv_bias = {};  // in the Q, K, V projection [as bias]
  bool tied = true;                   // the head shares the token embedding's weight
  Activation activation = Activation::gelu;
  bool separate_qkv = false;     // W_query, W_key and W_value in place of one projection
  bool rope = false;             // rotary positions in each attention in place of learned ones
  bool unbiased_norm = false;    // LayerNorms divide by √(Σ(x − mean)²/(C − 1) + ε)
  bool ff_dropout = false;       // dropout also between the feed-forward's two linears
  bool attn_out_dropout = true;  // dropout also after the attention's projection
  std::optional<std::int64_t> n_inner = {};  // width of the feed-forward [4·n_embd]

  std::int64_t inner() const { return n_inner.value_or(4 * n_embd); }
  bool with_qkv_bias() const { return qkv_bias.value_or(bias); }
  // Throws Error, naming the values, for a config that no model can have.
  void validate() const;

  // The table of its members: see describe.h.
  template <class Self, class Table>
  static void describe(Self& c, Table& t) {
    t("vocab_size", c.vocab_size, "tokens", {.least = 1, .most = 1 << 24, .option = false});
    t("n_layer", c.n_layer, "blocks", {.least = 1, .most = 4096});
    t("n_head", c.n_head, "attention heads per block", {.least = 1, .most = 1 << 16});
    t("n_embd", c.n_embd, "channels", {.least = 1, .most = 1 << 20});
    t("block_size", c.block_size, "the longest sequence, in tokens", {.least = 1, .most = 1 << 24});
    t("dropout", c.dropout, "share of activations that is dropped",
      {.least = 0, .most = 1, .below_most = true, .value = "P"});
    t("ff_dropout", c.ff_dropout, "dropout also between the feed-forward's two linears");
    t("attn_out_dropout", c.attn_out_dropout, "dropout also after each attention's projection");
    t("n_inner", c.n_inner, "channels inside the feed-forward layer [4 x --n-embd]",
      {.least = 1, .most = 1 << 22});
    t("bias", c.bias, "biases in linear layers and layer norms");
    t("qkv_bias", c.qkv_bias, "biases of the Q, K, V projection [as --bias]");
    t("tied", c.tied, "the head shares the token embedding");
    t("separate_qkv", c.separate_qkv, "a projection each for Q, K and V, drawn one by one");
    t("rope", c.rope, "rotary positions in place of learned ones");
    t("unbiased_norm", c.unbiased_norm, "layer norms with the unbiased variance");
    t("activation", c.activation, "of the feed-forward layer");
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

 private:
  Tensor embed(const Tensor& ids, std::int64_t first_position) const;
  Tensor last_of(const Tensor& x) const;
};

// nanoGPT's initialisation, drawn after the construction as its apply(_init_weights) does: N(0,
// 0.02) for linears and embeddings, biases 0, and projections into the residual stream N(0,
// 0.02/√(2·n_layer)).
void init_gpt2(const GPT& gpt, const Params& p, Rng& rng);

}  // namespace tapegrad::nn
