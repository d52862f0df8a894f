// The forms in which a line has a conversation.

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/chat/conversations.h"
#include "tapegrad/data/chat/internal/tool_lines.h"
#include "tapegrad/data/tokenize/document_ends.h"

namespace tapegrad::data {
namespace {

constexpr int kMostLineDepth = 64;
constexpr const char *kSystem = "system", *kUser = "user", *kAssistant = "assistant",
                     *kTool = "tool";

// The names of roles in data sets, and what templates call them.
struct RoleName {
  std::string_view name, role;
};
constexpr RoleName kRoles[] = {
    {"system", "system"},     {"developer", "developer"}, {"user", "user"},
    {"human", "user"},        {"assistant", "assistant"}, {"gpt", "assistant"},
    {"chatgpt", "assistant"}, {"model", "assistant"},     {"bot", "assistant"},
    {"tool", "tool"},         {"function", "tool"},       {"ipython", "tool"},
    {"observation", "tool"},  {"tool_response", "tool"},  {"function_response", "tool"},
};
// Of an answer whose content is the text of its calls.
constexpr std::string_view kCallRole = "function_call";
// Of an answer; the second one is OpenAI's older form, of a single call.
constexpr const char *kCallsKey = "tool_calls", *kCallKey = "function_call";

bool says_something(const Json& value) {
  return !value.is_null() && !(value.is_string() && value.get_ref<const std::string&>().empty()) &&
         !((value.is_array() || value.is_object()) && value.empty());
}

std::string shown(const Json& value) {
  constexpr std::size_t most = 40;
  const std::string text = json_text(value);
  if (text.size() <= most) return text;
  const std::string_view front(text.data(), most);
  // A character that is cut in two is left out.
  return std::string(front.substr(0, find_invalid_utf8(front).value_or(most))) + "…";
}

// A text, or a list of parts that are texts.
std::string content_of(const Json& value, std::string_view of) {
  if (value.is_string()) return value.get<std::string>();
  check(value.is_array(), "the content of {} is no text: {}", of, shown(value));
  std::string text;
  for (const Json& part : value) {
    const auto it = part.is_object() ? part.find("text") : part.end();
    const bool is_text = part.is_object() && part.value("type", Json()) == "text" &&
                         it != part.end() && it->is_string();
    check(is_text, "the content of {} has a part that is no text: {}", of, shown(part));
    text += it->get_ref<const std::string&>();
  }
  return text;
}

std::string_view role_of(const Json& value, std::string_view of) {
  check(value.is_string(), "{} has no role that is a text", of);
  const std::string& name = value.get_ref<const std::string&>();
  if (name == kCallRole) return kAssistant;
  const auto it = std::find_if(std::begin(kRoles), std::end(kRoles),
                               [&](const RoleName& known) { return known.name == name; });
  check(it != std::end(kRoles), "{} has the unknown role {}", of, shown(value));
  return it->role;
}

// The calls of a message, a list; null if it has none.
Json calls_in_message(const Json& object, const Json& role, const Json& content,
                      const std::string& of) {
  if (role == kCallRole) return calls_of(content, of);
  for (const char* key : {kCallsKey, kCallKey}) {
    const auto found = object.find(key);
    if (found == object.end() || !says_something(*found)) continue;
    check(role_of(role, of) == kAssistant, "{} has '{}', which are the assistant's alone", of, key);
    return calls_of(*found, fmt::format("'{}' of {}", key, of));
  }
  return nullptr;
}

// Templates see what a message says beside its role and content, too: "reasoning_content".
Message message_of(const Json& object, std::size_t number, LeftOutKeys& left_out) {
  const std::string of = fmt::format("message {}", number);
  check(object.is_object(), "{} is no object", of);
  const bool is_sharegpt = object.contains("from");
  const char* role_key = is_sharegpt ? "from" : "role";
  const char* content_key = is_sharegpt ? "value" : "content";
  const auto role = object.find(role_key), content = object.find(content_key);
  check(role != object.end(), "{} has no 'role' or 'from'", of);
  Message message;
  message.role = role_of(*role, of);
  const Json said = content == object.end() ? Json() : *content;
  const Json calls = calls_in_message(object, *role, said, of);
  const bool says_calls_alone = !calls.is_null() && (said.is_null() || *role == kCallRole);
  check(content != object.end() || says_calls_alone, "{} has no '{}'", of, content_key);
  if (!says_calls_alone) message.content = content_of(said, of);
  Json seen = {{"role", message.role}, {"content", message.content}};
  for (const auto& [key, value] : object.items()) {
    if (key == role_key || key == content_key || key == kCallsKey || key == kCallKey) continue;
    if (key == "weight") {
      ++left_out[key];
    } else if (says_something(value)) {
      seen[key] = value;
    }
  }
  if (!calls.is_null()) seen[kCallsKey] = calls;
  if (seen.size() > 2) message.json = json_text(seen);
  return message;
}

// A list of messages, or a text that is one of `role`.
void add_messages(const Json& value, const char* role, std::string_view key,
                  std::vector<Message>& messages, LeftOutKeys& left_out) {
  if (value.is_string()) {
    messages.push_back({role, value.get<std::string>()});
    return;
  }
  check(value.is_array(), "'{}' is neither a text nor a list of messages", key);
  for (const Json& object : value) {
    messages.push_back(message_of(object, messages.size() + 1, left_out));
  }
}

std::string text_at(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return {};
  check(it->is_string(), "'{}' is no text", key);
  return it->get<std::string>();
}

std::string keys_of(const Json& object) {
  constexpr std::size_t most = 8;
  std::string text;
  std::size_t count = 0;
  for (const auto& [key, value] : object.items()) {
    if (++count > most) return text + " …";
    text += (text.empty() ? "" : ", ") + shown(key);
  }
  return text.empty() ? "none" : text;
}

std::vector<Message> messages_of(const Json& line, LeftOutKeys& left_out) {
  std::vector<Message> messages;
  const auto has = [&](const char* key) { return line.contains(key); };
  if (has("messages")) {
    check(line.at("messages").is_array(), "'messages' is no list");
    add_messages(line.at("messages"), kUser, "messages", messages, left_out);
    return messages;
  }
  if (const std::string system = text_at(line, kSystem); !system.empty()) {
    messages.push_back({kSystem, system});
  }
  if (has("conversations")) {
    check(line.at("conversations").is_array(), "'conversations' is no list");
    add_messages(line.at("conversations"), kUser, "conversations", messages, left_out);
  } else if (has("prompt") && has("completion")) {
    add_messages(line.at("prompt"), kUser, "prompt", messages, left_out);
    add_messages(line.at("completion"), kAssistant, "completion", messages, left_out);
  } else if (has("instruction") && has("output")) {
    const std::string input = text_at(line, "input");
    const std::string instruction = text_at(line, "instruction");
    messages.push_back({kUser, input.empty() ? instruction : instruction + "\n\n" + input});
    messages.push_back({kAssistant, text_at(line, "output")});
  } else {
    fail(
        "its keys are {}: a conversation has messages, conversations, prompt and completion, or "
        "instruction and output",
        keys_of(line));
  }
  return messages;
}

// Checks whose results messages are.
class CallIds {
 public:
  // False if the message has no calls.
  bool add(const Message& message) {
    if (message.role != kAssistant || message.json.empty()) return false;
    Json json = parse_json<Json>(message.json, kMostLineDepth);
    const Json* calls = calls_in(json);
    if (calls == nullptr) return false;
    for (const Json& call : *calls) ids_.insert(json_text(call.value("id", Json())));
    return true;
  }
  void check_result(const Message& message, std::size_t number) const {
    if (message.json.empty()) return;
    const Json id = parse_json<Json>(message.json, kMostLineDepth).value("tool_call_id", Json());
    check(id.is_null() || ids_.contains(json_text(id)),
          "message {} is the result of {}, and no call before it has this id", number, shown(id));
  }

 private:
  std::set<std::string> ids_ = {};
};

void check_turns(const std::vector<Message>& messages) {
  const auto is_answer = [](const Message& m) { return m.role == kAssistant; };
  std::size_t first = 0;
  while (first < messages.size() &&
         (messages[first].role == kSystem || messages[first].role == "developer")) {
    ++first;
  }
  CallIds ids;
  const char* due = kUser;
  bool results = false;  // behind calls, and behind other results
  for (std::size_t i = first; i < messages.size(); ++i) {
    const Message& message = messages[i];
    const bool is_result = results && message.role == kTool;
    check(is_result || message.role == due,
          "roles in a wrong order: message {} is of '{}', where one of '{}' is due", i + 1,
          message.role, due);
    if (is_result) ids.check_result(message, i + 1);
    const bool calls = ids.add(message);
    check(!is_answer(message) || calls || !is_blank(message.content), "an empty answer: message {}",
          i + 1);
    results = is_result || calls;
    due = is_answer(message) ? kUser : kAssistant;
  }
  check(std::any_of(messages.begin(), messages.end(), is_answer),
        "there is no answer of the assistant");
  for (const Message& message : messages) {
    check(message.content.find('\0') == std::string::npos, "a message has a NUL");
  }
}

// The functions that a line lets the model call; "functions" is OpenAI's older name.
std::string tools_of(const Json& line) {
  for (const char* key : {"tools", "functions"}) {
    const auto found = line.find(key);
    if (found == line.end() || !says_something(*found)) continue;
    const Json functions = functions_of(*found, fmt::format("'{}'", key));
    return functions.empty() ? "" : json_text(functions);
  }
  return "";
}

}  // namespace

Conversation conversation_of_line(std::string_view line, LeftOutKeys& left_out) {
  Json object;
  try {
    object = parse_json<Json>(line, kMostLineDepth);
  } catch (const Error& error) {
    fail("no JSON: {}", error.what());
  }
  check(object.is_object(), "it is no JSON object");
  LeftOutKeys keys;
  Conversation conversation{messages_of(object, keys)};
  check_turns(conversation.messages);
  conversation.tools = tools_of(object);
  for (const auto& [key, count] : keys) left_out[key] += count;
  return conversation;
}

}  // namespace tapegrad::data
