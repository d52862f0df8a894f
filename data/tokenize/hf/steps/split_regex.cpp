#include "tapegrad/data/tokenize/hf/steps/split_regex.h"

#include <string>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tapegrad/base/error.h"

namespace tapegrad::data {

namespace {

// Unicode's White_Space, which Oniguruma's \s is. PCRE2's has U+180E, too.
constexpr std::string_view kSpaces =
    "\\x09-\\x0D\\x20\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}"
    "\\x{3000}";

// Writes a pattern as PCRE2 reads it in the same sense, or fails.
class Translation {
 public:
  explicit Translation(std::string_view pattern) : rest_(pattern) {
    if (pattern.find("(?i:") != std::string_view::npos) check_case(pattern);
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (c == '\\') {
        escape();
      } else if (in_class_) {
        in_class();
      } else {
        outside();
      }
    }
  }
  const std::string& text() const { return text_; }

 private:
  void copy(std::size_t size) {
    text_ += rest_.substr(0, size);
    rest_.remove_prefix(size);
  }
  void replace(std::size_t size, std::string_view by) {
    text_ += by;
    rest_.remove_prefix(size);
  }
  [[noreturn]] static void refuse(std::string_view what) {
    fail("'{}' in a regular expression is not supported", what);
  }

  // Without regard to case, Oniguruma takes some letters for two others: ﬁ for fi, ß for ss.
  static void check_case(std::string_view pattern) {
    std::string lower(pattern);
    for (char& c : lower) {
      if (static_cast<unsigned char>(c) >= 0x80) refuse("a letter beyond ASCII with (?i:");
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    for (const std::string_view pair : {"ff", "fi", "fl", "ss", "st"}) {
      if (lower.find(pair) != std::string::npos) refuse(fmt::format("{} with (?i:", pair));
    }
  }

  void escape() {
    const char c = rest_.size() > 1 ? rest_[1] : '\0';
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool is_digit = c >= '0' && c <= '9';
    if (c == 's') {
      replace(2, in_class_ ? std::string(kSpaces) : fmt::format("[{}]", kSpaces));
    } else if (c == 'S' && !in_class_) {
      replace(2, fmt::format("[^{}]", kSpaces));
    } else if (c == 'p' || c == 'P') {
      property();
    } else if (c == 'r' || c == 'n' || c == 't' || c == 'd' ||
               !(is_letter || is_digit || c == '\0')) {
      copy(2);
    } else {
      refuse(rest_.substr(0, 2));
    }
  }

  // A general category such as \p{L} or \p{Lu}. PCRE2 reads names of scripts in a wider sense.
  void property() {
    const std::size_t end = rest_.find('}');
    const std::string_view all = rest_.substr(0, end == std::string_view::npos ? 2 : end + 1);
    const std::string_view name = all.size() > 3 ? all.substr(3, all.size() - 4) : "";
    constexpr std::string_view classes = "LMNPSZC";
    const bool is_category = all.size() > 3 && all[2] == '{' &&
                             (name.size() == 1 || name.size() == 2) &&
                             classes.find(name[0]) != std::string_view::npos &&
                             (name.size() == 1 || (name[1] >= 'a' && name[1] <= 'z'));
    if (!is_category) refuse(all);
    copy(all.size());
  }

  void in_class() {
    if (rest_.starts_with("[") || rest_.starts_with("&&")) refuse(rest_.substr(0, 2));
    in_class_ = rest_.front() != ']';
    copy(1);
  }

  void outside() {
    if (rest_.starts_with("(?")) {
      for (const std::string_view group : {"(?:", "(?i:", "(?!", "(?=", "(?<!", "(?<="}) {
        if (rest_.starts_with(group)) return copy(group.size());
      }
      refuse(rest_.substr(0, 4));
    }
    if (rest_.starts_with("(*") || rest_.front() == '^' || rest_.front() == '$') {
      refuse(rest_.substr(0, rest_.front() == '(' ? 2 : 1));
    }
    // {n,m}+ and {n}? repeat in the one library what they make greedy or not in the other, and
    // {,m} is an interval in some of their versions.
    for (const std::string_view part : {"}+", "}?", "{,"}) {
      if (rest_.starts_with(part)) refuse(part);
    }
    if (rest_.front() == '[') {
      in_class_ = true;
      copy(rest_.starts_with("[^") ? 2 : 1);
      if (rest_.starts_with("]")) refuse("[]");
      return;
    }
    copy(1);
  }

  std::string_view rest_;
  std::string text_;
  bool in_class_ = false;
};

std::string message_of(int error) {
  unsigned char text[256] = {};
  pcre2_get_error_message(error, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

const pcre2_code* code_of(const std::shared_ptr<const void>& code) {
  return static_cast<const pcre2_code*>(code.get());
}

}  // namespace

SplitRegex::SplitRegex(std::string_view pattern) {
  check(pattern.size() <= kMostBytes,
        "a regular expression of {} bytes is too long; {} are the most", pattern.size(),
        +kMostBytes);
  const std::string translated = Translation(pattern).text();
  int error = 0;
  PCRE2_SIZE place = 0;
  pcre2_code* code =
      pcre2_compile(units(translated), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &place, nullptr);
  check(code != nullptr, "the regular expression '{}' is not usable: {}", pattern,
        message_of(error));
  code_ = std::shared_ptr<const void>(
      code, [](const void* c) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(c))); });
  std::uint32_t matches_empty = 0;
  pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &matches_empty);
  check(matches_empty == 0, "the regular expression '{}' matches where there is no text", pattern);
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without a JIT, matching is slower
}

void SplitRegex::each_match(
    std::string_view text,
    const std::function<void(std::size_t begin, std::size_t end)>& found) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  check(data != nullptr, "[tokenizer] no memory for a regular expression");
  for (std::size_t at = 0; at < text.size();) {
    int count = pcre2_match(code_of(code_), units(text), text.size(), at, PCRE2_NO_UTF_CHECK,
                            data.get(), nullptr);
    // The interpreter keeps what a long match needs in the heap, where the JIT has a small stack.
    if (count == PCRE2_ERROR_JIT_STACKLIMIT) {
      count = pcre2_match(code_of(code_), units(text), text.size(), at,
                          PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data.get(), nullptr);
    }
    if (count == PCRE2_ERROR_NOMATCH) return;
    check(count >= 0, "[tokenizer] the text cannot be cut by its regular expression: {}",
          message_of(count));
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(data.get());
    found(span[0], span[1]);
    at = span[1];
  }
}

}  // namespace tapegrad::data
