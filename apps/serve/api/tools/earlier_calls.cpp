#include "tapegrad/apps/serve/api/tools/earlier_calls.h"

#include <utility>

#include "tapegrad/data/chat/answers/internal/call_format.h"

namespace tapegrad::serve {
namespace {

// What a template names is not ignored.
void end_with(Fields& fields, TemplateWords& words) {
  for (const std::string_view name : fields.unknown()) {
    if (words.has(name)) fields.find(name);
  }
  fields.end();
}

}  // namespace

bool is_object_text(const Json& arguments) {
  if (arguments.is_object()) return true;
  if (!arguments.is_string()) return false;
  const std::string& text = arguments.get_ref<const std::string&>();
  if (text.empty()) return true;
  try {
    return parse_json<Json>(text, data::kMostArgumentDepth).is_object();
  } catch (const Error&) {
    return false;
  }
}

void EarlierCalls::read(Fields& message, std::string_view role) {
  if (const Json* calls = message.find("tool_calls")) {
    if (!calls->is_array()) message.refuse_type("tool_calls", "a list of calls");
    if (!calls->empty() && role != "assistant") {
      message.refuse("tool_calls", fmt::format("'{}' is of the role 'assistant' alone",
                                               message.path_of("tool_calls")));
    }
    if (calls->size() > kMostCalls) {
      message.refuse("tool_calls",
                     fmt::format("'{}' has {} calls, and {} are the most",
                                 message.path_of("tool_calls"), calls->size(), kMostCalls));
    }
    for (std::size_t i = 0; i < calls->size(); ++i) {
      const std::string path = message.path_of(fmt::format("tool_calls[{}]", i));
      read_call(message.inside((*calls)[i], kInTool, path));
    }
  }
  std::string id;
  const bool has_id = message.text("tool_call_id", id);
  if (role != "tool") return;
  if (!has_id && !any_without_id_) {
    message.refuse_missing("tool_call_id");
  }
  if (has_id && !ids_.contains(id)) {
    message.refuse("tool_call_id", fmt::format("'{}': no call before has the id '{}'",
                                               message.path_of("tool_call_id"), id));
  }
}

void EarlierCalls::read_call(Fields call) {
  std::string type, id, name;
  call.choice("type", type, {"function"});
  if (call.text("id", id)) {
    ids_.insert(id);
  } else {
    any_without_id_ = true;
  }
  const Json* member = call.find("function");
  if (member == nullptr) {
    call.refuse_missing("function");
  }
  Fields function = call.inside(*member, kInTool, call.path_of("function"));
  if (!function.text("name", name) || name.empty()) {
    function.refuse_missing("name");
  }
  const Json* arguments = function.find("arguments");
  if (arguments != nullptr && !is_object_text(*arguments)) {
    function.refuse("arguments", fmt::format("'{}' must be the text of a JSON object",
                                             function.path_of("arguments")));
  }
  end_with(function, words_);
  end_with(call, words_);
}

}  // namespace tapegrad::serve
