#include <algorithm>

#include "tapegrad/data/jinja/arguments.h"
#include "tapegrad/data/jinja/characters.h"
#include "tapegrad/data/jinja/operators.h"
#include "tapegrad/data/jinja/python_text.h"

// The methods of str, but those that cut it.

namespace tapegrad::data::jinja {
namespace {

using View = std::string_view;

const std::string& text_of(const Value& self) { return *self.text(); }

template <std::string (*F)(View)>
Value map_text(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "str method", {});
  return run.text(F(text_of(self)), self.is_markup());
}

template <CharacterTest test>
Value ask_text(Run&, const Value& self, const Arguments& arguments) {
  const Parameters none(arguments, "str method", {});
  return Value(all_are(text_of(self), test));
}

Value is_upper_text(Run&, const Value& self, const Arguments&) {
  return Value(is_cased_upper(text_of(self)));
}
Value is_lower_text(Run&, const Value& self, const Arguments&) {
  return Value(is_cased_lower(text_of(self)));
}
Value strip(Run& run, const Value& self, const Arguments& arguments, bool left, bool right) {
  const Parameters given(arguments, "strip", {"chars"});
  View text = text_of(self);
  const bool space = given[0].is_none();
  run.step(text.size() / 64);
  if (left) text = space ? strip_left(text) : strip_left(text, given.text(0));
  if (right) text = space ? strip_right(text) : strip_right(text, given.text(0));
  return run.text(std::string(text), self.is_markup());
}
Value strip_both(Run& run, const Value& self, const Arguments& arguments) {
  return strip(run, self, arguments, true, true);
}
Value strip_begin(Run& run, const Value& self, const Arguments& arguments) {
  return strip(run, self, arguments, true, false);
}
Value strip_end(Run& run, const Value& self, const Arguments& arguments) {
  return strip(run, self, arguments, false, true);
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

Value has_affix(const Value& self, const Arguments& arguments, bool at_end) {
  const Parameters given(arguments, at_end ? "endswith" : "startswith", {"affix", "start", "end"},
                         1);
  const View text = arguments.positional.size() + arguments.named.size() == 1
                        ? View(text_of(self))
                        : part(text_of(self), given, 1);
  const auto fits = [&](const Value& affix) {
    if (!affix.is_text()) {
      if (const Undefined* undefined = affix.undefined()) throw TemplateError(undefined->message);
      raise("{} first arg must be str or a tuple of str, not {}",
            at_end ? "endswith" : "startswith", type_name(affix));
    }
    return at_end ? text.ends_with(*affix.text()) : text.starts_with(*affix.text());
  };
  const Sequence* several = given[0].sequence();
  if (several == nullptr || several->kind != SequenceKind::tuple) return Value(fits(given[0]));
  return Value(std::any_of(several->items.begin(), several->items.end(), fits));
}
Value starts_with(Run&, const Value& self, const Arguments& arguments) {
  return has_affix(self, arguments, false);
}
Value ends_with(Run&, const Value& self, const Arguments& arguments) {
  return has_affix(self, arguments, true);
}

std::int64_t place(Run& run, const Value& self, const Arguments& arguments, bool from_right) {
  const Parameters given(arguments, "find", {"sub", "start", "end"}, 1);
  const View text = text_of(self), where = part(text, given, 1);
  run.step(text.size() / 64);
  const std::size_t at = from_right ? where.rfind(given.text(0)) : where.find(given.text(0));
  if (at == where.npos) return -1;
  return static_cast<std::int64_t>(
      character_count(text.substr(0, static_cast<std::size_t>(where.data() - text.data()) + at)));
}
Value find_left(Run& run, const Value& self, const Arguments& arguments) {
  return Value(place(run, self, arguments, false));
}
Value find_right(Run& run, const Value& self, const Arguments& arguments) {
  return Value(place(run, self, arguments, true));
}
Value index(Run& run, const Value& self, const Arguments& arguments) {
  const std::int64_t at = place(run, self, arguments, false);
  if (at < 0) raise("substring not found");
  return Value(at);
}
Value index_right(Run& run, const Value& self, const Arguments& arguments) {
  const std::int64_t at = place(run, self, arguments, true);
  if (at < 0) raise("substring not found");
  return Value(at);
}
Value count(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "count", {"sub", "start", "end"}, 1);
  const View text = part(text_of(self), given, 1), sub = given.text(0);
  run.step(text.size() / 64);
  if (sub.empty()) return Value(static_cast<std::int64_t>(character_count(text)) + 1);
  std::int64_t found = 0;
  for (std::size_t at = text.find(sub); at != text.npos; at = text.find(sub, at + sub.size()))
    ++found;
  return Value(found);
}

Value replace(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "replace", {"old", "new", "count"}, 2);
  const std::string_view old = given.text(0), with = given.text(1);
  if (!self.is_markup()) return replaced(run, text_of(self), old, with, given.integer(2, -1));
  const std::string escaped_with = escaped(run, given[1]);
  const Value made = replaced(run, text_of(self), old, escaped_with, given.integer(2, -1));
  return Value(*made.text(), true);
}
Value remove_prefix(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "removeprefix", {"prefix"}, 1);
  View text = text_of(self);
  if (text.starts_with(given.text(0))) text.remove_prefix(given.text(0).size());
  return run.text(std::string(text));
}
Value remove_suffix(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "removesuffix", {"suffix"}, 1);
  View text = text_of(self);
  if (text.ends_with(given.text(0))) text.remove_suffix(given.text(0).size());
  return run.text(std::string(text));
}

Value join(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "join", {"iterable"}, 1);
  std::string made;
  const SequenceRef items = items_of(run, given[0]);
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    const std::string* item = items->items[i].text();
    if (item == nullptr) {
      raise("sequence item {}: expected str instance, {} found", i, type_name(items->items[i]));
    }
    run.will_make(item->size() + text_of(self).size());
    if (i > 0) made += text_of(self);
    made += *item;
  }
  return Value(std::move(made));
}

// Blanks, or `fill`, to the left and right until the text is so wide.
Value aligned(Run& run, const Value& self, const Arguments& arguments, int where) {
  const Parameters given(arguments, "justify", {"width", "fillchar"}, 1);
  const auto size = static_cast<std::int64_t>(character_count(text_of(self)));
  const std::string_view fill = given.text(1, " ");
  if (character_count(fill) != 1) raise("The fill character must be exactly one character long");
  const std::int64_t more = std::max<std::int64_t>(given.integer(0, 0) - size, 0);
  run.will_make(text_of(self).size() + static_cast<std::size_t>(more) * fill.size());
  // Of an odd number, Python puts the one more to the left if the width is odd.
  const std::int64_t left = where < 0   ? 0
                            : where > 0 ? more
                                        : more / 2 + (more & given.integer(0, 0) & 1);
  std::string made;
  for (std::int64_t i = 0; i < left; ++i) made += fill;
  made += text_of(self);
  for (std::int64_t i = left; i < more; ++i) made += fill;
  return Value(std::move(made));
}
Value align_left(Run& run, const Value& self, const Arguments& arguments) {
  return aligned(run, self, arguments, -1);
}
Value align_right(Run& run, const Value& self, const Arguments& arguments) {
  return aligned(run, self, arguments, 1);
}
Value align_center(Run& run, const Value& self, const Arguments& arguments) {
  return aligned(run, self, arguments, 0);
}
Value zero_fill(Run& run, const Value& self, const Arguments& arguments) {
  const Parameters given(arguments, "zfill", {"width"}, 1);
  const std::string& text = text_of(self);
  const std::size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const auto size = static_cast<std::int64_t>(character_count(text));
  const auto more = static_cast<std::size_t>(std::max<std::int64_t>(given.integer(0, 0) - size, 0));
  run.will_make(text.size() + more);
  return Value(text.substr(0, sign) + std::string(more, '0') + text.substr(sign));
}
Value format(Run& run, const Value& self, const Arguments& arguments) {
  return run.text(brace_format(run, text_of(self), arguments));
}

constexpr NamedFunction kMethods[] = {{"strip", strip_both},
                                      {"lstrip", strip_begin},
                                      {"rstrip", strip_end},
                                      {"startswith", starts_with},
                                      {"endswith", ends_with},
                                      {"replace", replace},
                                      {"upper", map_text<upper>},
                                      {"lower", map_text<lower>},
                                      {"casefold", map_text<lower>},
                                      {"capitalize", map_text<capitalize>},
                                      {"title", map_text<title>},
                                      {"join", join},
                                      {"find", find_left},
                                      {"rfind", find_right},
                                      {"index", index},
                                      {"rindex", index_right},
                                      {"count", count},
                                      {"removeprefix", remove_prefix},
                                      {"removesuffix", remove_suffix},
                                      {"format", format},
                                      {"ljust", align_left},
                                      {"rjust", align_right},
                                      {"center", align_center},
                                      {"zfill", zero_fill},
                                      {"isalpha", ask_text<CharacterTest::alpha>},
                                      {"isdigit", ask_text<CharacterTest::digit>},
                                      {"isdecimal", ask_text<CharacterTest::decimal>},
                                      {"isnumeric", ask_text<CharacterTest::numeric>},
                                      {"isalnum", ask_text<CharacterTest::alnum>},
                                      {"isspace", ask_text<CharacterTest::space>},
                                      {"isascii", ask_text<CharacterTest::ascii>},
                                      {"isprintable", ask_text<CharacterTest::printable>},
                                      {"isupper", is_upper_text},
                                      {"islower", is_lower_text}};

}  // namespace

Value replaced(Run& run, View text, View old, View with, std::int64_t most) {
  run.step(text.size() / 64);
  std::string made;
  const auto add = [&](View bytes) {
    run.will_make(bytes.size());
    made += bytes;
  };
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
