#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/cut_text.h"

namespace tapegrad::data::jinja {

// A template's fault, or its words in raise_exception, cut to what a message quotes. `line` is 0
// until it is known.
class TemplateError : public Error {
 public:
  explicit TemplateError(std::string_view message, int line = 0, bool names_nothing = false)
      : Error(line == 0 ? cut_text(message)
                        : fmt::format("[chat template] line {}: {}", line, cut_text(message))),
        message_(cut_text(message)),
        line_(line),
        names_nothing_(names_nothing) {}
  const std::string& message() const { return message_; }  // Python's words, where it has some
  int line() const { return line_; }
  // The template uses a variable that nobody has set: a mistake of its author, whatever it renders.
  bool names_nothing() const { return names_nothing_; }

 private:
  std::string message_;
  int line_;
  bool names_nothing_;
};

// What a message says. Of a long one, only the beginning is made.
template <class... Args>
std::string described(fmt::format_string<Args...> format, Args&&... args) {
  std::array<char, kMostQuoted + 1> text;
  const auto made = fmt::format_to_n(text.data(), text.size(), format, std::forward<Args>(args)...);
  return cut_text({text.data(), std::min(made.size, text.size())});
}
template <class... Args>
[[noreturn]] void raise(fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateError(described(format, std::forward<Args>(args)...));
}

}  // namespace tapegrad::data::jinja
