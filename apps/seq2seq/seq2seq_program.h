#pragma once

#include "tapegrad/apps/seq2seq/pair_data.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::seq2seq {

// The task of train-seq2seq: pairs → tokenizer → batches → Transformer → loss. run::train() trains
// it.
class Program {
 public:
  using Options = seq2seq::Options;
  static constexpr std::string_view kName = "train-seq2seq";
  static constexpr std::string_view kSummary =
      "Trains an encoder-decoder Transformer on pairs of texts, and keeps it in a run folder.";
  static constexpr std::string_view kFormat = run::kSeq2SeqFormat;
  static const std::vector<cli::Preset<Options>>& presets() { return seq2seq::presets(); }
  static void describe(cli::CommandLine& cli);
  static void adjust(Options& options, const cli::CommandLine& cli);
  static run::Product product(const Options& options);
  static std::optional<int> instead(const Options&) { return std::nullopt; }

  // Error if the pairs, or a run that is resumed, cannot be read, or the machine is too small.
  Program(Options& options, run::RunFolder& folder);
  run::Task task();

 private:
  run::Loss next_loss();
  void finish(run::Report& report) const;
  void print_examples(run::Report& report) const;
  run::SideCosts side_costs() const;
  run::About about() const;

  Options& options_;
  run::RunFolder& folder_;
  run::Text text_;
  PairData data_;
  Rng rng_;
  nn::Params params_;
  nn::Transformer model_;
  data::PairLoader loader_;
  Rng own_dropout_;
};

}  // namespace tapegrad::seq2seq
