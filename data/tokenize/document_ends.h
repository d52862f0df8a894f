#pragma once

#include <string_view>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::data {

// White space around the words of a document; text of nothing else is no document.
inline constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";

inline bool is_blank(std::string_view text) {
  return text.find_first_not_of(kWhiteSpace) == text.npos;
}

// True if a document ends with the text of an end token, white space aside.
inline bool ends_with_mark(std::string_view document, std::string_view mark) {
  return document.substr(0, document.find_last_not_of(kWhiteSpace) + 1).ends_with(mark);
}

// The text between two documents where there is no such token, so that it is an empty line.
inline std::string_view empty_line_after(std::string_view document) {
  return document.ends_with('\n') ? "\n" : "\n\n";
}

}  // namespace tapegrad::data
