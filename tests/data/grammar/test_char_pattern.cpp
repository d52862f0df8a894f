// Patterns and formats of strings, as JSON writes the strings.

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/grammar/json_schema.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

namespace {

using Strings = std::vector<std::string>;

void check_strings(const Json& schema, const Strings& right, const Strings& wrong) {
  const auto grammar = data::compile_schema(json_text(schema));
  const auto fits = [&](const std::string& string) {
    data::GrammarState state(grammar);
    return state.accept(json_text(Json(string))) && state.complete();
  };
  INFO(json_text(schema));
  for (const std::string& string : right) {
    INFO(string);
    CHECK(fits(string));
  }
  for (const std::string& string : wrong) {
    INFO(string);
    CHECK(!fits(string));
  }
}

void check_pattern(const std::string& pattern, const Strings& right, const Strings& wrong) {
  check_strings({{"type", "string"}, {"pattern", pattern}}, right, wrong);
}

void check_format(const std::string& format, const Strings& right, const Strings& wrong) {
  check_strings({{"type", "string"}, {"format", format}}, right, wrong);
}

}  // namespace

TEST_CASE("a pattern is found anywhere unless it has anchors", "[char_pattern]") {
  check_pattern("b", {"b", "abc", "xxb"}, {"", "a"});
  check_pattern("^b", {"b", "bcd"}, {"ab", ""});
  check_pattern("b$", {"b", "ab"}, {"ba", ""});
  check_pattern("^a|b$", {"a", "axx", "xb", "b"}, {"xa", "bx"});
  check_pattern("^$", {""}, {"a"});
  check_pattern("", {"", "x"}, {});
}

TEST_CASE("a pattern has classes, groups and quantifiers of ECMA 262", "[char_pattern]") {
  check_pattern("^[a-c_]+$", {"a", "abc_"}, {"", "d", "aD"});
  check_pattern("^[^a-c]$", {"d", "\"", "\\", "\n", "\xC3\xA9", "\xF0\x9F\x98\x80"}, {"a", "dd"});
  check_pattern("^\\d{2,3}$", {"12", "123"}, {"1", "1234", "ab"});
  check_pattern("^\\w\\W\\s\\S$", {"a- x"}, {"--  ", "a-xx"});
  check_pattern("^(ab|c)*d?$", {"", "abab", "cabd", "d"}, {"a", "dd"});
  check_pattern("^(?:a)(?<name>b)+?$", {"ab", "abb"}, {"a"});
  check_pattern("^a{0}b{2}c{1,}$", {"bbc", "bbcc"}, {"abbc", "bb"});
  check_pattern("^.$", {"a", "\xE2\x82\xAC"}, {"\n", "\r", ""});
  check_pattern("^[\\d.\\-\\]]+$", {"1.-]"}, {"a"});
  check_pattern("^\\u00e9\\x41\\u{1F600}$",
                {"\xC3\xA9"
                 "A\xF0\x9F\x98\x80"},
                {"A"});
  check_pattern("^\\$\\.\\/\\(\\)$", {"$./()"}, {"x"});
  check_pattern("^(a|b){2}$", {"aa", "ba"}, {"a", "aaa"});
  check_pattern("^[A-Z]{2}-[0-9]{4}$", {"AB-1234"}, {"AB-123", "ab-1234"});
}

TEST_CASE("a pattern and lengths count together", "[char_pattern]") {
  check_strings({{"type", "string"}, {"pattern", "^[a-z]+$"}, {"minLength", 2}, {"maxLength", 4}},
                {"ab", "abcd"}, {"a", "abcde", "AB"});
  check_strings({{"allOf", {{{"pattern", "a"}}, {{"pattern", "b"}}}}, {"type", "string"}},
                {"ab", "ba", "xbxa"}, {"a", "b", ""});
}

TEST_CASE("what an automaton cannot find is refused by name", "[char_pattern]") {
  for (const auto& [pattern, why] :
       std::vector<std::pair<std::string, std::string>>{{"(?=a)", "look-ahead"},
                                                        {"(?<!a)b", "look-behind"},
                                                        {"(a)\\1", "\\1"},
                                                        {"\\bword", "\\b"},
                                                        {"\\p{L}", "\\p"},
                                                        {"a**", "quantifier"},
                                                        {"(a", "without ')'"},
                                                        {"a)", "without '('"},
                                                        {"[a", "without ']'"},
                                                        {"a{3,2}", "order"},
                                                        {"[z-a]", "range"},
                                                        {"a\\", "at the end"}}) {
    INFO(pattern);
    const Json schema = {{"type", "string"}, {"pattern", pattern}};
    CHECK_THROWS_WITH(data::compile_schema(json_text(schema)),
                      ContainsSubstring("#: \"pattern\"") && ContainsSubstring(why));
  }
}

TEST_CASE("formats are those of the standards", "[char_pattern]") {
  check_format("date", {"2024-02-29", "2023-02-28", "2000-02-29", "1999-12-31", "2024-04-30"},
               {"2023-02-29", "1900-02-29", "2024-04-31", "2024-13-01", "2024-1-1", "2024-00-10"});
  check_format("time", {"23:59:59Z", "00:00:00.123+01:30"}, {"24:00:00Z", "12:60:00Z", "12:00:00"});
  check_format("date-time", {"2024-02-29T12:00:00Z"}, {"2024-02-29", "2024-02-29 12:00:00Z"});
  check_format("uuid", {"123e4567-e89b-12d3-a456-426614174000"},
               {"123e4567", "g23e4567-e89b-12d3"});
  check_format("email", {"a@b.co", "first.last+tag@mail.example.org"}, {"a", "a@", "a@b", "@b.co"});
  check_format("ipv4", {"0.0.0.0", "192.168.1.255"}, {"256.1.1.1", "1.2.3", "01.2.3.4"});
  check_format("hostname", {"example.com", "a-b"}, {"-a", "a..b", ""});
  check_format("duration", {"P1Y", "P3W", "P2M3D", "PT5M", "PT1H2M3S"}, {"P", "PT", "1Y"});
}
