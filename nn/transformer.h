#pragma once

#include "tapegrad/nn/layers.h"

namespace tapegrad::nn {

// The encoder–decoder Transformer (Vaswani et al., "Attention Is All You Need", 2017, section 3) as
// a widespread tutorial builds it: norms before the sublayers, no biases in linears, and one
// embedding for both sides. Parameters have the tutorial's names, so that its state_dict loads.
struct TransformerConfig {
  std::int64_t vocab_size = 1024;  // of source and target together
  std::int64_t block_size = 128;   // the longest source, and the longest target
  int n_layer = 2;                 // of the encoder, and of the decoder
  int n_head = 4;
  std::int64_t n_embd = 128;    // even: sines and cosines share the channels
  std::int64_t n_hidden = 512;  // of the MLPs; the tutorial has n_embd here
  double dropout = 0.0;
  // Embeddings count √n_embd times, as in the paper (section 3.4): the tutorial leaves that out,
  // and its small initial embeddings then drown in the positions for a thousand steps.
  bool scale_embeddings = false;
  // Decoder layers add what attention finds to the norm of x rather than to x, as some copies of
  // the tutorial have it. The sum then forgets what came before, so it is not the default.
  bool residual_from_norm = false;

  // Throws Error, naming the values, for a config that no model can have.
  void validate() const;
  // Elements of all parameters; without embeddings, all but wte's, though the head's are counted.
  std::int64_t parameter_count(bool with_embeddings = true) const;
};

// a_2·(x − mean)/(std + eps) + b_2 with the unbiased std.  (…, C) → (…, C)
struct StdNorm {
  Tensor a_2, b_2;  // (C)
  double eps;
  StdNorm(const Params& p, std::int64_t channels, double epsilon = 1e-6);
  Tensor operator()(const Tensor& x) const {
    return layer_norm(x, a_2, b_2, {.eps = eps, .unbiased = true, .eps_outside = true});
  }
};

// Multi-head attention of one sequence to another, or to itself.
struct CrossAttention {
  Linear wq, wk, wv, wo;  // C → C each, without biases
  int n_head;
  double dropout;  // of the attention weights and of the result
  CrossAttention(const Params& p, const TransformerConfig& config);
  // x (B, Tq, C), memory (B, Tk, C) → (B, Tq, C). Of `options`, dropout is this layer's.
  Tensor operator()(const Tensor& x, const Tensor& memory, const AttentionOptions& options) const {
    return attend(x, wk(memory), wv(memory), options);
  }
  // The same with keys and values (B, Tk, C) that wk and wv have made.
  Tensor attend(const Tensor& x, const Tensor& keys, const Tensor& values,
                AttentionOptions options) const;
};

// C → n_hidden → C with ReLU between and dropout at the end; no biases.
struct ReluMLP {
  Linear w1, w2;
  double dropout;
  ReluMLP(const Params& p, const TransformerConfig& config);
  Tensor operator()(const Tensor& x, Rng* rng = nullptr) const;
};

// Which positions of a batch are padding: u8, not 0 there, of (B, S) and (B, T); undefined if none.
struct PaddingMasks {
  Tensor source, target;
};
// 1 where ids (i32) are `pad`.
Tensor padding_mask(const Tensor& ids, std::int32_t pad);

// "fnn" here and "ffn" in the decoder are the tutorial's spellings.
struct EncoderLayer {
  StdNorm attention_norm;
  CrossAttention attention;
  StdNorm fnn_norm;
  ReluMLP feed_forward;
  EncoderLayer(const Params& p, const TransformerConfig& config);
  Tensor operator()(const Tensor& x, const Tensor& padding, Rng* rng) const;
};

// (B, S, C) → (B, S, C), normed.
struct Encoder {
  std::vector<EncoderLayer> layers;
  StdNorm norm;
  Encoder(const Params& p, const TransformerConfig& config);
  Tensor operator()(const Tensor& x, const Tensor& padding, Rng* rng = nullptr) const;
};

// What a decoder layer has made of the source, and of the target so far: (B, S, C), (B, t, C).
struct LayerCache {
  Tensor memory_keys, memory_values, keys, values;
};

struct DecoderLayer {
  StdNorm attention_norm_1;
  CrossAttention mask_attention;  // causal, of the target to itself
  StdNorm attention_norm_2;
  CrossAttention attention;  // of the target to the source
  StdNorm ffn_norm;
  ReluMLP feed_forward;
  bool residual_from_norm;
  DecoderLayer(const Params& p, const TransformerConfig& config);
  Tensor operator()(const Tensor& x, const Tensor& memory, const PaddingMasks& masks,
                    Rng* rng) const;
  // The same of the position (B, 1, C) that follows those in the cache, which it joins.
  Tensor step(const Tensor& x, LayerCache& cache, const Tensor& source_padding) const;

 private:
  using Attend = std::function<Tensor(const Tensor& normed)>;
  Tensor sublayers(const Tensor& x, const Attend& to_itself, const Attend& to_source,
                   Rng* rng) const;
};

// (B, T, C) and the encoder's (B, S, C) → (B, T, C), normed.
struct Decoder {
  std::vector<DecoderLayer> layers;
  StdNorm norm;
  Decoder(const Params& p, const TransformerConfig& config);
  Tensor operator()(const Tensor& x, const Tensor& memory, const PaddingMasks& masks = {},
                    Rng* rng = nullptr) const;
};

// Construction draws what PyTorch's constructors draw in the same order; init_transformer then
// draws the weights that training begins with.
struct Transformer {
  TransformerConfig config;
  Embedding wte;
  Tensor pe;  // (1, block_size, C): a buffer, saved and not trained
  Encoder encoder;
  Decoder decoder;
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
    return lm_head(hidden(source, target, masks, rng));
  }
  // Mean cross entropy of labels (B, T); those that are −1 do not count.
  Tensor loss(const Tensor& source, const Tensor& target, const Tensor& labels,
              const PaddingMasks& masks = {}, Rng* rng = nullptr) const {
    return linear_cross_entropy(hidden(source, target, masks, rng), lm_head.weight, labels, -1,
                                lm_head.precision);
  }
  // argmax of the logits: (B, T) i32. The logits of all positions never exist.
  Tensor likeliest(const Tensor& source, const Tensor& target,
                   const PaddingMasks& masks = {}) const;
  // Logits of the last position alone: (B, 1, V).
  Tensor last_logits(const Tensor& source, const Tensor& target,
                     const PaddingMasks& masks = {}) const;
  // The tutorial's forward up to its head: one sequence (B, T) is embedded once, and encoder and
  // decoder get the same embeddings. It shows the shapes; no task is learnt that way, because the
  // encoder sees what the decoder is to predict.
  Tensor hidden_of_one(const Tensor& ids, Rng* rng = nullptr) const;
};

// Sinusoidal positions (Vaswani et al., 2017, section 3.5): (1, length, channels) f32, of which
// channel 2i is sin(p/10000^(2i/channels)) and channel 2i + 1 the cosine. `channels` must be even.
Tensor sinusoidal_positions(std::int64_t length, std::int64_t channels);

// Linears and embeddings N(0, 0.02), drawn after the construction as the tutorial's
// apply(_init_weights) does. Norms keep their ones and zeros.
void init_transformer(const Params& p, Rng& rng);

}  // namespace tapegrad::nn
