// The forms in which a line has a conversation.

#include <algorithm>
#include <string>

#include "tapegrad/base/error.h"
#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/data/chat/conversations.h"
#include "tapegrad/data/tokenize/document_ends.h"

namespace tapegrad::data {
namespace {

constexpr int kMostLineDepth = 64;
constexpr const char *kSystem = "system", *kUser = "user", *kAssistant = "assistant";

// The names of roles in data sets, and what templates call them.
struct RoleName {
  std::string_view name, role;
};
constexpr RoleName kRoles[] = {
    {"system", "system"},     {"developer", "developer"}, {"user", "user"},
    {"human", "user"},        {"assistant", "assistant"}, {"gpt", "assistant"},
    {"chatgpt", "assistant"}, {"model", "assistant"},     {"bot", "assistant"},
};
constexpr std::string_view kToolRoles[] = {"tool",         "function",          "ipython",
                                           "observation",  "function_response", "function_call",
                                           "tool_response"};
constexpr std::string_view kToolKeys[] = {"tool_calls", "function_call", "tool_call_id"};

template <class Names>
bool is_one_of(std::string_view name, const Names& names) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

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
  check(!is_one_of(name, kToolRoles), "{} is of the role '{}': tools are left out", of, name);
  const auto it = std::find_if(std::begin(kRoles), std::end(kRoles),
                               [&](const RoleName& known) { return known.name == name; });
  check(it != std::end(kRoles), "{} has the unknown role {}", of, shown(value));
  return it->role;
}

// Templates see what a message says beside its role and content, too: "reasoning_content".
Message message_of(const Json& object, std::size_t number, LeftOutKeys& left_out) {
  const std::string of = fmt::format("message {}", number);
  check(object.is_object(), "{} is no object", of);
  const bool is_sharegpt = object.contains("from");
  const char* role_key = is_sharegpt ? "from" : "role";
  const char* content_key = is_sharegpt ? "value" : "content";
  check(object.contains(role_key), "{} has no 'role' or 'from'", of);
  Message message;
  message.role = role_of(object.at(role_key), of);
  Json seen = {{"role", message.role}};
  for (const auto& [key, value] : object.items()) {
    const bool uses_tools = is_one_of(key, kToolKeys) && says_something(value);
    check(!uses_tools, "{} has '{}': tools are left out", of, key);
  }
  const auto content = object.find(content_key);
  check(content != object.end(), "{} has no '{}'", of, content_key);
  message.content = content_of(*content, of);
  seen["content"] = message.content;
  for (const auto& [key, value] : object.items()) {
    if (key == role_key || key == content_key) continue;
    if (key == "weight") {
      ++left_out[key];
    } else if (says_something(value)) {
      seen[key] = value;
    }
  }
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

void check_turns(const std::vector<Message>& messages) {
  const auto is_answer = [](const Message& m) { return m.role == kAssistant; };
  std::size_t first = 0;
  while (first < messages.size() &&
         (messages[first].role == kSystem || messages[first].role == "developer")) {
    ++first;
  }
  for (std::size_t i = first; i < messages.size(); ++i) {
    const char* due = (i - first) % 2 == 0 ? kUser : kAssistant;
    check(messages[i].role == due,
          "roles in a wrong order: message {} is of '{}', where one of '{}' is due", i + 1,
          messages[i].role, due);
    check(!is_answer(messages[i]) || !is_blank(messages[i].content), "an empty answer: message {}",
          i + 1);
  }
  check(std::any_of(messages.begin(), messages.end(), is_answer),
        "there is no answer of the assistant");
  for (const Message& message : messages) {
    check(message.content.find('\0') == std::string::npos, "a message has a NUL");
  }
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
  for (const char* key : {"tools", "functions"}) {
    if (const auto it = object.find(key); it != object.end() && says_something(*it)) ++keys[key];
  }
  for (const auto& [key, count] : keys) left_out[key] += count;
  return conversation;
}

}  // namespace tapegrad::data
