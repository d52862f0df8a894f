#pragma once

#include <memory>
#include <optional>
#include <string>

namespace tapegrad::sampling {

// Lines of stdin. At a terminal, libedit lets people edit them and brings earlier ones back.
class LineEditor {
 public:
  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  bool on_terminal() const { return terminal_ != nullptr; }
  // Without the line break. Nothing after the last line, or if a signal comes first. Error if stdin
  // cannot be read.
  // `prompt`: what stands before the line at a terminal.
  std::optional<std::string> next(const std::string& prompt);

 private:
  struct Terminal;
  std::unique_ptr<Terminal> terminal_;
};

}  // namespace tapegrad::sampling
