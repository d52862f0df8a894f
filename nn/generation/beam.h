#pragma once

#include <functional>
#include <vector>

#include "tapegrad/nn/transformer.h"

namespace tapegrad::nn {

struct TranslateOptions {
  // The tokens that a target begins after and ends with; neither is part of it.
  std::int32_t start = 0, end = 0;
  int beam = 1;  // hypotheses that beam search keeps for each source; 1 is greedy
  // Finished hypotheses compete by log-probability/((5 + length)/6)^length_penalty (Wu et al.,
  // "Google's Neural Machine Translation System", 2016, section 7). 0 favours short ones.
  double length_penalty = 0.6;
  // Asked before every position; true ends all targets where they are.
  std::function<bool()> interrupted = {};

  void validate() const;  // throws Error for invalid values
};

struct Translation {
  std::vector<std::int32_t> tokens;
  double log_probability = 0;  // of the tokens and of the end, where it was reached
  bool complete = false;       // it ended before block_size tokens
};

// The likeliest targets of sources (B, S) with their padding mask (or none), found side by side:
// the sources are encoded once, and each layer keeps its keys and values from position to position.
std::vector<Translation> translate(const Transformer& model, const Tensor& source,
                                   const Tensor& padding, const TranslateOptions& options);

// A decoder that makes its targets token by token, with what it has computed of B sources and of
// the targets so far.
class DecoderState {
 public:
  // There are `copies` rows for each source, side by side.
  DecoderState(const Transformer& model, const Tensor& source, const Tensor& padding, int copies);

  // The next token of each row (N, 1) → the logits of the one after it (N, V). Error when they
  // would be more than block_size.
  Tensor step(const Tensor& tokens);
  // Goes on with these rows (N), in this order, instead of those there are. Each row must be one of
  // the same source as the row that it replaces, since what is known of the sources stays in place.
  void select(const std::vector<std::int32_t>& rows);
  std::int64_t length() const { return seen_.empty() ? 0 : seen_.front().length(); }

 private:
  const Transformer& model_;
  const int copies_;
  Tensor padding_;
  std::vector<CrossCache> memory_;  // of the sources, for each layer
  std::vector<KVCache> seen_;       // of the targets
};

}  // namespace tapegrad::nn
