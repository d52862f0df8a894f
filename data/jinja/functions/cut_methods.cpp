#include <algorithm>

#include "tapegrad/data/jinja/internal/arguments.h"
#include "tapegrad/data/jinja/internal/characters.h"
#include "tapegrad/data/jinja/internal/operators.h"

// The methods of str that cut it.

namespace tapegrad::data::jinja {
namespace {

Values split_at_spaces(std::string_view text, std::int64_t most, bool from_right) {
  Values parts;
  text = from_right ? strip_right(text) : strip_left(text);
  Vector<std::string_view> words = words_of(text);
  const auto count = static_cast<std::int64_t>(words.size());
  if (most < 0 || count <= most) {
    for (const std::string_view word : words) parts.emplace_back(word);
    return parts;
  }
  const auto kept = static_cast<std::size_t>(most);
  if (from_right) {
    const std::string_view last = words[words.size() - kept - 1];
    parts.emplace_back(strip_right(std::string_view(
        text.data(), static_cast<std::size_t>(last.data() + last.size() - text.data()))));
    for (std::size_t i = words.size() - kept; i < words.size(); ++i) parts.emplace_back(words[i]);
    return parts;
  }
  for (std::size_t i = 0; i < kept; ++i) parts.emplace_back(words[i]);
  parts.emplace_back(text.substr(static_cast<std::size_t>(words[kept].data() - text.data())));
  return parts;
}

Values split_at(std::string_view text, std::string_view separator, std::int64_t most,
                bool from_right) {
  if (separator.empty()) raise("empty separator");
  Values parts;
  while (most != 0) {
    const std::size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == text.npos) break;
    const std::string_view before = text.substr(0, at), behind = text.substr(at + separator.size());
    parts.emplace_back(from_right ? behind : before);
    text = from_right ? before : behind;
    if (most > 0) --most;
  }
  parts.emplace_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

Value split(const Value& self, const Arguments& arguments, bool from_right) {
  const Parameters given(arguments, "split", {"sep", "maxsplit"});
  const String& text = *self.text();
  const std::int64_t most = given.integer(1, -1);
  count_search(text, given[0].is_none() ? "" : given.text(0));
  Values parts = given[0].is_none() ? split_at_spaces(text, most, from_right)
                                    : split_at(text, given.text(0), most, from_right);
  return list_of(std::move(parts));
}
Value split_left(Run&, const Value& self, const Arguments& arguments) {
  return split(self, arguments, false);
}
Value split_right(Run&, const Value& self, const Arguments& arguments) {
  return split(self, arguments, true);
}
Value split_lines(Run&, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "splitlines", {"keepends"});
  Values lines;
  for (const std::string_view line : lines_of(*self.text(), given.flag(0, false)))
    lines.emplace_back(line);
  return list_of(std::move(lines));
}

constexpr NamedFunction kCutMethods[] = {
    {"split", split_left}, {"rsplit", split_right}, {"splitlines", split_lines}};

}  // namespace

std::span<const NamedFunction> cut_methods() { return kCutMethods; }

}  // namespace tapegrad::data::jinja
