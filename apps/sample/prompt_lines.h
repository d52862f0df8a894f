#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/json_file.h"

namespace tapegrad::sampling {

inline constexpr std::int64_t kMostNewTokens = 1'000'000'000;

// A prompt of a file of many, and what its line sets for itself.
struct PromptLine {
  std::string where;  // "prompts.txt, line 3"
  std::string prompt;
  std::optional<Json> id = {};  // a text or a number, which the answer has as well
  std::optional<std::uint64_t> seed = {};
  std::optional<std::int64_t> max_new_tokens = {};
};

// The prompts of a text, one on each line. A line that begins with { is a JSON object: {"prompt":
// …}, optionally with "id", "seed" and "max_new_tokens". `name` is the file's, for messages.
// Error, with the line, for an empty line or another object, and if there is no line.
std::vector<PromptLine> parse_prompts(const std::string& name, std::string_view text);
// Those of a file; "-" is stdin.
std::vector<PromptLine> read_prompts(const std::string& file);

}  // namespace tapegrad::sampling
