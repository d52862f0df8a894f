#include "tapegrad/apps/sample/prompt_lines.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "tapegrad/base/file.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/text/utf8.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::sampling {
namespace {

constexpr std::size_t kMostPromptBytes = std::size_t{16} << 20, kPiece = std::size_t{1} << 16;
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

PromptReader::PromptReader(const std::string& file) : name_(file == "-" ? "stdin" : file) {
  if (file == "-") {
    read_ = [](char* to, std::size_t most) -> std::size_t {
      if (!wait_for_input(STDIN_FILENO)) return 0;
      const ssize_t count = ::read(STDIN_FILENO, to, most);
      check(count >= 0, "stdin cannot be read: {}", std::strerror(errno));
      return static_cast<std::size_t>(count);
    };
    ready_ = [] {
      pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
      return ::poll(&input, 1, 0) > 0;
    };
    return;
  }
  ready_ = [] { return true; };
  const auto input = std::make_shared<InputFile>(file);
  read_ = [input, file, at = std::uint64_t{0}](char* to, std::size_t most) mutable -> std::size_t {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(most, input->size() - at));
    check(input->read(at, to, count), "{}: cannot be read, or became shorter meanwhile", file);
    at += count;
    return count;
  };
}

// Reads up to the end of a line. False if that would have to wait, and is not to.
bool PromptReader::take_in(bool wait) {
  for (;;) {
    end_ = std::min(bytes_.find('\n', end_), bytes_.size());
    if (end_ < bytes_.size() || ended_) return true;
    if (!wait && !ready_()) return false;
    bytes_.erase(0, std::exchange(at_, 0));
    const std::size_t before = end_ = bytes_.size();
    check(before <= kMostPromptBytes, "{}, line {}: it has more than {} bytes", name_, lines_ + 1,
          kMostPromptBytes);
    bytes_.resize(before + kPiece);
    const std::size_t count = read_(bytes_.data() + before, kPiece);
    bytes_.resize(before + count);
    ended_ = count == 0;
  }
}

std::optional<std::string> PromptReader::next_line() {
  take_in(true);
  if (at_ == bytes_.size() || interrupted()) return std::nullopt;
  std::string_view line = std::string_view(bytes_).substr(at_, end_ - at_);
  at_ = end_ = std::min(end_ + 1, bytes_.size());
  if (lines_ == 0) line = without_byte_order_mark(line);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return std::string(line);
}

bool PromptReader::at_end() {
  try {
    return take_in(false) && at_ == bytes_.size();
  } catch (const Error&) {  // which next() says, when it is the line's turn
    return false;
  }
}

std::optional<PromptLine> PromptReader::next() {
  const std::optional<std::string> line = next_line();
  if (!line) {
    check(lines_ > 0 || interrupted(), "{}: there is no prompt", name_);
    return std::nullopt;
  }
  const std::string where = fmt::format("{}, line {}", name_, ++lines_);
  PromptLine prompt = parse_prompt_line(where, *line);
  check(!prompt.prompt.empty(), "{}: there is nothing to continue", where);
  return prompt;
}

std::optional<PromptLine> PromptList::next() {
  if (at_end()) return std::nullopt;
  return PromptLine{.where = {}, .prompt = std::move(prompts_[at_++])};
}

std::vector<data::Token> tokens_of(const PromptLine& line, const data::Tokenizer& tokenizer) {
  try {
    return run::prompt_tokens(tokenizer, line.prompt);
  } catch (const Error& error) {
    if (line.where.empty()) throw;
    fail("{}: {}", line.where, error.what());
  }
}

void check_prompts(PromptLines& prompts, const data::Tokenizer& tokenizer) {
  while (const auto line = prompts.next()) tokens_of(*line, tokenizer);
}

}  // namespace tapegrad::sampling
