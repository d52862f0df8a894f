#pragma once

#include "tapegrad/nn/multi_head_attention.h"

namespace tapegrad::nn {

// The encoder–decoder Transformer (Vaswani et al., "Attention Is All You Need", 2017, section 3) as
// a widespread tutorial builds it: norms before the sublayers, no biases in linears, and one
// embedding for both sides.
struct TransformerConfig {
  std::int64_t vocab_size = 1024;  // of source and target together
  std::int64_t block_size = 128;   // the longest source, and the longest target
  int n_layer = 2;                 // of the encoder, and of the decoder
  int n_head = 4;
  std::int64_t n_embd = 128;    // even: sines and cosines share the channels
  std::int64_t n_hidden = 512;  // of the MLPs; the tutorial has n_embd here
  double dropout = 0.0;
  // Multiplies embeddings by √n_embd, as the paper does (section 3.4). The tutorial leaves that
  // out: its small initial embeddings then drown in the positions for a thousand steps.
  bool scale_embeddings = false;
  // Decoder layers add the result of attention to the norm of x, not to x, as some copies of the
  // tutorial do. The residual stream is then lost at each layer, so this is not the default.
  bool residual_from_norm = false;

  // Throws Error, naming the values, for a config that no model can have.
  void validate() const;

  // The table of its members: see option_schema.h.
  template <class Self, class Table>
  static void describe(Self& c, Table& t) {
    t("vocab_size", c.vocab_size, "tokens", {.least = 1, .most = 1 << 24, .option = false});
    t("n_layer", c.n_layer, "layers of the encoder, and of the decoder",
      {.least = 1, .most = 4096});
    t("n_head", c.n_head, "attention heads per layer", {.least = 1, .most = 1 << 16});
    t("n_embd", c.n_embd, "channels, an even number", {.least = 1, .most = 1 << 20});
    t("n_hidden", c.n_hidden, "channels inside the feed-forward layers",
      {.least = 1, .most = 1 << 22});
    t("block_size", c.block_size, "the longest source, and the longest target, in tokens",
      {.least = 1, .most = 1 << 24});
    t("dropout", c.dropout, "probability that an activation is dropped",
      {.least = 0, .most = 1, .below_most = true, .value = "P"});
    t("scale_embeddings", c.scale_embeddings, "multiply embeddings by the root of n_embd");
    t("residual_from_norm", c.residual_from_norm,
      "decoder layers add attention to the norm of their input");
  }
};

// Says which positions of the sources (B, S) and targets (B, T) are padding: bool or u8, not 0
// there. A mask is undefined if nothing is padding.
struct PaddingMasks {
  Tensor source, target;
};
// 1 where ids (i32) are `pad`.
Tensor padding_mask(const Tensor& ids, std::int32_t pad);

struct EncoderLayer {
  LayerNorm ln_1;
  MultiHeadAttention attn;
  LayerNorm ln_2;
  FeedForward mlp;
  EncoderLayer(const Params& p, const TransformerConfig& config);
  Tensor operator()(const Tensor& x, const Tensor& padding, Rng* rng) const;
};

// (B, S, C) → (B, S, C), normed.
struct TransformerEncoder {
  std::vector<EncoderLayer> h;
  LayerNorm ln_f;
  TransformerEncoder(const Params& p, const TransformerConfig& config);
  Tensor operator()(const Tensor& x, const Tensor& padding, Rng* rng = nullptr) const;
};

struct DecoderLayer {
  LayerNorm ln_1;
  MultiHeadAttention attn;  // causal, of the target to itself
  LayerNorm ln_2;
  MultiHeadAttention cross_attn;  // of the target to the source
  LayerNorm ln_3;
  FeedForward mlp;
  bool residual_from_norm;
  DecoderLayer(const Params& p, const TransformerConfig& config);
  Tensor operator()(const Tensor& x, const Tensor& memory, const PaddingMasks& masks,
                    Rng* rng) const;
  // The same for the position (B, 1, C) that follows those in `seen`, to which it is added.
  // `memory` has the keys and values that cross_attn makes of the source.
  Tensor step(const Tensor& x, CachedLayer seen, const CrossCache& memory,
              const Tensor& source_padding) const;

 private:
  using Attend = std::function<Tensor(const Tensor& normed)>;
  Tensor sublayers(const Tensor& x, const Attend& to_itself, const Attend& to_source,
                   Rng* rng) const;
};

// (B, T, C) and the encoder's (B, S, C) → (B, T, C), normed.
struct TransformerDecoder {
  std::vector<DecoderLayer> h;
  LayerNorm ln_f;
  TransformerDecoder(const Params& p, const TransformerConfig& config);
  Tensor operator()(const Tensor& x, const Tensor& memory, const PaddingMasks& masks = {},
                    Rng* rng = nullptr) const;
};

// Names of the parameters are those of the GPT, on each side ("decoder.h.0.attn.W_query.weight").
// Construction draws what PyTorch's constructors draw in the same order; init_transformer then
// draws the weights that training begins with.
struct Transformer {
  TransformerConfig config;
  Embedding wte;
  Tensor pe;  // (1, block_size, C): a buffer, saved and not trained
  TransformerEncoder encoder;
  TransformerDecoder decoder;
  Linear lm_head;

  Transformer(const Params& p, const TransformerConfig& config);

  // ids (B, T) i32 → (B, T, C), with the encodings of positions `first`, `first` + 1, … added.
  // Error, naming both, if they are beyond block_size.
  Tensor embed(const Tensor& ids, Rng* rng = nullptr, std::int64_t first = 0) const;
  // source (B, S) → (B, S, C).
  Tensor encode(const Tensor& source, const Tensor& padding = {}, Rng* rng = nullptr) const;
  // source (B, S), target (B, T) → the normed output of the decoder (B, T, C).
  Tensor hidden(const Tensor& source, const Tensor& target, const PaddingMasks& masks = {},
                Rng* rng = nullptr) const;
  // → logits (B, T, V).
  Tensor operator()(const Tensor& source, const Tensor& target, const PaddingMasks& masks = {},
                    Rng* rng = nullptr) const {
    return logits_of(lm_head, hidden(source, target, masks, rng));
  }
  // Mean cross entropy of labels (B, T); those that are −1 do not count.
  Tensor loss(const Tensor& source, const Tensor& target, const Tensor& labels,
              const PaddingMasks& masks = {}, Rng* rng = nullptr) const {
    return linear_cross_entropy(hidden(source, target, masks, rng), lm_head.weight, labels, -1);
  }
  // argmax of the logits: (B, T) i32. The logits of all positions never exist.
  Tensor likeliest(const Tensor& source, const Tensor& target,
                   const PaddingMasks& masks = {}) const;
  // Logits of the last position alone: (B, 1, V).
  Tensor last_logits(const Tensor& source, const Tensor& target,
                     const PaddingMasks& masks = {}) const;
  // The tutorial's forward up to its head: one sequence (B, T) is embedded once, and encoder and
  // decoder get the same embeddings. It shows shapes. It learns no task, because the encoder sees
  // what the decoder is to predict.
  Tensor hidden_of_one(const Tensor& ids, Rng* rng = nullptr) const;
};

// Sinusoidal positions (Vaswani et al., 2017, section 3.5): (1, length, channels) f32, of which
// channel 2i is sin(p/10000^(2i/channels)) and channel 2i + 1 the cosine. `channels` must be even.
Tensor sinusoidal_positions(std::int64_t length, std::int64_t channels);

// Linears and embeddings N(0, 0.02), drawn after the construction as the tutorial's
// apply(_init_weights) does. Norms keep their ones and zeros.
void init_transformer(const Params& p, Rng& rng);

}  // namespace tapegrad::nn
