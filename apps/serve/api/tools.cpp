#include "tapegrad/apps/serve/api/tools.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "tapegrad/apps/serve/api/template_words.h"
#include "tapegrad/data/chat/answers/internal/call_format.h"
#include "tapegrad/data/grammar/calls/internal/call_grammar.h"

namespace tapegrad::serve {
namespace {

constexpr std::size_t kMostTools = data::kMostFunctions;

// An object that a member is.
const Json& object_at(Fields& fields, std::string_view name) {
  const Json* found = fields.find(name);
  if (found == nullptr) fields.refuse_missing(name);
  if (!found->is_object()) fields.refuse_type(name, "an object");
  return *found;
}

void read_function_type(Fields& fields) {
  std::string type;
  if (!fields.text("type", type)) fields.refuse_missing("type");
  if (type == "function") return;
  fields.refuse("type",
                fmt::format("'{}' must be 'function': tools of the type '{}' are not known here",
                            fields.path_of("type"), type));
}

std::string function_name(Fields& function) {
  std::string name;
  if (!function.text("name", name)) function.refuse_missing("name");
  if (!data::is_function_name(name)) {
    function.refuse("name", fmt::format("'{}' must have 1 to 64 of the characters a-z, A-Z, 0-9, "
                                        "'_', '-' and '.'",
                                        function.path_of("name")));
  }
  return name;
}

// {"type": "function", "function": {"name": …}}
std::string named_function(Fields fields) {
  read_function_type(fields);
  Fields function =
      fields.inside(object_at(fields, "function"), kInTool, fields.path_of("function"));
  std::string name = function_name(function);
  function.end();
  fields.end();
  return name;
}

// The schema of a function's arguments. Without one, the function has none.
Json parameters_of(Fields& function) {
  const Json* given = function.find("parameters");
  if (given == nullptr) return {{"type", "object"}, {"properties", Json::object()}};
  if (!given->is_object()) function.refuse_type("parameters", "an object: a JSON schema");
  const Json type = given->value("type", Json());
  const bool is_object = type.is_null() || type == "object" ||
                         (type.is_array() && std::ranges::find(type, "object") != type.end());
  if (!is_object) {
    function.refuse("parameters",
                    fmt::format("'{}' must be the schema of an object: its 'type' must be 'object'",
                                function.path_of("parameters")));
  }
  return *given;
}

// The members that a template sees: those that it names, and `known`. Null is not there.
Json shown_members(Fields& fields, const Json& object, TemplateWords& words,
                   std::initializer_list<std::string_view> known) {
  for (const std::string_view name : fields.unknown()) {
    if (words.has(name)) fields.find(name);
  }
  Json shown = Json::object();
  for (const auto& [name, value] : object.items()) {
    const bool read = std::ranges::find(known, name) != known.end() || words.has(name);
    if (read && !value.is_null()) shown[name] = value;
  }
  return shown;
}

struct ReadTool {
  FunctionTool function;
  Json shown;
};

ReadTool read_tool(Fields fields, const Json& tool, TemplateWords& words) {
  read_function_type(fields);
  const Json& member = object_at(fields, "function");
  Fields function = fields.inside(member, kInTool, fields.path_of("function"));
  FunctionTool made{.name = function_name(function), .parameters = {}};
  std::string description;
  function.text("description", description);
  function.boolean("strict", made.strict);
  const Json parameters = parameters_of(function);
  made.parameters = json_text(parameters);
  Json shown = shown_members(fields, tool, words, {"type", "function"});
  shown["function"] = shown_members(function, member, words, {"name", "description", "parameters"});
  shown["function"]["parameters"] = parameters;
  function.end();
  fields.end();
  return {std::move(made), std::move(shown)};
}

void check_most_tools(const Fields& fields, const Json& list) {
  if (list.size() <= kMostTools) return;
  fields.refuse("tools", fmt::format("'{}' has {} tools, and {} are the most",
                                     fields.path_of("tools"), list.size(), kMostTools));
}

std::vector<ReadTool> read_list(Fields& fields, const data::ChatTemplate& chat) {
  const Json* list = fields.find("tools");
  if (list == nullptr) return {};
  if (!list->is_array()) fields.refuse_type("tools", "a list of tools");
  check_most_tools(fields, *list);
  std::vector<ReadTool> made;
  TemplateWords words(chat);
  std::set<std::string> known;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    made.push_back(read_tool(fields.inside((*list)[i], kInTool, path), (*list)[i], words));
    const std::string& name = made.back().function.name;
    if (!known.insert(name).second) {
      const std::string field = path + ".function.name";
      fields.refuse(field, fmt::format("'{}' is '{}', as that of a tool before it", field, name));
    }
  }
  return made;
}

bool has(const std::vector<ReadTool>& tools, const std::string& name) {
  return std::ranges::any_of(tools,
                             [&](const ReadTool& tool) { return tool.function.name == name; });
}

// {"mode": "auto", "tools": [{"type": "function", "function": {"name": …}}, …]}: all other tools
// are not there.
ToolChoice read_allowed(Fields allowed, std::vector<ReadTool>& tools) {
  std::string mode = "auto";
  allowed.choice("mode", mode, {"auto", "required"});
  const Json* list = allowed.find("tools");
  if (list == nullptr || !list->is_array()) allowed.refuse_type("tools", "a list of tools");
  check_most_tools(allowed, *list);
  std::set<std::string> wanted;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    const std::string name =
        named_function(allowed.inside((*list)[i], kInTool, allowed.path_of(path)));
    if (!has(tools, name)) {
      allowed.refuse(path,
                     fmt::format("'{}': no tool has the name '{}'", allowed.path_of(path), name));
    }
    wanted.insert(name);
  }
  allowed.end();
  std::erase_if(tools, [&](const ReadTool& tool) { return !wanted.contains(tool.function.name); });
  return mode == "required" ? ToolChoice::required : ToolChoice::automatic;
}

ToolChoice read_choice(Fields& fields, std::vector<ReadTool>& tools, std::string& name) {
  constexpr std::string_view kField = "tool_choice";
  const Json* found = fields.find(kField);
  if (found == nullptr) return ToolChoice::automatic;
  if (found->is_string()) {
    std::string choice;
    fields.choice(kField, choice, {"auto", "none", "required"});
    if (choice == "none") return ToolChoice::none;
    return choice == "required" ? ToolChoice::required : ToolChoice::automatic;
  }
  if (!found->is_object()) fields.refuse_type(kField, "a text or an object");
  Fields inner = fields.inside(*found, kInTool, std::string(kField));
  if (found->value("type", Json()) == "allowed_tools") {
    inner.find("type");
    const Json& allowed = object_at(inner, "allowed_tools");
    inner.end();
    return read_allowed(inner.inside(allowed, kInTool, inner.path_of("allowed_tools")), tools);
  }
  name = named_function(std::move(inner));
  if (!has(tools, name)) {
    fields.refuse("tool_choice.function.name",
                  fmt::format("'tool_choice.function.name': no tool has the name '{}'", name));
  }
  return ToolChoice::named;
}

}  // namespace

Tools read_tools(Fields& fields, const data::ChatTemplate& chat) {
  std::vector<ReadTool> list = read_list(fields, chat);
  Tools tools;
  fields.boolean("parallel_tool_calls", tools.parallel);
  tools.choice = read_choice(fields, list, tools.name);
  if (tools.choice == ToolChoice::required && list.empty()) {
    fields.refuse("tool_choice", "'tool_choice' is 'required', and there are no 'tools'");
  }
  if (list.empty()) tools.choice = ToolChoice::none;
  if (tools.choice == ToolChoice::none) return tools;
  Json shown = Json::array();
  for (ReadTool& tool : list) {
    tools.functions.push_back(std::move(tool.function));
    shown.push_back(std::move(tool.shown));
  }
  tools.json = json_text(shown);
  return tools;
}

}  // namespace tapegrad::serve
