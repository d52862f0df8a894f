// Calls and reasoning in responses: how they are said, at once and in events.

#include "tapegrad/apps/serve/api/responses/response_output.h"
#include "tapegrad/tests/apps/serve/responses/response_tools.h"
#include "tapegrad/tests/apps/serve/script_model.h"

namespace {

constexpr const char* kPath = "/v1/responses";

std::vector<Fields> events_of(Fields body, const RunningServer& by = tool_server()) {
  body["stream"] = true;
  const Reply reply = by.send(kPath, body);
  INFO(reply.head << "\n" << reply.body);
  REQUIRE(reply.status == 200);
  std::vector<Fields> events;
  for (std::size_t at = 0; (at = reply.body.find("\ndata: ", at)) != std::string::npos;) {
    at += 7;
    events.push_back(Fields::parse(reply.body.substr(at, reply.body.find('\n', at) - at)));
  }
  return events;
}

// The types of events, each once where it repeats.
std::vector<std::string> types_of(const std::vector<Fields>& events) {
  std::vector<std::string> types;
  for (const Fields& event : events) {
    const std::string type = event["type"].get<std::string>().substr(9);  // behind "response."
    if (types.empty() || types.back() != type) types.push_back(type);
  }
  return types;
}

}  // namespace
TEST_CASE("a call of a response is an item, and its events come in OpenAI's order", "[serve]") {
  const Fields body = asked({{"tool_choice", {{"type", "function"}, {"name", "g"}}},
                             {"parallel_tool_calls", false},
                             {"temperature", 2}});
  const Fields response = tool_server().ask_for(kPath, body);
  CHECK(response["status"] == "completed");
  REQUIRE(response["output"].size() == 1);
  const Fields& call = response["output"][0];
  CHECK(call["type"] == "function_call");
  CHECK(call["id"].get<std::string>().starts_with("fc_"));
  CHECK(call["call_id"].get<std::string>().size() == 9);
  CHECK(call["name"] == "g");
  CHECK(Fields::parse(call["arguments"].get<std::string>()) == Fields{{"n", 2}});
  CHECK(call["status"] == "completed");
  CHECK_FALSE(call.contains("namespace"));
  const std::vector<Fields> events = events_of(body);
  CHECK(types_of(events) == std::vector<std::string>{"created", "in_progress", "output_item.added",
                                                     "function_call_arguments.delta",
                                                     "function_call_arguments.done",
                                                     "output_item.done", "completed"});
  CHECK(events[2]["item"]["arguments"] == "");
  CHECK(events[2]["item"]["name"] == "g");
  std::string arguments;
  for (const Fields& event : events) {
    if (event["type"] == "response.function_call_arguments.delta") arguments += event["delta"];
    if (event["type"].get<std::string>().find("arguments") == std::string::npos) continue;
    CHECK(event["item_id"] == events[2]["item"]["id"]);
    CHECK(event["output_index"] == 0);
  }
  CHECK(arguments == call["arguments"]);
  CHECK(events[events.size() - 3]["arguments"] == arguments);
  CHECK(events[events.size() - 3]["name"] == "g");
  CHECK(events[events.size() - 2]["item"] == events.back()["response"]["output"][0]);
  CHECK(events.back()["response"]["output"][0]["call_id"] == call["call_id"]);
  // The loop goes on with the call, and its output.
  Fields input = {{{"role", "user"}, {"content", "a"}}, call};
  input.push_back(
      {{"type", "function_call_output"}, {"call_id", call["call_id"]}, {"output", "rain"}});
  const Fields next = tool_server().ask_for(
      kPath, with(body, {{"input", input}, {"tool_choice", "auto"}, {"max_output_tokens", 5}}));
  CHECK(next["usage"]["input_tokens"] > response["usage"]["input_tokens"]);
}

TEST_CASE("a response must have a call if it is required", "[serve]") {
  const Fields response = tool_server().ask_for(
      kPath, asked({{"tool_choice", "required"}, {"parallel_tool_calls", false}}));
  CHECK(response["output"][0]["type"] == "function_call");
  const Fields allowed = Fields::parse(
      R"({"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"g"}]})");
  const Fields one = tool_server().ask_for(
      kPath, asked({{"tool_choice", allowed}, {"parallel_tool_calls", false}}));
  REQUIRE(one["output"].size() == 1);
  CHECK(one["output"][0]["name"] == "g");
}

TEST_CASE("a call of a function in a namespace names both, there and back", "[serve]") {
  const Fields body = asked({{"tools", Fields::array({group("crm", Fields::array({tool("f")}))})},
                             {"tool_choice", "required"},
                             {"parallel_tool_calls", false}});
  const Fields call = tool_server().ask_for(kPath, body)["output"][0];
  CHECK(call["name"] == "f");
  CHECK(call["namespace"] == "crm");
  const auto answer_behind = [](const Fields& called) {
    const Fields input = {{{"role", "user"}, {"content", "a"}}, called};
    return tool_server().ask_for(kPath, {{"input", input},
                                         {"max_output_tokens", 12},
                                         {"top_k", 1},
                                         {"ignore_eos", true}})["output"][0]["content"];
  };
  Fields joined = call;
  joined.erase("namespace");
  CHECK(answer_behind(call) != answer_behind(joined));
  joined["name"] = "crm__f";
  CHECK(answer_behind(call) == answer_behind(joined));
}

TEST_CASE("a call that is cut is incomplete", "[serve]") {
  const Fields whole = tool_server().ask_for(
      kPath, asked({{"tool_choice", "required"}, {"parallel_tool_calls", false}}));
  const std::int64_t tokens = whole["usage"]["output_tokens"].get<std::int64_t>();
  const Fields cut = tool_server().ask_for(
      kPath, asked({{"tool_choice", "required"}, {"max_output_tokens", tokens / 2}}));
  CHECK(cut["status"] == "incomplete");
  for (const Fields& item : cut["output"]) CHECK(item["status"] == "incomplete");
}

TEST_CASE("reasoning of a response is an item, and is counted", "[serve]") {
  const Fields body = asked({{"reasoning", {{"effort", "high"}}},
                             {"max_output_tokens", 12},
                             {"ignore_eos", true},
                             {"top_logprobs", 1}});
  const Fields response = tool_server().ask_for(kPath, body);
  REQUIRE(response["output"].size() == 1);
  const Fields& item = response["output"][0];
  CHECK(item["type"] == "reasoning");
  CHECK(item["id"].get<std::string>().starts_with("rs_"));
  CHECK(item["summary"] == Fields::array());
  CHECK(item["status"] == "incomplete");
  CHECK(item["content"][0]["type"] == "reasoning_text");
  CHECK(response["usage"]["output_tokens_details"]["reasoning_tokens"] == 12);
  const std::vector<Fields> events = events_of(body);
  CHECK(types_of(events) == std::vector<std::string>{"created", "in_progress", "output_item.added",
                                                     "content_part.added", "reasoning_text.delta",
                                                     "reasoning_text.done", "content_part.done",
                                                     "output_item.done", "incomplete"});
  std::string text;
  for (const Fields& event : events) {
    if (event["type"] == "response.reasoning_text.delta") text += event["delta"];
  }
  CHECK(text == item["content"][0]["text"]);
  CHECK(events.back()["response"]["output"][0]["content"] == item["content"]);
}

TEST_CASE("items of a response stand in the order in which the model wrote them", "[serve]") {
  std::vector<Fields> events;
  tapegrad::serve::ResponseOutput output("1", [&](const char* type, const auto& members) {
    events.push_back(with(Fields::parse(members.dump()), {{"type", type}}));
  });
  output.add_reasoning("h");
  output.add_reasoning("m");
  output.add_text("I", {});
  output.begin_call({{"call_id", "a"}, {"name", "f"}});
  output.add_arguments("{}");
  output.end_item(true);
  output.begin_call({{"call_id", "b"}, {"name", "g"}});
  output.add_arguments("{");
  output.end(true);
  const Fields items = Fields::parse(output.items().dump());
  REQUIRE(items.size() == 4);
  const char* types[] = {"reasoning", "message", "function_call", "function_call"};
  const char* statuses[] = {"completed", "completed", "completed", "incomplete"};
  const char* ids[] = {"rs_100", "msg_101", "fc_102", "fc_103"};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(items[i]["type"] == types[i]);
    CHECK(items[i]["status"] == statuses[i]);
    CHECK(items[i]["id"] == ids[i]);
  }
  CHECK(items[0]["content"] == Fields::parse(R"([{"type":"reasoning_text","text":"hm"}])"));
  // Each item ends before the next one begins.
  std::vector<std::string> order;
  for (const Fields& event : events) {
    if (!event.contains("item")) continue;
    const bool ends = event["type"] == "response.output_item.done";
    order.push_back((ends ? "-" : "+") + event["output_index"].dump());
  }
  CHECK(order == std::vector<std::string>{"+0", "-0", "+1", "-1", "+2", "-2", "+3", "-3"});
}

TEST_CASE("reasoning, words and calls of an answer are items, at once and in events", "[serve]") {
  const ScriptModel model(
      {{'A',
        {"<think>", "\nhm", "\n</think>", "\n\nI", " look.", "\n<tool_call>",
         "\n{\"name\":", " \"f\",", " \"arguments\": {", "\"n\":", " 1}", "}\n", "</tool_call>",
         "\n<tool_call>\n", "{\"name\": \"g\"", ",\"arguments\":{\"n\":2}}", "\n</tool_call>"}},
       {'B',
        {"You", " see", ":", "<tool_call>{", "\"name\":\"f\",", "\"arguments\":{\"n\": 1}",
         "}</tool_call>"}},
       {'C', {"In", " words", " alone."}}},
      "</think>");
  const RunningServer server({}, model.tiny.path);
  const auto body = [](const char* start) {
    return asked(
        {{"chat_template_kwargs", {{"start", start}}}, {"temperature", 0}, {"top_logprobs", 1}});
  };
  const Fields response = server.ask_for(kPath, body("A"));
  CHECK(response["status"] == "completed");
  CHECK(response["usage"]["output_tokens_details"]["reasoning_tokens"] == 3);
  const Fields& items = response["output"];
  REQUIRE(items.size() == 4);
  CHECK(items[0]["content"][0]["text"] == "hm");
  CHECK(items[1]["content"][0]["text"] == "I look.");
  CHECK(items[1]["content"][0]["logprobs"] == Fields::array());
  CHECK(items[2]["name"] == "f");
  CHECK(items[2]["arguments"] == R"({"n": 1})");
  CHECK(items[3]["name"] == "g");
  CHECK(items[2]["call_id"] != items[3]["call_id"]);
  const auto without_ids = [](Fields list) {
    for (Fields& item : list) item.erase("id");
    return list;
  };
  const std::vector<Fields> events = events_of(body("A"), server);
  CHECK(without_ids(events.back()["response"]["output"]) == without_ids(items));
  // Log probabilities are of the message that an answer begins with.
  const auto tokens = [&](const char* start) {
    const Fields first = server.ask_for(kPath, body(start))["output"][0];
    std::string text;
    for (const Fields& token : first["content"][0]["logprobs"]) text += token["token"];
    return text + " of " + first["content"][0]["text"].get<std::string>();
  };
  CHECK(tokens("B") == "You see: of You see:");
  CHECK(tokens("C") == "In words alone. of In words alone.");
  Fields stopped = body("B");
  stopped["stop"] = "\"n\"";
  const Fields cut = server.ask_for(kPath, stopped);
  CHECK(cut["status"] == "completed");
  CHECK(cut["output"].back()["status"] == "incomplete");
}
