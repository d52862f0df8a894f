#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/tokenize/read_special.h"
#include "tapegrad/data/tokenize/text_tree.h"
#include "tapegrad/data/tokenize/token.h"

namespace tapegrad::data {

// Tokens that are found in a text before it is cut into pieces, such as <|endoftext|>. Of several
// that begin at one place the longest counts.
class AddedTokens {
 public:
  // The longest content.
  static constexpr std::size_t kMaxBytes = 256;

  struct Added {
    Token token;
    // Special tokens are read only where that is asked for, since a text may come from anybody.
    bool special = false;
    // True if the token takes white space before and behind it in the text, too.
    bool takes_left = false, takes_right = false;
  };
  // Error if `content` is empty or too long. A content that is there already keeps its token.
  void add(const std::string& content, const Added& added);

  // Calls `found` for each token, and `between` for each text before, between and behind them that
  // is not empty, in order.
  void cut(std::string_view text, const ReadSpecial& read, const std::function<void(Token)>& found,
           const std::function<void(std::string_view)>& between) const;

  // True if a text, which is not empty, begins with a special token.
  bool begins_special(std::string_view text) const {
    return begins_[static_cast<std::uint8_t>(text.front())] &&
           first(text, true, /*special_alone=*/true).added != nullptr;
  }

 private:
  struct Match {
    std::size_t bytes = 0;
    const Added* added = nullptr;  // null: none
  };
  Match first(std::string_view text, const ReadSpecial& read, bool special_alone = false) const;

  std::bitset<256> begins_;  // the first bytes
  TextTree numbers_;         // in added_
  std::vector<Added> added_;
};

}  // namespace tapegrad::data
