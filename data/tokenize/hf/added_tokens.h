#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tapegrad/data/tokenize/bpe/text_hash.h"
#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// Tokens that are found in a text before it is cut into pieces, such as <|endoftext|>. Of several
// that begin at one place the longest counts.
class AddedTokens {
 public:
  // The longest content: the work at each place of a text grows with the number of lengths.
  static constexpr std::size_t kMaxBytes = 256;

  // Special tokens are read only if that is asked for, since a text may come from anybody. Error
  // if `content` is empty or too long. A content that is there already keeps its token.
  void add(const std::string& content, Token token, bool special);

  // Calls `found` for each token, and `between` for each text before, between and behind them that
  // is not empty, in order.
  void cut(std::string_view text, bool allow_special, const std::function<void(Token)>& found,
           const std::function<void(std::string_view)>& between) const;

 private:
  struct Added {
    Token token;
    bool special;
  };
  struct Match {
    std::size_t bytes = 0;  // 0: none
    Token token = 0;
  };
  Match first(std::string_view text, bool allow_special) const;

  std::unordered_map<std::string, Added, TextHash, std::equal_to<>> added_;
  // The lengths of those that begin with a byte, longest first.
  std::array<std::vector<std::size_t>, 256> lengths_;
};

}  // namespace tapegrad::data
