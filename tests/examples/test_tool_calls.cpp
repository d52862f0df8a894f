// The example that teaches a small model to call functions: its conversations, and its agent.

#include <filesystem>
#include <string>

#include "tapegrad/tests/apps/serve/script_model.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

namespace fs = std::filesystem;

const fs::path kExamples = fs::path(tapegrad::places::kSources) / "examples";

Result python(const Args& args) {
  const Args command = {"PYTHONPATH=" + kExamples.string(), "PYTHONDONTWRITEBYTECODE=1", "python3"};
  return Program("/usr/bin/env", command + args).wait();
}

bool has_python() {
  if (python({"--version"}).code == 0) return true;
  WARN("left out: there is no python3");
  return false;
}

// A model that calls add(12, 30), and says what it was once it has a result.
const ScriptModel& adder() {
  static const ScriptModel model(
      {{'x',
        {"<tool_call>\n", R"({"name": "add", "arguments": {"a": 12, "b": 30}})", "\n</tool_call>"}},
       {'y', {"12 plus 30", " is ", "42."}}});
  model.tiny.folder.put(
      "tiny-chat/tokenizer_config.json",
      Fields{{"eos_token", "<|endoftext|>"},
             {"chat_template",
              "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
              "{{ 'y' if '<tool_response>' in messages[-1].content else 'x' }}"}}
          .dump());
  return model;
}

}  // namespace

TEST_CASE("the example's conversations with calls are learnt, all of them whole", "[examples]") {
  if (!has_python()) return;
  const TempFolder folder;
  check_ended_well(python({kExamples / "tool_chats.py", folder.path(), "300"}));
  const Result r = run_program("train", tiny_chat_run(folder / "chats.jsonl", folder / "run", 20) +
                                            Args{"--tokenizer", folder / "tokens", "--block-size",
                                                 "1024", "--batch-size", "1", "--strict-data"});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("in 270 and 30 conversations (") &&
                        ContainsSubstring("step 20: train loss "));
  CHECK(r.err.empty());
  // A name and a number are spelled; other words are a token.
  const Result shown =
      run_program("tapegrad", {"tokenizer", "show", folder / "run", R"("Oslo" plus 120)"});
  check_ended_well(shown);
  CHECK_THAT(shown.out, ContainsSubstring(" 15 bytes, 11 tokens, ") &&
                            ContainsSubstring("' plus'") && ContainsSubstring("'O'"));
}

TEST_CASE("the example's agent runs what a model calls, and counts right answers", "[examples]") {
  if (!has_python()) return;
  const RunningServer server({}, adder().tiny.path);
  const std::string url = "http://127.0.0.1:" + std::to_string(server.port);
  const Result right = python({"-c", R"(
import random, sys, tool_agent, tool_chats
calls, answer = tool_agent.play(sys.argv[1], tool_chats.Tools(random.Random(1)), "What is 12 plus 30?")
assert calls == [("add", '{"a": 12, "b": 30}', "42")], calls
assert answer == "12 plus 30 is 42.", answer
wanted = [("add", {"a": 12, "b": 30})]
assert tool_agent.is_right(wanted, calls, answer)
assert not tool_agent.is_right([("add", {"a": 12, "b": 31})], calls, answer)
assert not tool_agent.is_right([], calls, answer)
assert not tool_agent.is_right(wanted, calls, "12 plus 30 is 142.")
assert not tool_agent.is_right(wanted, calls, "")
)",
                               url});
  INFO(right.err);
  CHECK(right.code == 0);
  const Result tries = python({kExamples / "tool_agent.py", url, "3"});
  check_ended_well(tries);
  CHECK_THAT(tries.out, ContainsSubstring("[('add', '{\"a\": 12, \"b\": 30}', '42')]") &&
                            ContainsSubstring("said '12 plus 30 is 42.'") &&
                            ContainsSubstring("0 of 3 tries end with the right result"));
}
