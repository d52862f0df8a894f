// Tools of chats: what clients send of them, and what the model is shown.

#include <signal.h>

#include "tapegrad/tests/apps/serve/running_server.h"

namespace {

const RunningServer& server() {
  static const RunningServer running;
  return running;
}

Fields tool(const std::string& name) {
  return {{"type", "function"},
          {"function",
           {{"name", name},
            {"description", "d"},
            {"parameters", {{"type", "object"}, {"properties", Fields::object()}}}}}};
}

Fields asked(const Fields& more) {
  Fields body = {{"messages", {{{"role", "user"}, {"content", "a"}}}}, {"max_tokens", 2}};
  body.update(more);
  return body;
}

Fields with_tools(const Fields& more = Fields::object()) {
  Fields body = asked({{"tools", {tool("f"), tool("g")}}});
  body.update(more);
  return body;
}

std::string prompt(const RunningServer& shows, Fields body) {
  body.erase("max_tokens");
  return shows.ask_for("/apply-template", body)["prompt"].get<std::string>();
}

// A call of f, and its result.
Fields called(const std::string& arguments, const Fields& result) {
  return {{"messages",
           {{{"role", "user"}, {"content", "a"}},
            {{"role", "assistant"},
             {"content", nullptr},
             {"tool_calls",
              {{{"id", "x"},
                {"type", "function"},
                {"function", {{"name", "f"}, {"arguments", arguments}}}}}}},
            result}},
          {"max_tokens", 2}};
}
Fields result(const std::string& content) {
  return {{"role", "tool"}, {"tool_call_id", "x"}, {"content", content}};
}

// The field that a refusal names, and what it says.
std::pair<std::string, std::string> refused(const Fields& body,
                                            const std::string& path = "/v1/chat/completions",
                                            const RunningServer& by = server()) {
  const Reply reply = by.send(path, body);
  INFO(body.dump() << "\n" << reply.body);
  REQUIRE(reply.status == 400);
  const Fields error = Fields::parse(reply.body)["error"];
  return {error["param"].get<std::string>(), error["message"].get<std::string>()};
}

}  // namespace

TEST_CASE("malformed tools are refused by the place in the request", "[serve]") {
  struct Case {
    const char *tools, *param;
  };
  const Case cases[] = {
      {R"({})", "tools"},
      {R"([1])", "tools[0]"},
      {R"([{}])", "tools[0].type"},
      {R"([{"type":"web_search"}])", "tools[0].type"},
      {R"([{"type":"function"}])", "tools[0].function"},
      {R"([{"type":"function","function":"f"}])", "tools[0].function"},
      {R"([{"type":"function","function":{}}])", "tools[0].function.name"},
      {R"([{"type":"function","function":{"name":""}}])", "tools[0].function.name"},
      {R"([{"type":"function","function":{"name":"a b"}}])", "tools[0].function.name"},
      {R"([{"type":"function","function":{"name":5}}])", "tools[0].function.name"},
      {R"([{"type":"function","function":{"name":"f","description":1}}])",
       "tools[0].function.description"},
      {R"([{"type":"function","function":{"name":"f","strict":1}}])", "tools[0].function.strict"},
      {R"([{"type":"function","function":{"name":"f","parameters":[]}}])",
       "tools[0].function.parameters"},
      {R"([{"type":"function","function":{"name":"f","parameters":{"type":"string"}}}])",
       "tools[0].function.parameters"},
      {R"([{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}])",
       "tools[1].function.name"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.tools);
    const Fields tools = {{"tools", Fields::parse(one.tools)}};
    CHECK(refused(asked(tools)).first == one.param);
    CHECK(refused(asked(tools), "/apply-template").first == one.param);
  }
  CHECK_THAT(refused(asked({{"tools", {{{"type", "web_search"}}}}})).second,
             ContainsSubstring("'web_search'"));
  CHECK(refused(asked({{"tools", {tool(std::string(65, 'f'))}}})).first ==
        "tools[0].function.name");
  CHECK(refused(asked({{"tools", Fields(std::vector<Fields>(1001, tool("f")))}})).first == "tools");
  Fields untyped = tool("f");  // null is not there
  untyped["function"]["parameters"]["type"] = nullptr;
  server().ask_for("/v1/chat/completions", asked({{"tools", {untyped}}}));
  server().ask_for("/v1/chat/completions", asked({{"tools", {tool(std::string(64, '.'))}}}));
}

TEST_CASE("a choice of tools names one that is there", "[serve]") {
  struct Case {
    const char *choice, *param;
  };
  const Case cases[] = {
      {R"("any")", "tool_choice"},
      {R"(5)", "tool_choice"},
      {R"({})", "tool_choice.type"},
      {R"({"type":"custom"})", "tool_choice.type"},
      {R"({"type":"function"})", "tool_choice.function"},
      {R"({"type":"function","function":{"name":"h"}})", "tool_choice.function.name"},
      {R"({"type":"allowed_tools"})", "tool_choice.allowed_tools"},
      {R"({"type":"allowed_tools","allowed_tools":{"mode":"never","tools":[]}})",
       "tool_choice.allowed_tools.mode"},
      {R"({"type":"allowed_tools","allowed_tools":{"mode":"auto"}})",
       "tool_choice.allowed_tools.tools"},
      {R"({"type":"allowed_tools","allowed_tools":{"tools":[{"type":"function",
           "function":{"name":"h"}}]}})",
       "tool_choice.allowed_tools.tools[0].function.name"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.choice);
    CHECK(refused(with_tools({{"tool_choice", Fields::parse(one.choice)}})).first == one.param);
  }
  const Fields one = {{"type", "function"}, {"function", {{"name", "f"}}}};
  const Fields allowed = {{"type", "allowed_tools"},
                          {"allowed_tools", {{"tools", std::vector<Fields>(1001, one)}}}};
  CHECK(refused(with_tools({{"tool_choice", allowed}})).first == "tool_choice.allowed_tools.tools");
  CHECK(refused(asked({{"tool_choice", "required"}})).first == "tool_choice");
  CHECK(refused(asked({{"tools", Fields::array()}, {"tool_choice", "required"}})).first ==
        "tool_choice");
  const Fields named = {{"type", "function"}, {"function", {{"name", "f"}}}};
  CHECK(refused(asked({{"tool_choice", named}})).first == "tool_choice.function.name");
  CHECK(refused(with_tools({{"parallel_tool_calls", 1}})).first == "parallel_tool_calls");
  for (const char* older : {"functions", "function_call"}) {
    CHECK_THAT(refused(asked({{older, {{{"name", "f"}}}}})).second, ContainsSubstring("'tools'"));
  }
}

TEST_CASE("a model whose template knows no tools is told them by a message", "[serve]") {
  const std::string told = prompt(server(), with_tools());
  CHECK(told.starts_with("[system] # Tools\n"));
  CHECK_THAT(told, ContainsSubstring(R"({"function": {"description": "d", "name": "f", )"));
  CHECK_THAT(told, ContainsSubstring("\n</tool_call>\n[user] a\n[assistant]"));
  // What nothing shows.
  Fields odd = with_tools();
  odd["tools"][0]["function"].update({{"strict", true}, {"x", 1}});
  odd["tools"][1]["cache_control"] = Fields::object();
  const Reply reply = server().send("/apply-template", odd);
  CHECK_THAT(reply.head, ContainsSubstring(
                             "X-Tapegrad-Ignored: tools[0].function.x, tools[1].cache_control, "));
  CHECK(prompt(server(), odd) == told);
  // Without parameters, a function has none.
  Fields bare = with_tools();
  bare["tools"][1]["function"].erase("parameters");
  CHECK_THAT(
      prompt(server(), bare),
      ContainsSubstring(R"("name": "g", "parameters": {"type": "object", "properties": {}})"));
  const Fields message =
      server().ask_for("/v1/chat/completions", with_tools({{"ignore_eos", true}}))["choices"][0];
  CHECK(message["message"]["content"].is_string());
  server().ask_for("/v1/chat/completions", with_tools({{"parallel_tool_calls", false}}));
}

TEST_CASE("the log says once that the template knows no tools", "[serve]") {
  const std::string form = GENERATE("lines", "json");
  for (const int requests : {0, 3}) {
    RunningServer logs({"--log", form});
    prompt(logs, with_tools({{"tool_choice", "none"}}));
    for (int i = 0; i < requests; ++i) prompt(logs, with_tools());
    logs.program().send(SIGTERM);
    const std::string log = logs.program().wait().err;
    const std::size_t at = log.find("reads no tools");
    CHECK((at == std::string::npos) == (requests == 0));
    if (requests > 0) CHECK(log.find("reads no tools", at + 1) == std::string::npos);
  }
}

TEST_CASE("tools that may not be called are not shown", "[serve]") {
  CHECK(prompt(server(), with_tools({{"tool_choice", "none"}})) ==
        prompt(server(), asked(Fields::object())));
  CHECK(prompt(server(), asked({{"tools", Fields::array()}})) ==
        prompt(server(), asked(Fields::object())));
  const Fields allowed = Fields::parse(
      R"({"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function",
          "function":{"name":"g"}}]}})");
  CHECK(prompt(server(), with_tools({{"tool_choice", allowed}})) ==
        prompt(server(), asked({{"tools", {tool("g")}}})));
}

TEST_CASE("calls and results are shown, by the template or as texts", "[serve]") {
  const Fields talk = called(R"({"b": [1, "c"]})", result("2"));
  CHECK(prompt(server(), talk) ==
        "[user] a\n[assistant] <tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": [1, "
        "\"c\"]}}\n</tool_call>\n[user] <tool_response>\n2\n</tool_response>\n[assistant]");
  server().ask_for("/v1/chat/completions", talk);
  const TinyChatModel model;
  model.folder.put(
      "tiny-chat/tokenizer_config.json",
      Fields{{"chat_template",
              "{% for t in tools %}<tool_call>\"name\":{{ t | tojson }};{% endfor %}"
              "{% for m in messages %}{{ m.role }} {{ m.content }}{% for c in m.tool_calls %}"
              "{{ c.function.arguments.items() | list }}{{ c.function | tojson }}"
              "{{ c.shade }}{% endfor %};{% endfor %}"}}
          .dump());
  const RunningServer shows({}, model.path);
  Fields body = talk;
  body["tools"] = Fields::array({tool("f")});
  body["messages"][1]["tool_calls"][0].update({{"shade", "dark"}, {"index", 0}});
  CHECK(prompt(shows, body) ==
        "<tool_call>\"name\":{\"function\": {\"description\": \"d\", \"name\": \"f\", "
        "\"parameters\": {\"properties\": {}, \"type\": \"object\"}}, \"type\": \"function\"};"
        "user a;assistant [('b', [1, 'c'])]{\"arguments\": {\"b\": [1, \"c\"]}, \"name\": "
        "\"f\"}dark;tool 2;");
  CHECK_THAT(shows.send("/apply-template", body).head,
             ContainsSubstring("X-Tapegrad-Ignored: messages[1].tool_calls[0].index, max_tokens"));
}

TEST_CASE("calls and results that fit nothing are refused by their place", "[serve]") {
  const auto of_call = [](const Fields& call) {
    Fields body = called("{}", result("2"));
    body["messages"][1]["tool_calls"] = call;
    return refused(body).first;
  };
  CHECK(of_call(5) == "messages[1].tool_calls");
  CHECK(of_call(Fields(std::vector<Fields>(1025, {{"function", {{"name", "f"}}}}))) ==
        "messages[1].tool_calls");
  CHECK(of_call({5}) == "messages[1].tool_calls[0]");
  CHECK(of_call({{{"id", "x"}}}) == "messages[1].tool_calls[0].function");
  CHECK(of_call({{{"id", 1}}}) == "messages[1].tool_calls[0].id");
  CHECK(of_call({{{"type", "custom"}}}) == "messages[1].tool_calls[0].type");
  CHECK(of_call({{{"function", Fields::object()}}}) == "messages[1].tool_calls[0].function.name");
  const std::string deep = R"({"a":)" + std::string(60, '[') + std::string(60, ']') + "}";
  for (const std::string arguments : {"{", "[1]", "5", "{} {}", deep.c_str()}) {
    CHECK(refused(called(arguments, result("2"))).first ==
          "messages[1].tool_calls[0].function.arguments");
  }
  // A model may have said a name twice.
  for (const char* arguments : {"", "{\"a\":1,\"a\":2}"}) {
    server().ask_for("/v1/chat/completions", called(arguments, result("2")));
  }
  Fields other = result("2");
  other["tool_call_id"] = "y";
  const auto [param, message] = refused(called("{}", other));
  CHECK(param == "messages[2].tool_call_id");
  CHECK(message == "'messages[2].tool_call_id': no call before has the id 'y'");
  other.erase("tool_call_id");
  CHECK(refused(called("{}", other)).first == "messages[2].tool_call_id");
  // Calls without ids need none.
  Fields bare = called("{}", other);
  bare["messages"][1]["tool_calls"][0].erase("id");
  server().ask_for("/v1/chat/completions", bare);
  Fields user = called("{}", result("2"));
  user["messages"][1]["role"] = "user";
  CHECK(refused(user).first == "messages[1].tool_calls");
  // A result of a megabyte is too long for this model, and for nothing else.
  const Reply large =
      server().send("/v1/chat/completions", called("{}", result(std::string(1 << 20, 'r'))));
  CHECK(large.status == 400);
  CHECK(Fields::parse(large.body)["error"]["code"] == "context_length_exceeded");
}

TEST_CASE("an answer that goes on has no tools", "[serve]") {
  Fields body = with_tools({{"continue_final_message", true}});
  body["messages"].push_back({{"role", "assistant"}, {"content", "b"}});
  const auto [param, message] = refused(body);
  CHECK(param == "continue_final_message");
  CHECK(message == "'continue_final_message' excludes 'tools'");
  body["tool_choice"] = "none";
  CHECK(prompt(server(), body).ends_with("[assistant] b"));
  // By itself, it ends.
  body.erase("continue_final_message");
  body.erase("tool_choice");
  body["add_generation_prompt"] = false;
  CHECK(prompt(server(), body).ends_with("[assistant] b\n"));
  server().ask_for("/v1/chat/completions", body);
}
