#include "tapegrad/apps/serve/api/responses/response_input.h"

#include <cstddef>
#include <set>
#include <utility>

#include "tapegrad/apps/serve/api/tools/earlier_calls.h"
#include "tapegrad/data/chat/internal/tool_lines.h"

namespace tapegrad::serve {
namespace {

constexpr std::size_t kMostItems = 4096;

std::string text_of(Fields& fields, std::string_view name) {
  std::string text;
  if (!fields.text(name, text)) fields.refuse_missing(name);
  return text;
}

// A part of a content, whose text has the name of what it is.
std::string text_of_part(Fields part) {
  std::string type;
  part.choice("type", type,
              {"input_text", "output_text", "text", "refusal", "reasoning_text", "summary_text"});
  if (type.empty()) part.refuse_missing("type");
  std::string text = text_of(part, type == "refusal" ? "refusal" : "text");
  part.end();
  return text;
}

// A text, or a list of parts that are texts.
std::string content_of_item(Fields& item, const std::string& name) {
  const Json* content = item.find(name);
  if (content == nullptr) item.refuse_missing(name);
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) item.refuse_type(name, "a text, or a list of parts");
  std::string text;
  for (std::size_t i = 0; i < content->size(); ++i) {
    text += text_of_part(
        item.inside((*content)[i], kInPart, item.path_of(fmt::format("{}[{}]", name, i))));
  }
  return text;
}

// Makes messages of items.
class InputReader {
 public:
  explicit InputReader(ResponseInput& made) : made_(made) {}

  void instructions(std::string text) { system("system", std::move(text), "instructions"); }
  void item(Fields item, const std::string& place) {
    std::string type = "message";
    item.choice(
        "type", type,
        {"message", "function_call", "function_call_output", "reasoning", "item_reference"});
    if (type == "item_reference") {
      item.refuse("type", "no item is stored here: 'input' has the items themselves",
                  "unsupported_parameter");
    }
    if (type == "message") message(item, place);
    if (type == "function_call") call(item, place);
    if (type == "function_call_output") output(item, place);
    if (type == "reasoning") reasoning(item, place);
    item.end();
  }

 private:
  void message(Fields& item, const std::string& place) {
    std::string role;
    item.choice("role", role, {"user", "assistant", "system", "developer"});
    if (role.empty()) item.refuse_missing("role");
    std::string content = content_of_item(item, "content");
    if (role == "system" || role == "developer") return system(role, std::move(content), place);
    if (role == "user") return add({{"role", role}, {"content", std::move(content)}}, place);
    Json& last = made_.messages.empty() ? empty_ : made_.messages.back();
    if (last.contains("reasoning_content") && !last.contains("tool_calls") &&
        last["content"] == "") {
      last["content"] = std::move(content);
    } else {
      add({{"role", role}, {"content", std::move(content)}}, place);
    }
  }
  // The first ones are one message.
  void system(const std::string& role, std::string content, const std::string& place) {
    const bool first = made_.messages.empty();
    if (!first && made_.messages.size() == 1 && made_.messages[0]["role"] == "system") {
      made_.messages[0]["content"].get_ref<std::string&>() += "\n\n" + content;
    } else {
      add({{"role", first ? "system" : role}, {"content", std::move(content)}}, place);
    }
  }
  void call(Fields& item, const std::string& place) {
    const std::string id = text_of(item, "call_id");
    if (!calls_.insert(id).second) {
      item.refuse("call_id", fmt::format("'{}' is that of another call", item.path_of("call_id")));
    }
    const std::string name = text_of(item, "name"), arguments = text_of(item, "arguments");
    std::string space;
    item.text("namespace", space);
    if (name.empty()) item.refuse_missing("name");
    if (!data::is_arguments(arguments)) {
      item.refuse("arguments",
                  fmt::format("'{}' must be the text of a JSON object", item.path_of("arguments")));
    }
    Json& made = answer(place)["tool_calls"];
    if (made.size() == kMostCalls) {
      item.refuse("call_id", fmt::format("'{}' is that of one more call than the {} that an answer "
                                         "may have",
                                         item.path_of("call_id"), kMostCalls));
    }
    made.push_back({{"id", id},
                    {"type", "function"},
                    {"function", {{"name", called_name(space, name)}, {"arguments", arguments}}}});
  }
  void output(Fields& item, const std::string& place) {
    const std::string id = text_of(item, "call_id");
    if (!calls_.contains(id)) {
      item.refuse("call_id", fmt::format("'{}' is that of no call before it: '{}'",
                                         item.path_of("call_id"), id));
    }
    add({{"role", "tool"}, {"tool_call_id", id}, {"content", content_of_item(item, "output")}},
        place);
  }
  // Where there is no content, a summary stands for it.
  void reasoning(Fields& item, const std::string& place) {
    std::string text;
    for (const char* name : {"content", "summary"}) {
      if (item.find(name) == nullptr) continue;
      std::string said = content_of_item(item, name);
      if (text.empty()) text = std::move(said);
    }
    if (!text.empty()) {
      add({{"role", "assistant"}, {"content", ""}, {"reasoning_content", text}}, place);
    }
  }
  // The last message, if it is the assistant's: a new one else.
  Json& answer(const std::string& place) {
    if (made_.messages.empty() || made_.messages.back()["role"] != "assistant") {
      add({{"role", "assistant"}, {"content", ""}}, place);
    }
    return made_.messages.back();
  }
  void add(Json message, const std::string& place) {
    made_.messages.push_back(std::move(message));
    made_.places.push_back(place);
  }

  ResponseInput& made_;
  Json empty_ = Json::object();
  std::set<std::string> calls_;
};

}  // namespace

ResponseInput read_response_input(Fields& fields, const Asked& asked) {
  ResponseInput made;
  InputReader reader(made);
  std::string instructions;
  if (fields.text("instructions", instructions)) reader.instructions(std::move(instructions));
  const Json* input = fields.find("input");
  if (input == nullptr) fields.refuse_missing("input");
  if (input->is_string()) {
    made.messages.push_back({{"role", "user"}, {"content", *input}});
    made.places.emplace_back("input");
    return made;
  }
  if (!input->is_array() || input->empty()) {
    fields.refuse_type("input", "a text, or a list of at least one item");
  }
  if (input->size() > kMostItems) {
    fields.refuse("input", fmt::format("'input' has {} items, and {} are the most", input->size(),
                                       kMostItems));
  }
  for (std::size_t i = 0; i < input->size(); ++i) {
    asked.look();
    const std::string place = fmt::format("input[{}]", i);
    reader.item(fields.inside((*input)[i], kInItem, place), place);
  }
  if (made.messages.empty()) fields.refuse("input", "'input' has no message");
  return made;
}

}  // namespace tapegrad::serve
