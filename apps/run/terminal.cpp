#include "tapegrad/run/terminal.h"

#include <fmt/format.h>
#include <stdio_ext.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "tapegrad/run/interrupt.h"

namespace tapegrad::run {
namespace {

// A dumb terminal cannot clear a line. Open MPI's mpirun gives programs a terminal of its own,
// wherever its output goes.
bool is_terminal() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) return false;
  const char* kind = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

std::size_t terminal_width() {
  struct winsize size {};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Terminal::Terminal(bool strict) : terminal_(is_terminal()), strict_(strict) {}

// A reader that has gone, of a pipe or a terminal, counts as an interrupt. A log that a full disk
// cannot take must not cost the training, unless the user wants it so.
void Terminal::print(const std::string& text) {
  if (lost_) return;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) {
    return;
  }
  if (errno == EPIPE || errno == EIO) return interrupt();
  lost_ = true;
  print_error(fmt::format("warning: the output cannot be written: {}. {}\n",
                          std::generic_category().message(errno),
                          strict_ ? "The run is saved and stops, since the log is strict"
                                  : "Training goes on without it"));
  ::__fpurge(stdout);
  std::clearerr(stdout);
  if (strict_) interrupt();
}

void Terminal::line(const std::string& text) {
  clear();
  print(text + "\n");
}

void Terminal::text(const std::string& piece) {
  clear();
  print(piece);
}

bool Terminal::wants_progress() {
  constexpr auto redraw_interval = std::chrono::milliseconds(100);
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || now - last_drawn_ < redraw_interval) return false;
  last_drawn_ = now;
  return true;
}

void Terminal::progress(std::string text) {
  if (text.size() >= terminal_width()) text.resize(terminal_width() - 1);
  show_below(text);
}

void Terminal::working(const std::string& what) {
  if (terminal_) show_below(what + " …");
}

void Terminal::show_below(const std::string& text) {
  print("\r\x1b[K" + text);
  drawn_ = true;
}

void Terminal::clear() {
  if (drawn_) print("\r\x1b[K");
  drawn_ = false;
}

void print_error(const std::string& text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

std::string duration(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02} min", s / 60, s % 60);
  return fmt::format("{}:{:02} h", s / 3600, s / 60 % 60);
}

}  // namespace tapegrad::run
