#pragma once

#include <span>
#include <utility>
#include <vector>

#include "tapegrad/nn/layers/block.h"
#include "tapegrad/nn/layers/ngram_embedding.h"

namespace tapegrad::nn {

// Tokens for a decoder. Several documents may stand side by side in a row: then the tokens of one
// do not see those of another, and positions begin anew at each.
struct TokenRows {
  Tensor ids;  // (B, T) i32
  // (B, T) i32: the place in its row at which the document of each token begins. Undefined: each
  // row is one document.
  Tensor document_starts;
  // Ids alone are rows, too: not explicit.
  TokenRows(Tensor rows, Tensor starts = {})
      : ids(std::move(rows)), document_starts(std::move(starts)) {}
};

// A decoder-only Transformer, whose parts its config chooses: GPT-2, Llama and their relatives.
// Members are named as in GPT-2; for the names of parameters in files see decoder_names.h. Weights
// lie as (out, in). Construction draws what PyTorch draws for the same modules in the same order.
// Dropout is behind the embedding, on the weights of attention, and on what is added to the
// residual stream.
struct Decoder {
  DecoderConfig config;  // with_defaults()
  Embedding wte, wpe;    // wpe is absent unless positions are learned
  NgramEmbedding ngrams;
  Norm embedding_norm;  // absent without DecoderConfig::embedding_norm
  std::vector<Block> h;
  Norm ln_f;
  Linear lm_head;
  std::int64_t adapters = 0;  // of Params::offer(): rows may choose those below
  // Added to the logits of logits_of() and last_logits() (V): −∞ for rows of the head that stand
  // for no token, 0 for others. Undefined: all are tokens. See rule_out().
  Tensor ruled_out;
  // Keeps only the input of each block for the backward, which runs the block again: see
  // checkpoint() in ops.h. It costs time and saves memory; results stay the same.
  bool recompute = false;

  Decoder(const Params& p, const DecoderConfig& config);

  // Tokens (B, T) → what the first block gets, without dropout (B, T, C). With caches, row b goes
  // on behind what caches[b] holds, which stays as it is. Error if a position is not below
  // block_size.
  Tensor embed(const TokenRows& tokens, std::span<KVCache* const> caches = {}) const;
  // A result of embed() → the n_layer + 1 states (B, T, C) before, between and behind the blocks,
  // without dropout. A block adds to the state before it (Elhage et al., "A Mathematical Framework
  // for Transformer Circuits", 2021). With residual_scalars, that is the mixture that it gets, not
  // what the block before it gave.
  std::vector<Tensor> residual_stream(const Tensor& embedded) const;
  // Tokens (B, T) → the normed output of the last block (B, T, C), by logit_scale larger: what the
  // head needs. Error if T > block_size.
  Tensor hidden(const TokenRows& tokens, Rng* rng = nullptr) const {
    return hidden(tokens, rng, nullptr);
  }
  // The same; unless `routers` is null, experts note there what their routers did, and it is summed
  // up.
  Tensor hidden(const TokenRows& tokens, Rng* rng, RouterLosses* routers) const;
  // The same for ids that follow those in caches: see states().
  Tensor hidden(const Tensor& ids, std::span<KVCache* const> caches) const {
    return normed(states(ids, caches));
  }
  // The logits (…, V) of what hidden() gives, of all rows of the head.
  Tensor head(const Tensor& normed) const {
    return softcap(nn::logits_of(lm_head, normed), config.logit_softcap);
  }
  // Tokens (B, T) → logits (B, T, V).
  Tensor operator()(const TokenRows& tokens, Rng* rng = nullptr) const {
    return head(hidden(tokens, rng));
  }
  // Mean cross entropy of targets (B, T), of which those that are ignore_index do not count. The
  // logits of all positions, by far the largest tensor of a small model, never exist. With an Rng,
  // for training, routers' losses are added.
  Tensor loss(const TokenRows& tokens, const Tensor& targets, Rng* rng = nullptr,
              std::int32_t ignore_index = -100) const {
    return loss(tokens, targets, rng, ignore_index, nullptr);
  }
  // The same; unless `routers` is null, those losses are noted there, too.
  Tensor loss(const TokenRows& tokens, const Tensor& targets, Rng* rng, std::int32_t ignore_index,
              RouterLosses* routers) const;
  // The same of what hidden() gives.
  Tensor loss_of(const Tensor& normed, const Tensor& targets, std::int32_t ignore_index) const;
  // Logits of the last position only: (B, V).
  Tensor last_logits(const Tensor& ids) const;
  // The same for ids (B, T) that follow those in the caches of B sequences, to which they are
  // added: nothing is computed again. If T is 1, each row gets the bits that it gets alone, and
  // several rows side by side may be of one sequence: see CachedLayer. For generation: no tape
  // records it. Error if a cache would hold more than block_size positions.
  Tensor last_logits(const Tensor& ids, std::span<KVCache* const> caches) const;
  Tensor last_logits(const Tensor& ids, KVCache& cache) const {  // of one sequence
    KVCache* const one = &cache;
    return last_logits(ids, {&one, 1});
  }
  // The same, but the output of the last block at all of these positions, (B, T, C): see
  // logits_of().
  Tensor states(const Tensor& ids, std::span<KVCache* const> caches) const;
  Tensor states(const Tensor& ids, KVCache& cache) const {
    KVCache* const one = &cache;
    return states(ids, {&one, 1});
  }

  // Rows of the head that stand for no token, such as the padding of a vocabulary to a multiple of
  // 64: no token of a text is chosen among them. Of probabilities, those of losses count them, as
  // in training and in the likelihoods of evaluation. Error unless each is a row and one is left.
  void rule_out(std::span<const std::int32_t> tokens);

  // True if the bits of a position never depend on what else is computed beside it, whatever the
  // pieces are that a text is read in: all matrices are quantised.
  bool all_quantized() const;

  // True if what a cache holds can move to other positions. With learned positions, it cannot, and
  // nothing can be taken out of the state of a gated delta net or a Mamba-2.
  bool can_move() const {
    return config.position_kind() != Positions::learned && !config.is_recurrent();
  }
  // Forgets positions [begin, end) of a cache. Those behind them move there, and rotary positions
  // turn their keys. Keys and values remain those of tokens that had seen what is forgotten. Error
  // unless can_move(), and if there are no such positions.
  void drop(KVCache& cache, std::int64_t begin, std::int64_t end) const;

  // For looking inside. No function here drops anything out.

  // The attention weights of a block on the state before it, residual_stream()[layer]: (B, H, T,
  // T). Error if there is no such block, or if it has something else in place of attention.
  Tensor attention_weights(int layer, const Tensor& state) const;
  // The final norm and the head on any of these states (B, T, C) → (B, T, V): of the last one, they
  // are the model's logits. Of the others, they are what the model would say there (the logit lens:
  // nostalgebraist, "interpreting GPT: the logit lens", 2020).
  // Those of ruled_out are −∞.
  Tensor logits_of(const Tensor& state) const;
  // The gradient of loss(ids, targets, nullptr, ignore_index) with respect to what embed(ids) gives
  // (B, T, C), that is to each position's token embedding. No grad() changes.
  Tensor input_gradient(const Tensor& ids, const Tensor& targets,
                        std::int32_t ignore_index = -100) const;

 private:
  Tensor normed(const Tensor& state) const;
  Tensor normed_embedding(const Tensor& x) const;
  Tensor run_blocks(Tensor x, bool again, Rng* rng, const Tensor& document_starts = {},
                    RouterLosses* routers = nullptr) const;
};

// x (B, T, C) → its last position, (B, C).
Tensor last_position(const Tensor& x);

// The model of a config without further choices.
using GPT = Decoder;

// nanoGPT's initialisation, drawn after the construction as its apply(_init_weights) does: N(0,
// 0.02) for linears and embeddings, biases 0, and projections into the residual stream N(0,
// 0.02/√N) with N of them: 2·n_layer, but for blocks that lack a part.
void init_gpt2(const Decoder& model, const Params& p, Rng& rng);

}  // namespace tapegrad::nn
