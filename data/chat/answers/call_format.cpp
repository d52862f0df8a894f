#include "tapegrad/data/chat/answers/internal/call_format.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tapegrad::data {
namespace {

// The forms are those of the families' own templates, and of vLLM's tool parsers, which read the
// same answers: hermes, llama3_json, mistral, granite, functiongemma, gemma4, lfm2, openai. A row
// whose signs contain another's comes first.
constexpr auto kFormats = std::to_array<CallFormat>({
    // Qwen 2.5 and 3, Hermes 2 and 3, SmolLM 3, Granite 4. Qwen3-Coder and GLM write XML between
    // the same marks: their templates spell no "name".
    {.name = "hermes",
     .sign = "<tool_call>",
     .also = R"("name":)",
     .begin = "<tool_call>\n",
     .end = "\n</tool_call>"},
    // Llama 3.1, 3.2 and 3.3: their templates write one call in an answer.
    {.name = "llama3",
     .sign = R"({"name": function name, "parameters":)",
     .arguments_key = "parameters",
     .before = "<|python_tag|>"},
    // Mistral Small 3.2, Devstral, Magistral, Ministral 3 (tokenizers from v11 on).
    {.name = "mistral",
     .sign = "[TOOL_CALLS]",
     .also = "[ARGS]",
     .body = CallBody::name_then_object,
     .begin = "[TOOL_CALLS]",
     .between = "[ARGS]"},
    // Mistral 7B v0.3, Nemo, Small 3.1. An object has an "id", too.
    {.name = "mistral_list",
     .sign = "[TOOL_CALLS]",
     .body = CallBody::list,
     .begin = "[TOOL_CALLS]"},
    // Granite 3. Phi-4-mini has the first sign, too, and another form.
    {.name = "granite3",
     .sign = "<|tool_call|>",
     .also = "<|start_of_role|>",
     .body = CallBody::list,
     .begin = "<|tool_call|>"},
    {.name = "functiongemma",
     .sign = "<start_function_call>",
     .body = CallBody::gemma,
     .begin = "<start_function_call>",
     .end = "<end_function_call>",
     .quote = "<escape>"},
    {.name = "gemma4",
     .sign = "<|tool_call>",
     .body = CallBody::gemma,
     .begin = "<|tool_call>",
     .end = "<tool_call|>",
     .quote = R"(<|"|>)"},
    // LFM2 and 2.5. Some of their templates do not write calls, but all list the tools so.
    {.name = "lfm2",
     .sign = "List of tools: ",
     .also = "<|im_start|>",
     .body = CallBody::python,
     .begin = "<|tool_call_start|>",
     .end = "<|tool_call_end|>"},
    // gpt-oss. The order of the header's parts is free: " to=functions.f<|channel|>commentary".
    {.name = "gpt_oss",
     .sign = "<|channel|>commentary",
     .body = CallBody::name_then_object,
     .begin = "<|channel|>commentary to=functions.",
     .end = "<|call|>",
     .between = " <|constrain|>json<|message|>",
     .channels = true},
});

}  // namespace

bool is_function_name(std::string_view name) {
  constexpr std::size_t kMostBytes = 64;
  return !name.empty() && name.size() <= kMostBytes && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

std::span<const CallFormat> call_formats() { return kFormats; }

const CallFormat& plain_call_format() { return kFormats.front(); }

const CallFormat* call_format_of(const ChatTemplate& chat_template) {
  if (!chat_template.reads("tools")) return nullptr;
  std::string source = chat_template.source();
  std::erase(source, '\\');
  const auto* const format = std::ranges::find_if(kFormats, [&](const CallFormat& row) {
    return source.find(row.sign) != std::string::npos && source.find(row.also) != std::string::npos;
  });
  return format == kFormats.end() ? nullptr : format;
}

}  // namespace tapegrad::data
