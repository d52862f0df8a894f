#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "tapegrad/data/chat/answers/reasoning_marks_internal.h"

namespace tapegrad::data {
namespace {

// A template has both marks, or names them in the text that asks for them.
constexpr auto kMarks = std::to_array<ReasoningMarks>({
    {.begin = "<|channel|>analysis<|message|>", .end = "<|end|>", .channels = true},  // gpt-oss
    {.begin = "<|channel>thought\n", .end = "<channel|>"},                            // Gemma 4
    {.begin = "<seed:think>", .end = "</seed:think>"},                                // Seed-OSS
    {.begin = "[THINK]", .end = "[/THINK]"},                                          // Magistral
    {.begin = "<think>", .end = "</think>"},  // Qwen 3, DeepSeek R1, SmolLM 3, Granite 3.3, …
    {.begin = "Here is my thought process:", .end = "Here is my response:"},  // Granite 3.2
});

std::string_view without_space_at_end(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

}  // namespace

std::optional<ReasoningMarks> reasoning_marks_of(const ChatTemplate& chat_template) {
  const std::string& source = chat_template.source();
  for (const ReasoningMarks& marks : kMarks) {
    const bool has = source.find(without_space_at_end(marks.begin)) != std::string::npos &&
                     source.find(marks.end) != std::string::npos;
    if (has) return marks;
  }
  return std::nullopt;
}

bool begins_within_reasoning(std::string_view prompt, const ReasoningMarks& marks) {
  return without_space_at_end(prompt).ends_with(without_space_at_end(marks.begin));
}

}  // namespace tapegrad::data
