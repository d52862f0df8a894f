#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/json/internal/json_table.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using nlohmann::json;

namespace {

// The elements of a table, one behind the other, and the value of all else.
std::string read(std::string_view text, std::string_view place) {
  std::string elements;
  const JsonTable table = {place, [&](std::string_view name, const json& element) {
                             elements += fmt::format("{}={} ", name, sorted_json_text(element));
                           }};
  const json rest = parse_json_with_tables(text, 6, {&table, 1});
  return elements + sorted_json_text(rest);
}

}  // namespace

TEST_CASE("the elements of a table are given away, and all else is as without tables", "[json]") {
  const char* const text = R"({"a":{"t":{"x":1,"y":[1,{"z":2}],"x":"s"},"u":[null]},"t":{"k":1}})";
  CHECK(read(text, "/a/t") == R"(x=1 y=[1,{"z":2}] x="s" {"a":{"t":{},"u":[null]},"t":{"k":1}})");
  CHECK(read(R"({"a":[["p","q"],"r",[],{}],"b":1})", "/a") ==
        R"(=["p","q"] ="r" =[] ={} {"a":[],"b":1})");
  CHECK(read("[1,2]", "") == "=1 =2 []");
  CHECK(read(R"({"a":1})", "/a") == R"({"a":1})");
  CHECK(read(R"([{"a":[1]}])", "/a") == R"([{"a":[1]}])");
  CHECK(read("7", "") == "7");
  CHECK(read(R"({"a/t":{"x":1}})", "/a/t") == R"({"a/t":{"x":1}})");
}

TEST_CASE("an object has each name once, and keeps the order of its members", "[json]") {
  const auto text = [](std::string_view json) { return json_text(parse_json<Json>(json, 4)); };
  CHECK(text(R"({"b":{"a":1,"b":2},"a":[{"b":1},{"b":2}]})") ==
        R"({"b":{"a":1,"b":2},"a":[{"b":1},{"b":2}]})");
  CHECK_THROWS_WITH(text(R"({"b":{"a":1},"a":2,"b":3})"), ContainsSubstring("'b' is there twice"));
  CHECK_THROWS_WITH(text(R"([{"a":{"c":1,"b":2,"c":3}}])"),
                    ContainsSubstring("'c' is there twice"));
}

TEST_CASE("a table has no more depth and no other texts than the rest", "[json]") {
  CHECK_THROWS_WITH(read("[[[[[[[1]]]]]]]", ""), ContainsSubstring("nested too deeply"));
  CHECK_THROWS_WITH(read(R"({"a\u0000":1})", ""), ContainsSubstring("NUL"));
  CHECK_THROWS_WITH(read(R"({"a":"\u0000"})", ""), ContainsSubstring("NUL"));
  CHECK_THROWS_WITH(read("[1,", ""), ContainsSubstring("not valid JSON at byte"));
  CHECK_THROWS_WITH(read(R"({"a":[],"a":[]})", "/a"), ContainsSubstring("'a' is there twice"));
}
