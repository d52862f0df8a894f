#include "tapegrad/data/tokenize/sentencepiece/text_rules.h"

#include "tapegrad/base/text/utf8.h"

namespace tapegrad::data {

namespace {

constexpr std::string_view kSpaceMark = "▁";

}  // namespace

Charsmap::Rule TextRules::first_rule(std::string_view text) const {
  if (const std::size_t size = symbols.longest(text).size; size > 0) {
    return {size, text.substr(0, size)};
  }
  if (charsmap) {
    if (const auto rule = charsmap->longest(text)) return *rule;
  }
  const std::size_t size = first_char(text).size;
  return {size, text.substr(0, size)};
}

std::string TextRules::operator()(std::string_view text, bool first) const {
  const auto drop_spaces = [&] {
    while (!text.empty()) {
      const Charsmap::Rule rule = first_rule(text);
      if (rule.text != " ") return;
      text.remove_prefix(rule.size);
    }
  };
  std::string made;
  made.reserve(text.size() + text.size() / 2);
  if (remove_extra_whitespaces) drop_spaces();
  if (text.empty()) return made;
  if (add_dummy_prefix && (first || !prefix_first)) made += kSpaceMark;
  bool behind_space = remove_extra_whitespaces;
  while (!text.empty()) {
    Charsmap::Rule rule = first_rule(text);
    text.remove_prefix(rule.size);
    while (behind_space && rule.text.starts_with(' ')) rule.text.remove_prefix(1);
    if (rule.text.empty()) continue;
    for (const char c : rule.text) c == ' ' ? made += kSpaceMark : made += c;
    behind_space = remove_extra_whitespaces && rule.text.ends_with(' ');
  }
  while (remove_extra_whitespaces && made.ends_with(kSpaceMark)) {
    made.resize(made.size() - kSpaceMark.size());
  }
  return made;
}

}  // namespace tapegrad::data
