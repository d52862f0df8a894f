#include "tapegrad/apps/serve/api/tools/tools.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "tapegrad/apps/serve/api/fields/template_words.h"
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

std::string type_of(Fields& tool) {
  std::string type;
  if (!tool.text("type", type) || type.empty()) tool.refuse_missing("type");
  return type;
}

void read_function_type(Fields& fields) {
  const std::string type = type_of(fields);
  if (type == "function") return;
  fields.refuse("type",
                fmt::format("'{}' must be 'function': tools of the type '{}' are not known here",
                            fields.path_of("type"), type));
}

void leave_out(const Fields& tool, const std::string& type) {
  const std::string path = tool.path_of("");
  tool.ignore(type, fmt::format("'{}' is a tool of the type '{}', which the model is not told of",
                                path.substr(0, path.size() - 1), type));
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
  words.read(fields);
  Json shown = Json::object();
  for (const auto& [name, value] : object.items()) {
    const bool read = std::ranges::find(known, name) != known.end() || words.has(name);
    if (read && !value.is_null()) shown[name] = value;
  }
  return shown;
}

// Reads what a request says of tools, in one form.
class ToolReader {
 public:
  struct Tool {
    FunctionTool function;
    Json shown;
  };

  ToolReader(const data::ChatTemplate& chat, ToolForm form)
      : words_(chat), flat_(form == ToolForm::flat) {}

  void read_list(Fields& fields) {
    for_each(fields, "tools", [&](Fields tool, const Json& json) {
      flat_ ? read_flat(std::move(tool), json) : read_nested(std::move(tool), json);
    });
  }
  // `name`: of the function that must be called. What must not be called is no tool any more.
  ToolChoice read_choice(Fields& fields, std::string& name);
  std::vector<Tool>& tools() { return tools_; }

 private:
  template <class Read>
  static void for_each(Fields& fields, std::string_view name, Read read) {
    const Json* list = fields.find(name);
    if (list == nullptr) return;
    if (!list->is_array()) fields.refuse_type(name, "a list of tools");
    if (list->size() > kMostTools) {
      fields.refuse(name, fmt::format("'{}' has {} tools, and {} are the most",
                                      fields.path_of(name), list->size(), kMostTools));
    }
    for (std::size_t i = 0; i < list->size(); ++i) {
      read(fields.inside((*list)[i], kInTool, fields.path_of(fmt::format("{}[{}]", name, i))),
           (*list)[i]);
    }
  }
  void read_nested(Fields tool, const Json& json);
  void read_flat(Fields tool, const Json& json);
  void read_group(Fields group);
  void add(Fields& function, const Json& json, const std::string& space, Json shown);
  std::string named_function(Fields fields) const;
  void want_group(Fields group, std::set<std::string>& wanted) const;
  ToolChoice read_allowed(Fields allowed);
  bool has(const std::string& name) const {
    return std::ranges::any_of(tools_,
                               [&](const Tool& tool) { return tool.function.name == name; });
  }

  TemplateWords words_;
  const bool flat_;
  std::vector<Tool> tools_ = {};
  std::set<std::string> names_ = {};
};

void ToolReader::read_nested(Fields tool, const Json& json) {
  read_function_type(tool);
  const Json& member = object_at(tool, "function");
  Fields function = tool.inside(member, kInTool, tool.path_of("function"));
  add(function, member, "", shown_members(tool, json, words_, {"type", "function"}));
  tool.end();
}

void ToolReader::read_flat(Fields tool, const Json& json) {
  const std::string type = type_of(tool);
  if (type == "namespace") return read_group(std::move(tool));
  if (type != "function") return leave_out(tool, type);
  add(tool, json, "", {{"type", "function"}});
}

// {"type": "namespace", "name": …, "tools": […]}
void ToolReader::read_group(Fields group) {
  const std::string space = function_name(group);
  for_each(group, "tools", [&](Fields tool, const Json& json) {
    const std::string type = type_of(tool);
    if (type != "function") return leave_out(tool, type);
    add(tool, json, space, {{"type", "function"}});
  });
  group.end();
}

// A function by its own members, and what a template sees around it.
void ToolReader::add(Fields& function, const Json& json, const std::string& space, Json shown) {
  FunctionTool made{
      .name = called_name(space, function_name(function)), .parameters = {}, .space = space};
  if (!data::is_function_name(made.name)) {
    function.refuse("name", fmt::format("'{}' and the name of its namespace are too long: '{}'",
                                        function.path_of("name"), made.name));
  }
  std::string description;
  function.text("description", description);
  function.boolean("strict", made.strict);
  const Json parameters = parameters_of(function);
  made.parameters = json_text(parameters);
  made.field = function.path_of("parameters");
  Json members = shown_members(function, json, words_, {"name", "description", "parameters"});
  if (flat_) members.erase("type");
  members["name"] = made.name;
  members["parameters"] = parameters;
  shown["function"] = std::move(members);
  function.end();
  if (!names_.insert(made.name).second) {
    function.refuse("name", fmt::format("'{}' is '{}', as that of a tool before it",
                                        function.path_of("name"), made.name));
  }
  if (tools_.size() == kMostTools) {
    function.refuse("name", fmt::format("'{}' is that of one more tool than the {} that may be",
                                        function.path_of("name"), kMostTools));
  }
  tools_.push_back({std::move(made), std::move(shown)});
}

// {"type": "function", "function": {"name": …}}, or flat {"type": "function", "name": …}
std::string ToolReader::named_function(Fields fields) const {
  read_function_type(fields);
  std::optional<Fields> inner;
  if (!flat_) {
    inner.emplace(
        fields.inside(object_at(fields, "function"), kInTool, fields.path_of("function")));
  }
  Fields& function = inner ? *inner : fields;
  std::string space;
  if (flat_) fields.text("namespace", space);
  std::string name = called_name(space, function_name(function));
  if (!has(name)) {
    function.refuse("name",
                    fmt::format("'{}': no tool has the name '{}'", function.path_of("name"), name));
  }
  function.end();
  fields.end();
  return name;
}

// {"type": "namespace", "name": …}
void ToolReader::want_group(Fields group, std::set<std::string>& wanted) const {
  const std::string space = function_name(group);
  bool any = false;
  for (const Tool& tool : tools_) {
    if (tool.function.space != space) continue;
    wanted.insert(tool.function.name);
    any = true;
  }
  if (!any) {
    group.refuse("name", fmt::format("'{}': no tool is in the namespace '{}'",
                                     group.path_of("name"), space));
  }
  group.end();
}

// {"mode": "auto", "tools": [{"type": "function", …}, …]}: all other tools are not there.
ToolChoice ToolReader::read_allowed(Fields allowed) {
  std::string mode = "auto";
  allowed.choice("mode", mode, {"auto", "required"});
  if (allowed.find("tools") == nullptr) allowed.refuse_type("tools", "a list of tools");
  std::set<std::string> wanted;
  for_each(allowed, "tools", [&](Fields tool, const Json&) {
    std::string type;
    const bool is_other = flat_ && tool.text("type", type) && type != "function";
    if (is_other && type == "namespace") return want_group(std::move(tool), wanted);
    if (is_other) return leave_out(tool, type);
    wanted.insert(named_function(std::move(tool)));
  });
  allowed.end();
  std::erase_if(tools_, [&](const Tool& tool) { return !wanted.contains(tool.function.name); });
  return mode == "required" ? ToolChoice::required : ToolChoice::automatic;
}

ToolChoice ToolReader::read_choice(Fields& fields, std::string& name) {
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
  if (found->value("type", Json()) != "allowed_tools") {
    name = named_function(std::move(inner));
    return ToolChoice::named;
  }
  inner.find("type");
  if (flat_) return read_allowed(std::move(inner));
  const Json& allowed = object_at(inner, "allowed_tools");
  inner.end();
  return read_allowed(inner.inside(allowed, kInTool, inner.path_of("allowed_tools")));
}

}  // namespace

std::string called_name(const std::string& space, const std::string& name) {
  return space.empty() ? name : space + "__" + name;
}

Tools read_tools(Fields& fields, const data::ChatTemplate& chat, ToolForm form) {
  ToolReader reader(chat, form);
  reader.read_list(fields);
  Tools tools;
  fields.boolean("parallel_tool_calls", tools.parallel);
  tools.choice = reader.read_choice(fields, tools.name);
  if (tools.choice == ToolChoice::required && reader.tools().empty()) {
    fields.refuse("tool_choice", "'tool_choice' is 'required', and 'tools' has no function");
  }
  if (reader.tools().empty()) tools.choice = ToolChoice::none;
  if (tools.choice == ToolChoice::none) return tools;
  Json shown = Json::array();
  for (ToolReader::Tool& tool : reader.tools()) {
    tools.functions.push_back(std::move(tool.function));
    shown.push_back(std::move(tool.shown));
  }
  tools.json = json_text(shown);
  return tools;
}

}  // namespace tapegrad::serve
