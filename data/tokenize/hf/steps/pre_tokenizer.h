#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tapegrad/data/tokenize/hf/steps/split_regex.h"

namespace tapegrad::data {

// Cuts text into the pieces that tokens are made in, by steps that each cut the pieces of the step
// before: the pre-tokenizers of Hugging Face's tokenizers, as far as byte-level models and those of
// SentencePiece use them.
class PreTokenizer {
 public:
  // The place of a match: a piece of its own, as what lies between two; a part of the piece
  // before or behind it; or nothing.
  enum class Match { isolated, merged_with_previous, merged_with_next, removed };
  void add_split(SplitRegex regex, Match match) {
    steps_.emplace_back(Split{std::move(regex), match});
  }
  // GPT-2's expression: see first_piece().
  void add_gpt2() { steps_.emplace_back(GPT2{}); }
  // Puts a space before each text that does not begin with one.
  void add_prefix_space() { steps_.emplace_back(PrefixSpace{}); }
  // SentencePiece's: `mark` takes the place of spaces, and stands before each word and, by
  // `prepend`, before a text. With `cuts`, each mark begins a piece.
  enum class Prepend { never, first, always };  // first: where the whole text begins
  void add_metaspace(std::string mark, Prepend prepend, bool cuts);
  // Each step walks through all of the text. Models of 2026 have up to four.
  static constexpr std::size_t kMostSteps = 32;

  // Calls `found` for each piece of `text`, which must be valid UTF-8, in order. None is empty.
  // `first`: nothing is before `text`.
  using Found = std::function<void(std::string_view piece)>;
  void cut(std::string_view text, bool first, const Found& found) const {
    cut_from(0, text, first, found);
  }

 private:
  struct GPT2 {};
  struct PrefixSpace {};
  struct Split {
    SplitRegex regex;
    Match match;
  };
  struct Metaspace {
    std::string mark;
    Prepend prepend;
    bool cuts;
  };
  using Step = std::variant<Split, GPT2, PrefixSpace, Metaspace>;
  void cut_from(std::size_t step, std::string_view text, bool first, const Found& found) const;
  void cut_by(const GPT2& step, std::size_t next, std::string_view text, bool first,
              const Found& found) const;
  void cut_by(const PrefixSpace& step, std::size_t next, std::string_view text, bool first,
              const Found& found) const;
  void cut_by(const Split& step, std::size_t next, std::string_view text, bool first,
              const Found& found) const;
  void cut_by(const Metaspace& step, std::size_t next, std::string_view text, bool first,
              const Found& found) const;

  std::vector<Step> steps_;
};

}  // namespace tapegrad::data
