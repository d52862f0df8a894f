#include <fmt/format.h>

#include <array>

#include "tapegrad/data/grammar/json_schema.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/sanitized.h"

using namespace tapegrad;

namespace {

// True if the text, byte by byte and then all at once, is one of the schema's.
bool fits(const std::shared_ptr<const data::Grammar>& grammar, const std::string& text) {
  data::GrammarState slow(grammar), fast(grammar);
  bool accepted = true;
  for (const char c : text) accepted = accepted && slow.accept({&c, 1});
  CHECK(fast.accept(text) == accepted);
  return accepted && slow.complete();
}

using Texts = std::vector<std::string>;

void check_texts(const std::string& schema, const Texts& right, const Texts& wrong) {
  INFO(schema);
  const auto grammar = data::compile_schema(schema);
  for (const std::string& text : right) {
    INFO(text);
    CHECK(fits(grammar, text));
  }
  for (const std::string& text : wrong) {
    INFO(text);
    CHECK(!fits(grammar, text));
  }
}

void check_refused(const std::string& schema, const std::string& where, const std::string& why) {
  INFO(schema);
  CHECK_THROWS_WITH(data::compile_schema(schema), ContainsSubstring("[json_schema]") &&
                                                      ContainsSubstring(where) &&
                                                      ContainsSubstring(why));
}

}  // namespace

TEST_CASE("texts have the types that a schema names", "[json_schema]") {
  check_texts(R"({"type": "null"})", {"null"}, {"", "nul", "nulll", "0", " null", "null "});
  check_texts(R"({"type": "boolean"})", {"true", "false"}, {"True", "1"});
  check_texts(R"({"type": "integer"})", {"0", "7", "-12", "999999999999999"},
              {"01", "-0", "1.0", "1e2", "1000000000000000", "-", ""});
  check_texts(R"({"type": "number"})", {"0", "-0.5", "12.25", "1e9", "1E-7", "2.5e+10"},
              {".5", "1.", "01", "+1", "1e", "1e999", "NaN"});
  check_texts(R"({"type": ["string", "null"]})", {"\"a\"", "null"}, {"1", "true"});
  check_texts(R"({"type": "string", "nullable": true})", {"\"a\"", "null"}, {"1"});
  check_texts("{}", {"1", "[]", "{}", "[{\"a\": [null, true]}]", "\"x\""}, {"", "[1,]", "{1: 2}"});
  check_texts("true", {"1"}, {});
  check_texts(R"({"minLength": 1})", {"\"a\""}, {"\"\"", "1"});  // meant for strings
}

TEST_CASE("strings have characters, escapes and lengths of JSON", "[json_schema]") {
  check_texts(R"({"type": "string"})",
              {"\"\"", "\"a b\"", R"("\"\\\/\b\f\n\r\t")", R"("\u00e9\uABCD\ud83d\ude00")",
               "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\""},
              {"\"", "\"a", R"("\x")", R"("\u12")", R"("\ud83d")", R"("\ud83da")", R"("\ude00")",
               R"("\u0000")", "\"\n\"", "\"\t\"", "\"\xC3\"", "\"\xFF\"", "\"\xC0\x80\"",
               "\"\xED\xA0\x80\"", "\"\xF5\x80\x80\x80\"", "\"\xE2\x82\""});
  // An escape and a character of several bytes count as one.
  check_texts(R"({"type": "string", "minLength": 2, "maxLength": 3})",
              {"\"ab\"", "\"abc\"", R"("\n\u00e9")", R"("\ud83d\ude00\ud83d\ude00")",
               "\"\xF0\x9F\x98\x80\xF0\x9F\x98\x80\""},
              {"\"a\"", "\"abcd\"", "\"\"", "\"\xF0\x9F\x98\x80\"", R"("\ud83d\ude00")"});
  check_texts(R"({"type": "string", "maxLength": 0})", {"\"\""}, {"\"a\""});
}

TEST_CASE("whole numbers keep their bounds and multiples", "[json_schema]") {
  for (const auto& [least, most, multiple] : std::vector<std::array<int, 3>>{{0, 0, 1},
                                                                             {3, 17, 1},
                                                                             {-105, 12, 1},
                                                                             {-20, -3, 1},
                                                                             {0, 999, 7},
                                                                             {-50, 50, 25},
                                                                             {95, 105, 1},
                                                                             {1, 1000, 1}}) {
    const std::string schema =
        fmt::format(R"({{"type": "integer", "minimum": {}, "maximum": {}, "multipleOf": {}}})",
                    least, most, multiple);
    INFO(schema);
    const auto grammar = data::compile_schema(schema);
    for (int i = -1100; i <= 1100; i += kSanitized ? 3 : 1) {
      const bool right = i >= least && i <= most && i % multiple == 0;
      if (fits(grammar, std::to_string(i)) != right) FAIL_CHECK(i);
    }
  }
  check_texts(R"({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 4.5})",
              {"2", "3", "4"}, {"1", "5"});
  check_texts(R"({"type": "integer", "minimum": 1.5})", {"2", "100"}, {"1", "-3"});
  check_texts(R"({"type": "integer", "minimum": 1, "exclusiveMinimum": true})", {"2"}, {"1"});
  check_texts(R"({"type": "number", "multipleOf": 5})", {"0", "-15"}, {"1", "2.5"});
  check_refused(R"({"type": "integer", "minimum": 3, "maximum": 2})", "", "no text fits");
  check_refused(R"({"type": "number", "multipleOf": 0.1})", "#: \"multipleOf\"", "whole numbers");
}

TEST_CASE("decimals keep their bounds", "[json_schema]") {
  check_texts(R"({"type": "number", "minimum": 0.25, "maximum": 2.5})",
              {"0.25", "0.250", "0.3", "1", "1.99999", "2", "2.5", "2.50", "2.4999"},
              {"0", "0.2", "0.24999", "2.51", "3", "-1", "2.500001", "1e0"});
  check_texts(R"({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1})",
              {"0.5", "0.00000000000001", "0.99"}, {"0", "0.0", "-0", "1", "1.0", "-0.5"});
  check_texts(R"({"type": "number", "minimum": -1.5, "maximum": -0.5})",
              {"-0.5", "-1", "-1.5", "-0.75"}, {"-0.4", "-1.6", "0", "-2", "1"});
  check_texts(R"({"type": "number", "minimum": -2})", {"-2", "-1.5", "0", "123456.5"},
              {"-2.1", "-3"});
  // Beyond 15 digits a double could not tell it from the bound.
  check_texts(R"({"type": "number", "exclusiveMaximum": 100000})", {"99999.999999999"},
              {"99999.9999999999", "100000"});
  check_refused(R"({"type": "number", "minimum": 0.1234567890123456})", "#: \"minimum",
                "more than 15 digits");
}

TEST_CASE("enum and const allow their values alone", "[json_schema]") {
  check_texts(R"({"enum": ["red", "green", 7, null, [1, {"a": 2}]]})",
              {"\"red\"", "\"green\"", "7", "null", "[1,{\"a\":2}]", "[1, {\"a\": 2}]"},
              {"\"re\"", "\"redd\"", "\"blue\"", "77", "[1]"});
  check_texts(R"({"const": "a\"b"})", {R"("a\"b")"}, {"\"a\""});
  check_texts(R"({"type": "string", "enum": ["a", 1, "abc"], "maxLength": 2})", {"\"a\""},
              {"1", "\"abc\""});
  check_texts(R"({"allOf": [{"enum": [1, 2, 3]}, {"enum": [2, 3, 4]}]})", {"2", "3"}, {"1", "4"});
}

TEST_CASE("objects have their members in order", "[json_schema]") {
  const std::string schema = R"({"type": "object", "required": ["b"], "additionalProperties": false,
    "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}, "c": {"type": "null"}}})";
  check_texts(schema,
              {R"({"b":true})", R"({"a": 1, "b": false})", R"({"a":1,"b":true,"c":null})",
               "{\n  \"a\": 1,\n  \"b\": true\n}", R"({ "b": true })"},
              {"{}", R"({"a":1})", R"({"b":true,"a":1})", R"({"b":true,"b":true})",
               R"({"b":true,})", R"({,"b":true})", R"({"b":true,"d":1})", R"({"b"  :true})",
               R"({"b":  true})", "{\n\n\"b\":true}", R"({"b" :true})"});
  check_texts(R"({"properties": {"a": {"type": "null"}}})", {"{}", R"({"a":null})"},
              {R"({"b":1})", "[]"});
  check_texts(R"({"type": "object"})", {"{}", R"({"x": [1], "y": {}})"}, {"[]", R"({"x"})"});
  check_texts(R"({"type": "object", "required": ["a"]})", {R"({"a": 1})", R"({"a": 1, "b": 2})"},
              {"{}", R"({"b": 2})"});
}

TEST_CASE("further members have other names and the type that is asked of them", "[json_schema]") {
  check_texts(R"({"properties": {"ab": {"type": "null"}}, "required": ["ab"],
                  "additionalProperties": {"type": "integer"}})",
              {R"({"ab":null})", R"({"ab":null,"a":1})", R"({"ab":null,"abc":1,"":2})",
               R"({"ab":null,"x\"y":1})"},
              {R"({"ab":null,"ab":1})", R"({"ab":null,"a":"x"})", R"({"ab":null,"\u0061b":1})",
               R"({"a":1})"});
  check_texts(R"({"additionalProperties": {"type": "integer"}, "minProperties": 1,
                  "maxProperties": 2})",
              {R"({"a":1})", R"({"a":1,"b":2})"}, {"{}", R"({"a":1,"b":2,"c":3})", R"({"a":"x"})"});
  check_refused(R"({"type": "object", "minProperties": 2})", "#: \"minProperties\"", "");
  check_refused(R"({"properties": {"a": {"patternProperties": {}}}})",
                "#/properties/a: \"patternProperties\"", "not supported");
}

TEST_CASE("names of members may be texts or those of a list, as zod's records have it",
          "[json_schema]") {
  const std::string record = R"({"type": "object", "additionalProperties": {"type": "boolean"}, )";
  check_texts(record + R"("propertyNames": {"type": "string"}})", {R"({})", R"({"a": true})"},
              {R"({"a": 1})", R"({1: true})"});
  check_texts(record + R"("propertyNames": true})", {R"({"a": true})"}, {R"({"a": 1})"});
  const std::string listed = R"("propertyNames": {"type": "string", "enum": ["a", "b"]})";
  check_texts(record + listed + R"(, "required": ["a", "b"]})", {R"({"a": true, "b": false})"},
              {R"({"a": true})", R"({"a": true, "b": 1})", R"({"a": true, "b": true, "c": true})"});
  check_texts(record + listed + "}", {R"({})", R"({"a": true})", R"({"b": true})"},
              {R"({"c": true})", R"({"b": 1})", R"({"a": true, "a": true})"});
  check_texts(R"({"properties": {"a": {"type": "null"}, "c": true}, )" + listed + "}",
              {R"({"a": null})", R"({"b": 5})"}, {R"({"a": 5})", R"({"c": 5})", R"({"d": 5})"});
  check_texts(R"({"allOf": [{)" + listed + R"(}, {"propertyNames": {"enum": ["b", "c"]}}]})",
              {R"({"b": 1})", "{}"}, {R"({"a": 1})", R"({"c": 1})"});
  check_refused(R"({"propertyNames": {"pattern": "^a"}})", "#", "\"propertyNames\" is supported");
  check_refused(R"({"propertyNames": {"enum": [1]}})", "#", "\"propertyNames\" is supported");
  check_refused(R"({"propertyNames": false})", "#", "\"propertyNames\" is supported");
  check_refused(R"({"propertyNames": 1})", "#", "\"propertyNames\" is supported");
}

TEST_CASE("a format that names what a pattern says is that pattern", "[json_schema]") {
  check_texts(R"({"type": "string", "format": "starts_with", "pattern": "^ab.*"})", {"\"abc\""},
              {"\"bab\"", "\"\""});
  check_refused(R"({"type": "string", "format": "starts_with"})", "#", "is not supported");
  check_refused(R"({"type": "string", "format": "iri", "pattern": "a"})", "#", "is not supported");
}

TEST_CASE("arrays have their items and as many as are asked for", "[json_schema]") {
  check_texts(R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
              {"[1]", "[1,2]", "[1, 2, 3]", "[\n  1,\n  2\n]"},
              {"[]", "[1,2,3,4]", "[1,]", "[,1]", "[\"a\"]", "[1 2]", "[1,  2]"});
  check_texts(R"({"prefixItems": [{"type": "null"}, {"type": "boolean"}], "items": false})",
              {"[]", "[null]", "[null,true]"}, {"[true]", "[null,true,1]"});
  check_texts(R"({"items": [{"type": "null"}], "additionalItems": {"type": "integer"},
                  "minItems": 2})",
              {"[null,1]", "[null,1,2]"}, {"[null]", "[null,null]"});
  check_texts(R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"});
  check_texts(R"({"items": {"enum": ["a", "b", "c"]}, "uniqueItems": true, "minItems": 2})",
              {R"(["a","b"])", R"(["c","a","b"])"},
              {R"(["a","a"])", R"(["a"])", R"(["a","b","a"])"});
  check_refused(R"({"items": {"type": "string"}, "uniqueItems": true})", "#: \"uniqueItems\"",
                "enum");
  check_refused(R"({"type": "array", "items": false, "minItems": 1})", "", "no text fits");
}

TEST_CASE("anyOf allows each branch, and what stands beside it counts in all", "[json_schema]") {
  check_texts(R"({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]})",
              {"12", "\"a\""}, {"\"ab\"", "null"});
  check_texts(R"({"type": "object", "additionalProperties": false,
                  "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                  "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})",
              {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":2})"}, {"{}"});
  // Both begin alike, and only later it is seen which one it is.
  check_texts(R"({"anyOf": [
      {"type": "object", "properties": {"k": {"const": "abc"}, "v": {"type": "null"}},
       "required": ["k", "v"], "additionalProperties": false},
      {"type": "object", "properties": {"k": {"const": "abd"}, "v": {"type": "integer"}},
       "required": ["k", "v"], "additionalProperties": false}]})",
              {R"({"k":"abc","v":null})", R"({"k":"abd","v":5})"},
              {R"({"k":"abc","v":5})", R"({"k":"abd","v":null})"});
}

TEST_CASE("oneOf is allowed where no value fits two branches", "[json_schema]") {
  check_texts(R"({"oneOf": [{"type": "integer"}, {"type": "string"}]})", {"1", "\"a\""}, {"null"});
  check_texts(R"({"oneOf": [{"const": 1}, {"enum": [2, 3]}]})", {"1", "3"}, {"4"});
  check_texts(R"({"oneOf": [
      {"type": "object", "properties": {"t": {"const": "a"}}, "required": ["t"]},
      {"type": "object", "properties": {"t": {"const": "b"}}, "required": ["t"]}]})",
              {R"({"t":"a"})", R"({"t":"b"})"}, {R"({"t":"c"})", "{}"});
  check_refused(R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "#: \"oneOf\"",
                "may both fit");
  // The first one says nothing about integers.
  check_refused(R"({"oneOf": [{"minLength": 1}, {"type": "integer"}]})", "#: \"oneOf\"",
                "may both fit");
  check_refused(R"({"properties": {"x": {"oneOf": [{"properties": {"t": {"const": "a"}}},
                    {"properties": {"t": {"const": "b"}}}]}}})",
                "#/properties/x: \"oneOf\"", "may both fit");
}

TEST_CASE("allOf and $ref put schemas together", "[json_schema]") {
  check_texts(R"({"allOf": [{"type": "string", "minLength": 2}, {"maxLength": 3}]})",
              {"\"ab\"", "\"abc\""}, {"\"a\"", "\"abcd\"", "1"});
  check_texts(R"({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                            {"properties": {"b": {"type": "null"}, "a": {"minimum": 5}}}]})",
              {R"({"a":5})", R"({"a":6,"b":null})"}, {R"({"a":4})", R"({"b":null})"});
  // What one schema closes, another cannot open: additionalProperties looks at its own schema.
  check_texts(R"({"allOf": [{"properties": {"a": true}, "additionalProperties": false},
                            {"properties": {"b": true}}]})",
              {"{}", R"({"a":1})"}, {R"({"b":1})"});
  check_texts(R"({"$defs": {"id": {"type": "integer", "minimum": 1}},
                  "properties": {"a": {"$ref": "#/$defs/id"}, "b": {"$ref": "#/$defs/id",
                  "maximum": 9}}, "required": ["a", "b"]})",
              {R"({"a":10,"b":9})"}, {R"({"a":0,"b":1})", R"({"a":1,"b":10})"});
  check_refused(R"({"$ref": "#/$defs/none"})", "#: \"$ref\"", "leads nowhere");
  check_refused(R"({"$ref": "http://example.com/a.json"})", "#: \"$ref\"", "not supported");
  check_refused(R"({"$ref": "#"})", "\"$ref\"", "leads to itself");
  check_refused(R"({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]})", "", "");
}

TEST_CASE("a $ref may lead back to itself, so often as the limit says", "[json_schema]") {
  const std::string tree = R"({"type": "object", "additionalProperties": false,
    "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"]})";
  const auto nested = [](int depth) {
    std::string text = "null";
    for (int i = 0; i < depth; ++i) text = "{\"next\":" + text + "}";
    return text;
  };
  const auto grammar = data::compile_schema(tree, {.depth = 3});
  CHECK(fits(grammar, nested(1)));
  CHECK(fits(grammar, nested(3)));
  CHECK(!fits(grammar, nested(9)));
  CHECK(fits(data::compile_schema(tree), nested(9)));
  // Where each one needs another, there is no end: no text fits.
  check_refused(
      R"({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]})", "",
      "no text fits");
}

TEST_CASE("any JSON object nests as deep as the limit says", "[json_schema]") {
  const auto grammar = data::json_object_grammar({.depth = 3});
  CHECK(fits(grammar, R"({"a": [1, {"b": null}]})"));
  CHECK(!fits(grammar, R"({"a": [1, {"b": []}]})"));
  CHECK(!fits(grammar, "[1]"));
  CHECK(!fits(grammar, R"({"a": 1} )"));
}

TEST_CASE("texts use the bytes of an alphabet alone", "[json_schema]") {
  std::bitset<256> alphabet;
  for (const char c : std::string("{}[]\":, abn1")) alphabet.set(static_cast<unsigned char>(c));
  const auto grammar = data::compile_schema(
      R"({"properties": {"a": {"enum": ["b", "c"]}, "c": true, "b": {"type": "integer"}}})",
      {.alphabet = alphabet});
  CHECK(fits(grammar, R"({"a":"b","b":11})"));
  CHECK(!fits(grammar, R"({"a":"c"})"));
  CHECK(!fits(grammar, R"({"c":1})"));
  CHECK_THROWS_WITH(data::compile_schema(R"({"type": "null"})", {.alphabet = alphabet}),
                    ContainsSubstring("bytes that the vocabulary has"));
}

TEST_CASE("broken and unknown schemas are refused by name", "[json_schema]") {
  check_refused("{", "", "not valid JSON");
  check_refused("[]", "#", "a schema is an object");
  check_refused(R"({"type": "strin"})", "#: \"type\"", "no type");
  check_refused(R"({"minLenght": 1})", "#: \"minLenght\"", "not supported");
  check_refused(R"({"items": {"not": {}}})", "#/items: \"not\"", "not supported");
  check_refused(R"({"if": {}, "then": {}})", "#: \"if\"", "not supported");
  check_refused(R"({"enum": []})", "#: \"enum\"", "list");
  check_refused(R"({"minLength": -1})", "#: \"minLength\"", "count");
  check_refused(R"({"format": "iri"})", "#: \"format\"", "\"iri\"");
  check_refused("false", "", "no text fits");
  check_texts(R"({"title": "t", "description": "d", "default": 1, "x-any": 2, "type": "null"})",
              {"null"}, {});
}

TEST_CASE("schemas made up to be endless are refused in time", "[json_schema]") {
  if (kSanitized) return;  // which take ten times as long; a fuzz target reads schemas, too
  std::string doubled = R"({"$defs": {"d0": {"type": "null"})";
  for (int i = 1; i < 40; ++i) {
    doubled += fmt::format(
        R"(, "d{}": {{"anyOf": [{{"$ref": "#/$defs/d{}"}}, {{"$ref": "#/$defs/d{}"}}]}})", i, i - 1,
        i - 1);
  }
  check_texts(doubled + R"(}, "$ref": "#/$defs/d6"})", {"null"}, {"1"});
  check_refused(doubled + R"(}, "$ref": "#/$defs/d39"})", "", "too many schemas");
  std::string product = R"({"allOf": [)";
  for (int i = 0; i < 30; ++i) {
    product += R"({"anyOf": [{"minLength": 1}, {"maxLength": 9}]}, )";
  }
  check_refused(product + R"({"type": "string"}]})", "\"anyOf\"", "combinations");
  check_refused(R"({"type": "string", "pattern": "(a{1000}){1000}"})", "\"pattern\"", "");
  check_refused(R"({"type": "string", "pattern": "a.{30}b.{30}c.{30}"})", "\"pattern\"", "states");
  // Each of these is small, or soon refused; all together must not take minutes.
  std::string patterns = R"({"properties": {)";
  for (int i = 0; i < 300; ++i) {
    patterns += fmt::format(
        R"("p{0}": {{"type": "string", "maxLength": 1, "pattern": "^{0}(a|b)*a(a|b){{12}}$"}}, )",
        i);
  }
  check_refused(patterns + R"("last": {}}})", "", "too long");
  std::string choices = "a";
  for (int i = 0; i < 500; ++i) choices += "|b";
  check_refused(R"({"type": "string", "pattern": "()" + choices + R"(){9000}"})", "\"pattern\"",
                "repeats too much");
  std::string names = R"({"type": "object", "additionalProperties": true, "properties": {)";
  for (int i = 0; i < 300; ++i) names += fmt::format(R"("{}{}": {{}}, )", i, std::string(100, 'n'));
  check_refused(names + R"("last": {}}})", "additionalProperties", "names");
  std::string lists = R"({"$defs": {"a": {"propertyNames": {"enum": [)", parts;
  for (int i = 0; i < 900; ++i) lists += fmt::format(R"("a{}", )", i);
  lists += R"("a"]}}, "b": {"propertyNames": {"enum": [)";
  for (int i = 0; i < 900; ++i) lists += fmt::format(R"("b{}", )", i);
  for (int i = 0; i < 10000; ++i) parts += R"({"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, )";
  check_refused(lists + R"("b"]}}}, "allOf": [)" + parts + "true]}", "", "too many schemas");
  check_refused(std::string(100, '[') + std::string(100, ']'), "", "nested too deeply");
}
