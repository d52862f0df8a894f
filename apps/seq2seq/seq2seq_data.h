#pragma once

#include <optional>

#include "tapegrad/apps/seq2seq/seq2seq_options.h"
#include "tapegrad/data/pairs.h"
#include "tapegrad/nn/beam.h"
#include "tapegrad/run/dataset.h"
#include "tapegrad/run/report.h"

namespace tapegrad::apps {

// What an encoder–decoder is to learn, and what it is tested with.
struct PairData {
  data::Tokenizer tokenizer;
  data::SpecialTokens special;
  std::vector<data::TokenPair> train, held_out;
  int64_t vocab_size() const { return tokenizer.vocab_size() + data::SpecialTokens::kCount; }
};

// The pairs of a text. A bpe tokenizer learns from the training pairs alone; `tokenizer` is used
// instead if there is one.
PairData read_pairs(const Text& text, const Seq2SeqOptions& options,
                    const std::optional<data::Tokenizer>& tokenizer = {});

// The pairs that train-seq2seq makes when it gets no others.
Text own_pairs();

// A batch as tensors, with its masks.
struct PairTensors {
  Tensor sources, inputs, labels;  // (B, S), (B, T), (B, T)
  nn::PaddingMasks masks;
  int64_t tokens;  // of both sides that are not padding
};
PairTensors tensors_of(const data::PairBatch& batch, const data::SpecialTokens& special);

// Losses of options.eval_iters batches of random pairs from each part, and of the held-out ones
// also "token_accuracy", the share of tokens, ends included, that are likeliest after the right
// ones, and "exact_match", the share of targets that greedy decoding gets right to the last token.
// Nothing if a signal interrupts it. Training goes on as if there had been no evaluation.
std::optional<Losses> estimate_losses(const nn::Transformer& model, const PairData& data,
                                      const Seq2SeqOptions& options);

// The same shares of all held-out pairs.
struct Accuracy {
  double tokens = 0, exact = 0;
};
std::optional<Accuracy> held_out_accuracy(const nn::Transformer& model, const PairData& data,
                                          int64_t batch_size);

// The translations of sources, as one batch, each on one line.
std::vector<std::string> translate_all(const nn::Transformer& model,
                                       const data::Tokenizer& tokenizer,
                                       const std::vector<std::vector<data::Token>>& sources,
                                       nn::TranslateOptions options);
// How translate() begins and ends targets of a model with these tokens, and stops for a signal.
nn::TranslateOptions translate_options(const data::SpecialTokens& special);

}  // namespace tapegrad::apps
