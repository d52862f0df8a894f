#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::data {

// SentencePiece's compiled rules of a normalizer ("precompiled_charsmap"): texts of a few
// characters and what stands for them, the former in a double array (Darts: Aoe 1989, "An Efficient
// Digital Search Algorithm by Using a Double-Array Structure"). The bytes are the size of the array
// in four bytes, little-endian; its units of four bytes; the texts, each with a NUL behind it.
class Charsmap {
 public:
  // Error, saying what is wrong, if it is none.
  explicit Charsmap(std::string_view bytes);

  // The replacement for the shortest or the longest beginning of `text` that has a rule, and that
  // beginning's size.
  struct Rule {
    std::size_t size;
    std::string_view text;
  };
  std::optional<Rule> shortest(std::string_view text) const { return find(text, true); }
  std::optional<Rule> longest(std::string_view text) const { return find(text, false); }

  // As Hugging Face's tokenizers do it: what users take for one character (a grapheme cluster) of
  // less than six bytes becomes what stands for its shortest beginning; all else does so character
  // by character.
  std::string by_clusters(std::string_view text) const;

  static constexpr std::size_t kMostTextBytes = 64;  // that stand for some characters

 private:
  std::optional<Rule> find(std::string_view text, bool shortest) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace tapegrad::data
