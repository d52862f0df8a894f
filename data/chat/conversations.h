#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/chat/chat_template.h"
#include "tapegrad/data/corpus/corpus.h"

namespace tapegrad::data {

// Conversations to learn from, as files of JSON lines have them. A line is an object in one of the
// forms that people have:
//   {"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}, …]}
//   {"prompt": "…", "completion": "…"}, or each a list of such messages
//   {"instruction": "…", "input": "…", "output": "…"}, of which input may be empty or missing
//   {"conversations": [{"from": "human", "value": "…"}, {"from": "gpt", "value": "…"}, …]}
// A "system" text beside the last three is the first message. A content may be a list of parts
// {"type": "text", "text": "…"}. With all of them,
// - "tools" of the line are the functions that the model may call: OpenAI's list, functions
//   {"name": …} alone, or the text of such a list
// - an answer may have "tool_calls", beside a content or in place of one; or the role
//   "function_call" and a content that is the text of its calls
// - messages of the role "tool" behind it are their results

// The conversation of such a line, whose tools and calls are in OpenAI's form: see
// with_tools_for(). Counts, by name, keys of it that are left out: OpenAI's "weight" of a message.
// Error, saying what is wrong: no form of these; a role that is unknown; roles in a wrong order,
// since after the system's messages user and assistant take turns, and results stand between calls
// and the next answer; no answer, or one without content and calls; a malformed tool or call; a
// result of an unknown call; a NUL.
using LeftOutKeys = std::map<std::string, std::int64_t>;
Conversation conversation_of_line(std::string_view line, LeftOutKeys& left_out);

// Lines that are left out. The first ones are kept, to be named.
class BadLines {
 public:
  // `strict`: add() throws what is wrong with the first one.
  explicit BadLines(bool strict = false) : strict_(strict) {}
  void add(const std::filesystem::path& file, std::int64_t line, std::string_view reason);

  std::int64_t count() const { return count_; }
  // "'chats.jsonl', line 7: an empty answer: message 2": of the first kMostKept.
  const std::vector<std::string>& first() const { return first_; }
  static constexpr std::size_t kMostKept = 10;

 private:
  bool strict_;
  std::int64_t count_ = 0;
  std::vector<std::string> first_;
};

struct ConversationFile {
  std::filesystem::path path;
  std::vector<Conversation> conversations;
  std::vector<Conversation> rejected = {};  // of pairs: the other one of each; see below
  std::vector<std::int64_t> lines;          // of each, counted from 1
  LeftOutKeys left_out = {};
  std::int64_t bytes = 0;   // of the file's text
  std::string fingerprint;  // of its lines
};

// The contents of a line: a conversation; or a pair of them, whose chosen ones are `conversations`
// (see preference_pairs.h).
enum class LineForm { conversation, pair };

// Reads a file, packed or not, in `options.encoding`. Empty lines are skipped, and lines that are
// not of the form go to `bad`. Errors: a file that cannot be read, is not text, or is larger than
// options.max_bytes; one in which no line is of the form.
ConversationFile read_conversations(const std::filesystem::path& path, const CorpusOptions& options,
                                    BadLines& bad, LineForm form = LineForm::conversation);

// The same for a file of any size: each conversation goes to `take` with its line, and the result
// has none of them.
using TakeConversation = std::function<void(Conversation&& conversation, std::int64_t line)>;
ConversationFile each_conversation(const std::filesystem::path& path, const CorpusOptions& options,
                                   BadLines& bad, const TakeConversation& take);

}  // namespace tapegrad::data
