#include "tapegrad/apps/sample/prompt_lines.h"

#include <algorithm>

#include "tapegrad/base/file.h"
#include "tapegrad/base/text/utf8.h"

namespace tapegrad::sampling {
namespace {

constexpr std::int64_t kMostPromptsBytes = std::int64_t{1} << 30;
constexpr int kMostPromptDepth = 4;

PromptLine parse_prompt_line(const std::string& where, std::string_view line) {
  if (!line.starts_with('{')) return {.where = where, .prompt = std::string(line)};
  Json object;
  try {
    object = parse_json<Json>(line, kMostPromptDepth);
  } catch (const Error& error) {
    fail("{}: a line that begins with {{ must be a JSON object: {}", where, error.what());
  }
  PromptLine prompt{.where = where, .prompt = {}};
  get(where, object, "prompt", prompt.prompt);
  for (const auto& [name, value] : object.items()) {
    if (name == "prompt") continue;
    if (name == "id") {
      check(value.is_string() || value.is_number(), "{}: 'id' must be a text or a number", where);
      prompt.id = value;
    } else if (name == "seed") {
      get(where, object, name, prompt.seed);
    } else if (name == "max_new_tokens") {
      get(where, object, name, prompt.max_new_tokens);
      const std::int64_t tokens = prompt.max_new_tokens.value_or(0);
      check(tokens >= 0 && tokens <= kMostNewTokens,
            "{}: 'max_new_tokens' must be from 0 to {}, not {}", where, kMostNewTokens, tokens);
    } else {
      fail("{}: '{}' is none of 'prompt', 'id', 'seed' and 'max_new_tokens'", where, name);
    }
  }
  return prompt;
}

}  // namespace

std::vector<PromptLine> parse_prompts(const std::string& name, std::string_view text) {
  std::vector<PromptLine> prompts;
  text = without_byte_order_mark(text);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string where = fmt::format("{}, line {}", name, prompts.size() + 1);
    prompts.push_back(parse_prompt_line(where, line));
    check(!prompts.back().prompt.empty(), "{}: there is nothing to continue", where);
  }
  check(!prompts.empty(), "{}: there is no prompt", name);
  return prompts;
}

std::vector<PromptLine> read_prompts(const std::string& file) {
  if (file == "-") return parse_prompts("stdin", read_stdin(kMostPromptsBytes));
  return parse_prompts(file, read_file(file, kMostPromptsBytes));
}

}  // namespace tapegrad::sampling
