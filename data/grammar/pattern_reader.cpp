#include "tapegrad/data/grammar/internal/pattern_reader.h"

#include <algorithm>
#include <string>

#include "tapegrad/base/text/utf8.h"

namespace tapegrad::data {
namespace {

constexpr int kMostNesting = 64;
constexpr std::uint32_t kMostRepeats = 10'000;
constexpr char32_t kEnd = 0xFFFFFFFF;

const CharRanges kDigitChars = {{'0', '9'}};
const CharRanges kWordChars = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharRanges kSpaceChars = {
    {'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CharRanges kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

// Ascending and apart, and only characters that strings have.
CharRanges ordered(CharRanges ranges) {
  std::ranges::sort(ranges, {}, &CharRange::first);
  CharRanges result;
  for (const CharRange& range : ranges) {
    for (const CharRange& all : all_chars()) {
      const char32_t first = std::max(range.first, all.first);
      const char32_t last = std::min(range.last, all.last);
      if (first > last) continue;
      if (!result.empty() && first <= result.back().last + 1) {
        result.back().last = std::max(result.back().last, last);
      } else {
        result.push_back({first, last});
      }
    }
  }
  return result;
}

CharRanges all_but(const CharRanges& ranges) {
  CharRanges result;
  for (CharRange all : all_chars()) {
    for (const CharRange& range : ordered(ranges)) {
      if (range.last < all.first || range.first > all.last) continue;
      if (range.first > all.first) result.push_back({all.first, range.first - 1});
      all.first = range.last + 1;
    }
    if (all.first <= all.last) result.push_back(all);
  }
  return result;
}

PatternNode node_of(PatternNode::Kind kind, std::vector<PatternNode> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  return {.kind = parts.empty() ? PatternNode::Kind::empty : kind, .parts = std::move(parts)};
}

class PatternReader {
 public:
  explicit PatternReader(std::string_view pattern) {
    std::string_view rest = pattern;
    while (!rest.empty()) {
      const Utf8Char c = first_char(rest);
      chars_.push_back(c.code_point);
      rest.remove_prefix(c.size);
    }
  }

  PatternNode read() {
    PatternNode node = read_either(0);
    if (peek() != kEnd) refuse("')' without '('");
    return node;
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail("{} is not supported, at character {} of the pattern", what, place_ + 1);
  }
  char32_t peek(std::size_t ahead = 0) const {
    return place_ + ahead < chars_.size() ? chars_[place_ + ahead] : kEnd;
  }
  bool skip(char32_t c) {
    if (peek() != c) return false;
    ++place_;
    return true;
  }
  void expect(char32_t c, std::string_view what) {
    if (!skip(c)) refuse(what);
  }

  PatternNode read_either(int depth) {
    if (depth > kMostNesting) refuse("so deep a nesting");
    std::vector<PatternNode> ways;
    do {
      std::vector<PatternNode> parts;
      while (peek() != kEnd && peek() != '|' && peek() != ')') parts.push_back(read_part(depth));
      ways.push_back(node_of(PatternNode::Kind::sequence, std::move(parts)));
    } while (skip('|'));
    return node_of(PatternNode::Kind::either, std::move(ways));
  }

  PatternNode read_part(int depth) {
    if (skip('^')) return {.kind = PatternNode::Kind::begin};
    if (skip('$')) return {.kind = PatternNode::Kind::end};
    return repeated(read_atom(depth));
  }

  PatternNode read_atom(int depth) {
    if (skip('(')) {
      if (skip('?')) read_group_kind();
      PatternNode inside = read_either(depth + 1);
      expect(')', "'(' without ')'");
      return inside;
    }
    if (skip('[')) return {.kind = PatternNode::Kind::chars, .chars = read_class()};
    if (skip('.')) return {.kind = PatternNode::Kind::chars, .chars = all_but(kLineEnds)};
    if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{' || peek() == '}' ||
        peek() == ']') {
      refuse("a quantifier or bracket with nothing before it");
    }
    return {.kind = PatternNode::Kind::chars, .chars = read_char()};
  }

  void read_group_kind() {
    if (skip(':')) return;
    expect('<', "look-ahead, or another group with ?,");
    if (peek() == '=' || peek() == '!') refuse("look-behind");
    while (peek() != '>') {  // a name, which nothing can refer to
      if (peek() == kEnd) refuse("a group's name without '>'");
      ++place_;
    }
    ++place_;
  }

  // Lazy quantifiers find other matches, but in the same strings.
  PatternNode repeated(PatternNode node) {
    std::uint32_t least = 0, most = ByteTerms::kEndless;
    if (skip('+')) {
      least = 1;
    } else if (skip('?')) {
      most = 1;
    } else if (skip('{')) {
      least = read_count();
      most = skip(',') ? (peek() == '}' ? ByteTerms::kEndless : read_count()) : least;
      expect('}', "this quantifier");
      if (least > most) refuse("a quantifier whose bounds are in the wrong order");
    } else if (!skip('*')) {
      return node;
    }
    skip('?');
    PatternNode result{.kind = PatternNode::Kind::repeat, .least = least, .most = most};
    result.parts.push_back(std::move(node));
    return result;
  }

  std::uint32_t read_count() {
    std::uint32_t count = 0;
    const std::size_t begin = place_;
    for (; peek() >= '0' && peek() <= '9'; ++place_) {
      count = count * 10 + static_cast<std::uint32_t>(peek() - '0');
      if (count > kMostRepeats) refuse("so large a count");
    }
    if (place_ == begin) refuse("this quantifier");
    return count;
  }

  CharRanges read_class() {
    const bool others = skip('^');
    CharRanges ranges;
    while (!skip(']')) {
      if (peek() == kEnd) refuse("'[' without ']'");
      const CharRanges first = read_class_char();
      const bool is_range = peek() == '-' && peek(1) != ']' && peek(1) != kEnd;
      if (!is_range) {
        ranges.insert(ranges.end(), first.begin(), first.end());
        continue;
      }
      ++place_;
      const CharRanges last = read_class_char();
      if (first.size() != 1 || last.size() != 1 || first[0].first != first[0].last ||
          last[0].first != last[0].last || first[0].first > last[0].first) {
        refuse("a range with such ends");
      }
      ranges.push_back({first[0].first, last[0].first});
    }
    return others ? all_but(ranges) : ordered(ranges);
  }

  CharRanges read_class_char() {
    if (peek() == '\\' && peek(1) == 'b') {
      place_ += 2;
      return {{'\b', '\b'}};
    }
    return read_char();
  }

  // One character, or an escape that stands for one or for several.
  CharRanges read_char() {
    const char32_t c = chars_[place_++];
    if (c != '\\') return {{c, c}};
    const char32_t escape = peek();
    if (escape == kEnd) refuse("'\\' at the end");
    ++place_;
    switch (escape) {
      case 'd':
        return kDigitChars;
      case 'D':
        return all_but(kDigitChars);
      case 'w':
        return kWordChars;
      case 'W':
        return all_but(kWordChars);
      case 's':
        return kSpaceChars;
      case 'S':
        return all_but(kSpaceChars);
      case 't':
        return {{'\t', '\t'}};
      case 'n':
        return {{'\n', '\n'}};
      case 'v':
        return {{'\v', '\v'}};
      case 'f':
        return {{'\f', '\f'}};
      case 'r':
        return {{'\r', '\r'}};
      case 'x':
        return one(read_hex(2));
      case 'u':
        return one(read_unicode());
      default:
        break;
    }
    const bool letter = (escape >= 'a' && escape <= 'z') || (escape >= 'A' && escape <= 'Z') ||
                        (escape >= '0' && escape <= '9');
    if (letter) {
      --place_;
      refuse("\\" + to_utf8(escape));
    }
    return one(escape);
  }

  static CharRanges one(char32_t c) { return {{c, c}}; }

  char32_t read_hex(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i, ++place_) {
      const char32_t c = peek();
      const bool digit = c >= '0' && c <= '9';
      const char32_t letter = c | 0x20;
      if (!digit && !(letter >= 'a' && letter <= 'f')) refuse("this escape");
      value = value * 16 + (digit ? c - '0' : letter - 'a' + 10);
    }
    return value;
  }

  char32_t read_unicode() {
    if (!skip('{')) {
      const char32_t unit = read_hex(4);
      if (unit < 0xD800 || unit > 0xDBFF || peek() != '\\' || peek(1) != 'u') return unit;
      place_ += 2;
      const char32_t low = read_hex(4);
      if (low < 0xDC00 || low > 0xDFFF) refuse("half of a surrogate pair");
      return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    }
    char32_t value = 0;
    for (int i = 0; i < 6 && peek() != '}'; ++i) value = value * 16 + read_hex(1);
    expect('}', "this escape");
    return value;
  }

  std::vector<char32_t> chars_;
  std::size_t place_ = 0;
};

}  // namespace

PatternNode read_pattern(std::string_view pattern) { return PatternReader(pattern).read(); }

}  // namespace tapegrad::data
