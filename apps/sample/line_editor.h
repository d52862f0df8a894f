#pragma once

#include <memory>
#include <optional>
#include <string>

namespace tapegrad::sampling {

// Lines of stdin. At a terminal, libedit lets people edit them and brings earlier ones back.
class LineEditor {
 public:
  explicit LineEditor(std::string prompt);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  bool on_terminal() const { return terminal_ != nullptr; }
  // Without the line break. Nothing after the last line, or if a signal comes first. Error if stdin
  // cannot be read.
  std::optional<std::string> next();

 private:
  struct Terminal;
  std::unique_ptr<Terminal> terminal_;
};

}  // namespace tapegrad::sampling
