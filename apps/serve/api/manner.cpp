#include "tapegrad/apps/serve/api/manner.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace tapegrad::serve {

void read_manner(Fields& fields, std::string_view name, std::string_view variable,
                 const ServedModel& model, Json& variables) {
  std::string value;
  if (!fields.text(name, value)) return;
  if (model.chat && model.chat->reads(variable)) {
    variables[std::string(variable)] = value;
  } else if (value != "medium" && value != "none") {
    fields.ignore(
        name, fmt::format("'{}' is nothing that the model's template reads", fields.path_of(name)));
  }
}

void read_effort(Fields& fields, std::string_view name, const ServedModel& model, Json& variables) {
  constexpr const char* kThinks = "enable_thinking";
  read_manner(fields, name, "reasoning_effort", model, variables);
  std::string value;
  const bool none = fields.text(name, value) && value == "none";
  if (none && model.chat && model.chat->reads(kThinks)) variables[kThinks] = false;
}

}  // namespace tapegrad::serve
