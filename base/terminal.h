#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tapegrad/base/cxx20.h"
#include "tapegrad/base/error.h"

namespace tapegrad {

// Prints lines on stdout. If stdout is a terminal, one line below them is redrawn in place, and
// with it the lines of a chart above it, if there is one. Output that cannot be written, to a full
// disk or to a pipe or terminal that was closed, is lost, which stderr says once; if the log is
// strict, that is an interrupt, so that a run is saved.
class Terminal {
 public:
  explicit Terminal(bool strict = false);
  ~Terminal() { clear(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void line(const std::string& text);
  void text(const std::string& piece);  // of a line that grows
  // True if the line below is due to be redrawn: at most ten times a second, on a terminal.
  bool wants_progress();
  void progress(std::string text);  // cut to the terminal's width
  void working(const std::string& what);
  // Sets the chart, which is shown from the next time on that the line below is drawn.
  void set_chart(std::vector<std::string> lines) { chart_ = std::move(lines); }
  // Prints it as lines that stay, and ends it.
  void leave_chart();
  bool is_terminal() const { return terminal_; }
  struct Size {
    int columns, rows;
  };
  static Size size();  // the terminal's size now; 80 × 24 if nobody knows it

 private:
  void print(const std::string& text);
  void clear();
  std::string erasing() const;
  void show_below(const std::string& text);

  const bool terminal_, strict_;
  bool lost_ = false;  // some output could not be written
  std::vector<std::string> chart_;
  std::vector<std::size_t> drawn_;  // characters of the lines that are drawn below
  std::chrono::steady_clock::time_point last_drawn_;
};

// A message as programs print it: on one line of at most about 800 bytes, with the middle left out
// if it is longer, and control characters escaped. Names and values in it may come from files, and
// must not control the terminal, or fill it.
std::string printable(const std::string& message);

// Nobody reads the output any more, as after `| head`.
class ClosedPipe : public Error {
 public:
  using Error::Error;
};

// True if stdout is a pipe that nobody reads any more.
bool is_stdout_closed();

// Writes what stdout still holds. ClosedPipe if nobody reads it, Error if any output was lost
// otherwise, as on a full disk.
void flush_stdout();

// Prints on stderr. A failure, such as a full disk, is ignored: the program goes on.
void print_error(const std::string& text);
// From now on, print_error() calls this in place of printing; {}: it prints. May come from any
// thread; when it returns, the one before is called no more.
void redirect_errors(std::function<void(const std::string& text)> print);
// The same for what a Terminal prints, for programs that show it in a way of their own. A Terminal
// that is made meanwhile is none: it has no line below the others.
void redirect_output(std::function<void(const std::string& text)> print);

}  // namespace tapegrad
