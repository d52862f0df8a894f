#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace tapegrad {

// Cuts text that arrives in pieces into its complete lines. At most one line is in memory.
class LineSplitter {
 public:
  // A line with more than `most_line_bytes` is passed on as "".
  explicit LineSplitter(std::size_t most_line_bytes) : most_line_bytes_(most_line_bytes) {}

  // Calls line(text) for each line that `piece` ends, without its line feed.
  template <class Line>
  void take(std::string_view piece, Line&& line) {
    for (std::size_t end; (end = piece.find('\n')) != piece.npos; piece.remove_prefix(end + 1)) {
      const std::string_view rest = piece.substr(0, end);
      if (too_long_ || begun_.size() + rest.size() > most_line_bytes_) {
        line(std::string_view());
      } else if (begun_.empty()) {
        line(rest);
      } else {
        line(std::string_view(begun_.append(rest)));
      }
      begun_.clear();
      too_long_ = false;
    }
    too_long_ = too_long_ || begun_.size() + piece.size() > most_line_bytes_;
    if (too_long_) {
      begun_ = std::string();  // returns its memory
    } else {
      begun_.append(piece);
    }
  }

  // True if the text ends within a line.
  bool within_line() const { return too_long_ || !begun_.empty(); }
  void clear() { *this = LineSplitter(most_line_bytes_); }

 private:
  std::size_t most_line_bytes_;
  std::string begun_;      // the beginning of a line that has no end yet
  bool too_long_ = false;  // it is; begun_ is empty
};

}  // namespace tapegrad
