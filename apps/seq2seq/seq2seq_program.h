#pragma once

#include "tapegrad/apps/seq2seq/pair_data.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::seq2seq {

// The command line of train-seq2seq.
class Training : public cli::TrainingWith<Options> {
 public:
  Training() : TrainingWith(seq2seq::presets()) {}
  std::string summary() const override {
    return "Trains an encoder-decoder Transformer on pairs of texts, and keeps it in a run folder.";
  }
  std::string_view format() const override { return run::kSeq2SeqFormat; }
  void describe(cli::CommandLine& cli) const override;
  void check_patterns() const override;
  void adjust(const cli::CommandLine& cli) override;
  Product product() const override;
  std::unique_ptr<cli::TrainingJob> prepare(run::RunFolder& folder) override;
};

// The task of train-seq2seq: pairs → tokenizer → batches → Transformer → loss. run::train() trains
// it.
class Program : public cli::TrainingJob {
 public:
  // Error if a run that is resumed cannot be read, or the machine is too small. The options are
  // settled, and live as long as this.
  Program(const Options& options, run::RunFolder& folder, run::Text text, PairData data);
  run::Task task() override;

 private:
  run::Loss next_loss();
  void finish(run::Report& report) const;
  void print_examples(run::Report& report) const;
  run::SideCosts side_costs() const;
  run::RunHeader about() const;

  const Options& options_;
  run::RunFolder& folder_;
  run::Text text_;
  PairData data_;
  run::MemoryEstimate memory_;  // of each process
  Rng rng_;
  nn::Params params_;
  nn::Transformer model_;
  data::PairLoader loader_;
  Rng own_dropout_;
};

}  // namespace tapegrad::seq2seq
