// Calls that must come, and arguments that must fit.

#include <set>

#include "tapegrad/tests/apps/serve/script_model.h"

using namespace std::chrono_literals;

namespace {

constexpr const char* kPath = "/v1/chat/completions";

// With room for the descriptions of tools.
struct LongChatModel : TinyChatModel {
  LongChatModel() {
    Fields config = Fields::parse(TempFolder::get(path / "config.json"));
    config["max_position_embeddings"] = 4096;
    folder.put("tiny-chat/config.json", config.dump());
  }
};

const LongChatModel& long_model() {
  static const LongChatModel model;
  return model;
}

const RunningServer& server() {
  static const RunningServer running({}, long_model().path);
  return running;
}

const Fields kPlace = Fields::parse(
    R"({"type":"object","properties":{"lat":{"type":"integer","minimum":-90,"maximum":90},
        "tags":{"type":"array","items":{"enum":["a","b"]},"maxItems":3}},"required":["lat","tags"],
        "additionalProperties":false})");

Fields tool(const std::string& name, const Fields& properties) {
  return {{"type", "function"},
          {"function",
           {{"name", name},
            {"parameters",
             {{"type", "object"},
              {"properties", properties},
              {"required", {"to"}},
              {"additionalProperties", false}}}}}};
}

Fields asked(const Fields& more) {
  Fields body = {{"messages", {{{"role", "user"}, {"content", "a"}}}},
                 {"temperature", 2},
                 {"seed", 5},
                 {"tools",
                  {tool("go", {{"to",
                                {{"type", "object"},
                                 {"properties", {{"place", kPlace}}},
                                 {"required", {"place"}},
                                 {"additionalProperties", false}}}}),
                   tool("stay", {{"to", {{"enum", {"bed", "home"}}}}})}}};
  body.update(more);
  return body;
}

// Whether a call is of the functions, with arguments that fit.
bool fits(const Fields& call) {
  const Fields& function = call["function"];
  const Fields arguments = Fields::parse(function["arguments"].get<std::string>());
  if (arguments.size() != 1) return false;
  if (function["name"] == "stay") return arguments["to"] == "bed" || arguments["to"] == "home";
  const Fields& to = arguments["to"];
  if (function["name"] != "go" || to.size() != 1 || to["place"].size() != 2) return false;
  for (const Fields& tag : to["place"]["tags"]) {
    if (tag != "a" && tag != "b") return false;
  }
  const int lat = to["place"]["lat"];
  return lat >= -90 && lat <= 90 && to["place"]["tags"].size() <= 3;
}

Fields named(const std::string& name) {
  return {{"type", "function"}, {"function", {{"name", name}}}};
}

std::pair<std::string, std::string> refused(const Fields& body) {
  const Reply reply = server().send(kPath, body);
  INFO(reply.body);
  REQUIRE(reply.status == 400);
  const Fields error = Fields::parse(reply.body)["error"];
  return {error["param"].get<std::string>(), error["message"].get<std::string>()};
}

// A keyword that no grammar has.
Fields with_schema(const Fields& schema, const Fields& more) {
  Fields body = asked(more);
  body["tools"][1]["function"]["parameters"] = schema;
  body["max_tokens"] = 20;
  return body;
}

}  // namespace

TEST_CASE("an answer that must call has calls alone, and their arguments fit", "[serve]") {
  std::set<std::string> names;
  int calls = 0;
  for (const bool parallel : {true, false}) {
    const Fields answer = server().ask_for(kPath, asked({{"tool_choice", "required"},
                                                         {"parallel_tool_calls", parallel},
                                                         {"n", 64},
                                                         {"max_tokens", 600}}));
    for (const Fields& choice : answer["choices"]) {
      INFO(choice.dump());
      if (choice["finish_reason"] == "length") continue;  // within one of many calls
      CHECK(choice["finish_reason"] == "tool_calls");
      CHECK(choice["message"]["content"].is_null());
      CHECK((parallel || choice["message"]["tool_calls"].size() == 1));
      for (const Fields& call : choice["message"]["tool_calls"]) {
        CHECK(fits(call));
        names.insert(call["function"]["name"].get<std::string>());
        ++calls;
      }
    }
  }
  CHECK(names.size() == 2);
  CHECK(calls >= 100);
}

TEST_CASE("an answer calls the function that the request names, once", "[serve]") {
  const Fields answer = server().ask_for(kPath, asked({{"tool_choice", named("stay")}, {"n", 20}}));
  REQUIRE(answer["choices"].size() == 20);
  for (const Fields& choice : answer["choices"]) {
    REQUIRE(choice["message"]["tool_calls"].size() == 1);
    CHECK(choice["message"]["tool_calls"][0]["function"]["name"] == "stay");
    CHECK(choice["finish_reason"] == "tool_calls");
  }
}

TEST_CASE("an answer that reasons may do so before the call that must come", "[serve]") {
  const ScriptModel model({{'>', {"so", " it", "</think>", "Yes"}}, {'A', {"No"}}}, "</think>");
  const RunningServer thinks({}, model.tiny.path);
  Fields body =
      asked({{"tool_choice", "required"}, {"temperature", 0}, {"parallel_tool_calls", false}});
  body["chat_template_kwargs"] = {{"start", "<think>"}};
  const Fields choice = thinks.ask_for(kPath, body)["choices"][0];
  CHECK(choice["message"]["reasoning_content"] == "so it");
  CHECK(choice["message"]["content"].is_null());
  REQUIRE_FALSE(choice["message"]["tool_calls"].empty());
  body["chat_template_kwargs"] = {{"start", "A"}};
  const Fields without = thinks.ask_for(kPath, body)["choices"][0];
  CHECK_FALSE(without["message"].contains("reasoning_content"));
  REQUIRE_FALSE(without["message"]["tool_calls"].empty());
}

TEST_CASE("a schema that no grammar takes is refused where it must be held", "[serve]") {
  const Fields schemas[] = {Fields::parse(R"({"type":"object","not":{"required":["a"]}})"),
                            Fields::parse(R"({"type":"object","properties":{"a":{"type":"x"}}})")};
  for (const Fields& schema : schemas) {
    CAPTURE(schema.dump());
    for (const Fields& choice : {Fields("required"), named("stay")}) {
      const auto [param, message] = refused(with_schema(schema, {{"tool_choice", choice}}));
      CHECK(param == "tools[1].function.parameters");
      CHECK_THAT(message, ContainsSubstring("'tools[1].function.parameters' cannot be held: "));
    }
    Fields strict = with_schema(schema, Fields::object());
    const Reply reply = server().send(kPath, strict);
    CHECK(reply.status == 200);
    CHECK_THAT(reply.head, ContainsSubstring("X-Tapegrad-Ignored: tools[1].function.parameters"));
    strict["tools"][1]["function"]["strict"] = true;
    CHECK(refused(strict).first == "tools[1].function.parameters");
    // One that may not come is no matter.
    server().ask_for(kPath, with_schema(schema, {{"tool_choice", named("go")}}));
  }
}

TEST_CASE("an answer with a format is JSON of it, or calls", "[serve]") {
  const Fields format = Fields::parse(
      R"({"type":"json_schema","json_schema":{"name":"n","schema":{"enum":["x","y"]}}})");
  const Fields answer =
      server().ask_for(kPath, asked({{"response_format", format}, {"n", 64}, {"max_tokens", 300}}));
  int calls = 0, texts = 0;
  for (const Fields& choice : answer["choices"]) {
    INFO(choice.dump());
    const Fields& message = choice["message"];
    if (choice["finish_reason"] == "length") continue;
    if (message.contains("tool_calls")) {
      ++calls;
      for (const Fields& call : message["tool_calls"]) CHECK(fits(call));
    } else {
      ++texts;
      CHECK_NOTHROW(Fields::parse(message["content"].get<std::string>()));
    }
  }
  CHECK(calls > 0);
  CHECK(texts > 0);
  const Fields must = server().ask_for(
      kPath, asked({{"response_format", format}, {"tool_choice", named("stay")}}))["choices"][0];
  CHECK(must["message"]["tool_calls"].size() == 1);
}

TEST_CASE("a client that leaves in the middle of a call frees its place", "[serve]") {
  const RunningServer alone({"--parallel", "1"}, long_model().path);
  Fields body = asked({{"tool_choice", "required"}, {"stream", true}});
  body["tools"] = Fields::array({tool(
      "go", {{"to", {{"type", "array"}, {"items", {{"type", "null"}}}, {"minItems", 200}}}})});
  const std::string text = body.dump();
  {
    Browser leaves(alone.port);
    leaves.send("POST " + std::string(kPath) +
                " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json" +
                ("\r\nContent-Length: " + std::to_string(text.size())) + "\r\n\r\n" + text);
    REQUIRE(leaves.gets("\"arguments\":", 15s));
  }
  CHECK(alone.comes_to("tapegrad_texts_running", 0));
  const Fields next = alone.ask_for(kPath, asked({{"tool_choice", named("stay")}}));
  CHECK(fits(next["choices"][0]["message"]["tool_calls"][0]));
}

TEST_CASE("the effort of reasoning is the template's variable", "[serve]") {
  const ScriptModel model({{'B', {"Yes"}}}, "</think>");
  const RunningServer thinks({}, model.tiny.path);
  const auto prompt = [&](const Fields& more) {
    Fields body = {{"messages", {{{"role", "user"}, {"content", "a"}}}}};
    body.update(more);
    return thinks.ask_for("/apply-template", body)["prompt"].get<std::string>();
  };
  CHECK(prompt({{"reasoning_effort", "none"}}) == "[user] a\nplain ");
  CHECK(prompt({{"reasoning_effort", "high"}}) == "[user] a\n");
  CHECK(prompt({{"enable_thinking", false}}) == "[user] a\nplain ");
  CHECK(prompt({{"enable_thinking", true}}) == "[user] a\n");
  const auto ignored = [&](const Fields& more) {
    Fields body = {{"messages", {{{"role", "user"}, {"content", "a"}}}}, {"max_tokens", 1}};
    body.update(more);
    return server().send(kPath, body).head;
  };
  CHECK_THAT(ignored({{"reasoning_effort", "high"}}),
             ContainsSubstring("X-Tapegrad-Ignored: reasoning_effort"));
  CHECK_THAT(ignored({{"verbosity", "low"}}), ContainsSubstring("X-Tapegrad-Ignored: verbosity"));
  CHECK_THAT(ignored({{"enable_thinking", false}}),
             ContainsSubstring("X-Tapegrad-Ignored: enable_thinking"));
  CHECK_THAT(ignored({{"reasoning_effort", "medium"}}), !ContainsSubstring("Ignored"));
  // What a client sends back reaches the template.
  CHECK(prompt({{"messages",
                 {{{"role", "assistant"}, {"content", "b"}, {"reasoning_content", "hm "}}}}}) ==
        "[assistant] hm b\n");
}

TEST_CASE("a template that reads the budget of thinking is told of it", "[serve]") {
  const ScriptModel model({{'B', {"Yes"}}}, "</think> #}{{ thinking_budget }}{#");
  const RunningServer thinks({}, model.tiny.path);
  const auto tokens = [&](const Fields& more) {
    Fields body = {{"messages", {{{"role", "user"}, {"content", "a"}}}}, {"max_tokens", 1}};
    body.update(more);
    return thinks.ask_for(kPath, body)["usage"]["prompt_tokens"].get<int>();
  };
  CHECK(tokens({{"thinking_budget", 7}}) == tokens(Fields::object()) + 1);
}
