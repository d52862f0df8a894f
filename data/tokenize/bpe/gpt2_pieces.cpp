#include "tapegrad/data/tokenize/bpe/gpt2_pieces.h"

#include <utf8proc.h>

#include <array>
#include <optional>

#include "tapegrad/base/text/utf8.h"

namespace tapegrad::data {

namespace {

enum class Class { space, letter, number, other };

struct Classified {
  Class cls;
  std::size_t size;  // bytes
};

bool is_space(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

Class class_of(char32_t c) {
  if (is_space(c)) {
    return Class::space;
  }
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return Class::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return Class::number;
    default:
      return Class::other;
  }
}

Classified first_class(std::string_view text) {
  static const std::array<Class, 128> ascii = [] {
    std::array<Class, 128> table{};
    for (char32_t c = 0; c < 128; ++c) {
      table[c] = class_of(c);
    }
    return table;
  }();
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 128) {
    return {ascii[lead], 1};
  }
  const Utf8Char c = first_char(text);
  return {c.kind == Utf8Char::Kind::valid ? class_of(c.code_point) : Class::other, c.size};
}

std::size_t contraction(std::string_view text) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(ending)) {
      return ending.size();
    }
  }
  return 0;
}

// \s+(?!\S)|\s+ : a run of spaces at the end of the text is one piece. Elsewhere the run's last
// character is left to the next piece, unless the run has only that one.
std::size_t space_run(std::string_view text) {
  std::size_t end = 0;
  std::size_t last = 0;
  while (end < text.size()) {
    const Classified c = first_class(text.substr(end));
    if (c.cls != Class::space) {
      return last == 0 ? end : last;
    }
    last = end;
    end += c.size;
  }
  return end;
}

}  // namespace

std::size_t first_piece(std::string_view text) {
  if (text[0] == '\'') {
    if (const std::size_t size = contraction(text)) {
      return size;
    }
  }
  std::size_t end = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const Class cls = first_class(text.substr(end)).cls;
  if (cls == Class::space) {
    return space_run(text);
  }
  while (end < text.size()) {
    const Classified c = first_class(text.substr(end));
    if (c.cls != cls) {
      break;
    }
    end += c.size;
  }
  return end;
}

std::size_t last_border(std::string_view text) {
  std::optional<Class> behind;
  for (std::size_t end = text.size(); end > 0;) {
    std::size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    const bool is_whole = first_char(text.substr(begin)).kind != Utf8Char::Kind::incomplete;
    if (!is_whole) {
      end = begin;
      continue;
    }
    const Class cls = first_class(text.substr(begin)).cls;
    if (behind && cls != *behind && cls != Class::space) {
      const bool is_border = cls != Class::other || *behind != Class::letter;
      if (is_border) return end;
    }
    behind = cls;
    end = begin;
  }
  return 0;
}

}  // namespace tapegrad::data
