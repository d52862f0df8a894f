#include "tapegrad/apps/serve/api/tools/earlier_calls.h"

#include <utility>

#include "tapegrad/data/chat/internal/tool_lines.h"

namespace tapegrad::serve {
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
  if (arguments != nullptr && !data::is_arguments(*arguments)) {
    function.refuse("arguments", fmt::format("'{}' must be the text of a JSON object",
                                             function.path_of("arguments")));
  }
  for (Fields* one : {&function, &call}) {
    words_.read(*one);
    one->end();
  }
}

}  // namespace tapegrad::serve
