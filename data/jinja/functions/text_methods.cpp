#include <algorithm>

#include "tapegrad/data/jinja/internal/arguments.h"
#include "tapegrad/data/jinja/internal/characters.h"
#include "tapegrad/data/jinja/internal/operators.h"
#include "tapegrad/data/jinja/internal/python_text.h"

// The methods of str.

namespace tapegrad::data::jinja {
namespace {

using View = std::string_view;

const String& text_of(const Value& self) { return *self.text(); }

template <String (*F)(View)>
Value map_text(Run&, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "str method", {});
  return Value(F(text_of(self)), self.is_markup());
}

Value strip(const Value& self, const Arguments& arguments, bool left, bool right) {
  const Parameters given(arguments, "strip", {"chars"});
  const View text = text_of(self);
  return Value(String(given[0].is_none() ? stripped(text, left, right)
                                         : stripped(text, given.text(0), left, right)),
               self.is_markup());
}
Value strip_both(Run&, const Value& self, const Arguments& arguments) {
  return strip(self, arguments, true, true);
}
Value strip_begin(Run&, const Value& self, const Arguments& arguments) {
  return strip(self, arguments, true, false);
}
Value strip_end(Run&, const Value& self, const Arguments& arguments) {
  return strip(self, arguments, false, true);
}

// A part of a text by characters, as the arguments start and end of methods have it.
View part(View text, const Parameters& given, std::size_t start) {
  const auto count = static_cast<std::int64_t>(character_count(text));
  const auto clipped = [&](std::size_t i, std::int64_t otherwise) {
    const std::int64_t at = given[i].is_none() ? otherwise : given.integer(i, otherwise);
    return std::clamp(at < 0 ? std::max(at, -count) + count : at, std::int64_t{0}, count);
  };
  const std::int64_t begin = clipped(start, 0), end = clipped(start + 1, count);
  const std::size_t from = byte_of(text, static_cast<std::size_t>(begin));
  if (end <= begin) return text.substr(from, 0);
  return text.substr(from, byte_of(text.substr(from), static_cast<std::size_t>(end - begin)));
}

Value has_affix(Run& run, const Value& self, const Arguments& arguments, bool at_end) {
  const Parameters given(arguments, at_end ? "endswith" : "startswith", {"affix", "start", "end"},
                         1);
  const View text = arguments.positional.size() + arguments.named.size() == 1
                        ? View(text_of(self))
                        : part(text_of(self), given, 1);
  const auto fits = [&](const Value& affix) {
    run.step(affix.weight());
    if (!affix.is_text()) {
      if (const Undefined* undefined = affix.undefined()) raise(*undefined);
      raise("{} first arg must be str or a tuple of str, not {}",
            at_end ? "endswith" : "startswith", type_name(affix));
    }
    return at_end ? text.ends_with(*affix.text()) : text.starts_with(*affix.text());
  };
  const Sequence* several = given[0].sequence();
  if (several == nullptr || several->kind != SequenceKind::tuple) return Value(fits(given[0]));
  return Value(std::any_of(several->items.begin(), several->items.end(), fits));
}
Value starts_with(Run& run, const Value& self, const Arguments& arguments) {
  return has_affix(run, self, arguments, false);
}
Value ends_with(Run& run, const Value& self, const Arguments& arguments) {
  return has_affix(run, self, arguments, true);
}

Value find(Run&, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "find", {"sub", "start", "end"}, 1);
  const View text = text_of(self), where = part(text, given, 1);
  count_search(where, given.text(0));
  const std::size_t at = where.find(given.text(0));
  if (at == where.npos) return Value(std::int64_t{-1});
  const std::size_t begin = static_cast<std::size_t>(where.data() - text.data()) + at;
  return Value(static_cast<std::int64_t>(character_count(text.substr(0, begin))));
}
Value count(Run&, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "count", {"sub", "start", "end"}, 1);
  const View text = part(text_of(self), given, 1), sub = given.text(0);
  count_search(text, sub);
  if (sub.empty()) return Value(static_cast<std::int64_t>(character_count(text)) + 1);
  std::int64_t found = 0;
  for (std::size_t at = text.find(sub); at != text.npos; at = text.find(sub, at + sub.size()))
    ++found;
  return Value(found);
}

Value replace(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "replace", {"old", "new", "count"}, 2);
  const std::string_view old = given.text(0), with = given.text(1);
  if (!self.is_markup()) return replaced(text_of(self), old, with, given.integer(2, -1));
  const String escaped_with = escaped(run, given[1]);
  const Value made = replaced(text_of(self), old, escaped_with, given.integer(2, -1));
  return Value(*made.text(), true);
}
Values split_at_spaces(View text, std::int64_t most) {
  Values parts;
  text = strip_left(text);
  for (const View word : words_of(text)) {
    if (most >= 0 && static_cast<std::int64_t>(parts.size()) == most) {
      parts.emplace_back(text.substr(static_cast<std::size_t>(word.data() - text.data())));
      break;
    }
    parts.emplace_back(word);
  }
  return parts;
}
Values split_at(View text, View separator, std::int64_t most) {
  if (separator.empty()) raise("empty separator");
  Values parts;
  for (std::size_t at; most != 0 && (at = text.find(separator)) != text.npos;) {
    parts.emplace_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
    if (most > 0) --most;
  }
  parts.emplace_back(text);
  return parts;
}
Value split(Run&, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "split", {"sep", "maxsplit"});
  const View text = text_of(self);
  const std::int64_t most = given.integer(1, -1);
  if (given[0].is_none()) return list_of(split_at_spaces(text, most));
  count_search(text, given.text(0));
  return list_of(split_at(text, given.text(0), most));
}

// "{}".format(…): fields without a name, number or specification are all that templates use.
Value format(Run& run, const Value& self, const Arguments& arguments) {
  String made;
  std::size_t used = 0;
  const auto add = [&](View bytes) { made += bytes; };
  View rest = text_of(self);
  for (std::size_t brace; (brace = rest.find_first_of("{}")) != rest.npos; rest.remove_prefix(2)) {
    run.step();
    add(rest.substr(0, brace));
    rest.remove_prefix(brace);
    if (rest.starts_with("{{") || rest.starts_with("}}")) {
      add(rest.substr(0, 1));
    } else if (!rest.starts_with("{}")) {
      raise("format of texts has only {{}} here, and no other fields");
    } else if (used == arguments.positional.size()) {
      raise("Replacement index {} out of range for positional args tuple", used);
    } else {
      const Value& value = arguments.positional[used++];
      add(self.is_markup() ? escaped(run, value) : str(run, value));
    }
  }
  add(rest);
  return Value(std::move(made), self.is_markup());
}

constexpr NamedFunction kMethods[] = {{"strip", strip_both},
                                      {"lstrip", strip_begin},
                                      {"rstrip", strip_end},
                                      {"startswith", starts_with},
                                      {"endswith", ends_with},
                                      {"replace", replace},
                                      {"upper", map_text<upper>},
                                      {"lower", map_text<lower>},
                                      {"capitalize", map_text<capitalize>},
                                      {"title", map_text<title>},
                                      {"split", split},
                                      {"format", format},
                                      {"find", find},
                                      {"count", count}};

}  // namespace

View stripped(View text, bool left, bool right) {
  if (left) text = strip_left(text);
  return right ? strip_right(text) : text;
}

View stripped(View text, View chars, bool left, bool right) {
  if (left) text = strip_left(text, chars);
  return right ? strip_right(text, chars) : text;
}

Value replaced(View text, View old, View with, std::int64_t most) {
  count_search(text, old);
  String made;
  const auto add = [&](View bytes) { made += bytes; };
  if (old.empty()) {  // between all characters, and around them
    for (const View c : characters_of(text)) {
      if (most != 0) add(with);
      if (most > 0) --most;
      add(c);
    }
    if (most != 0) add(with);
    return Value(std::move(made));
  }
  std::size_t at = 0;
  for (std::size_t found = text.find(old); found != text.npos && most != 0;
       found = text.find(old, at)) {
    add(text.substr(at, found - at));
    add(with);
    at = found + old.size();
    if (most > 0) --most;
  }
  add(text.substr(at));
  return Value(std::move(made));
}

std::span<const NamedFunction> text_methods() { return kMethods; }

}  // namespace tapegrad::data::jinja
