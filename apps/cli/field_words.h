#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tapegrad::cli {

// What people search for by the field's words: `tapegrad help WORDS`.

// True if `text` has these words, or others that begin with them. Case, hyphens and s or z make no
// difference: "quantize" is in "--dtype: quantise to q8_0", and "top-p" in "--top-p X".
bool has_words(std::string_view text, std::string_view words);

// A word of the field, and what it is here.
struct FieldWord {
  std::vector<std::string_view> words;  // each is looked for
  std::string_view meaning;             // one sentence
  // "train --dtype": an option of one command; "--draft": of each that has it. May be empty.
  std::vector<std::string_view> options;

  // `program` as `tapegrad help WORDS` calls it: "tapegrad train".
  bool names(std::string_view program, std::string_view option) const;
};
const std::vector<FieldWord>& all_field_words();
// Those that are meant by what somebody looks for.
std::vector<const FieldWord*> field_words(std::string_view words);

}  // namespace tapegrad::cli
