#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "tapegrad/run/models/model.h"

namespace tapegrad::inspect {

// A position's guess of the token that follows it.
struct Guess {
  data::Token token = 0;
  double probability = 0;
};

inline constexpr std::size_t kBest = 5;
struct Prediction {
  std::vector<Guess> best;     // the likeliest kBest tokens, or all if there are fewer
  std::optional<double> next;  // the probability of the token that follows; the last one has none
};

// The logit lens's reading of a state between blocks.
struct LensCell {
  Guess best;
  std::optional<double> next;
};

// A model at work on T tokens.
struct Inside {
  std::vector<data::Token> tokens;
  std::optional<double> loss;           // mean over T − 1 predictions; a single token has none
  std::vector<Prediction> predictions;  // one for each position
  // The blocks that have attention; others have a convolution in its place. For each of them and
  // each head, the weights of attention in thousandths: for each position those of the positions up
  // to it, T·(T + 1)/2 numbers.
  std::vector<int> attention_blocks;
  std::vector<std::vector<std::vector<std::uint16_t>>> attention;
  std::vector<std::vector<LensCell>> lens;  // (n_layer + 1, T); row 0 is of the embedding
  // For each position, the norm of the loss's gradient with respect to its token's embedding.
  std::vector<double> input_gradient;
};

// The formulas' sources are beside Decoder::logits_of and input_gradient. Error if `tokens`
// are none or more than the block size, or if the model computes what is not finite.
Inside look_inside(const nn::Decoder& model, std::span<const data::Token> tokens);

}  // namespace tapegrad::inspect
