#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tapegrad/data/tokenize/sentencepiece/charsmap.h"
#include "tapegrad/data/tokenize/text_tree.h"

namespace tapegrad::data {

// What SentencePiece makes of a text before it is pieces (its normalizer.cc): rules of the
// charsmap, of which the longest counts; one space for several, and none at the ends; ▁ for each
// space, and before the text.
struct TextRules {
  std::optional<Charsmap> charsmap;
  TextTree symbols;  // user-defined pieces, to which no rule applies
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool prefix_first = false;  // the prefix is for the first part of a text alone

  // `text`: valid UTF-8, a part of a text between special tokens. `first`: nothing is before it.
  std::string operator()(std::string_view text, bool first) const;

 private:
  // What stands for the beginning of `text`, and that beginning's size.
  Charsmap::Rule first_rule(std::string_view text) const;
};

}  // namespace tapegrad::data
