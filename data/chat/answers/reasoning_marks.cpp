#include "tapegrad/data/chat/answers/internal/reasoning_marks.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "tapegrad/base/text/internal/spaces.h"

namespace tapegrad::data {
namespace {

struct MarksOfSign {
  std::string_view sign;  // a text that the templates have, and others do not
  ReasoningMarks marks;
};

constexpr auto kMarks = std::to_array<MarksOfSign>({
    {"<|channel|>analysis",  // gpt-oss
     {.begin = "<|channel|>analysis<|message|>", .end = "<|end|>", .channels = true}},
    {"<channel|>", {.begin = "<|channel>thought\n", .end = "<channel|>"}},  // Gemma 4
    {"</seed:think>", {.begin = "<seed:think>", .end = "</seed:think>"}},   // Seed-OSS
    {"[/THINK]", {.begin = "[THINK]", .end = "[/THINK]"}},                  // Magistral
    // Qwen 3, DeepSeek R1, SmolLM 3, LFM2.5, Granite 3.3: some templates have the second mark
    // alone, to leave out what stands before it.
    {"</think>", {.begin = "<think>", .end = "</think>"}},
    {"Here is my thought process:",  // Granite 3.2
     {.begin = "Here is my thought process:", .end = "Here is my response:"}},
});

}  // namespace

std::optional<ReasoningMarks> reasoning_marks_of(const ChatTemplate& chat_template) {
  const std::string& source = chat_template.source();
  for (const MarksOfSign& row : kMarks) {
    if (source.find(row.sign) != std::string::npos) return row.marks;
  }
  return std::nullopt;
}

bool begins_within_reasoning(std::string_view prompt, const ReasoningMarks& marks) {
  return without_space_at_end(prompt).ends_with(without_space_at_end(marks.begin));
}

}  // namespace tapegrad::data
