// Lines of JSON whose conversations have tools, calls and their results.

#include <string>
#include <string_view>

#include "tapegrad/base/error.h"
#include "tapegrad/data/chat/conversations.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::data;

namespace {

Conversation read_line(std::string_view line) {
  LeftOutKeys left_out;
  Conversation made = conversation_of_line(line, left_out);
  CHECK(left_out.empty());
  return made;
}

std::string why_bad_line(std::string_view line) {
  LeftOutKeys left_out;
  try {
    conversation_of_line(line, left_out);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Of messages behind the user's first one.
std::string line_with(const std::string& messages, const std::string& more = "") {
  return R"({"messages":[{"role":"user","content":"1+1?"},)" + messages + "]" + more + "}";
}

constexpr const char* kCall =
    R"({"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":)"
    R"({"name":"add","arguments":"{\"a\": 1}"}}]})";
constexpr const char* kResult = R"({"role":"tool","tool_call_id":"x","content":"2"})";
constexpr const char* kAnswer = R"({"role":"assistant","content":"It is 2."})";
constexpr const char* kFunctions = R"([{"type":"function","function":{"name":"add"}}])";

}  // namespace

TEST_CASE("a line may have tools, calls without a content, and their results", "[tool_lines]") {
  const std::string messages = std::string(kCall) + "," + kResult + "," + kAnswer;
  const Conversation chat =
      read_line(line_with(messages, R"(,"tools":)" + std::string(kFunctions)));
  REQUIRE(chat.messages.size() == 4);
  CHECK(chat.tools == kFunctions);
  CHECK(chat.messages[1].content.empty());
  CHECK(chat.messages[1].json ==
        R"({"role":"assistant","content":"","tool_calls":[{"id":"x","type":"function",)"
        R"("function":{"name":"add","arguments":"{\"a\": 1}"}}]})");
  CHECK(chat.messages[2].role == "tool");
  CHECK_THAT(chat.messages[2].json, ContainsSubstring(R"("tool_call_id":"x")"));
}

TEST_CASE("tools may be functions alone, or a text", "[tool_lines]") {
  const auto tools = [](const std::string& more) {
    return read_line(line_with(kAnswer, "," + more)).tools;
  };
  CHECK(tools(R"("tools":[{"name":"add"}])") == kFunctions);
  CHECK(tools(R"("tools":"[{\"name\":\"add\"}]")") == kFunctions);
  CHECK(tools(R"("functions":[{"name":"add"}])") == kFunctions);
  CHECK(tools(R"("tools":"[]")").empty());
  CHECK(tools(R"("tools":null)").empty());
}

TEST_CASE("older forms of calls become tool_calls", "[tool_lines]") {
  const std::string wanted = R"({"role":"assistant","content":"","tool_calls":[{"type":"function",)"
                             R"("function":{"name":"add","arguments":{"a":1}}}]})";
  const auto call = [](const std::string& message) {
    return read_line(line_with(message)).messages[1].json;
  };
  CHECK(call(R"({"role":"assistant","function_call":{"name":"add","arguments":{"a":1}}})") ==
        wanted);
  CHECK(call(R"({"role":"assistant","tool_calls":[{"name":"add","arguments":{"a":1}}]})") ==
        wanted);
  const Conversation sharegpt = read_line(
      R"({"conversations":[{"from":"human","value":"1+1?"},
          {"from":"function_call","value":"{\"name\":\"add\",\"arguments\":{\"a\":1}}"},
          {"from":"observation","value":"2"},{"from":"gpt","value":"It is 2."}]})");
  REQUIRE(sharegpt.messages.size() == 4);
  CHECK(sharegpt.messages[1].json == wanted);
  CHECK(sharegpt.messages[2].role == "tool");
}

TEST_CASE("a call may end a line, have several results, or none", "[tool_lines]") {
  const std::string call = kCall, result = kResult, user = R"({"role":"user","content":"No."})";
  for (const std::string& messages :
       {call, call + "," + result, call + "," + result + "," + result + "," + kAnswer,
        call + "," + user + "," + kAnswer, call + "," + result + "," + call + "," + result}) {
    CAPTURE(messages);
    CHECK(why_bad_line(line_with(messages)).empty());
  }
}

TEST_CASE("a malformed tool, call or result is named", "[tool_lines]") {
  const auto tools = [](const std::string& list) {
    return why_bad_line(line_with(kAnswer, R"(,"tools":)" + list));
  };
  CHECK_THAT(tools("7"), ContainsSubstring("'tools': no list of functions"));
  CHECK_THAT(tools("\"[\""), ContainsSubstring("'tools': no JSON"));
  CHECK_THAT(tools("[1]"), ContainsSubstring("'tools': element 0 is no object"));
  CHECK_THAT(tools(R"([{"type":"function"}])"), ContainsSubstring("no 'function' with a 'name'"));
  CHECK_THAT(tools(R"([{"name":""}])"), ContainsSubstring("no 'function' with a 'name'"));
  CHECK_THAT(tools(R"([{"type":"x","function":{"name":"f"}}])"),
             ContainsSubstring("of the type \"x\""));
  const auto calls = [](const std::string& list) {
    return why_bad_line(
        line_with(R"({"role":"assistant","content":"","tool_calls":)" + list + "}"));
  };
  CHECK_THAT(calls("1"), ContainsSubstring("'tool_calls' of message 2: no list of calls"));
  CHECK_THAT(calls("[1]"), ContainsSubstring("call 1 is no object"));
  CHECK_THAT(calls(R"([{"name":"f","arguments":"{"}])"),
             ContainsSubstring("call 1 has arguments that are no JSON object"));
  CHECK_THAT(calls(R"([{"name":"f","arguments":[]}])"), ContainsSubstring("no JSON object"));
  CHECK_THAT(calls("[]"), ContainsSubstring("an empty answer: message 2"));
  CHECK_THAT(why_bad_line(line_with(std::string(kCall) + "," + kAnswer)),
             ContainsSubstring("message 3 is of 'assistant', where one of 'user'"));
  CHECK_THAT(why_bad_line(line_with(std::string(kCall) +
                                    R"(,{"role":"tool","tool_call_id":"y","content":"2"})")),
             ContainsSubstring("message 3 is the result of \"y\", and no call before it"));
  CHECK_THAT(why_bad_line(R"({"messages":[{"role":"user","content":"a","tool_calls":[1]}]})"),
             ContainsSubstring("message 1 has 'tool_calls', which are the assistant's alone"));
}
