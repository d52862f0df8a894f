#pragma once

#include <deque>
#include <string>
#include <vector>

#include "tapegrad/apps/sample/stop_text.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/tokenize/tokenizer.h"
#include "tapegrad/nn/generation/generation.h"

namespace tapegrad::serve {

// A token of a text that is shown, and where its own text begins there, in characters.
struct ShownToken {
  nn::NewToken token;
  std::int64_t offset = 0;
  bool scored = true;  // it has a log probability: the first token of a prompt has none
};

// One text of an answer as it is made: its tokens become whole characters, and it ends before the
// first of some texts that is found in it.
class Choice {
 public:
  struct Piece {
    std::string text = {};
    std::vector<ShownToken> tokens = {};  // those whose text ends in what was shown so far
  };

  // Both are of the text that is shown: with another one before it, its characters count, too.
  Choice(const data::Tokenizer& tokenizer, std::vector<std::string> stops,
         std::int64_t first_character = 0);

  Piece push(const nn::NewToken& token);
  // The rest at the end of the text.
  Piece end();
  bool stopped() const { return stop_.stopped(); }
  std::int64_t tokens() const { return tokens_; }

 private:
  struct Pending {
    ShownToken shown;
    std::size_t begin, end;  // bytes of the text
  };
  Piece show(std::string text, bool last);

  const data::Tokenizer& tokenizer_;
  Utf8Stream characters_;
  sampling::StopText stop_;
  std::deque<Pending> pending_;
  std::size_t decoded_ = 0, shown_ = 0;  // bytes
  std::int64_t decoded_characters_, tokens_ = 0;
};

std::int64_t characters_of(std::string_view text);

}  // namespace tapegrad::serve
