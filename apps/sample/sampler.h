#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/apps/sample/sample_printer.h"

namespace tapegrad::sampling {

// Prints texts of a model on stdout as they are made, and at the end, on stderr, at what rate. A
// signal ends a text.
class Sampler {
 public:
  Sampler(const run::TextModel& model, const SampleOptions& options, std::uint64_t seed)
      : model_(model), options_(options), printer_(model_, options_), rng_(seed) {}

  // num_samples texts of each prompt, one after the other. All draw from one generator in turn.
  void print_samples(const std::vector<std::string>& prompts);
  // Reads prompts from stdin, line by line, and continues each. A signal ends an answer; at the
  // prompt, it ends the conversation. At a terminal, lines can be edited, and /help is one of the
  // commands.
  void converse();

 private:
  nn::TokenStream stream_of(const std::vector<std::string>& prompts, std::int64_t times);
  void print_one(const std::string& prompt, nn::TokenStream& stream);
  MadeText make(nn::TokenStream& stream, const run::OnText& on_text);

  const run::TextModel& model_;
  const SampleOptions options_;
  SamplePrinter printer_;
  Rng rng_;
};

}  // namespace tapegrad::sampling
