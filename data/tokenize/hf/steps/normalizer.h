#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/tokenize/hf/steps/split_regex.h"
#include "tapegrad/data/tokenize/sentencepiece/charsmap.h"

namespace tapegrad::data {

// Unicode's normalization forms of valid UTF-8.
enum class Form { nfc, nfd, nfkc, nfkd };
std::string normal_form(Form form, std::string_view text);
inline std::string nfc(std::string_view text) { return normal_form(Form::nfc, text); }

// Without Unicode's White_Space at the ends of valid UTF-8.
std::string_view without_white_space(std::string_view text, bool left, bool right);

// Changes a text before it is cut into pieces, by steps: the normalizers of Hugging Face's
// tokenizers that byte-level models and those of SentencePiece use.
class Normalizer {
 public:
  void add_form(Form form);
  // Before a text that is not empty.
  void add_prepend(std::string prefix);
  void add_replace(std::string from, std::string to);
  void add_replace(SplitRegex from, std::string to);
  // White space at the ends.
  void add_strip(bool left, bool right);
  void add_strip_accents();
  void add_lowercase();
  void add_charsmap(Charsmap charsmap);

  // Error if one is longer than this, or if a text grows to more than kMostGrowth times its bytes,
  // which no character does in any of Unicode's forms.
  static constexpr std::size_t kMostTextBytes = 256, kMostGrowth = 64, kMostSteps = 32;

  bool empty() const { return steps_.empty(); }
  // `text`: valid UTF-8, and so is what becomes of it.
  std::string operator()(std::string_view text) const;

 private:
  // `before`: the bytes of the text before all steps.
  using Step = std::function<void(std::string& text, std::size_t before)>;
  std::vector<Step> steps_;
};

}  // namespace tapegrad::data
