// Which way to write calls, and which marks of reasoning, a template has.

#include <string>
#include <string_view>

#include "tapegrad/data/chat/answers/call_format_internal.h"
#include "tapegrad/data/chat/answers/reasoning_marks_internal.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;
using namespace tapegrad::data;

namespace {

// The name of the row, or "".
std::string format_of(const std::string& source) {
  const CallFormat* const format = call_format_of(ChatTemplate(source));
  return format == nullptr ? "" : std::string(format->name);
}

std::string marks_of(const std::string& source) {
  const auto marks = reasoning_marks_of(ChatTemplate(source));
  return marks ? std::string(marks->begin) + " " + std::string(marks->end) : "";
}

const std::string kTools = "{% for t in tools %}{{ t | tojson }}{% endfor %}";

}  // namespace

// What the families' templates write, as it stands in them.
TEST_CASE("the format of calls is found in what a template writes", "[answers]") {
  CHECK(format_of(kTools + R"({{- '<tool_call>\n{"name": "' }}{{ f }}{{ '", "arguments": ' }})") ==
        "hermes");
  CHECK(
      format_of(kTools + R"({{- "\n<tool_call>\n{\"name\": <function-name>}\n</tool_call>" }})") ==
      "hermes");
  CHECK(format_of(kTools + R"({{- 'Respond in the format {"name": function name, "parameters": )"
                           R"(dictionary of argument name and its value}.' }})") == "llama3");
  CHECK(format_of(kTools + R"({{- '[TOOL_CALLS]' + f }}{{- '[CALL_ID]' + id + '[ARGS]' + a }})") ==
        "mistral");
  CHECK(format_of(kTools + R"({{- "[TOOL_CALLS][" }})") == "mistral_list");
  CHECK(format_of(kTools + R"({{- "[TOOL_CALLS] [" }})") == "mistral_list");
  CHECK(format_of(kTools + "{{- 'respond only with <|tool_call|> followed by a JSON list' }}"
                           "{{- '<|start_of_role|>assistant<|end_of_role|>' }}") == "granite3");
  CHECK(format_of(kTools + "{{- '<start_function_call>call:' + f + '{' -}}") == "functiongemma");
  CHECK(format_of(kTools + "{{- '<|tool_call>call:' + f + '{' -}}") == "gemma4");
  CHECK(format_of(R"({%- set s = "List of tools: <|tool_list_start|>[" + tools | tojson -%})"
                  R"({{- "<|im_start|>system\n" + s }})") == "lfm2");
  CHECK(format_of(R"({{- "<|im_start|>system\n" + "Today's date: \n\nList of tools: " + )"
                  R"((tools | tojson) }})") == "lfm2");
  CHECK(format_of(kTools + R"({{- "<|channel|>commentary json<|message|>" }})") == "gpt_oss");
}

TEST_CASE("a template that reads no tools, or writes calls in another way, has no format",
          "[answers]") {
  CHECK(format_of(ChatTemplate::chatml().source()).empty());
  CHECK(format_of(R"({{ '<tool_call>\n{"name": "f"}\n</tool_call>' }})").empty());
  CHECK(format_of(kTools + "{{ messages }}").empty());
  // Qwen3-Coder, GLM and Phi-4-mini.
  CHECK(format_of(kTools + R"({{- '<tool_call>\n<function=' + f + '>\n' }})").empty());
  CHECK(format_of(kTools + "<tool_call>{function-name}\n<arg_key>{arg-key-1}</arg_key>").empty());
  CHECK(format_of(kTools + "{{ '<|tool_call|>' + c + '<|/tool_call|>' }}").empty());
  CHECK(plain_call_format().name == "hermes");
}

TEST_CASE("no sign of a row is found by another row that stands before it", "[answers]") {
  for (const CallFormat& format : call_formats()) {
    INFO(format.name);
    const std::string text = std::string(format.sign) + " " + std::string(format.also);
    CHECK(format_of(kTools + "{# " + text + " #}") == format.name);
    CHECK((format.body == CallBody::gemma) == !format.quote.empty());
    CHECK((format.body == CallBody::name_then_object) == !format.between.empty());
  }
}

TEST_CASE("the marks of reasoning are found in the template", "[answers]") {
  CHECK(marks_of("{{ m.split('</think>')[-1] }}") == "<think> </think>");
  CHECK(marks_of("{{ '[THINK]' + t + '[/THINK]' }}") == "[THINK] [/THINK]");
  CHECK(marks_of("{{ '<|channel|>analysis<|message|>' + t + '<|end|>' }}") ==
        "<|channel|>analysis<|message|> <|end|>");
  CHECK(marks_of("{{- '<|channel>thought\\n<channel|>' -}}") == "<|channel>thought\n <channel|>");
  CHECK(marks_of("{% set b, e = '<seed:think>', '</seed:think>' %}") ==
        "<seed:think> </seed:think>");
  CHECK(marks_of("after 'Here is my thought process:'") ==
        "Here is my thought process: Here is my response:");
  CHECK(marks_of(ChatTemplate::chatml().source()).empty());
}

TEST_CASE("a prompt that ends with the mark has opened the reasoning", "[answers]") {
  const ReasoningMarks marks{.begin = "<think>", .end = "</think>"};
  CHECK(begins_within_reasoning("<|im_start|>assistant\n<think>\n", marks));
  CHECK(begins_within_reasoning("<think>", marks));
  CHECK_FALSE(begins_within_reasoning("<|im_start|>assistant\n", marks));
  CHECK_FALSE(begins_within_reasoning("<think>\n\n</think>\n\n", marks));
  CHECK_FALSE(begins_within_reasoning("", marks));
}
