#include "tapegrad/apps/serve/api/tools/answer_reading.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/data/chat/tools/internal/tool_convention.h"

namespace tapegrad::serve {
namespace {

bool ends_within(std::string_view text, const data::ReasoningMarks& marks) {
  const std::size_t begin = text.rfind(marks.begin), end = text.rfind(marks.end);
  return begin != text.npos && (end == text.npos || end < begin);
}

}  // namespace

std::vector<FunctionTool> callable_functions(const Tools& tools) {
  if (tools.choice != ToolChoice::named) return tools.functions;
  std::vector<FunctionTool> named;
  std::ranges::copy_if(tools.functions, std::back_inserter(named),
                       [&](const FunctionTool& one) { return one.name == tools.name; });
  return named;
}

data::AnswerReading answer_reading(const data::ChatTemplate& chat, const Tools& tools,
                                   std::string_view prompt,
                                   const std::optional<std::string>& begun) {
  data::AnswerReading reading{.reasoning = data::reasoning_marks_of(chat)};
  if (tools.choice != ToolChoice::none) reading.calls = &data::call_format_for(chat);
  for (const FunctionTool& function : callable_functions(tools)) {
    reading.functions.push_back(function.name);
  }
  if (!reading.reasoning) return reading;
  if (!begun) {
    reading.within_reasoning = data::begins_within_reasoning(prompt, *reading.reasoning);
  } else if (!reading.reasoning->channels && ends_within(*begun, *reading.reasoning)) {
    reading.within_reasoning = true;
  } else {  // it has begun with something else
    reading.reasoning.reset();
  }
  return reading;
}

}  // namespace tapegrad::serve
