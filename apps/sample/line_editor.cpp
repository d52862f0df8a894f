#include "tapegrad/apps/sample/line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/text/utf8.h"

namespace tapegrad::sampling {
namespace {

constexpr int kEarlierLines = 1000;

// libedit has characters that take several bytes in a locale of UTF-8 alone. Numbers are written
// as before: only what a character is changes.
void use_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(::nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

struct LineEditor::Terminal {
  Terminal() {
    use_utf8();
    editor = ::el_init("tapegrad", stdin, stdout, stderr);
    earlier = ::history_init();
    check(editor != nullptr && earlier != nullptr, "cannot read lines from this terminal");
    HistEvent event;
    ::history(earlier, &event, H_SETSIZE, kEarlierLines);
    ::history(earlier, &event, H_SETUNIQUE, 1);
    ::el_set(editor, EL_CLIENTDATA, this);
    ::el_set(editor, EL_PROMPT, &prompt_of);
    ::el_set(editor, EL_HIST, ::history, earlier);
    ::el_set(editor, EL_EDITOR, "emacs");
    ::el_set(editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    ::el_set(editor, EL_GETCFN, &read_char);
    ::el_source(editor, nullptr);  // ~/.editrc
  }
  ~Terminal() {
    if (editor != nullptr) ::el_end(editor);
    if (earlier != nullptr) ::history_end(earlier);
  }

  static Terminal& of(EditLine* editor) {
    Terminal* self = nullptr;
    ::el_get(editor, EL_CLIENTDATA, &self);
    return *self;
  }
  static char* prompt_of(EditLine* editor) { return of(editor).prompt.data(); }

  // A character for libedit: 1, or 0 at the end, or -1 for a signal. libedit's own function would
  // go on reading after a signal.
  static int read_char(EditLine* editor, wchar_t* result) {
    std::string& bytes = of(editor).bytes;
    for (;;) {
      const Utf8Char c =
          bytes.empty() ? Utf8Char{Utf8Char::Kind::incomplete, 0, 0} : first_char(bytes);
      if (c.kind != Utf8Char::Kind::incomplete) {
        *result = static_cast<wchar_t>(c.kind == Utf8Char::Kind::valid ? c.code_point : U'\uFFFD');
        bytes.erase(0, c.size);
        return 1;
      }
      char byte;
      if (!wait_for_input(STDIN_FILENO)) return -1;
      const ssize_t size = ::read(STDIN_FILENO, &byte, 1);
      if (size <= 0) return static_cast<int>(size);
      bytes += byte;
    }
  }

  std::optional<std::string> next() {
    int size = 0;
    const char* bytes = ::el_gets(editor, &size);
    if (bytes == nullptr || size <= 0 || interrupted()) {
      std::fputs("\n", stdout);  // the cursor is behind the prompt
      return std::nullopt;
    }
    std::string line(bytes, static_cast<std::size_t>(size));
    if (line.back() == '\n') line.pop_back();
    HistEvent event;
    if (!line.empty()) ::history(earlier, &event, H_ENTER, line.c_str());
    return line;
  }

  std::string prompt, bytes;  // bytes: read, and not yet a character
  EditLine* editor = nullptr;
  History* earlier = nullptr;
};

LineEditor::LineEditor() {
  if (::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1) {
    terminal_ = std::make_unique<Terminal>();
  }
}

LineEditor::~LineEditor() = default;

std::optional<std::string> LineEditor::next(const std::string& prompt) {
  if (terminal_) {
    terminal_->prompt = prompt;
    return terminal_->next();
  }
  if (std::cin.rdbuf()->in_avail() <= 0 && !wait_for_input(STDIN_FILENO)) return std::nullopt;
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

}  // namespace tapegrad::sampling
