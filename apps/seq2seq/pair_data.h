#pragma once

#include <optional>
#include <vector>

#include "tapegrad/apps/seq2seq/seq2seq_options.h"
#include "tapegrad/data/pairs.h"
#include "tapegrad/run/corpus/text.h"

namespace tapegrad::seq2seq {

// The pairs that an encoder–decoder learns, and those that it is tested with.
struct PairData {
  data::Tokenizer tokenizer;
  data::SpecialTokens special;
  std::vector<data::TokenPair> train, held_out;
  std::int64_t vocab_size() const { return tokenizer.vocab_size() + data::SpecialTokens::kCount; }
};

// The pairs of a text. A bpe tokenizer learns from the training pairs alone; `tokenizer` is used
// instead if there is one.
PairData read_pairs(const run::Text& text, const Options& options,
                    const std::optional<data::Tokenizer>& tokenizer = {});

// The pairs that train-seq2seq makes when it gets no others.
run::Text own_pairs();

}  // namespace tapegrad::seq2seq
