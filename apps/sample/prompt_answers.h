#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "tapegrad/apps/sample/prompt_lines.h"
#include "tapegrad/apps/sample/sample_printer.h"
#include "tapegrad/apps/sample/stop_text.h"
#include "tapegrad/base/text/utf8.h"

namespace tapegrad::sampling {

// Continues many prompts side by side and prints the texts in the order of the prompts, each when
// it and those before it have ended. A prompt's texts are those that it gets alone with its seed,
// which is that of its line, or `seed` plus the number of the prompts before it.
class PromptAnswers {
 public:
  // Error, with the line, if a prompt has a character that the model does not know.
  PromptAnswers(const run::TextModel& model, const SampleOptions& options, std::uint64_t seed,
                std::vector<PromptLine> prompts);

  // A signal ends all texts; what is not printed then is left out.
  void print_all();

 private:
  // A prompt whose texts are being made, one after the other.
  struct Answer {
    nn::Generation::Id id;
    Rng start;  // before the text that is being made
    Utf8Stream characters;
    StopText stop;
    std::int64_t tokens = 0;  // of the text that is being made
    MadeText made = {};
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

  void begin_text(Prompt& prompt);
  void begin_texts();
  void take(Prompt& prompt);
  void end_text(Prompt& prompt, bool stopped);
  void print_ended();

  const run::TextModel& model_;
  const SampleOptions& options_;
  SamplePrinter printer_;
  nn::Generation generation_;
  std::vector<Prompt> prompts_;
  std::vector<Prompt*> running_;
  std::size_t begun_ = 0;    // prompts
  std::size_t printed_ = 0;  // texts
};

}  // namespace tapegrad::sampling
