#include <string>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/data/tokenize/hf/steps/split_regex.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using data::SplitRegex;

namespace {

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  std::vector<std::string> found;
  SplitRegex(pattern).each_match(text, [&](std::size_t begin, std::size_t end) {
    found.emplace_back(text.substr(begin, end - begin));
  });
  return found;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("an expression finds what it matches, from left to right", "[split_regex]") {
  CHECK(matches("\\p{N}{1,3}", "12345 a 6") == Texts{"123", "45", "6"});
  CHECK(matches("(?i:'s|'t)|\\p{L}+", "It'S a'T") == Texts{"It", "'S", "a", "'T"});
  CHECK(matches("\\s+(?!\\S)|\\s+", "a   b  ") == Texts{"  ", " ", "  "});
  CHECK(matches("a", "").empty());
  CHECK(matches("x", "abc").empty());
}

TEST_CASE("spaces are Unicode's, in a set and outside of one", "[split_regex]") {
  // U+0085 and U+00A0 are spaces; U+180E was one until Unicode 6.3; U+200B never was.
  const std::string text = "a\u0085\u00A0b\u180Ec\u200Bd\u3000";
  CHECK(matches("\\s+", text) == Texts{"\u0085\u00A0", "\u3000"});
  CHECK(matches("[\\s]+", text) == Texts{"\u0085\u00A0", "\u3000"});
  CHECK(matches("[^\\s]+", text) == Texts{"a", "b\u180Ec\u200Bd"});
  CHECK(matches("\\S+", text) == Texts{"a", "b\u180Ec\u200Bd"});
}

TEST_CASE("what the two libraries may read differently is refused by name", "[split_regex]") {
  for (const std::string pattern :
       {"\\w",    "\\h",     "\\b",         "\\x41",    "\\1",       "\\p{Han}",
        "\\pL",   "\\p{^L}", "\\p{L&}",     "(?s:a)",   "(?P<a>b)",  "(*UCP)a",
        "a$",     "^a",      "a{1,2}+",     "a{2}?b",   "a{,2}b",    "[[:alpha:]]",
        "[a&&b]", "[]a]",    "(?i:\u00E9)", "(?i:'SS)", "(?i:first)"}) {
    INFO(pattern);
    CHECK_THROWS_WITH(SplitRegex(pattern), ContainsSubstring("in a regular expression is not"));
  }
  CHECK_THROWS_WITH(SplitRegex("(a"), ContainsSubstring("is not usable: missing closing"));
  CHECK_THROWS_WITH(SplitRegex("a*"), ContainsSubstring("matches where there is no text"));
  CHECK_THROWS_AS(SplitRegex("\\"), Error);
  CHECK_THROWS_AS(SplitRegex("[a"), Error);
}

TEST_CASE("a long text is cut, and one that takes too long is an error", "[split_regex]") {
  const std::string spaces(1'000'000, ' ');
  CHECK(matches("\\s+(?!\\S)|\\s+", spaces) == Texts{spaces});
  CHECK(matches("\\s*[\\r\\n]+|\\s+", spaces + "\n") == Texts{spaces + "\n"});
  CHECK_THROWS_WITH(matches("(?:a|a)+(?:a|a)+(?:a|a)+b", std::string(3000, 'a') + "cb"),
                    ContainsSubstring("cannot be cut by its regular expression"));
}
