#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// Tokens that are found in a text before it is cut into pieces, such as <|endoftext|>. Of several
// that begin at one place the longest counts.
class AddedTokens {
 public:
  // Special tokens are read only if that is asked for, since a text may come from anybody.
  // `content` must not be empty.
  void add(std::string content, Token token, bool special);

  // Calls `found` for each token, and `between` for each text before, between and behind them that
  // is not empty, in order.
  void cut(std::string_view text, bool allow_special, const std::function<void(Token)>& found,
           const std::function<void(std::string_view)>& between) const;

 private:
  struct Added {
    std::string content;
    Token token;
    bool special;
  };
  // The one that `text` begins with; null if there is none.
  const Added* first(std::string_view text, bool allow_special) const;

  std::array<std::vector<Added>, 256> by_first_byte_;  // longest first
};

}  // namespace tapegrad::data
