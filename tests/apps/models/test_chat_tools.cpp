// tapegrad chat --tools, from outside, and answers on their way to people.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "tapegrad/apps/chat/spoken_answer.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/chat/answers/internal/answer_reader.h"
#include "tapegrad/tests/apps/on_terminal.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace tapegrad;

namespace {

namespace fs = std::filesystem;

constexpr const char* kLearnt =
    R"({"tools":[{"name":"add"},{"name":"sub"}],"messages":[{"role":"user","content":"1+1?"},)"
    R"({"role":"assistant","content":"Well","tool_calls":[)"
    R"({"name":"add","arguments":{"a":1}},{"name":"sub","arguments":{}}]},)"
    R"({"role":"tool","content":"2"},{"role":"tool","content":"3"},)"
    R"({"role":"assistant","content":"It is 2."}]})"
    "\n";
const std::string kCalls = "Well\n→ add({\"a\":1})\n→ sub({})\n", kAnswer = "It is 2.\n";

// A model that knows one conversation by heart, in which it calls two functions; made once.
struct Caller {
  TempFolder folder;
  fs::path run = folder / "run", tools = folder.put("tools.json", R"([{"name":"add"},
           {"type":"function","function":{"name":"sub"}}])");
  Caller() {
    std::string lines;
    for (int i = 0; i < 8; ++i) lines += kLearnt;
    check_ended_well(run_program("train-gpt", {"--chat",
                                               folder.put("chats.jsonl", lines),
                                               "--strict-data",
                                               "--tokenizer",
                                               "bpe:300",
                                               "--n-layer",
                                               "1",
                                               "--n-head",
                                               "1",
                                               "--n-embd",
                                               "32",
                                               "--block-size",
                                               "512",
                                               "--batch-size",
                                               "1",
                                               "--max-iters",
                                               "120",
                                               "--lr",
                                               "1e-2",
                                               "--weight-decay",
                                               "0",
                                               "--eval-interval",
                                               "120",
                                               "--no-plan",
                                               "--out-dir",
                                               run}));
  }
  Result chat(const std::string& lines, const Args& more = {}) const {
    return Program("chat", Args{"--model", run, "--greedy", "--tools", tools} + more, ".",
                   folder.put("lines.txt", lines))
        .wait();
  }
};
const Caller& caller() {
  static const Caller made;
  return made;
}

// What people see of an answer that comes in pieces, and its message.
struct Spoken {
  std::string shown;
  Json message;
};
Spoken spoken(const std::optional<data::AnswerReading>& reading, std::string_view text,
              std::size_t size = 1) {
  Spoken made;
  const sampling::OnText show = [&](std::string_view piece) {
    made.shown += piece;
    return true;
  };
  chat::SpokenAnswer answer(reading, show);
  for (std::size_t i = 0; i < text.size(); i += size) CHECK(answer.push(text.substr(i, size)));
  std::int64_t calls = 7;
  made.message = parse_json<Json>(data::json_of_message(answer.end(calls)), 16);
  return made;
}

}  // namespace

TEST_CASE("calls of an answer are lines, and the lines behind them are their results", "[chat]") {
  const fs::path saved = caller().folder / "said.jsonl";
  const Result r = caller().chat("1+1?\n2\n3\n/save " + saved.string() + "\n");
  check_ended_well(r);
  CHECK(r.out == kCalls + kAnswer);
  const std::string line = TempFolder::get(saved);
  const Json said = parse_json<Json>(line, 32)["messages"];
  REQUIRE(said.size() == 5);
  CHECK(
      json_text(said[1]["tool_calls"]) ==
      R"([{"id":"call00001","type":"function","function":{"name":"add","arguments":"{\"a\": 1}"}},)"
      R"({"id":"call00002","type":"function","function":{"name":"sub","arguments":"{}"}}])");
  CHECK(json_text(said[2]) ==
        R"({"role":"tool","tool_call_id":"call00001","name":"add","content":"2"})");
  CHECK(said[3]["tool_call_id"] == "call00002");
  // What is saved can be trained on, and is the conversation that was learnt.
  const auto loss = [&](const fs::path& file) {
    const Result e = run_program("evaluate", {caller().run, "--chat", file, "--json"});
    check_ended_well(e);
    return parse_json<Json>(e.out, 16)["loss"].get<double>();
  };
  CHECK(loss(saved) == loss(caller().folder / "chats.jsonl"));
}

TEST_CASE("at a terminal, the prompt says which function waits for its result", "[chat]") {
  const std::string all =
      on_terminal("chat", {"--model", caller().run, "--greedy", "--tools", caller().tools}, {},
                  {"1+1?\n", "2\n", "3\n", "/quit\n"});
  CHECK_THAT(all, ContainsSubstring("add> ") && ContainsSubstring("sub> "));
  CHECK_THAT(all, ContainsSubstring("It is 2."));
}

TEST_CASE("messages of --prompt are results behind a call, too", "[chat]") {
  const Result r = caller().chat("", {"--prompt", "1+1?", "--prompt", "2", "--prompt", "3"});
  check_ended_well(r);
  CHECK(r.out == kCalls + kAnswer);
}

TEST_CASE("/retry makes a call anew and forgets results, and /continue waits for them", "[chat]") {
  const Result r = caller().chat("1+1?\n2\n/retry\n/continue\n2\n3\n/retry\n");
  check_ended_well(r);
  CHECK(r.out == kCalls + kCalls + kAnswer + kAnswer);
  CHECK_THAT(r.err, ContainsSubstring("a call of add waits for its result"));
}

TEST_CASE("reasoning is shown between its marks, and is a part of the message", "[chat]") {
  const data::AnswerReading reading{
      .calls = &data::plain_call_format(),
      .reasoning = data::ReasoningMarks{.begin = "<think>", .end = "</think>"},
      .functions = {"f"}};
  const std::string call =
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1]}}\n</tool_call>";
  for (const std::size_t size : {1, 5, 1000}) {
    const Spoken all = spoken(reading, "<think>\nhm\n</think>\n\nSo\n" + call + "\nDone", size);
    CHECK(all.shown == "<think>\nhm\n</think>\nSo\n→ f({\"a\":[1]})\nDone");
    CHECK_THAT(all.message["content"].get<std::string>(),
               ContainsSubstring("<think>\nhm\n</think>\n\nSo"));
    CHECK(all.message["tool_calls"][0]["id"] == "call00008");
    CHECK(all.message["tool_calls"][0]["function"]["arguments"] == R"({"a": [1]})");
  }
  // Of gpt-oss, the template has a place for it.
  data::AnswerReading channels = reading;
  channels.reasoning->channels = true;
  CHECK(spoken(channels, "").message == Json{{"role", "assistant"}, {"content", ""}});
}

TEST_CASE("a call that is none is shown as text, and without tools all is", "[chat]") {
  const data::AnswerReading reading{.calls = &data::plain_call_format(), .functions = {"f"}};
  for (const std::string text : {"<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
                                 "<tool_call>\n{\"name\": \"f\", \"argu"}) {
    CAPTURE(text);
    const Spoken said = spoken(reading, text);
    CHECK(said.shown == text);
    CHECK(said.message == Json{{"role", "assistant"}, {"content", text}});
  }
  // Arguments that no parser of ours takes are a call all the same.
  const Spoken twice =
      spoken(reading, R"(<tool_call>{"name": "f", "arguments": {"a": 1, "a": 2}}</tool_call>)");
  CHECK(twice.shown == R"(→ f({"a": 1, "a": 2}))");
  CHECK(twice.message["tool_calls"].size() == 1);
  const std::string call = " <tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
  CHECK(spoken(std::nullopt, call).shown == call);
  CHECK(spoken(std::nullopt, call).message["content"] == call);
}
