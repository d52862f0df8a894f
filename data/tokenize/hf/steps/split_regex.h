#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::data {

// A regular expression that cuts text, as files of tokenizers have it: in Oniguruma's language, of
// which PCRE2 reads a common part in the same sense. All else is refused, never approximated.
class SplitRegex {
 public:
  // Error, naming what it is, for a pattern that PCRE2 does not read, that the two may read
  // differently (\w, \h, ^, $, {n,m}+, named scripts, set operations …), that matches no text, or
  // that is longer than kMostBytes. Models of 2026 have up to 600.
  explicit SplitRegex(std::string_view pattern);
  static constexpr std::size_t kMostBytes = 16384;

  // Calls `found(begin, end)` for each match, from left to right; matches do not overlap, and none
  // is empty. `text` must be valid UTF-8. Error if the expression takes too much time or memory.
  void each_match(std::string_view text,
                  const std::function<void(std::size_t begin, std::size_t end)>& found) const;

 private:
  std::shared_ptr<const void> code_;  // of PCRE2
};

}  // namespace tapegrad::data
