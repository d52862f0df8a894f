// Tools of responses: what clients send of them, and what the model is shown.

#include "tapegrad/tests/apps/serve/responses/response_tools.h"

namespace {

constexpr const char* kPath = "/v1/responses";

std::string ignored(const Fields& body) {
  return tool_server().ignored(kPath, with(body, {{"max_output_tokens", 1}}));
}

Fields error_of(const Fields& body, const RunningServer& by = tool_server()) {
  const Reply reply = by.send(kPath, body);
  INFO(body.dump() << "\n" << reply.body);
  CHECK(reply.status == 400);
  return Fields::parse(reply.body)["error"];
}

// What the model answers: it tells apart what it is given.
std::string answer(const Fields& body) {
  const Fields response = tool_server().ask_for(
      kPath,
      with(body, {{"input", "a"}, {"max_output_tokens", 12}, {"top_k", 1}, {"ignore_eos", true}}));
  return response["usage"]["input_tokens"].dump() + " " +
         response["output"][0]["content"][0]["text"].get<std::string>();
}
std::string answer_of_chat(const std::vector<Fields>& functions) {
  nlohmann::ordered_json tools = nlohmann::ordered_json::array();  // templates show the order
  for (const Fields& one : functions) {
    tools.push_back({{"type", "function"}, {"function", one}});
  }
  const nlohmann::ordered_json body = {{"messages", {{{"role", "user"}, {"content", "a"}}}},
                                       {"tools", tools},
                                       {"max_tokens", 12},
                                       {"top_k", 1},
                                       {"ignore_eos", true}};
  const Reply reply = post(tool_server().port, "/v1/chat/completions", body.dump(),
                           "Content-Type: application/json\r\n");
  REQUIRE(reply.status == 200);
  const Fields chat = Fields::parse(reply.body);
  return chat["usage"]["prompt_tokens"].dump() + " " +
         chat["choices"][0]["message"]["content"].get<std::string>();
}

}  // namespace

TEST_CASE("functions of a response are shown as those of a chat", "[serve]") {
  const std::string both = answer_of_chat({function("f"), function("g", 2)});
  CHECK(answer(asked()) == both);
  CHECK(answer(asked({{"tool_choice", "auto"}})) == both);
  CHECK(answer(asked({{"tool_choice", "none"}})) == answer_of_chat({}));
  const Fields allowed = Fields::parse(
      R"({"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"g"},
                                                        {"type":"web_search"}]})");
  CHECK(answer(asked({{"tool_choice", allowed}})) == answer_of_chat({function("g", 2)}));
  CHECK(both != answer_of_chat({function("g", 2)}));
  const Fields strict = with(tool("f"), {{"strict", false}, {"description", nullptr}});
  CHECK(answer(asked({{"tools", Fields::array({strict})}})) == answer_of_chat({function("f")}));
  CHECK(answer(asked({{"tools", {tool("f"), group("crm", Fields::array({tool("f", 2)}))}}})) ==
        answer_of_chat({function("f"), function("crm__f", 2)}));
  for (const char* of_group : {R"({"type":"namespace","name":"crm"})",
                               R"({"type":"function","name":"f","namespace":"crm"})"}) {
    const Fields choice = {{"type", "allowed_tools"},
                           {"tools", Fields::array({Fields::parse(of_group)})}};
    CHECK(answer(asked({{"tools", {tool("f"), group("crm", Fields::array({tool("f", 2)}))}},
                        {"tool_choice", choice}})) == answer_of_chat({function("crm__f", 2)}));
  }
}

TEST_CASE("tools of a response that are no functions are left out, and each kind is named",
          "[serve]") {
  const Fields other = Fields::parse(
      R"([{"type":"web_search","external_web_access":false},{"type":"web_search"},
          {"type":"custom","name":"c"},
          {"type":"namespace","name":"n","description":"d","tools":[{"type":"custom","name":"c"},
                                                                  {"type":"function","name":"f"}]},
          {"type":"function","name":"g","defer_loading":true}])");
  CHECK(ignored({{"input", "a"}, {"tools", other}}) ==
        "tools[0].web_search, tools[2].custom, tools[3].tools[0].custom, tools[3].description, "
        "tools[4].defer_loading");
  CHECK(ignored(asked()).empty());
  const RunningServer strict({"--strict"});
  const Fields error = error_of({{"input", "a"}, {"tools", other}}, strict);
  CHECK(error["param"] == "tools[0].web_search");
  CHECK(error["message"] ==
        "'tools[0]' is a tool of the type 'web_search', which the model is not told of");
}

TEST_CASE("malformed tools of a response are refused by the place in the request", "[serve]") {
  struct Case {
    const char *more, *param;
  };
  const Case cases[] = {
      {R"({"tools":{}})", "tools"},
      {R"({"tools":[5]})", "tools[0]"},
      {R"({"tools":[{}]})", "tools[0].type"},
      {R"({"tools":[{"type":""}]})", "tools[0].type"},
      {R"({"tools":[{"type":"function"}]})", "tools[0].name"},
      {R"({"tools":[{"type":"function","function":{"name":"f"}}]})", "tools[0].name"},
      {R"({"tools":[{"type":"function","name":"a b"}]})", "tools[0].name"},
      {R"({"tools":[{"type":"function","name":"f","description":5}]})", "tools[0].description"},
      {R"({"tools":[{"type":"function","name":"f","strict":5}]})", "tools[0].strict"},
      {R"({"tools":[{"type":"function","name":"f","parameters":[]}]})", "tools[0].parameters"},
      {R"({"tools":[{"type":"function","name":"f"},{"type":"web_search"},
                    {"type":"function","name":"f"}]})",
       "tools[2].name"},
      {R"({"tools":[{"type":"namespace","tools":[]}]})", "tools[0].name"},
      {R"({"tools":[{"type":"namespace","name":"n","tools":5}]})", "tools[0].tools"},
      {R"({"tools":[{"type":"namespace","name":"n","tools":[{"name":"f"}]}]})",
       "tools[0].tools[0].type"},
      {R"({"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"},
                                                          {"type":"function","name":"f"}]}]})",
       "tools[0].tools[1].name"},
      {R"({"tools":[{"type":"function","name":"n__f"},
                    {"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}]})",
       "tools[1].tools[0].name"},
      {R"({"tool_choice":"any"})", "tool_choice"},
      {R"({"tool_choice":5})", "tool_choice"},
      {R"({"tool_choice":{}})", "tool_choice.type"},
      {R"({"tool_choice":{"type":"web_search"}})", "tool_choice.type"},
      {R"({"tool_choice":{"type":"function"}})", "tool_choice.name"},
      {R"({"tool_choice":{"type":"function","name":"h"}})", "tool_choice.name"},
      {R"({"tool_choice":{"type":"allowed_tools"}})", "tool_choice.tools"},
      {R"({"tool_choice":{"type":"allowed_tools","mode":"never","tools":[]}})", "tool_choice.mode"},
      {R"({"tool_choice":{"type":"allowed_tools","tools":[{"type":"function","name":"h"}]}})",
       "tool_choice.tools[0].name"},
      {R"({"tool_choice":{"type":"allowed_tools","tools":[{"type":"namespace","name":"h"}]}})",
       "tool_choice.tools[0].name"},
      {R"({"tool_choice":"required","tools":[{"type":"web_search"}]})", "tool_choice"},
      {R"({"parallel_tool_calls":5})", "parallel_tool_calls"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.more);
    CHECK(error_of(asked(Fields::parse(c.more)))["param"] == c.param);
  }
  const std::string space(64, 'n');
  CHECK(error_of(asked(
            {{"tools", Fields::array({group(space, Fields::array({tool("f")}))})}}))["param"] ==
        "tools[0].tools[0].name");
  std::vector<Fields> many;
  for (int i = 0; i < 600; ++i) many.push_back(tool("f" + std::to_string(i)));
  CHECK(error_of(asked({{"tools", {group("a", many), group("b", many)}}}))["param"] ==
        "tools[1].tools[400].name");
}
