#pragma once

#include <optional>
#include <vector>

#include "tapegrad/apps/gpt/gpt_options.h"
#include "tapegrad/apps/gpt/init_from.h"
#include "tapegrad/run/models/model.h"
#include "tapegrad/run/train/evaluation/evaluate.h"
#include "tapegrad/run/train/evaluation/preference_evaluation.h"

namespace tapegrad::gpt {

// The command line of train-gpt.
class Training : public cli::TrainingWith<Options> {
 public:
  Training() : TrainingWith(gpt::presets()) {}
  std::string summary() const override {
    return "Trains a GPT on text and keeps it in a run folder.";
  }
  std::string_view format() const override { return run::kGPTFormat; }
  void describe(cli::CommandLine& cli) const override;
  void check_patterns() const override { gpt::check_patterns(o_); }
  void adjust(const cli::CommandLine& cli) override;
  std::optional<int> run_other_mode() const override;
  Product product() const override;
  std::unique_ptr<cli::TrainingJob> prepare(run::RunFolder& folder) override;
};

// The task of train-gpt: corpus → tokenizer → batches → GPT → loss. run::train() trains it.
class Program : public cli::TrainingJob {
 public:
  // Error if a run that is resumed cannot be read, or the machine is too small. The options are
  // settled, and live as long as this.
  Program(const Options& options, run::RunFolder& folder, run::Text text, run::TextData data);
  run::Task task() override;

 private:
  run::Loss next_loss();
  run::PreferenceModel preferring() const;
  run::Loss next_preference_loss();
  void finish_preferences(run::Report& report, const run::WindowOptions& windows) const;
  // The mean losses of `batches` batches of each part of the data.
  std::optional<run::Losses> losses_of(std::int64_t batches, Rng& rng, Processes* processes) const;
  void skip_batch();
  Rng& dropout() { return options_.random.one_generator() ? batches_.rng() : own_dropout_; }
  void finish(run::Report& report) const;
  void save_adapters(run::Report& report) const;
  run::TextStream continuation(std::vector<nn::Tokens> prompts, nn::GenerateOptions options) const;
  void print_samples(run::Report& report) const;
  void print_answers(run::Report& report, bool recorded) const;
  bool shows_sample(const run::Report& report) const;
  void print_sample(run::Report& report) const;
  void print_continuation(run::Report& report) const;
  bool continues_prompt() const { return !options_.passes.sample_prompt.empty(); }
  run::SideCosts side_costs() const;
  run::RunHeader about() const;
  run::HeaderLine about_text() const;

  const Options& options_;
  run::RunFolder& folder_;
  run::Text text_;
  run::TextData data_;
  run::ModelSettings settings_;
  nn::Tokens prompt_;           // of --sample-prompt, or the default one
  run::MemoryEstimate memory_;  // of each process
  Rng rng_;
  nn::Params params_;
  nn::Decoder gpt_;
  std::optional<nn::Decoder> reference_;  // of preferences
  std::optional<nn::Decoder> teacher_;
  run::Batches batches_;
  Rng own_dropout_;
};

Product product_of(const Options& options);  // the largest of a block
// The size of the vocabulary: that of the run to resume, or of the tokenizer that the options ask
// for. Reads the text if that decides it.
std::int64_t vocab_size_of(const Options& options);
// This project's sources and documents, which are part of train-gpt.
run::Text own_sources();
run::MemoryEstimate memory_of(const Options& options);
// Settles --recompute auto by the memory that is available to these processes (null: this one), and
// notes why.
void settle_recompute(Options& options, const Processes* processes = nullptr);

}  // namespace tapegrad::gpt
