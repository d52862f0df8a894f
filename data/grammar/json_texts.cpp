#include "tapegrad/data/grammar/internal/json_texts.h"

#include <algorithm>

#include "tapegrad/base/text/utf8.h"

namespace tapegrad::data {
namespace {

constexpr std::uint32_t kMostIndent = 32;
constexpr std::string_view kHex = "0123456789abcdefABCDEF";
constexpr std::string_view kDigits = "0123456789";

// The bytes from a text to another of equal length, at all places but the first of UTF-8.
Term bytes_between(ByteTerms& terms, std::string_view low, std::string_view high, bool at_low,
                   bool at_high) {
  if (low.empty()) return ByteTerms::kEmpty;
  const auto first = at_low ? static_cast<std::uint8_t>(low[0]) : std::uint8_t{0x80};
  const auto last = at_high ? static_cast<std::uint8_t>(high[0]) : std::uint8_t{0xBF};
  const auto rest = [&](bool stays_low, bool stays_high) {
    return bytes_between(terms, low.substr(1), high.substr(1), stays_low, stays_high);
  };
  if (first == last) return terms.sequence(terms.byte(first), rest(at_low, at_high));
  std::vector<Term> ways;
  const int from = first + (at_low ? 1 : 0), to = last - (at_high ? 1 : 0);
  if (at_low) ways.push_back(terms.sequence(terms.byte(first), rest(true, false)));
  if (from <= to) {
    ways.push_back(
        terms.sequence(terms.range(static_cast<std::uint8_t>(from), static_cast<std::uint8_t>(to)),
                       rest(false, false)));
  }
  if (at_high) ways.push_back(terms.sequence(terms.byte(last), rest(false, true)));
  return terms.either(std::move(ways));
}

}  // namespace

const CharRanges& all_chars() {
  static const CharRanges all = {{1, 0xD7FF}, {0xE000, 0x10FFFF}};
  return all;
}

JsonTexts::JsonTexts(ByteTerms& terms, const Writing& writing)
    : terms_(terms), notation_(writing.notation), quote_text_(writing.quote) {
  const bool gemma = notation_ == Notation::gemma, python = notation_ == Notation::python;
  quote_ = gemma ? writing.mark : terms.byte('"');
  const Term blank = terms.byte(' ');
  const Term line = terms.sequence(terms.byte('\n'), terms.repeat(blank, 0, kMostIndent));
  space_ = gemma ? ByteTerms::kEmpty : terms.either({ByteTerms::kEmpty, blank, line});
  colon_ = terms.sequence(terms.byte(':'), gemma ? ByteTerms::kEmpty : terms.optional(blank));
  comma_ = terms.sequence(terms.byte(','), space_);
  const Term escape =
      terms.sequence(terms.byte('\\'), terms.either({terms.one_of("\"\\/bfnrt"), escaped_units()}));
  CharRanges raw = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0xD7FF}, {0xE000, 0x10FFFF}};
  any_char_ =
      notation_ == Notation::json ? terms.either({char_of(raw), escape}) : char_of(all_chars());
  any_string_ = quoted(terms.repeat(gemma ? gemma_char() : any_char_, 0, ByteTerms::kEndless));
  const Term letter = terms.either({terms.range('a', 'z'), terms.range('A', 'Z'), terms.byte('_')});
  bare_key_ = terms.sequence(
      letter, terms.repeat(terms.either({letter, terms.range('0', '9')}), 0, ByteTerms::kEndless));
  // At most 15 digits: each is then a number of its own as a double, and finite.
  const Term digit = terms.one_of(kDigits);
  const Term whole = terms.either(
      {terms.byte('0'), terms.sequence(terms.range('1', '9'), terms.repeat(digit, 0, 14))});
  const Term fraction = terms.sequence(terms.byte('.'), terms.repeat(digit, 1, 15));
  const Term exponent = terms.sequence(
      {terms.one_of("eE"), terms.optional(terms.one_of("+-")), terms.repeat(digit, 1, 2)});
  number_ = terms.sequence(
      {terms.optional(terms.byte('-')), whole, terms.optional(fraction), terms.optional(exponent)});
  boolean_ =
      terms.either({terms.text(python ? "True" : "true"), terms.text(python ? "False" : "false")});
  null_ = terms.text(python ? "None" : "null");
}

// "uXXXX" of any character but U+0000, and both halves of a surrogate pair.
Term JsonTexts::escaped_units() {
  const Term hex = terms_.one_of(kHex), two = terms_.sequence(hex, hex);
  const Term d = terms_.one_of("dD");
  const Term not_zero = terms_.one_of("123456789abcdefABCDEF"), zero = terms_.byte('0');
  const Term low_digits =  // three digits that are not all 0
      terms_.either({terms_.sequence(not_zero, two), terms_.sequence({zero, not_zero, hex}),
                     terms_.sequence({zero, zero, not_zero})});
  const Term pair = terms_.sequence(
      {terms_.one_of("89abAB"), two, terms_.text("\\u"), d, terms_.one_of("cdefCDEF"), two});
  return terms_.sequence(
      terms_.byte('u'),
      terms_.either({terms_.sequence(zero, low_digits),
                     terms_.sequence({terms_.one_of("123456789abcABCefEF"), hex, two}),
                     terms_.sequence(
                         d, terms_.either({terms_.sequence(terms_.range('0', '7'), two), pair}))}));
}

Term JsonTexts::utf8(char32_t first, char32_t last) {
  std::vector<Term> ways;
  for (const CharRange& same_length :
       CharRanges{{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, 0x10FFFF}}) {
    const char32_t from = std::max(first, same_length.first);
    const char32_t to = std::min(last, same_length.last);
    if (from > to) continue;
    ways.push_back(bytes_between(terms_, to_utf8(from), to_utf8(to), true, true));
  }
  return terms_.either(std::move(ways));
}

Term JsonTexts::char_of(const CharRanges& ranges) {
  static const std::string_view kEscapes = "bfnrt", kEscaped = "\b\f\n\r\t";
  std::vector<Term> ways;
  for (const CharRange& range : ranges) {
    char32_t from = range.first;
    if (notation_ == Notation::gemma) {
      const char32_t quote = first_of_quote();
      ways.push_back(utf8(from, std::min<char32_t>(range.last, quote - 1)));
      ways.push_back(utf8(std::max<char32_t>(from, quote + 1), range.last));
      continue;
    }
    for (; from <= range.last && from < 0x20; ++from) {
      const auto place = kEscaped.find(static_cast<char>(from));
      ways.push_back(
          place == kEscaped.npos
              ? terms_.sequence({terms_.text(from < 0x10 ? "\\u000" : "\\u001"),
                                 terms_.byte(static_cast<std::uint8_t>(kHex[from % 16]))})
              : terms_.text(std::string{'\\', kEscapes[place]}));
    }
    for (const char32_t special : {U'"', U'\\'}) {
      if (from > special || range.last < special) continue;
      if (from < special) ways.push_back(utf8(from, special - 1));
      ways.push_back(terms_.text(std::string{'\\', static_cast<char>(special)}));
      from = special + 1;
    }
    if (from <= range.last) ways.push_back(utf8(from, range.last));
  }
  return terms_.either(std::move(ways));
}

// One character, or the first one of the quote and another one than its second.
Term JsonTexts::gemma_char() {
  if (quote_text_.size() < 2) return any_char_;
  const auto second = static_cast<char32_t>(quote_text_[1]);
  const CharRanges others = {
      {1, static_cast<char32_t>(second - 1)}, {second + 1, 0xD7FF}, {0xE000, 0x10FFFF}};
  return terms_.either(
      {any_char_, terms_.sequence(terms_.byte(first_of_quote()), char_of(others))});
}

Term JsonTexts::brackets(char open, Term inside, char close, bool may_be_empty) {
  const Term end = terms_.byte(static_cast<std::uint8_t>(close));
  return terms_.sequence(terms_.byte(static_cast<std::uint8_t>(open)),
                         terms_.either({may_be_empty ? end : ByteTerms::kNothing,
                                        terms_.sequence({space_, inside, space_, end})}));
}

Term JsonTexts::listed(const std::vector<Term>& items) {
  Term all = ByteTerms::kEmpty;
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    all = all == ByteTerms::kEmpty ? *item : terms_.sequence({*item, comma_, all});
  }
  return all;
}

Term JsonTexts::object(Term inside, bool may_be_empty, bool arguments) {
  const bool call = arguments && notation_ == Notation::python;
  return brackets(call ? '(' : '{', inside, call ? ')' : '}', may_be_empty);
}

Term JsonTexts::entry(Term key, Term value, bool arguments) {
  const bool call = arguments && notation_ == Notation::python;
  return terms_.sequence({key, call ? terms_.byte('=') : colon_, value});
}

bool JsonTexts::bare(bool arguments) const {
  return notation_ == Notation::gemma || (notation_ == Notation::python && arguments);
}

// Empty if it cannot be written.
std::string JsonTexts::key_text(const std::string& name, bool arguments) const {
  if (!bare(arguments)) return json_text(Json(name));
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto fits = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
  const bool right = !name.empty() && is_letter(name[0]) && std::ranges::all_of(name, fits);
  return right ? name : "";
}

Term JsonTexts::key(const std::string& name, bool arguments) {
  const std::string text = key_text(name, arguments);
  return text.empty() ? ByteTerms::kNothing : terms_.text(text);
}

std::string JsonTexts::text_of(const Json& json, bool arguments) const {
  if (notation_ == Notation::json) return json_text(json);
  std::string text;
  if (json.is_object()) {
    const bool call = arguments && notation_ == Notation::python;
    for (const auto& [name, member] : json.items()) {
      text += text.empty() ? "" : ",";
      text += key_text(name, arguments) + (call ? "=" : ":") + text_of(member);
    }
    return call ? "(" + text + ")" : "{" + text + "}";
  }
  if (json.is_array()) {
    for (const Json& item : json) text += (text.empty() ? "" : ",") + text_of(item);
    return "[" + text + "]";
  }
  if (notation_ == Notation::gemma) {
    if (!json.is_string()) return json_text(json);
    return std::string(quote_text_) + json.get<std::string>() + std::string(quote_text_);
  }
  if (json.is_boolean()) return json.get<bool>() ? "True" : "False";
  return json.is_null() ? "None" : json_text(json);
}

Term JsonTexts::value(const Json& json, bool arguments) {
  std::vector<Term> items;
  if (json.is_object()) {
    for (const auto& [name, member] : json.items()) {
      items.push_back(entry(key(name, arguments), value(member), arguments));
    }
    return object(items.empty() ? ByteTerms::kNothing : listed(items), items.empty(), arguments);
  }
  if (json.is_array()) {
    for (const Json& item : json) items.push_back(value(item));
    return brackets('[', items.empty() ? ByteTerms::kNothing : listed(items), ']', items.empty());
  }
  if (notation_ == Notation::gemma && json.is_string()) {
    const auto text = json.get<std::string>();
    const bool has_mark = text.find(quote_text_) != std::string::npos;
    return has_mark ? ByteTerms::kNothing : quoted(terms_.text(text));
  }
  return terms_.text(text_of(json));
}

Term JsonTexts::list(Term item, std::uint32_t least, std::uint32_t most) {
  if (most == 0) return ByteTerms::kNothing;
  const std::uint32_t more = most == ByteTerms::kEndless ? most : most - 1;
  return terms_.sequence(item,
                         terms_.repeat(terms_.sequence(comma_, item), least - (least > 0), more));
}

Term JsonTexts::any_value(int depth) {
  while (std::ssize(any_values_) <= depth) {
    std::vector<Term> kinds = {any_string_, number_, boolean_, null_};
    if (!any_values_.empty()) {
      const Term inner = any_values_.back();
      kinds.push_back(brackets('[', list(inner, 1, ByteTerms::kEndless), ']', true));
      kinds.push_back(object(list(entry(any_key(), inner), 1, ByteTerms::kEndless), true));
    }
    any_values_.push_back(terms_.either(std::move(kinds)));
  }
  return any_values_[static_cast<std::size_t>(depth)];
}

Term JsonTexts::any_object(int depth) {
  const Term inner = any_value(depth - 1);
  return object(list(entry(any_key(), inner), 1, ByteTerms::kEndless), true);
}

}  // namespace tapegrad::data
