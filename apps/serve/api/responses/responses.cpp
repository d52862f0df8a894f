#include "tapegrad/apps/serve/api/responses/responses.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/apps/serve/api/chat_request.h"
#include "tapegrad/apps/serve/api/manner.h"
#include "tapegrad/apps/serve/api/response_format.h"
#include "tapegrad/apps/serve/api/responses/response_answer.h"
#include "tapegrad/apps/serve/api/responses/response_input.h"

namespace tapegrad::serve {
namespace {

// A client that is slow to take its own words again would lose its stream.
constexpr std::size_t kMostEchoed = std::size_t{64} << 10;  // bytes of a field

Json echoed(Fields& fields, std::string_view name, Json otherwise) {
  const Json* found = fields.find(name);
  return found == nullptr || json_text(*found).size() > kMostEchoed ? otherwise : *found;
}

Json read_text(Fields& fields, const ServedModel& model, TextRequest& request, Json& variables) {
  Json format = {{"type", "text"}}, verbosity;
  if (const Json* found = fields.find("text")) {
    Fields text = fields.inside(*found, kInTextOfResponse, "text");
    read_text_format(text, model, request.options);
    format = echoed(text, "format", format);
    read_manner(text, "verbosity", "verbosity", model, variables);
    verbosity = echoed(text, "verbosity", nullptr);
    text.end();
  }
  return {{"format", format}, {"verbosity", verbosity.is_null() ? "medium" : verbosity}};
}

Json read_reasoning(Fields& fields, const ServedModel& model, Json& variables) {
  Json effort;
  if (const Json* found = fields.find("reasoning")) {
    Fields reasoning = fields.inside(*found, kInReasoning, "reasoning");
    read_effort(reasoning, "effort", model, variables);
    effort = echoed(reasoning, "effort", nullptr);
    reasoning.end();
  }
  return {{"effort", effort}, {"summary", nullptr}};
}

// Whatever else it asks for is of tools, or of what is no part of a response here.
void read_include(Fields& fields, nn::GenerateOptions& options) {
  fields.integer("top_logprobs", options.top_logprobs, 0, kMostTop);
  options.logprobs = options.top_logprobs > 0;
  const Json* include = fields.find("include");
  if (include == nullptr) return;
  if (!include->is_array()) fields.refuse_type("include", "a list of texts");
  for (const Json& one : *include) {
    if (!one.is_string()) fields.refuse_type("include", "a list of texts");
    options.logprobs = options.logprobs || one == "message.output_text.logprobs";
  }
}

Json read_metadata(Fields& fields) {
  const Json* metadata = fields.find("metadata");
  if (metadata != nullptr && !metadata->is_object()) fields.refuse_type("metadata", "an object");
  return echoed(fields, "metadata", Json::object());
}

}  // namespace

std::unique_ptr<Job> responses(const Json& body, const Asked& asked) {
  const ServedModel& model = asked.model;
  Fields fields(body, kInResponse, *asked.ignored);
  TextRequest request;
  read_chat_request(fields, asked, request);
  read_max_tokens(fields, "max_output_tokens", request);
  read_include(fields, request.options);
  std::string truncation = "disabled";  // "auto", too, of what fits; all else is refused
  fields.choice("truncation", truncation, {"auto", "disabled"});
  const Tools tools = model.chat ? read_tools(fields, *model.chat, ToolForm::flat) : Tools{};
  Json variables = Json::object();
  const Json text = read_text(fields, model, request, variables);
  const Json reasoning = read_reasoning(fields, model, variables);
  Json echo = {{"background", false},
               {"instructions", echoed(fields, "instructions", nullptr)},
               {"max_output_tokens", request.max_tokens ? Json(*request.max_tokens) : Json()},
               {"metadata", read_metadata(fields)},
               {"parallel_tool_calls", echoed(fields, "parallel_tool_calls", true)},
               {"previous_response_id", nullptr},
               {"reasoning", reasoning},
               {"service_tier", "default"},
               {"store", false},
               {"temperature", echoed(fields, "temperature", 1)},
               {"text", text},
               {"tool_choice", echoed(fields, "tool_choice", "auto")},
               {"tools", echoed(fields, "tools", Json::array())},
               {"top_logprobs", request.options.top_logprobs},
               {"top_p", echoed(fields, "top_p", 1)},
               {"truncation", truncation}};
  const ResponseInput input = read_response_input(fields, asked);
  ChatText chat = chat_text(fields, asked,
                            {.field = "input",
                             .list = input.messages,
                             .places = input.places,
                             .variables = variables,
                             .tools = tools},
                            "text.format", request);
  return answer_job(asked, request, std::move(chat.prompt),
                    std::make_unique<ResponseAnswer>(request, asked, std::move(echo), tools));
}

}  // namespace tapegrad::serve
