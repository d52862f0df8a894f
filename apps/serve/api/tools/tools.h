#pragma once

#include <string>
#include <vector>

#include "tapegrad/apps/serve/api/fields/fields.h"
#include "tapegrad/data/chat/chat_template.h"

namespace tapegrad::serve {

// A function that a model may ask its client to call.
struct FunctionTool {
  std::string name;        // as the model writes it
  std::string parameters;  // the JSON schema of its arguments, an object
  bool strict = false;     // arguments must fit the schema
  std::string field = {};  // where the schema is in the request: "tools[0].function.parameters"
  // The group that it belongs to, of a response: its name here is called_name(space, name there).
  std::string space = {};
};
std::string called_name(const std::string& space, const std::string& name);

// Whether an answer calls a function.
enum class ToolChoice {
  none,       // it does not
  automatic,  // as the model likes
  required,   // it calls one at least
  named,      // it calls this one
};

struct Tools {
  ToolChoice choice = ToolChoice::none;
  std::vector<FunctionTool> functions = {};  // that may be called; none with ToolChoice::none
  std::string name = {};                     // of ToolChoice::named
  bool parallel = true;                      // an answer may have several calls
  std::string json = {};                     // `functions` as templates see them; "": none
};

// How a request writes a function.
enum class ToolForm {
  nested,  // {"type": "function", "function": {"name": …}}: chat completions
  flat,    // {"type": "function", "name": …}: responses
};

// The fields "tools", "tool_choice" and "parallel_tool_calls". Members of a tool that the template
// does not name are not shown. Refused for whatever is malformed, a name that several functions
// have, and a choice without such a function. In a list of flat tools, those of a "namespace" are
// functions, too, and all other types are ignored and named: the model is not told of them.
Tools read_tools(Fields& fields, const data::ChatTemplate& chat, ToolForm form);

}  // namespace tapegrad::serve
