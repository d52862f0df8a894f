#include "tapegrad/base/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <stdio_ext.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>

#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/text/utf8.h"

namespace tapegrad {
namespace {

// In place of a stream, while it has a function.
class Redirection {
 public:
  void set(std::function<void(const std::string&)> print) {
    const std::lock_guard lock(mutex_);
    print_ = std::move(print);
  }
  bool is_set() {
    const std::lock_guard lock(mutex_);
    return print_ != nullptr;
  }
  // False if there is none.
  bool print(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (print_) print_(text);
    return print_ != nullptr;
  }

 private:
  std::mutex mutex_;
  std::function<void(const std::string&)> print_;
};
Redirection output, errors;

// A dumb terminal cannot clear a line. Open MPI's mpirun gives programs a terminal of its own,
// wherever its output goes.
bool stdout_is_terminal() {
  if (output.is_set() || std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) return false;
  const char* kind = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

// Output of others is lost as well: no reader will come.
void discard_stdout() {
  const int nothing = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nothing < 0) return;
  ::dup2(nothing, STDOUT_FILENO);
  ::close(nothing);
}

// Counts the characters of UTF-8, each as wide as a letter.
std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// Bytes shown of a message's beginning, which names the file, and of its end, which names the
// cause.
constexpr std::size_t kShownBegin = 600, kShownEnd = 200;

bool inside_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// The first `begin` and the last `end` bytes of a text that has more; no character of UTF-8 is cut
// in two.
std::string shortened(const std::string& text, std::size_t begin, std::size_t end) {
  if (text.size() <= begin + end) return text;
  std::size_t rest = text.size() - end;
  for (int i = 0; i < 3 && inside_character(text[begin]); ++i) --begin;
  for (int i = 0; i < 3 && inside_character(text[rest]); ++i) ++rest;
  return text.substr(0, begin) + " … " + text.substr(rest);
}

std::string escaped(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const Utf8Char c = first_char(text);
    const std::string_view bytes = text.substr(0, c.size);
    text.remove_prefix(c.size);
    if (c.kind == Utf8Char::Kind::valid && !controls_terminal(c.code_point)) {
      result += bytes;
    } else if (c.code_point > 0x7F) {
      result += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c.code_point));
    } else if (c.code_point == '\n') {
      result += "\\n";
    } else {
      for (const char byte : bytes) {
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    }
  }
  return result;
}

}  // namespace

std::string printable(const std::string& message) {
  // The first cut saves work; the second is needed, since escapes are longer than what they show.
  const std::string few = shortened(message, 4 * kShownBegin, 4 * kShownEnd);
  return shortened(escaped(few), kShownBegin, kShownEnd);
}

bool is_stdout_closed() {
  pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

void flush_stdout() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  // The failure may have been an earlier one, so errno does not tell.
  if (is_stdout_closed()) throw ClosedPipe("nobody reads the output");
  fail("the output could not be written");
}

Terminal::Terminal(bool strict) : terminal_(stdout_is_terminal()), strict_(strict) {}

Terminal::Size Terminal::size() {
  struct winsize size {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {80, 24};
  return {size.ws_col, size.ws_row > 0 ? size.ws_row : 24};
}

// A log that nobody reads any more (`| head`, a terminal that was closed), or that a full disk
// cannot take, must not cost the training, unless the user wants it so.
void Terminal::print(const std::string& text) {
  if (lost_ || output.print(text)) return;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) {
    return;
  }
  lost_ = true;
  const bool gone = errno == EPIPE || errno == EIO;
  print_error(fmt::format("warning: the output cannot be written: {}. {}\n",
                          std::generic_category().message(errno),
                          strict_ ? "The run is saved and stops, since the log is strict"
                                  : "The program goes on without it"));
  ::__fpurge(stdout);
  std::clearerr(stdout);
  if (gone) discard_stdout();
  if (strict_) interrupt("the output could not be written");
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
  const auto width = static_cast<std::size_t>(size().columns);
  if (text.size() >= width) text.resize(width - 1);
  show_below(text);
}

void Terminal::working(const std::string& what) {
  if (terminal_) show_below(what + " …");
}

// In one piece, so that nothing flickers.
void Terminal::show_below(const std::string& text) {
  std::string all = erasing();
  drawn_.clear();
  for (const std::string& line : chart_) {
    all += line + "\n";
    drawn_.push_back(characters(line));
  }
  drawn_.push_back(characters(text));
  print(all + text);
}

void Terminal::leave_chart() {
  const std::vector<std::string> lines = std::exchange(chart_, {});
  for (const std::string& l : lines) line(l);
}

// Goes up to the first of the lines that are drawn, and erases from there on. Where the terminal
// has become narrower since, it has broken lines that are too long for it.
std::string Terminal::erasing() const {
  if (drawn_.empty()) return "";
  const auto width = static_cast<std::size_t>(size().columns);
  std::size_t up = 0;
  for (const std::size_t n : drawn_) up += std::max<std::size_t>(1, (n + width - 1) / width);
  return up > 1 ? fmt::format("\r\x1b[{}A\x1b[J", up - 1) : "\r\x1b[J";
}

void Terminal::clear() {
  if (!drawn_.empty()) print(erasing());
  drawn_.clear();
}

void redirect_errors(std::function<void(const std::string& text)> print) {
  errors.set(std::move(print));
}

void redirect_output(std::function<void(const std::string& text)> print) {
  output.set(std::move(print));
}

void print_error(const std::string& text) {
  if (errors.print(text)) return;
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

}  // namespace tapegrad
