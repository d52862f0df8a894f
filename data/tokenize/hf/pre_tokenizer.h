#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <variant>
#include <vector>

#include "tapegrad/data/tokenize/hf/split_regex.h"

namespace tapegrad::data {

// Cuts text into the pieces that byte pairs are made in, by steps that each cut the pieces of the
// step before: the pre-tokenizers of Hugging Face's tokenizers, as far as byte-level models use
// them.
class PreTokenizer {
 public:
  // Each match is a piece, and so is what lies between two ("Isolated").
  void add_split(SplitRegex regex) { steps_.emplace_back(std::move(regex)); }
  // GPT-2's expression: see first_piece().
  void add_gpt2() { steps_.emplace_back(GPT2{}); }
  // Each step walks through all of the text. Models of 2026 have up to four.
  static constexpr std::size_t kMostSteps = 32;

  // Calls `found` for each piece of `text`, which must be valid UTF-8, in order. None is empty.
  using Found = std::function<void(std::string_view piece)>;
  void cut(std::string_view text, const Found& found) const { cut_from(0, text, found); }

 private:
  struct GPT2 {};
  using Step = std::variant<SplitRegex, GPT2>;
  void cut_from(std::size_t step, std::string_view text, const Found& found) const;

  std::vector<Step> steps_;
};

}  // namespace tapegrad::data
