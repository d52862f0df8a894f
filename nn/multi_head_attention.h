#pragma once

#include "tapegrad/nn/generation/kv_cache.h"
#include "tapegrad/nn/layers.h"

namespace tapegrad::nn {

// The names of an attention layer's parts.
struct AttentionNames {
  const char* qkv = "c_attn";
  const char *query = "W_query", *key = "W_key", *value = "W_value";
  const char *out = "c_proj", *query_norm = "q_norm", *key_norm = "k_norm", *sinks = "sinks";
};

struct AttentionConfig {
  int n_head = 1;
  std::optional<int> n_kv_head = {};               // heads of keys and values [n_head]
  std::optional<std::int64_t> head_size = {};      // channels of a head [channels / n_head]
  bool bias = true;                                // of c_proj
  bool qkv_bias = true;                            // of the projections that make Q, K and V
  bool separate_qkv = false;                       // W_query, W_key and W_value in place of c_attn
  std::optional<NormOptions> qk_norm = {};         // norms of each head's Q and K
  bool qk_norm_whole = false;                      // over all heads together instead
  bool rope = false;                               // turn Q and K by their positions
  std::optional<std::int64_t> rope_channels = {};  // of a head, that turn [all]
  double rope_base = 10000;
  std::optional<RopeScaling> rope_scaling = {};
  bool rope_reversed = false;   // see RopeOptions
  double query_scale_beta = 0;  // see DecoderConfig
  std::int64_t query_scale_positions = 8192;
  bool out_gate = false;  // W_query also makes gates: see below
  bool causal = true;
  bool sinks = false;        // a learned one for each head: see ScoreOptions
  ScoreOptions scores = {};  // without sinks; a window is for self-attention
  double dropout = 0;        // of the attention weights
  double out_dropout = 0;    // of the result
  AttentionNames names = {};
};

// The keys and values (B, S, C) of a sequence that others attend to.
struct CrossCache {
  Tensor keys, values;
};

// Multi-head attention of a sequence to itself or to another one.  (B, T, C) → (B, T, C). H heads
// of queries of D channels attend to K heads of keys and values; H/K of them in a row share one
// (Ainslie et al., "GQA", 2023).
//
// With out_gate, W_query makes 2·D channels of each head, a query and a gate, and what a head has
// taken of the values is multiplied by the sigmoid of its gate (Qiu et al., "Gated Attention for
// Large Language Models", 2025). It needs separate_qkv.
//
// `padding` is (B, keys), bool or u8, or undefined; no query sees keys where it is not 0: padding.
// `document_starts` (B, T) i32, or undefined: documents that stand side by side in x, each with
// positions of its own, and do not see each other (see ScoreOptions in ops.h).
struct MultiHeadAttention {
  AttentionConfig config;          // with a value for n_kv_head and head_size
  Linear c_attn;                   // C → (H + 2K)·D, or absent:
  Linear W_query, W_key, W_value;  // C → H·D, or 2·H·D with gates, C → K·D each
  Linear c_proj;                   // H·D → C
  Norm q_norm, k_norm;             // over D, or H·D and K·D; absent without qk_norm
  Tensor sinks;                    // (H), 0 at first; undefined without sinks
  MultiHeadAttention() = default;
  MultiHeadAttention(const Params& p, std::int64_t channels, const AttentionConfig& config);
  bool exists() const { return c_proj.weight.exists(); }

  // Self-attention.
  Tensor operator()(const Tensor& x, Rng* rng = nullptr, const Tensor& padding = {},
                    const Tensor& document_starts = {}) const;
  // The weights by which self-attention of x (B, T, C) takes its values, without dropout: (B, H, T,
  // T).
  Tensor weights(const Tensor& x, const Tensor& padding = {}) const;
  // Self-attention of the positions (B, T, C) that follow those in the caches of B sequences, to
  // which their keys and values are added. For generation: no tape may record it. Only causal
  // attention can do this.
  Tensor operator()(const Tensor& x, CachedLayer caches) const;
  // Keys (B, T, K·D) of positions from `from` on, as they are at positions from `to` on, of texts
  // that may come to have `most` tokens.
  Tensor moved_keys(const Tensor& keys, std::int64_t from, std::int64_t to,
                    std::int64_t most) const;
  // Attention of x to `memory` (B, S, C). Needs separate_qkv, and neither causal, rope nor qk_norm.
  Tensor operator()(const Tensor& x, const Tensor& memory, Rng* rng, const Tensor& padding) const;
  // The keys and values that the last one makes of a memory, and that attention with them.
  CrossCache cache_keys_values(const Tensor& memory) const;
  Tensor cross_attend(const Tensor& x, const CrossCache& kept, const Tensor& padding) const;

 private:
  struct QKV {
    Tensor q, k, v;
    Tensor gate = {};  // undefined without out_gate
    Tensor gated(const Tensor& y) const { return gate.defined() ? y * sigmoid(gate) : y; }
  };
  // Where the positions of the B sequences begin: at `firsts`; without any, all at 0. How many
  // tokens they may come to have [T].
  struct Places {
    std::vector<std::int64_t> firsts = {};
    Tensor document_starts = {};
    std::vector<std::int64_t> lengths = {};
  };
  // Q and K normed and turned.
  QKV project(const Tensor& x, const Places& places) const;
  Tensor turned(const Tensor& x, std::int64_t channels, const Places& places,
                bool back = false) const;
  ScoreOptions scores(const Tensor& document_starts = {}) const;
  // True if Q, K and V can stay side by side as c_attn makes them.
  bool packed() const;
  void check_crosses() const;
};

}  // namespace tapegrad::nn
