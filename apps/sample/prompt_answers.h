#pragma once

#include <deque>
#include <exception>
#include <optional>

#include "tapegrad/apps/sample/prompt_lines.h"
#include "tapegrad/apps/sample/sample_printer.h"

namespace tapegrad::sampling {

// Continues many prompts side by side and prints the texts in the order of the prompts, each when
// it and those before it have ended. A prompt's texts are those that it gets alone with its seed,
// which is that of its line, or `seed` plus the number of the prompts before it.
//
// Prompts are read when there is room for them, and forgotten when their texts are printed. Texts
// that are being made do not wait for further prompts on stdin.
class PromptAnswers {
 public:
  PromptAnswers(const run::TextModel& model, const SampleOptions& options, std::uint64_t seed,
                PromptReader prompts);

  // A signal ends all texts; what is not printed then is left out. A line that is no prompt, or has
  // a character that the model does not know, is an Error after the texts of those before it.
  void print_all();

 private:
  // A prompt whose texts are being made, one after the other.
  struct Answer {
    nn::Generation::Id id;
    Rng start;  // before the text that is being made
    TextMaker maker;
    std::int64_t tokens = 0;  // of the text that is being made
  };
  struct Prompt {
    PromptLine line;
    nn::Tokens tokens;
    nn::GenerateOptions options;
    Rng rng;  // before the next text
    std::optional<Answer> answer = {};
    std::deque<MadeText> texts = {};  // ended, and not printed
    std::int64_t ended = 0;           // texts
  };

  std::optional<Prompt> read_prompt();
  void begin_text(Prompt& prompt);
  void read_next();
  void begin_texts();
  void take(Prompt& prompt);
  void end_text(Prompt& prompt, std::optional<nn::TextEnd> end);
  void print_ended();

  const run::TextModel& model_;
  const SampleOptions& options_;
  SamplePrinter printer_;
  nn::Generation generation_;
  std::uint64_t seed_;
  PromptReader reader_;
  std::optional<Prompt> next_;  // read, and not begun
  std::exception_ptr error_;    // of the line behind it
  bool ended_ = false;          // no prompt is to be read behind it
  bool several_ = false;        // prompts, for headings
  std::uint64_t read_ = 0;      // prompts
  std::deque<Prompt> prompts_;  // begun, and not all of their texts are printed
  std::size_t printed_ = 0;     // texts
};

}  // namespace tapegrad::sampling
