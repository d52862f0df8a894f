#pragma once

#include <string>
#include <vector>

#include "tapegrad/base/random.h"
#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::tutorial {

// The texts of the tutorial's chapters on training: the words and the names of GPT-2's vocabulary,
// in small letters, a line each. Their tokens are letters.
struct WordList {
  std::vector<std::string> words;

  // The tokens that are a space and four small letters or more, 18,355 of them, shuffled as
  // Rng::randperm says.
  static WordList of_words(Rng& rng);
  // The tokens that are a space, a capital and three small letters or more, unless their form in
  // small letters is a token as well: 3,656 of them, shuffled likewise.
  static WordList of_names(Rng& rng);

  // Words [begin, end), each with a line break behind it, in tokens of letters(). Error unless
  // begin <= end and there are so many words.
  std::vector<data::Token> tokens(std::size_t begin, std::size_t end) const;
  // 27 tokens: the line break and the letters a to z.
  static data::Tokenizer letters();
};

}  // namespace tapegrad::tutorial
