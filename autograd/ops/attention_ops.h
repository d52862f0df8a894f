#pragma once

// Attention and rotary positions. Attention works in tiles and never holds all scores (flash
// attention: Dao et al., 2022), unless a mask is given.

#include <cstdint>
#include <optional>
#include <vector>

#include "tapegrad/autograd/kernels/keep_mask.h"
#include "tapegrad/autograd/tensor/tensor.h"
#include "tapegrad/base/random.h"

namespace tapegrad {

// The changes of the scores q·k before the softmax.
struct ScoreOptions {
  double scale = 0;  // they are multiplied by it; 0 is 1/√D
  // Then cap·tanh(score / cap), which stays between −cap and cap (Gemma Team, "Gemma 2", 2024,
  // section 2); 0: no cap.
  double softcap = 0;
  // Causal attention slides: a query sees itself and the window − 1 keys before it (Jiang et al.,
  // "Mistral 7B", 2023, section 2). 0: all. Keys that no query of a block sees cost nothing.
  std::int64_t window = 0;
  // Causal attention of documents that stand side by side in the T positions, and do not see each
  // other: (B, T) i32, the position at which the document of each position begins. Undefined: one
  // document. What lies between documents costs nothing, as outside of a window. Error unless a row
  // is 0 at its beginning, and at position t > 0 either t or what it is at t − 1.
  Tensor document_starts = {};
  // Anything that broadcasts to (B, H, Tq, Tk): floats of q's dtype, which are added to the scores
  // last, and get gradients; or bool or u8, which hide the keys where they are not 0. That is
  // attn_mask of PyTorch's nn.MultiheadAttention; in F.scaled_dot_product_attention, true means the
  // opposite. With a mask, attention is attention_reference, with matrices of (B, H, Tq, Tk).
  Tensor attn_mask = {};
  // (H) of q's dtype, which get gradients: a logit of each head that joins the softmax of each
  // query, after all the above, as that of a key whose value is 0. So a head may take less than one
  // value in all (OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card", 2025, section 2.2).
  Tensor sinks = {};
};
struct AttentionOptions {
  bool causal = true;  // query i sees keys up to i
  double dropout = 0;  // of the attention weights, if rng is given
  Rng* rng = nullptr;
  // (B, Tk), bool or u8, or undefined; no query sees keys where it is not 0: padding, as in
  // PyTorch's nn.MultiheadAttention. A query that sees no key at all, or none with a score above
  // −∞, gets zeros, and passes no gradient.
  Tensor key_padding_mask = {};
  ScoreOptions scores = {};
};
// softmax(Q·Kᵀ/√D)·V for n_head heads of D = C / n_head channels each (Vaswani et al., 2017,
// section 3.2). qkv (B, T, 3C) holds Q, K and V side by side, as one linear makes them → (B, T, C).
// Fused: no (T, T) matrix outlives the call, and blocks that the causal mask hides are not
// computed. With dropout from a generator of Kind::torch a bit for each of the (B, H, T, T) weights
// does, until backward.
Tensor attention(const Tensor& qkv, int n_head, const AttentionOptions& options = {});
// q (B, Tq, C), k and v (B, Tk, C) → (B, Tq, C). Causal needs Tq = Tk. Queries may share keys and
// values in groups (Ainslie et al., "GQA", 2023, section 2.2): k and v (B, Tk, K·D) have K heads,
// where K divides n_head, and head h of q meets head h / (n_head / K) of theirs.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, int n_head,
                 const AttentionOptions& options = {});
// The weights of attention alone, softmax(Q·Kᵀ/√D), for looking at them: each query's row over the
// keys sums to one, with sinks to less, or is zeros if it sees none. q (B, Tq, C), k (B, Tk, K·D) →
// (B, H, Tq, Tk).
Tensor attention_weights(const Tensor& q, const Tensor& k, int n_head, bool causal = true,
                         const Tensor& key_padding_mask = {}, const ScoreOptions& scores = {});
// Attention written with matmul and softmax: what the fused op is checked against, and
// differentiated through where second derivatives are asked for. `keep` is dropout's decision on
// the weights (B, H, Tq, Tk).
Tensor attention_reference(const Tensor& q, const Tensor& k, const Tensor& v, int n_head,
                           bool causal, const KeepMask& keep = {},
                           const Tensor& key_padding_mask = {}, const ScoreOptions& scores = {});

// Ways to go on beyond the positions of a model's first training. Llama 3's: pairs whose wave is
// longer than original_positions / low_freq_factor positions turn `factor` times slower, those
// whose wave is shorter than original_positions / high_freq_factor turn as they did, and the
// frequencies in between are interpolated. The linear one (Chen et al., "Extending Context Window
// of Large Language Models via Positional Interpolation", 2023): all pairs turn slower. YaRN (Peng
// et al., "YaRN: Efficient Context Window Extension of Large Language Models", 2023, section 3):
// pairs that turn less than beta_slow times in the original positions turn slower, those that turn
// more than beta_fast times do not, in between by a ramp over the pairs; and turned channels are
// multiplied by attention_factor. LongRoPE (Ding et al., "LongRoPE: Extending LLM Context Window
// Beyond 2 Million Tokens", 2024, section 3): each pair turns slower by a number of its own, of
// which texts longer than the original positions have others; turned channels are multiplied, too.
struct RopeScaling {
  enum class Kind { llama3, linear, yarn, longrope };
  double factor = 8;                                 // of all but longrope
  double low_freq_factor = 1, high_freq_factor = 4;  // of llama3
  std::int64_t original_positions = 8192;            // of all but linear
  Kind kind = Kind::llama3;
  double beta_fast = 32, beta_slow = 1;  // of yarn
  // Of yarn and longrope; the papers': yarn_attention_factor() and longrope_attention_factor().
  double attention_factor = 1;
  bool truncate = true;  // of yarn: the ramp begins and ends at whole pairs
  // Of longrope, one for each pair: what divides its frequency in texts of at most
  // original_positions, and in longer ones.
  std::vector<double> short_factors = {}, long_factors = {};
};
// YaRN's factor of queries and keys, 0.1 · mscale · ln(factor) + 1; for factors up to 1, it is 1.
double yarn_attention_factor(double factor, double mscale = 1);
// LongRoPE's, √(1 + ln(factor) / ln(original_positions)); for factors up to 1, it is 1.
double longrope_attention_factor(double factor, std::int64_t original_positions);
struct RopeOptions {
  std::int64_t first = 0;                     // the position of row 0
  std::vector<std::int64_t> firsts = {};      // of x (B, T, C): one for each of the B, if not empty
  Tensor document_starts = {};                // of x (B, T, C): see below
  std::optional<std::int64_t> channels = {};  // turn the first so many only [all]
  std::optional<std::int64_t> turned = {};    // channels of a head that turn [all]
  double base = 10000;
  std::optional<RopeScaling> scaling = {};
  bool back = false;      // undo, up to rounding, what the same options without `back` do
  bool reversed = false;  // turn by −m·base^(−2i/D) in place of m·base^(−2i/D)
  // The lengths by which longrope chooses: of x (B, T, C) one for each text, or one for all.
  // Without any, a text has T tokens, and each document with document_starts those that it has.
  std::vector<std::int64_t> lengths = {};
};
// Rotary position embedding (Su et al., "RoFormer", 2021, section 3.2.2): attention scores between
// rows that are turned depend on how far they are apart, not on where they are. x (…, T, C) holds
// heads of D = head_size channels. In the row at position m, channels i and i + D/2 of each head
// are turned, as a pair, by the angle m·base^(−2i/D). Pairs are half a head apart, as in Hugging
// Face's models; the paper pairs neighbours, which differs in the order of channels alone. Of
// packed (B, T, 3C), `channels` = 2C turns Q and K, and leaves V as it is. With document_starts
// (B, T), as in ScoreOptions, positions begin anew at each document: a row is at the position of
// row 0 plus the rows between it and the beginning of its document. In f32, angles are
// rounded where transformers rounds them, which shows from some hundred positions on. With `turned`
// = R, the first R channels of each head are turned as a head of R, and the others stay.
Tensor rope(const Tensor& x, std::int64_t head_size, const RopeOptions& options = {});

}  // namespace tapegrad
