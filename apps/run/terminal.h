#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace tapegrad::run {

// Prints lines on stdout. If stdout is a terminal, one line below them is redrawn in place. A pipe
// or terminal that was closed counts as an interrupt, so that a run is saved. Output that a full
// disk does not take is lost, which stderr tells once; if the log is strict, that is an interrupt,
// too.
class Terminal {
 public:
  explicit Terminal(bool strict = false);
  ~Terminal() { clear(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void line(const std::string& text);
  void text(const std::string& piece);  // of a line that grows
  // Whether the line below is due to be redrawn: at most ten times a second, on a terminal.
  bool wants_progress();
  void progress(std::string text);  // cut to the terminal's width
  void working(const std::string& what);

 private:
  void print(const std::string& text);
  void clear();
  void show_below(const std::string& text);

  const bool terminal_, strict_;
  bool lost_ = false;  // some output could not be written
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_drawn_;
};

// Prints on stderr. A failure, such as that of a full disk, is not one of the program.
void print_error(const std::string& text);

// "8 s", "2:05 min", "3:20 h"
std::string duration(double seconds);

}  // namespace tapegrad::run
