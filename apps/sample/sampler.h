#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "tapegrad/apps/sample/prompt_lines.h"
#include "tapegrad/apps/sample/sample_printer.h"

namespace tapegrad::sampling {

// Prints texts of a model on stdout, and at the end, on stderr, at what rate they were made. They
// are made side by side, and printed in the order of their prompts, the first of those that are
// left as it is made. A signal ends all texts.
//
// Text i draws from a generator of its own with the seed `seed + i`; with one of its prompt's line,
// sample k of that prompt has this seed + k.
class Sampler {
 public:
  Sampler(const run::TextModel& model, const SampleOptions& options, std::uint64_t seed);

  // num_samples texts of each prompt. Prompts are read when there is room for them, and forgotten
  // when their texts are printed. Texts that are being made do not wait for further prompts. A
  // prompt that is none, or has a character that the model does not know, is an Error after the
  // texts of those before it.
  void print_texts(PromptLines& prompts);
  // Reads prompts from stdin, line by line, and continues each. A signal ends an answer; at the
  // prompt, it ends the conversation. At a terminal, lines can be edited, and /help is one of the
  // commands.
  void converse();

 private:
  // A prompt of which texts are begun.
  struct Begun {
    PromptLine line;
    nn::Tokens tokens;
    nn::GenerateOptions options;
    std::uint64_t samples = 0;
  };
  // A text that is begun and not printed.
  struct Asked {
    std::string prompt;
    std::optional<Json> id;
  };

  std::optional<nn::Prompt> next_text(PromptLines& prompts, std::int64_t samples);
  nn::PromptSource texts_of(PromptLines& prompts, std::int64_t samples);
  void print_text(nn::TokenStream& stream);

  const run::TextModel& model_;
  const SampleOptions options_;
  SamplePrinter printer_;
  std::uint64_t seed_;          // of the next text
  std::optional<Begun> begun_;  // the prompt that was read last
  std::size_t prompts_ = 0;     // that were read
  std::deque<Asked> asked_;
};

}  // namespace tapegrad::sampling
