#include "tapegrad/apps/serve/api/tools/held_calls.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/apps/serve/api/tools/answer_reading.h"
#include "tapegrad/apps/serve/api/tools/either_mask.h"
#include "tapegrad/base/error.h"
#include "tapegrad/data/grammar/calls/internal/call_grammar.h"
#include "tapegrad/run/models/internal/call_mask.h"

namespace tapegrad::serve {
namespace {

bool must_call(const Tools& tools) {
  return tools.choice == ToolChoice::required || tools.choice == ToolChoice::named;
}

// The function, without its schema if the grammar does not take it.
data::CallFunction held_function(const Fields& fields, const data::CallFormat& format,
                                 const FunctionTool& function, bool must) {
  data::CallFunction held{function.name, function.parameters};
  try {
    data::call_grammar(format, {&held, 1}, false);
  } catch (const Error& error) {
    const std::string why = fmt::format("'{}' cannot be held: {}", function.field, error.what());
    if (must || function.strict) fields.refuse(function.field, why);
    fields.ignore_at(function.field, why);
    held.parameters.clear();
  }
  return held;
}

// Null if they cannot be held, and need not be.
std::shared_ptr<const nn::TokenMask> mask_of_calls(const Fields& fields, const Asked& asked,
                                                   const Tools& tools, run::CallRules rules) {
  run::JsonMasks& masks = asked.model.json_masks;
  constexpr int kMostAtFault = 32;  // each costs as much as a grammar may
  const bool must = must_call(tools);
  bool strict = must;
  const std::vector<FunctionTool> functions = callable_functions(tools);
  for (const FunctionTool& function : functions) {
    rules.functions.push_back({function.name, function.parameters});
    strict = strict || function.strict;
  }
  try {
    return masks.of_calls(rules);
  } catch (const Error&) {  // one of them is at fault, as a rule
    rules.functions.clear();
  }
  const auto give_up = [&](std::string_view cause) {
    const std::string why = fmt::format("'tools' cannot be held: {}", cause);
    if (strict) fields.refuse("tools", why);
    fields.ignore("tools", why);
    return nullptr;
  };
  int at_fault = 0;
  for (const FunctionTool& function : functions) {
    asked.look();
    rules.functions.push_back(held_function(fields, rules.format, function, must));
    if (rules.functions.back().parameters.empty()) ++at_fault;
    if (at_fault > kMostAtFault) return give_up("too many of them have such a schema");
  }
  try {
    return masks.of_calls(rules);
  } catch (const Error& error) {
    return give_up(error.what());
  }
}

}  // namespace

void hold_calls(const Fields& fields, const Asked& asked, const Tools& tools, TextRequest& request,
                data::AnswerReading& reading) {
  std::shared_ptr<const nn::TokenMask>& mask = request.options.mask;
  // Such an answer is JSON from its first character on, or calls.
  if (mask != nullptr) reading.reasoning.reset();
  if (reading.calls == nullptr) return;
  run::CallRules rules{.format = *reading.calls,
                       .functions = {},
                       .several = tools.parallel && tools.choice != ToolChoice::named,
                       .required = must_call(tools) || mask != nullptr,
                       .ends = {}};
  if (!request.ignore_eos) rules.ends = asked.model.answer_ends;
  if (reading.reasoning) {
    rules.free_until = reading.reasoning->end;
    if (!reading.within_reasoning) rules.free_from = reading.reasoning->begin;
  }
  const bool all = run::holds_all_calls(rules.format);
  const auto calls = mask_of_calls(fields, asked, tools, std::move(rules));
  if (calls == nullptr) return;
  const bool either = mask != nullptr && !must_call(tools);
  mask = either ? std::make_shared<const EitherMask>(calls->clone(), mask->clone()) : calls;
  reading.held = !either && all;
}

}  // namespace tapegrad::serve
