#include "tapegrad/data/tokenize/hf/steps/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/utf8.h"

namespace tapegrad::data {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// Unicode's White_Space.
bool is_white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// Each character becomes what `change` appends for it.
template <class Change>
void each_character(std::string& text, const Change& change) {
  std::string made;
  made.reserve(text.size());
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Char c = first_char(rest);
    change(c.code_point, rest.substr(0, c.size), made);
    rest.remove_prefix(c.size);
  }
  text = std::move(made);
}

void check_growth(std::size_t bytes, std::size_t before) {
  // A prefix may be long beside a short text.
  check(bytes / Normalizer::kMostGrowth <= before + Normalizer::kMostTextBytes,
        "[tokenizer] normalizing makes more than {} bytes of {}", bytes, before);
}

void check_text(std::string_view text) {
  check(text.size() <= Normalizer::kMostTextBytes,
        "a normalizer has a text of {} bytes; {} are the most", text.size(),
        +Normalizer::kMostTextBytes);
}

void lowercase(char32_t c, std::string_view, std::string& made) {
  constexpr char32_t capital_i_with_dot = 0x130;  // the only one that becomes two
  if (c == capital_i_with_dot) {
    made += "i\u0307";
  } else {
    made += to_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

void without_accent(char32_t c, std::string_view bytes, std::string& made) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  const bool is_mark = category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
                       category == UTF8PROC_CATEGORY_ME;
  if (!is_mark) made += bytes;
}

}  // namespace

std::string_view without_white_space(std::string_view rest, bool left, bool right) {
  while (left && !rest.empty()) {
    const Utf8Char c = first_char(rest);
    if (!is_white_space(c.code_point)) break;
    rest.remove_prefix(c.size);
  }
  while (right && !rest.empty()) {
    std::size_t at = rest.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(rest[at]) & 0xC0) == 0x80) --at;
    if (!is_white_space(first_char(rest.substr(at)).code_point)) break;
    rest = rest.substr(0, at);
  }
  return rest;
}

std::string normal_form(Form form, std::string_view text) {
  int options = UTF8PROC_STABLE;
  options |= form == Form::nfc || form == Form::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == Form::nfkc || form == Form::nfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &made,
                                             static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(made, std::free);
  check(size >= 0, "[tokenizer] the text cannot be normalized: {}", utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(made), static_cast<std::size_t>(size)};
}

void Normalizer::add_form(Form form) {
  steps_.emplace_back([form](std::string& text, std::size_t) {
    if (!is_ascii(text)) text = normal_form(form, text);
  });
}

void Normalizer::add_prepend(std::string prefix) {
  check_text(prefix);
  steps_.emplace_back([prefix = std::move(prefix)](std::string& text, std::size_t) {
    if (!text.empty()) text.insert(0, prefix);
  });
}

void Normalizer::add_replace(std::string from, std::string to) {
  check(!from.empty(), "a normalizer replaces a text of no bytes");
  check_text(to);
  steps_.emplace_back(
      [from = std::move(from), to = std::move(to)](std::string& text, std::size_t before) {
        std::string made;
        made.reserve(text.size() + text.size() / 2);
        std::size_t done = 0;
        for (std::size_t at; (at = text.find(from, done)) != text.npos; done = at + from.size()) {
          made.append(text, done, at - done).append(to);
          check_growth(made.size(), before);
        }
        text = made.append(text, done);
      });
}

void Normalizer::add_replace(SplitRegex from, std::string to) {
  check_text(to);
  steps_.emplace_back(
      [from = std::move(from), to = std::move(to)](std::string& text, std::size_t before) {
        std::string made;
        std::size_t done = 0;
        from.each_match(text, [&](std::size_t begin, std::size_t end) {
          made.append(text, done, begin - done).append(to);
          done = end;
          check_growth(made.size(), before);
        });
        text = made.append(text, done);
      });
}

void Normalizer::add_strip(bool left, bool right) {
  steps_.emplace_back([left, right](std::string& text, std::size_t) {
    text = std::string(without_white_space(text, left, right));
  });
}

void Normalizer::add_strip_accents() {
  steps_.emplace_back([](std::string& text, std::size_t) { each_character(text, without_accent); });
}

void Normalizer::add_lowercase() {
  steps_.emplace_back([](std::string& text, std::size_t) { each_character(text, lowercase); });
}

void Normalizer::add_charsmap(Charsmap charsmap) {
  steps_.emplace_back([charsmap = std::move(charsmap)](std::string& text, std::size_t) {
    text = charsmap.by_clusters(text);
  });
}

std::string Normalizer::operator()(std::string_view text) const {
  std::string made(text);
  for (const Step& step : steps_) {
    step(made, text.size());
    check_growth(made.size(), text.size());
  }
  return made;
}

}  // namespace tapegrad::data
