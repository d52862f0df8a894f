// Conversations as files of JSON lines have them.

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/chat/conversations.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;
using namespace tapegrad::data;

namespace {

using Turns = std::vector<std::pair<std::string, std::string>>;

Turns turns_of(std::string_view line) {
  LeftOutKeys left_out;
  Turns turns;
  for (const Message& m : conversation_of_line(line, left_out).messages) {
    turns.emplace_back(m.role, m.content);
  }
  return turns;
}

std::string why_bad(std::string_view line) {
  LeftOutKeys left_out;
  try {
    conversation_of_line(line, left_out);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

constexpr const char* kGood =
    R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"}]})";

}  // namespace

TEST_CASE("four forms of lines are the same conversation", "[conversations]") {
  const Turns wanted{{"user", "hi"}, {"assistant", "yes"}};
  CHECK(turns_of(kGood) == wanted);
  CHECK(turns_of(R"({"prompt":"hi","completion":"yes"})") == wanted);
  CHECK(turns_of(R"({"instruction":"hi","output":"yes"})") == wanted);
  CHECK(turns_of(R"({"instruction":"hi","input":"","output":"yes"})") == wanted);
  CHECK(turns_of(
            R"({"conversations":[{"from":"human","value":"hi"},{"from":"gpt","value":"yes"}]})") ==
        wanted);
  CHECK(turns_of(R"({"prompt":[{"role":"user","content":"hi"}],
                     "completion":[{"role":"assistant","content":"yes"}]})") == wanted);
  CHECK(turns_of(R"({"messages":[{"role":"user","content":[{"type":"text","text":"h"},
                     {"type":"text","text":"i"}]},{"role":"assistant","content":"yes"}]})") ==
        wanted);
}

TEST_CASE("an input follows its instruction, and a system text comes first", "[conversations]") {
  CHECK(turns_of(R"({"system":"be brief","instruction":"add","input":"1 2","output":"3"})") ==
        Turns{{"system", "be brief"}, {"user", "add\n\n1 2"}, {"assistant", "3"}});
  CHECK(turns_of(R"({"system":"be brief","conversations":[{"from":"human","value":"hi"},
                     {"from":"gpt","value":"yes"}]})")
            .front() == std::pair<std::string, std::string>("system", "be brief"));
}

TEST_CASE("templates see what a message says beside role and content", "[conversations]") {
  LeftOutKeys left_out;
  const auto conversation = conversation_of_line(
      R"({"tools":[],"messages":[{"role":"user","content":"hi"},
          {"role":"assistant","content":"yes","reasoning_content":"hm","weight":1,"name":null}]})",
      left_out);
  CHECK(conversation.messages[0].json.empty());
  CHECK(conversation.messages[1].json ==
        R"({"role":"assistant","content":"yes","reasoning_content":"hm"})");
  CHECK(conversation.tools.empty());
  CHECK(left_out == LeftOutKeys{{"weight", 1}});
}

TEST_CASE("a line that is no conversation says why", "[conversations]") {
  const auto messages = [](const std::string& list) { return "{\"messages\":[" + list + "]}"; };
  const std::string user = R"({"role":"user","content":"hi"})";
  const std::string answer = R"({"role":"assistant","content":"yes"})";
  CHECK_THAT(why_bad("{"), ContainsSubstring("no JSON"));
  CHECK_THAT(why_bad("[1]"), ContainsSubstring("no JSON object"));
  CHECK_THAT(why_bad(R"({"text":"x"})"), ContainsSubstring("its keys are \"text\""));
  CHECK_THAT(why_bad(messages("")), ContainsSubstring("no answer"));
  CHECK_THAT(why_bad(messages(user)), ContainsSubstring("no answer"));
  CHECK_THAT(why_bad(messages(answer + "," + user)),
             ContainsSubstring("wrong order: message 1 is of 'assistant', where one of 'user'"));
  CHECK_THAT(why_bad(messages(user + "," + user + "," + answer)),
             ContainsSubstring("message 2 is of 'user', where one of 'assistant'"));
  CHECK_THAT(why_bad(messages(user + "," + answer + R"(,{"role":"system","content":"x"})")),
             ContainsSubstring("message 3 is of 'system'"));
  CHECK_THAT(why_bad(messages(user + R"(,{"role":"assistant","content":" \n"})")),
             ContainsSubstring("an empty answer: message 2"));
  CHECK_THAT(why_bad(messages(user + R"(,{"role":"assistant","content":null})")),
             ContainsSubstring("no text"));
  CHECK_THAT(why_bad(messages(user + "," + answer + R"(,{"role":"tool","content":"7"})")),
             ContainsSubstring("message 3 is of 'tool', where one of 'user'"));
  CHECK_THAT(why_bad(messages(R"({"role":"wizard","content":"x"})")),
             ContainsSubstring("unknown role \"wizard\""));
  CHECK_THAT(why_bad(messages(R"({"role":"user","content":[{"type":"image_url"}]})")),
             ContainsSubstring("a part that is no text"));
  CHECK_THAT(why_bad(R"({"prompt":"a\u0000","completion":"b"})"), ContainsSubstring("NUL"));
  CHECK_THAT(why_bad(R"({"messages":[],"messages":[]})"), ContainsSubstring("twice"));
}

TEST_CASE("bad lines are counted and named by file and line", "[conversations]") {
  const TempFolder folder;
  folder.put("chats.jsonl", std::string(kGood) + "\n\nnothing\n" + kGood + "\n{}");
  BadLines bad;
  const ConversationFile file = read_conversations(folder / "chats.jsonl", {}, bad);
  CHECK(file.lines == std::vector<std::int64_t>{1, 4});
  REQUIRE(bad.count() == 2);
  CHECK_THAT(bad.first()[0], ContainsSubstring("chats.jsonl', line 3: no JSON"));
  CHECK_THAT(bad.first()[1], ContainsSubstring("line 5: its keys are none"));
  BadLines strict(true);
  CHECK_THROWS_WITH(read_conversations(folder / "chats.jsonl", {}, strict),
                    ContainsSubstring("line 3: no JSON"));
}

TEST_CASE("a file without any conversation is refused, with its first line", "[conversations]") {
  const TempFolder folder;
  BadLines bad;
  folder.put("list.json", "[\n{}]");
  CHECK_THROWS_WITH(read_conversations(folder / "list.json", {}, bad),
                    ContainsSubstring("a list in JSON") && ContainsSubstring("jq -c"));
  folder.put("none.jsonl", "\n{}\n");
  CHECK_THROWS_WITH(read_conversations(folder / "none.jsonl", {}, bad),
                    ContainsSubstring("no line is a conversation: line 2"));
  folder.put("latin.jsonl", std::string(kGood) + "\n\xe9\n");
  CHECK_THROWS_WITH(read_conversations(folder / "latin.jsonl", {}, bad),
                    ContainsSubstring("not UTF-8") && ContainsSubstring("in line 2"));
}

TEST_CASE("a line that is too long is a bad line", "[conversations]") {
  const TempFolder folder;
  folder.put("long.jsonl",
             std::string(kGood) + "\n" + std::string(5000, ' ') + kGood + "\n" + kGood);
  BadLines bad;
  CorpusOptions options;
  options.max_line_bytes = 1000;
  const ConversationFile file = read_conversations(folder / "long.jsonl", options, bad);
  CHECK(file.lines == std::vector<std::int64_t>{1, 3});
  CHECK_THAT(bad.first().at(0), ContainsSubstring("line 2: it has more than 1000 bytes"));
}

TEST_CASE("an error shows whole characters of what it found", "[conversations]") {
  for (int i = 30; i < 45; ++i) {
    LeftOutKeys keys;
    const std::string line =
        R"({"messages":[{"role":")" + std::string(static_cast<std::size_t>(i), 'x') + "ééé\"}]}";
    std::string message;
    try {
      conversation_of_line(line, keys);
    } catch (const Error& error) {
      message = error.what();
    }
    CHECK_THAT(message, ContainsSubstring("unknown role"));
    CHECK(!find_invalid_utf8(message));
  }
}

TEST_CASE("a file's conversations are passed on one by one as they are read", "[conversations]") {
  const TempFolder folder;
  const std::string good = R"({"prompt":"a","completion":"b"})";
  const auto path = folder.put("chats.jsonl", good + "\n{}\n" + good + "\n");
  BadLines bad, bad_again;
  std::vector<std::int64_t> lines;
  const ConversationFile passed =
      each_conversation(path, {}, bad, [&](Conversation&& conversation, std::int64_t line) {
        CHECK(conversation.messages.size() == 2);
        lines.push_back(line);
      });
  const ConversationFile read = read_conversations(path, {}, bad_again);
  CHECK(lines == std::vector<std::int64_t>{1, 3});
  CHECK(lines == read.lines);
  CHECK(passed.conversations.empty());
  CHECK(passed.fingerprint == read.fingerprint);
  CHECK(passed.bytes == read.bytes);
  CHECK(bad.count() == 1);
}
