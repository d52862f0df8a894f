#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::data {

// Which special tokens of a text are read: all, none, or all that cover no letter of the text.
class ReadSpecial {
 public:
  ReadSpecial(bool all) : all_(all) {}  // NOLINT: stands for itself
  // `letters`: places of bytes in `text`, ascending. Both must outlive this.
  ReadSpecial(std::string_view text, std::span<const std::size_t> letters)
      : all_(true), text_(text), letters_(letters) {}

  // False if none is read.
  bool any() const { return all_; }
  // `token`: a part of the text.
  bool operator()(std::string_view token) const {
    if (!all_ || letters_.empty()) return all_;
    const auto begin = static_cast<std::size_t>(token.data() - text_.data());
    const auto next = std::lower_bound(letters_.begin(), letters_.end(), begin);
    return next == letters_.end() || *next >= begin + token.size();
  }

 private:
  bool all_;
  std::string_view text_ = {};
  std::span<const std::size_t> letters_ = {};
};

}  // namespace tapegrad::data
