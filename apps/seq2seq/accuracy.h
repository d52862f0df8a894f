#pragma once

#include <optional>
#include <vector>

#include "tapegrad/apps/seq2seq/pair_data.h"
#include "tapegrad/nn/transformer.h"
#include "tapegrad/run/record/report.h"

namespace tapegrad::seq2seq {

// The mean losses of so many batches of random pairs from each part. For the held-out pairs also
//   "token_accuracy": the share of tokens, ends included, that the model finds likeliest after the
//     right tokens before them;
//   "exact_match": the share of targets that greedy decoding gets right to the last token.
// Nothing if a signal interrupts it. Does not change the random numbers of training.
std::optional<run::Losses> estimate_losses(const nn::Transformer& model, const PairData& data,
                                           std::int64_t batch_size, std::int64_t batches,
                                           std::uint64_t seed);

// token_accuracy and exact_match of all held-out pairs.
struct Accuracy {
  double tokens = 0, exact = 0;
};
std::optional<Accuracy> held_out_accuracy(const nn::Transformer& model, const PairData& data,
                                          std::int64_t batch_size);

}  // namespace tapegrad::seq2seq
