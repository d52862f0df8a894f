#pragma once

#include <optional>
#include <vector>

#include "tapegrad/apps/gpt/gpt_options.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/run/train/evaluate.h"

namespace tapegrad::gpt {

// The task of train-gpt: corpus → tokenizer → batches → GPT → loss. run::train() trains it.
class Program {
 public:
  using Options = gpt::Options;
  static constexpr std::string_view kName = "train-gpt";
  static constexpr std::string_view kSummary = "Trains a GPT on text and keeps it in a run folder.";
  static constexpr std::string_view kFormat = run::kGPTFormat;
  static const std::vector<cli::Preset<Options>>& presets() { return gpt::presets(); }
  static void describe(cli::CommandLine& cli);
  static void adjust(Options& options, const cli::CommandLine& cli);
  static run::Product product(const Options& options);
  static std::optional<int> instead(const Options& options);

  // Error if the text, or a run that is resumed, cannot be read, or the machine is too small.
  Program(Options& options, run::RunFolder& folder);
  run::Task task();

 private:
  run::Loss next_loss();
  void pass_over();
  Rng& dropout() { return options_.random.one_generator() ? batches_.rng() : own_dropout_; }
  void finish(run::Report& report) const;
  void print_samples(run::Report& report) const;
  void print_sample(run::Report& report) const;
  void print_continuation(run::Report& report) const;
  bool continues_prompt() const { return !options_.passes.sample_prompt.empty(); }
  run::SideCosts side_costs() const;
  run::About about() const;

  Options& options_;
  run::RunFolder& folder_;
  run::Text text_;
  run::TextData data_;
  nn::Tokens prompt_;  // of --sample-prompt, or the default one
  Rng rng_;
  nn::Params params_;
  nn::LanguageModel gpt_;
  run::Batches batches_;
  Rng own_dropout_;
};

// The size of the vocabulary: that of the run to resume, or of the tokenizer that the options ask
// for. Reads the text, unless the tokenizer is GPT-2's.
std::int64_t vocab_size_of(const Options& options);
// This project's sources and documents, which are part of train-gpt.
run::Text own_sources();
run::MemoryEstimate memory_of(const Options& options);

}  // namespace tapegrad::gpt
