#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/run/models/model.h"

namespace tapegrad::sampling {

struct SampleOptions {
  std::int64_t num_samples = 1;
  nn::GenerateOptions generate{.max_new_tokens = 500, .temperature = 0.8, .top_k = 200};
  std::vector<std::string> stops = {};  // texts that end a sample, and are no part of it
  bool ignore_eos = false, logprobs = false, json = false;
};

// Prints texts of a model on stdout as they are made, and at the end, on stderr, at what rate. A
// signal ends a text.
class Sampler {
 public:
  Sampler(const run::TextModel& model, const SampleOptions& options, std::uint64_t seed)
      : model_(model), options_(options), rng_(seed) {}

  // num_samples texts of each prompt, one after the other. All draw from one generator in turn.
  void print_samples(const std::vector<std::string>& prompts);
  // Reads prompts from stdin, line by line, and continues each. A signal ends an answer; at the
  // prompt, it ends the conversation. At a terminal, lines can be edited, and /help is one of the
  // commands.
  void converse();

 private:
  nn::TokenStream stream_of(const std::vector<std::string>& prompts, std::int64_t times);
  void print_heading(std::size_t text, std::size_t prompts) const;
  void print_one(const std::string& prompt, nn::TokenStream& stream);
  void print_text(const std::string& prompt, nn::TokenStream& stream);
  void print_pieces(const std::vector<nn::NewToken>& pieces) const;
  void print_json(const std::string& prompt, nn::TokenStream& stream);
  template <class OnText>
  std::vector<nn::NewToken> make(nn::TokenStream& stream, const OnText& on_text);
  void print_rate() const;

  const run::TextModel& model_;
  SampleOptions options_;
  Rng rng_;
  std::int64_t tokens_ = 0;
  double seconds_ = 0;
};

}  // namespace tapegrad::sampling
