#include <algorithm>
#include <map>

#include "tapegrad/base/error.h"
#include "tapegrad/data/grammar/calls/internal/call_grammar.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

namespace {

const data::CallFormat& format_named(std::string_view name) {
  const auto formats = data::call_formats();
  const auto found = std::ranges::find(formats, name, &data::CallFormat::name);
  REQUIRE(found != formats.end());
  return *found;
}

const std::vector<data::CallFunction>& functions() {
  static const std::vector<data::CallFunction> list = {
      {"get", R"({"type": "object", "properties": {"a": {"type": "integer"},
                  "b": {"type": ["string", "boolean", "null"]}}, "required": ["a"],
                  "additionalProperties": false})"},
      {"get_all"}};
  return list;
}

bool is_text(const data::CallFormat& format, bool several, std::string_view text) {
  data::GrammarState state(data::call_grammar(format, functions(), several));
  return state.accept(text) && state.complete();
}

std::string error_of(const data::CallFormat& format, const std::vector<data::CallFunction>& wrong) {
  try {
    data::call_grammar(format, wrong, true);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("each form of calls has the texts of its family", "[call_grammar]") {
  struct Case {
    std::string_view format;
    std::vector<std::string_view> one, several, wrong;
  };
  const std::vector<Case> cases = {
      {"hermes",
       {"<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": 1, \"b\": \"x\"}}\n</tool_call>",
        "\n\n<tool_call>{\"name\":\"get_all\",\"arguments\":{\"z\":[1]}}</tool_call>"},
       {"<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": 1}}\n</tool_call>\n"
        "<tool_call>\n{\"name\": \"get_all\", \"arguments\": {}}\n</tool_call>"},
       {"", "x<tool_call>\n{\"name\": \"get_all\", \"arguments\": {}}\n</tool_call>",
        "<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>",
        "<tool_call>\n{\"name\": \"get_\", \"arguments\": {\"a\": 1}}\n</tool_call>",
        "<tool_call>\n{\"name\": \"get_all\", \"arguments\": {}}",
        "<tool_call>\n{\"name\": \"get_all\", \"arguments\": {}}\n</tool_call>x"}},
      {"llama3",
       {R"({"name": "get", "parameters": {"a": 1}})",
        R"(<|python_tag|>{"name": "get", "parameters": {"a": 1, "b": null}})"},
       {},
       {R"({"name": "get", "arguments": {"a": 1}})", R"({"name": "get"})",
        R"({"name": "get_all", "parameters": 1})"}},
      {"mistral",
       {R"([TOOL_CALLS]get[ARGS]{"a": 1})", "[TOOL_CALLS]get_all[ARGS]{}"},
       {R"([TOOL_CALLS]get[ARGS]{"a": 1}[TOOL_CALLS]get_all[ARGS]{})"},
       {"[TOOL_CALLS]get[ARGS]{}", "[TOOL_CALLS]get{\"a\": 1}", "get[ARGS]{\"a\": 1}"}},
      {"mistral_list",
       {R"([TOOL_CALLS] [{"name": "get", "arguments": {"a": 1}}])"},
       {R"([TOOL_CALLS][{"name": "get", "arguments": {"a": 1}}, )"
        R"({"name": "get_all", "arguments": {}}])"},
       {"[TOOL_CALLS][]", R"([TOOL_CALLS]{"name": "get", "arguments": {"a": 1}})"}},
      {"lfm2",
       {R"(<|tool_call_start|>[get(a=-1, b="x\n\u0001\"")]<|tool_call_end|>)",
        "<|tool_call_start|>[get(a=1,b=None)]<|tool_call_end|>",
        R"(<|tool_call_start|>[get_all(x={"k y": [True, False]}, y2=1.5)]<|tool_call_end|>)"},
       {"<|tool_call_start|>[get(a=1, b=True), get_all()]<|tool_call_end|>"},
       {"<|tool_call_start|>[]<|tool_call_end|>", "<|tool_call_start|>[get()]<|tool_call_end|>",
        "<|tool_call_start|>[get(a=1, b=true)]<|tool_call_end|>",
        "<|tool_call_start|>[get(\"a\"=1)]<|tool_call_end|>",
        "<|tool_call_start|>[get(a: 1)]<|tool_call_end|>",
        "<|tool_call_start|>[get_all(x-y=1)]<|tool_call_end|>"}},
      {"functiongemma",
       {"<start_function_call>call:get{a:1,b:<escape>x \"<y\n<escape>}<end_function_call>",
        "<start_function_call>call:get_all{x:{k:[true,null]}}<end_function_call>"},
       {"<start_function_call>call:get{a:1}<end_function_call>"
        "<start_function_call>call:get_all{}<end_function_call>"},
       {"<start_function_call>call:get{}<end_function_call>",
        "<start_function_call>call:get{a:1,b:\"x\"}<end_function_call>",
        "<start_function_call>call:get{a: 1}<end_function_call>",
        "<start_function_call>call:get{a:1,b:<escape>x<escape>y<escape>}<end_function_call>"}},
      {"gemma4",
       {R"(<|tool_call>call:get{a:1,b:<|"|>x<b<|"|>}<tool_call|>)"},
       {},
       {"<|tool_call>call:get{a:1,b:<escape>x<escape>}<tool_call|>"}},
      {"gpt_oss",
       {R"(<|channel|>commentary to=functions.get <|constrain|>json<|message|>{"a": 1}<|call|>)"},
       {},
       {R"(<|channel|>commentary to=functions.get<|message|>{"a": 1}<|call|>)"}},
  };
  for (const Case& known : cases) {
    const data::CallFormat& format = format_named(known.format);
    for (const bool several : {false, true}) {
      INFO(known.format << ", several: " << several);
      for (const std::string_view text : known.one) {
        INFO(text);
        CHECK(is_text(format, several, text));
      }
      for (const std::string_view text : known.several) {
        INFO(text);
        CHECK(is_text(format, several, text) == several);
      }
      for (const std::string_view text : known.wrong) {
        INFO(text);
        CHECK(!is_text(format, several, text));
      }
    }
  }
}

TEST_CASE("parameters keep all that a schema asks for, however arguments are written",
          "[call_grammar]") {
  const std::vector<data::CallFunction> list = {
      {"f", R"({"$defs": {"node": {"type": "object", "properties": {"next": {"anyOf":
                [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["next"],
                "additionalProperties": false}},
                "anyOf": [{"properties": {"n": {"$ref": "#/$defs/node"}}, "required": ["n"],
                           "additionalProperties": false},
                          {"enum": [{"s": "it's \"so\"", "t": true}, "no object"]},
                          {"properties": {"code": {"type": "string", "pattern": "^[<a]{2}$"}},
                           "required": ["code"], "additionalProperties": {"type": "integer"}}]})"}};
  const auto fits = [&](std::string_view format, std::string_view text) {
    data::GrammarState state(data::call_grammar(format_named(format), list, false));
    return state.accept(text) && state.complete();
  };
  const auto python = [&](const std::string& arguments) {
    return fits("lfm2", "<|tool_call_start|>[f" + arguments + "]<|tool_call_end|>");
  };
  const auto gemma = [&](const std::string& arguments) {
    return fits("gemma4", "<|tool_call>call:f" + arguments + "<tool_call|>");
  };
  CHECK(python(R"((n={"next": {"next": None}}))"));
  CHECK(!python(R"((n={"next": {}}))"));
  CHECK(!python(R"((n={next: None}))"));
  CHECK(python(R"((s="it's \"so\"", t=True))"));
  CHECK(!python(R"({"s": "it's \"so\"", "t": True})"));
  CHECK(!python(R"(("no object"))"));
  CHECK(python(R"((code="a<", x=1))"));
  CHECK(!python(R"((code="a<", code="ab"))"));
  CHECK(gemma("{n:{next:{next:null}}}"));
  CHECK(!gemma("{n:{next:{}}}"));
  CHECK(gemma(R"({s:<|"|>it's "so"<|"|>,t:true})"));
  CHECK(gemma(R"({code:<|"|>aa<|"|>,x_1:1})"));
  // No text of a pattern has the character that begins a quote.
  CHECK(!gemma(R"({code:<|"|>a<<|"|>})"));
}

TEST_CASE("functions that cannot be called are refused by their names", "[call_grammar]") {
  const auto& hermes = format_named("hermes");
  const auto& mistral = format_named("mistral");
  CHECK_THAT(error_of(hermes, {{"a"}, {"bad", R"({"properties": {"x": {"not": {}}}})"}}),
             ContainsSubstring("function \"bad\": #/properties/x: \"not\" is not supported"));
  CHECK_THAT(error_of(hermes, {{"bad", "{"}}),
             ContainsSubstring("function \"bad\"") && ContainsSubstring("not valid JSON"));
  CHECK_THAT(error_of(hermes, {{"bad", R"({"type": "string"})"}}),
             ContainsSubstring("function \"bad\": no object fits them"));
  CHECK_THAT(error_of(hermes, {{"bad", "3"}}), ContainsSubstring("a schema is an object"));
  CHECK_THAT(error_of(hermes, {}), ContainsSubstring("no function"));
  CHECK_THAT(error_of(hermes, {{""}}), ContainsSubstring("no name"));
  CHECK_THAT(error_of(hermes, {{"a"}, {"a"}}), ContainsSubstring("the name \"a\""));
  CHECK_THAT(error_of(mistral, {{"a[ARGS]{}"}}), ContainsSubstring("the name \"a[ARGS]{}\""));
  CHECK(error_of(hermes, {{"a \"b\""}}).empty());
  CHECK_THAT(error_of(format_named("lfm2"), {{"f", R"({"properties": {"x-y": {}}, "required":
                                                     ["x-y"]})"}}),
             ContainsSubstring("function \"f\": no object fits them"));
}

TEST_CASE("the schemas of many functions share one bound", "[call_grammar]") {
  const std::string large(600'000, ' ');
  CHECK_THAT(error_of(format_named("hermes"), {{"a", large + "{}"}, {"b", large + "{}"}}),
             ContainsSubstring("bytes"));
  std::vector<data::CallFunction> many;
  for (int i = 0; i < 64; ++i) {
    many.push_back({fmt::format("f{}", i), R"({"properties": {"x": {"type": "string",
                    "pattern": "^(a|b|c|d|e)*a(a|b|c|d|e){12}$"}}})"});
  }
  CHECK_THROWS_WITH(
      data::call_grammar(format_named("hermes"), many, true, {}, {.most_terms = 20'000}),
      ContainsSubstring("too large"));
}
