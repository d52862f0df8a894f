// Answers of chats, taken apart: reasoning, content and calls.

#include <future>
#include <set>
#include <string>
#include <vector>

#include "tapegrad/apps/serve/answer_parts.h"
#include "tapegrad/tests/apps/serve/script_model.h"

namespace {

constexpr const char* kPath = "/v1/chat/completions";
constexpr const char* kThinks = "</think>";

const RunningServer& server() {
  static const ScriptModel model(
      {{'A',
        {"<think>", "\nhm", "\n</think>", "\n\nI", " look.", "\n<tool_call>", "\n{\"name\":",
         " \"f\",", " \"arguments\": {", "\"city\":", " \"Pa", "ris\"}", "}\n", "</tool_call>",
         "\n<tool_call>\n", "{\"name\": \"g\"", ",\"arguments\":{}}", "\n</tool_call>"}},
       {'B', {"In", " words", " alone."}},
       {'>', {"so", " it is", "</think>", "Yes."}},
       {'D', {"<think>no", " end"}}},
      kThinks);
  static const RunningServer running({}, model.tiny.path);
  return running;
}

Fields tool(const std::string& name, const Fields& properties) {
  return {{"type", "function"},
          {"function",
           {{"name", name}, {"parameters", {{"type", "object"}, {"properties", properties}}}}}};
}

Fields asked(const std::string& start, const Fields& more = Fields::object()) {
  Fields body = {
      {"messages", {{{"role", "user"}, {"content", "a"}}}},
      {"chat_template_kwargs", {{"start", start}}},
      {"temperature", 0},
      {"seed", 3},
      {"tools", {tool("f", {{"city", {{"type", "string"}}}}), tool("g", Fields::object())}}};
  body.update(more);
  return body;
}

Fields choice(const Fields& body, const RunningServer& by = server()) {
  return by.ask_for(kPath, body)["choices"][0];
}

// A call without its id, which must be nine letters and digits.
Fields called(Fields call) {
  const std::string id = call["id"];
  CHECK(id.size() == 9);
  CHECK(id.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") ==
        std::string::npos);
  call.erase("id");
  return call;
}

std::vector<std::string> ids(const Fields& choice) {
  std::vector<std::string> list;
  for (const Fields& call : choice["message"]["tool_calls"]) list.push_back(call["id"]);
  return list;
}

// The message that the deltas of a stream make.
struct Streamed {
  Fields message = {{"content", ""}};
  Fields finish;
  std::size_t deltas = 0, tokens = 0;
  explicit Streamed(const std::vector<Fields>& events) {
    for (const Fields& event : events) {
      const Fields& choice = event["choices"][0];
      if (!choice["logprobs"].is_null()) tokens += choice["logprobs"]["content"].size();
      if (!choice["finish_reason"].is_null()) finish = choice["finish_reason"];
      for (const auto& [name, value] : choice["delta"].items()) {
        CHECK(finish.is_null());
        ++deltas;
        if (name == "tool_calls") {
          add(value[0]);
        } else {
          message[name] = message.value(name, "") + value.get<std::string>();
        }
      }
    }
  }

 private:
  void add(Fields call) {
    Fields& calls = message["tool_calls"];
    const std::size_t index = call["index"];
    call.erase("index");
    if (call.contains("id")) {
      CHECK(index == calls.size());
      CHECK(call["function"]["arguments"] == "");
      calls.push_back(call);
    } else {
      CHECK(index + 1 == calls.size());
      CHECK(call.size() == 1);
      std::string& text = calls[index]["function"]["arguments"].get_ref<std::string&>();
      text += call["function"]["arguments"].get<std::string>();
    }
  }
};

}  // namespace

TEST_CASE("an answer of a chat is taken apart into reasoning, content and calls", "[serve]") {
  const Fields whole = server().ask_for(kPath, asked("A"));
  const Fields& answer = whole["choices"][0];
  CHECK(answer["finish_reason"] == "tool_calls");
  CHECK(answer["message"]["role"] == "assistant");
  CHECK(answer["message"]["reasoning_content"] == "hm");
  CHECK(answer["message"]["content"] == "I look.");
  const Fields& calls = answer["message"]["tool_calls"];
  REQUIRE(calls.size() == 2);
  CHECK(called(calls[0]) ==
        Fields{{"type", "function"},
               {"function", {{"name", "f"}, {"arguments", R"({"city": "Paris"})"}}}});
  CHECK(called(calls[1]) ==
        Fields{{"type", "function"}, {"function", {{"name", "g"}, {"arguments", "{}"}}}});
  CHECK(calls[0]["id"] != calls[1]["id"]);
  CHECK(whole["usage"]["completion_tokens"] == 18);
  CHECK(whole["usage"]["completion_tokens_details"]["reasoning_tokens"] == 3);
  const Fields words = server().ask_for(kPath, asked("B"));
  CHECK(words["choices"][0]["message"] ==
        Fields{{"role", "assistant"}, {"content", "In words alone."}, {"refusal", nullptr}});
  CHECK(words["choices"][0]["finish_reason"] == "stop");
  CHECK_FALSE(words["usage"].contains("completion_tokens_details"));
}

TEST_CASE("a stream has the parts of an answer as deltas", "[serve]") {
  for (const char* start : {"A", "B", "<think>", "D"}) {
    CAPTURE(start);
    const Fields body = asked(start, {{"logprobs", true}});
    Fields whole = choice(body);
    const Streamed streamed(server().events(kPath, body));
    for (const char* name : {"role", "reasoning_content", "content", "tool_calls"}) {
      CHECK(streamed.message.value(name, Fields()) == whole["message"].value(name, Fields()));
    }
    CHECK(streamed.finish == whole["finish_reason"]);
    CHECK(streamed.tokens == whole["logprobs"]["content"].size());
  }
  // Arguments come as they are made.
  CHECK(Streamed(server().events(kPath, asked("A"))).deltas >= 9);
}

TEST_CASE("reasoning that the prompt has begun is none of the content", "[serve]") {
  const Fields begun = choice(asked("<think>"));
  CHECK(begun["message"]["reasoning_content"] == "so it is");
  CHECK(begun["message"]["content"] == "Yes.");
  CHECK(begun["finish_reason"] == "stop");
  const Fields cut = choice(asked("<think>", {{"max_tokens", 1}}));
  CHECK(cut["message"]["reasoning_content"] == "so");
  CHECK(cut["message"]["content"] == "");
  CHECK(choice(asked("D"))["message"]["reasoning_content"] == "no end");
  // A text of /v1/completions is one.
  const std::string text = server().text({{"prompt", "A"}, {"temperature", 0}, {"max_tokens", 30}});
  CHECK(text.starts_with("<think>\nhm\n</think>\n\nI look.\n<tool_call>"));
}

TEST_CASE("reasoning ends at its budget", "[serve]") {
  const auto said = [](const Fields& choice) {
    const Fields& message = choice["message"];
    return message.value("reasoning_content", "") + "|" + message["content"].get<std::string>();
  };
  // Behind what was cut, this model has nothing to say that is known.
  const auto begin = [&](const std::string& start, int budget) {
    return said(choice(asked(start, {{"thinking_budget", budget}, {"max_tokens", 30}})));
  };
  CHECK(begin("<think>", 3) == "so it is|Yes.");
  CHECK(begin("<think>", 1).starts_with("so|"));
  CHECK(begin("<think>", 0).starts_with("|"));
  CHECK(begin("D", 0).starts_with("no|"));
  CHECK(begin("D", 9) == "no end|");
  CHECK(begin("B", 0) == "|In words alone.");
  const Fields called = choice(asked("A", {{"thinking_budget", 1}, {"tool_choice", "none"}}));
  CHECK(called["message"]["reasoning_content"] == "hm");
  // The server's is the most.
  const ScriptModel model({{'>', {"so", " it", " is", "</think>", "Yes."}}}, kThinks);
  const RunningServer bounded({"--reasoning-budget", "2"}, model.tiny.path);
  for (const Fields& more : {Fields::object(), Fields{{"thinking_budget", 5}}}) {
    CHECK(said(choice(asked("<think>", more), bounded)).starts_with("so it|"));
  }
  CHECK(said(choice(asked("<think>", {{"thinking_budget", 1}}), bounded)).starts_with("so|"));
}

TEST_CASE("an answer that goes on in its reasoning ends it", "[serve]") {
  Fields body = asked("", {{"continue_final_message", true}});
  body.erase("tools");
  body["messages"].push_back({{"role", "assistant"}, {"content", "<think>a>"}});
  const Fields without = choice(body);
  CHECK(without["message"]["reasoning_content"] == "so it is");
  CHECK(without["message"]["content"] == "Yes.");
  body["echo"] = true;
  CHECK(choice(body)["message"]["reasoning_content"] == "a>so it is");
  body["messages"].back()["content"] = "b>";
  CHECK(choice(body)["message"]["content"] == "b>so it is</think>Yes.");
}

TEST_CASE("calls that may not come are text", "[serve]") {
  const Fields answer = choice(asked("A", {{"tool_choice", "none"}}));
  CHECK(answer["finish_reason"] == "stop");
  CHECK_FALSE(answer["message"].contains("tool_calls"));
  CHECK_THAT(answer["message"]["content"].get<std::string>(),
             ContainsSubstring("</tool_call>\n<tool_call>"));
}

TEST_CASE("an answer that is cut within a call says what there is of it", "[serve]") {
  const Fields cut = choice(asked("A", {{"max_tokens", 11}}));
  CHECK(cut["finish_reason"] == "length");
  REQUIRE(cut["message"]["tool_calls"].size() == 1);
  CHECK(cut["message"]["tool_calls"][0]["function"]["arguments"] == R"({"city": "Pa)");
  CHECK(choice(asked("A", {{"max_tokens", 14}}))["finish_reason"] == "length");
  // So does one that a stop ends.
  const Fields stopped = choice(asked("A", {{"stop", "ris"}}));
  CHECK(stopped["finish_reason"] == "stop");
  CHECK(stopped["message"]["tool_calls"][0]["function"]["arguments"] == R"({"city": "Pa)");
}

TEST_CASE("an answer has one call if it may have no more", "[serve]") {
  const Fields answer = choice(asked("A", {{"parallel_tool_calls", false}}));
  CHECK(answer["finish_reason"] == "tool_calls");
  CHECK(answer["message"]["tool_calls"].size() == 1);
}

TEST_CASE("ids of calls are those of the seed, in any company", "[serve]") {
  const Fields answer = server().ask_for(kPath, asked("A", {{"n", 3}}));
  std::set<std::string> all;
  for (const Fields& one : answer["choices"]) {
    for (const std::string& id : ids(one)) all.insert(id);
  }
  CHECK(all.size() == 6);
  REQUIRE(ids(answer["choices"][0]).size() == 2);
  const RunningServer& running = server();
  const Fields body = asked("A");
  std::vector<std::future<Reply>> company;  // without assertions, which belong to one thread
  for (int i = 0; i < 4; ++i) {
    company.push_back(std::async(std::launch::async, [&] { return running.send(kPath, body); }));
  }
  for (auto& one : company) {
    const Reply reply = one.get();
    REQUIRE(reply.status == 200);
    CHECK(ids(Fields::parse(reply.body)["choices"][0]) == ids(answer["choices"][0]));
  }
  CHECK(ids(choice(asked("A", {{"seed", 4}}))) == ids(answer["choices"][1]));
  // A later turn has others.
  Fields later = asked("A");
  later["messages"].push_back({{"role", "user"}, {"content", "b"}});
  CHECK(ids(choice(later)) != ids(answer["choices"][0]));
}

TEST_CASE("marks of calls are read, be they special tokens or not", "[serve]") {
  const ScriptModel model({{'A', {"[TOOL_CALLS]", "[{\"name\":\"g\",", "\"arguments\":{}", "}]"}},
                           {'B', {"[TOOL_CALLS] ", "[{\"name\": \"g\", \"arguments\": {}", "} ]"}}},
                          "[TOOL_CALLS] #}{% if tools %}{{ tools | tojson }}{% endif %}{#",
                          {"[TOOL_CALLS]"});
  const RunningServer calls({}, model.tiny.path);
  for (const char* start : {"A", "B"}) {
    CAPTURE(start);
    const Fields answer = choice(asked(start), calls);
    CHECK(answer["finish_reason"] == "tool_calls");
    CHECK(answer["message"]["content"].is_null());
    REQUIRE(answer["message"]["tool_calls"].size() == 1);
    CHECK(called(answer["message"]["tool_calls"][0])["function"]["name"] == "g");
  }
}

TEST_CASE("a call that is malformed is content", "[serve]") {
  using tapegrad::serve::AnswerParts;
  namespace data = tapegrad::data;
  const auto read = [](const std::string& text) {
    AnswerParts parts({.calls = &data::plain_call_format(), .functions = {"f"}}, 1);
    std::vector<data::AnswerPart> all = parts.push(text, 1);
    tapegrad::serve::append_parts(all, parts.end());
    std::string content;
    for (const data::AnswerPart& part : all) content += part.text;
    CHECK(parts.has_called() == (content != text));
    return content;
  };
  for (const char* text : {"a\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\n</tool_call>",
                           "<tool_call>\n{\"name\": \"h\", \"arguments\": {}}\n</tool_call>",
                           "<tool_call>\n{\"name\""}) {
    CHECK(read(text) == text);
  }
  CHECK(read("<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>") == "{}");
}

TEST_CASE("tokens of reasoning are those up to its end, whatever follows", "[serve]") {
  using namespace tapegrad;
  const data::AnswerReading reading{.calls = &data::plain_call_format(),
                                    .reasoning = data::ReasoningMarks{"<think>", "</think>"},
                                    .functions = {"f"}};
  const auto count = [&](const std::vector<std::string>& tokens) {
    serve::AnswerParts parts(reading, 1);
    for (const std::string& token : tokens) parts.push(token, 1);
    parts.end();
    return parts.reasoning_tokens();
  };
  const std::vector<std::string> call = {"<tool_call>", "\n{\"name\": ", "\"f\"}", "</tool_call>"};
  for (std::vector<std::string> behind : {std::vector<std::string>{"\n", "so"}, call}) {
    std::vector<std::string> tokens = {"<think>", "hm", "</think>", "\n\n"};
    tokens.insert(tokens.end(), behind.begin(), behind.end());
    CHECK(count(tokens) == 3);
    CHECK(count(behind) == 0);
  }
}

TEST_CASE("a call keeps the id that the model writes", "[serve]") {
  using namespace tapegrad;
  const data::CallFormat format{
      .name = "n", .sign = "", .body = data::CallBody::list, .begin = "["};
  serve::AnswerParts parts({.calls = &format, .functions = {"f"}}, 1);
  const auto all = parts.push(
      R"([[{"name": "f", "arguments": {}, "id": "abc"}, {"name": "f", "arguments": {}}])", 1);
  std::vector<std::string> list;
  for (const data::AnswerPart& part : all) {
    if (part.kind == data::AnswerPart::Kind::call_begin) list.push_back(part.id);
  }
  REQUIRE(list.size() == 2);
  CHECK(list[0] == "abc");
  CHECK(list[1].size() == 9);
}
