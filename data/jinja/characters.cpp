#include "tapegrad/data/jinja/internal/characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "tapegrad/base/text/utf8.h"

namespace tapegrad::data::jinja {
namespace {

std::int32_t code(char32_t c) { return static_cast<std::int32_t>(c); }

// Calls f(code point, its bytes); the code point of a byte that is no UTF-8 is 0xFFFD.
template <class F>
void each_character(std::string_view text, const F& f) {
  count_reading(text);
  while (!text.empty()) {
    const Utf8Char c = first_char(text);
    const bool valid = c.kind == Utf8Char::Kind::valid;
    const std::size_t size = valid ? c.size : 1;
    f(valid ? c.code_point : char32_t{0xFFFD}, text.substr(0, size));
    text.remove_prefix(size);
  }
}

String utf8_of(std::int32_t c) {
  return String(std::string_view(to_utf8(static_cast<char32_t>(c))));
}

// Full case mappings that are more than one character, of those that occur outside of phonetics.
String upper_of(char32_t c) {
  if (c == 0xDF) return "SS";
  if (c >= 0xFB00 && c <= 0xFB06) {
    constexpr const char* kLigatures[] = {"FF", "FI", "FL", "FFI", "FFL", "ST", "ST"};
    return kLigatures[c - 0xFB00];
  }
  return utf8_of(utf8proc_toupper(code(c)));
}
String lower_of(char32_t c) {
  if (c == 0x130) return "i\u0307";
  return utf8_of(utf8proc_tolower(code(c)));
}
String title_of(char32_t c) {
  if (c == 0xDF) return "Ss";
  if (c >= 0xFB00 && c <= 0xFB06) {
    constexpr const char* kLigatures[] = {"Ff", "Fi", "Fl", "Ffi", "Ffl", "St", "St"};
    return kLigatures[c - 0xFB00];
  }
  return utf8_of(utf8proc_totitle(code(c)));
}

// Unicode's property Cased: letters of a case, and what looks like one.
bool is_cased(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kOthers[] = {
      {0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},     {0x2C0, 0x2C1},
      {0x2E0, 0x2E4},     {0x37A, 0x37A},     {0x1D2C, 0x1D6A},   {0x1D78, 0x1D78},
      {0x1D9B, 0x1DBF},   {0x2071, 0x2071},   {0x207F, 0x207F},   {0x2090, 0x209C},
      {0x2C7C, 0x2C7D},   {0xA69C, 0xA69D},   {0xA770, 0xA770},   {0xA7F8, 0xA7F9},
      {0xAB5C, 0xAB5F},   {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107B0},
      {0x107B2, 0x107BA}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
  const auto category = utf8proc_category(code(c));
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LT) ||
         utf8proc_tolower(code(c)) != code(c) || utf8proc_toupper(code(c)) != code(c) ||
         std::any_of(std::begin(kOthers), std::end(kOthers),
                     [&](const auto& range) { return c >= range.first && c <= range.second; });
}
bool is_letter(char32_t c) {
  const auto category = utf8proc_category(code(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

template <class F>
String mapped(std::string_view text, const F& f) {
  count_steps(text.size() / 4);  // f looks into tables, and makes a text
  String made;
  made.reserve(text.size());
  each_character(text, [&](char32_t c, std::string_view bytes) {
    const String other = f(c);
    made += c == 0xFFFD ? String(bytes) : other;  // bytes that are no UTF-8 stay
  });
  return made;
}

// A sigma at the end of a word has a form of its own.
String with_final_sigmas(String text) {
  const std::string_view sigma = "σ", last = "ς";
  if (text.find(sigma) == text.npos) return text;
  bool behind_letter = false;
  std::size_t at = 0;
  each_character(String(text), [&](char32_t c, std::string_view bytes) {
    const std::string_view rest = std::string_view(text).substr(at + bytes.size());
    const bool ends = rest.empty() || !is_letter(first_char(rest).code_point);
    if (bytes == sigma && behind_letter && ends) text.replace(at, sigma.size(), last);
    behind_letter = is_letter(c);
    at += bytes.size();
  });
  return text;
}

bool is_line_end(char32_t c) {
  return (c >= 0xA && c <= 0xD) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

}  // namespace

std::size_t character_count(std::string_view text) {
  std::size_t count = 0;
  each_character(text, [&](char32_t, std::string_view) { ++count; });
  return count;
}

Vector<std::string_view> characters_of(std::string_view text) {
  Vector<std::string_view> characters;
  characters.reserve(character_count(text));
  each_character(text, [&](char32_t, std::string_view bytes) { characters.push_back(bytes); });
  return characters;
}

std::size_t byte_of(std::string_view text, std::size_t character) {
  count_steps(std::min(character, text.size()) / 16);
  std::size_t at = 0;
  for (; character > 0 && at < text.size(); --character) {
    const Utf8Char c = first_char(text.substr(at));
    at += c.kind == Utf8Char::Kind::valid ? c.size : 1;
  }
  return at;
}

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

Vector<std::string_view> words_of(std::string_view text) {
  Vector<std::string_view> words;
  std::size_t begin = 0, at = 0;
  const auto end_word = [&] {
    if (at > begin) words.push_back(text.substr(begin, at - begin));
  };
  each_character(text, [&](char32_t c, std::string_view bytes) {
    if (is_space(c)) {
      end_word();
      begin = at + bytes.size();
    }
    at += bytes.size();
  });
  end_word();
  return words;
}

Vector<std::string_view> lines_of(std::string_view text) {
  Vector<std::string_view> lines;
  std::size_t ends = 0;
  each_character(text, [&](char32_t c, std::string_view) { ends += is_line_end(c) ? 1 : 0; });
  lines.reserve(ends + 1);
  std::size_t begin = 0, at = 0;
  char32_t before = 0;
  each_character(text, [&](char32_t c, std::string_view bytes) {
    at += bytes.size();
    if (c == '\n' && before == '\r') {  // the second half of an end
      begin = at;
    } else if (is_line_end(c)) {
      lines.push_back(text.substr(begin, at - begin - bytes.size()));
      begin = at;
    }
    before = c;
  });
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string_view strip_left(std::string_view text) {
  for (std::size_t passed = 1; !text.empty(); ++passed) {
    if (passed % 16 == 0) count_steps(1);
    const Utf8Char c = first_char(text);
    if (c.kind != Utf8Char::Kind::valid || !is_space(c.code_point)) break;
    text.remove_prefix(c.size);
  }
  return text;
}

namespace {
// The last character's bytes.
std::string_view last_character(std::string_view text) {
  std::size_t size = 1;
  while (size < text.size() && size < 4 &&
         (static_cast<unsigned char>(text[text.size() - size]) & 0xC0) == 0x80) {
    ++size;
  }
  const std::string_view last = text.substr(text.size() - size);
  const Utf8Char c = first_char(last);
  return c.kind == Utf8Char::Kind::valid && c.size == size ? last : text.substr(text.size() - 1);
}
}  // namespace

std::string_view strip_right(std::string_view text) {
  for (std::size_t passed = 1; !text.empty(); ++passed) {
    if (passed % 16 == 0) count_steps(1);
    const std::string_view last = last_character(text);
    const Utf8Char c = first_char(last);
    if (c.kind != Utf8Char::Kind::valid || !is_space(c.code_point)) break;
    text.remove_suffix(last.size());
  }
  return text;
}

std::string_view strip_left(std::string_view text, std::string_view chars) {
  const auto any = characters_of(chars);
  while (!text.empty()) {
    count_steps(1 + any.size() / 16);
    const std::string_view first = text.substr(0, byte_of(text, 1));
    if (std::find(any.begin(), any.end(), first) == any.end()) break;
    text.remove_prefix(first.size());
  }
  return text;
}

std::string_view strip_right(std::string_view text, std::string_view chars) {
  const auto any = characters_of(chars);
  while (!text.empty()) {
    count_steps(1 + any.size() / 16);
    const std::string_view last = last_character(text);
    if (std::find(any.begin(), any.end(), last) == any.end()) break;
    text.remove_suffix(last.size());
  }
  return text;
}

String upper(std::string_view text) { return mapped(text, upper_of); }
String lower(std::string_view text) { return with_final_sigmas(mapped(text, lower_of)); }

String capitalize(std::string_view text) {
  const std::size_t first = byte_of(text, 1);
  return mapped(text.substr(0, first), title_of) + lower(text.substr(first));
}

String title(std::string_view text) {
  bool inside = false;  // a word
  return with_final_sigmas(mapped(text, [&](char32_t c) {
    const bool was_inside = inside;
    inside = is_cased(c);
    return was_inside ? lower_of(c) : title_of(c);
  }));
}

bool is_printable(char32_t c) {
  switch (utf8proc_category(code(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
      return c == ' ';
    default:
      return true;
  }
}

bool is_word(char32_t c) {
  const auto category = utf8proc_category(code(c));
  return c == '_' || is_letter(c) || category == UTF8PROC_CATEGORY_ND ||
         category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

}  // namespace tapegrad::data::jinja
