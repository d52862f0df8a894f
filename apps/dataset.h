#pragma once

#include <string>
#include <vector>

#include "apps/train_options.h"
#include "data/tokenizer.h"

namespace tapegrad::apps {

// A text, read: what is in it, and its first 90 % and last 10 % (of the characters) as tokens.
struct Dataset {
  std::string name;         // for people: "corpus.txt", "3 files"
  std::string fingerprint;  // of the bytes: equal texts have equal ones
  int64_t bytes = 0;
  data::Tokenizer tokenizer;
  std::vector<data::Token> train = {}, val = {};
};

// Reads the corpus that the options name, or the one that is part of the program. A bpe tokenizer
// learns from the training part alone; `tokenizer` is used instead if there is one. Error if the
// text is shorter than what a batch needs.
Dataset load_dataset(const TrainOptions& options,
                     const std::optional<data::Tokenizer>& tokenizer = {});

// A 64-bit hash (FNV-1a), in hexadecimal: tells different texts apart, but is no proof.
std::string fingerprint(std::string_view text);

}  // namespace tapegrad::apps
