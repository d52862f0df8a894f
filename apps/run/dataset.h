#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/apps/gpt/train_options.h"
#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::apps {

// What a model is to learn.
struct Text {
  std::string name;                                 // for people: "corpus.txt", "3 files"
  std::string_view contents;                        // UTF-8
  std::shared_ptr<const std::string> storage = {};  // of the contents, unless part of the program
  std::string fingerprint;                          // equal texts have equal ones
};

// The files and folders; `corpus` must name some.
Text read_text(const std::vector<std::string>& corpus);
// This project's sources and documents, which are part of train-gpt.
Text own_sources();
// A text that a program makes by itself.
Text text_of(std::string name, std::string contents);

// The tokens that a run with these options has: those of the run that is resumed, or those that the
// text is to be made into.
int64_t vocab_size_of(const TrainOptions& options);

// The first 90 % of a text (of its characters) for training, and the rest, as tokens.
struct Dataset {
  data::Tokenizer tokenizer;
  std::vector<data::Token> train, val;
};

// A bpe tokenizer learns from the training part alone; `tokenizer` is used instead if there is one.
// Error if either part is shorter than one sequence.
Dataset tokenize(const Text& text, const TrainOptions& options,
                 const std::optional<data::Tokenizer>& tokenizer = {});

}  // namespace tapegrad::apps
