#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/base/json/internal/json_file.h"
#include "tapegrad/data/tokenize/tokenizer.h"

namespace tapegrad::sampling {

inline constexpr std::int64_t kMostNewTokens = 1'000'000'000;

// A prompt of a file of many, and what its line sets for itself.
struct PromptLine {
  std::string where;  // "prompts.txt, line 3"; empty if it is of no file
  std::string prompt;
  std::optional<Json> id = {};  // a text or a number, which the answer has as well
  std::optional<std::uint64_t> seed = {};
  std::optional<std::int64_t> max_new_tokens = {};
};

// Prompts one by one.
class PromptLines {
 public:
  virtual ~PromptLines() = default;
  virtual std::optional<PromptLine> next() = 0;  // none behind the last one
  virtual bool has_input() = 0;                  // true if next() would return at once
  virtual bool at_end() = 0;  // true if no prompt follows, as far as is known without waiting
};

// Prompts that are there.
class PromptList : public PromptLines {
 public:
  explicit PromptList(std::vector<std::string> prompts) : prompts_(std::move(prompts)) {}
  std::optional<PromptLine> next() override;
  bool has_input() override { return true; }
  bool at_end() override { return at_ == prompts_.size(); }

 private:
  std::vector<std::string> prompts_;
  std::size_t at_ = 0;
};

// Prompts that are read one by one, one from each line, so that memory does not grow with their
// number. A line that begins with { is a JSON object: {"prompt": …}, optionally with "id", "seed"
// and "max_new_tokens".
class PromptReader : public PromptLines {
 public:
  // Copies up to so many of the next bytes to `to`, and returns how many; 0 at the end.
  using Read = std::function<std::size_t(char* to, std::size_t most)>;
  // True if Read would return at once.
  using Ready = std::function<bool()>;
  // `name` is for messages.
  PromptReader(
      std::string name, Read read, Ready ready = [] { return true; })
      : name_(std::move(name)), read_(std::move(read)), ready_(std::move(ready)) {}
  // Of a file; "-" is stdin. Error if it cannot be opened.
  explicit PromptReader(const std::string& file);

  // The next prompt; none behind the last one, or if a signal ends the wait for stdin. Error, with
  // the line, for an empty or very long line or another object, and if there is no line.
  std::optional<PromptLine> next() override;
  // True if next() would return at once: a whole line is there, or the end. Takes in what there is
  // of a line. Error for a very long one.
  bool has_input() override { return take_in(false); }
  bool at_end() override;

 private:
  bool take_in(bool wait);
  std::optional<std::string> next_line();

  std::string name_;
  Read read_;
  Ready ready_;
  std::string bytes_;    // that were read
  std::size_t at_ = 0;   // and of these, the first that next_line() has not returned
  std::size_t end_ = 0;  // of the line there, or how far its end was looked for
  std::int64_t lines_ = 0;
  bool ended_ = false;
};

// The tokens of a prompt. Error, with its line, if it has a character that the model does not know.
std::vector<data::Token> tokens_of(const PromptLine& line, const data::Tokenizer& tokenizer);
// Error unless all prompts can be continued.
void check_prompts(PromptLines& prompts, const data::Tokenizer& tokenizer);

}  // namespace tapegrad::sampling
