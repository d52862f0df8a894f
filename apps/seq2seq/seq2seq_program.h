#pragma once

#include <cstdint>
#include <optional>

#include "tapegrad/apps/cli/training/training_call.h"
#include "tapegrad/apps/seq2seq/pair_data.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::seq2seq {

// What a plan depends on beside the arguments. What is not known yet leaves options open.
struct Facts {
  std::optional<Precision> faster = {};         // for --dtype auto
  std::optional<std::int64_t> vocab_size = {};  // of the pairs
};

// The command line of train-seq2seq.
const cli::TrainingProgram<Options, Facts>& training();

// Its main().
int train(const cli::Call& call);

// The task of train-seq2seq: pairs → tokenizer → batches → Transformer → loss. run::train() trains
// it.
class Program {
 public:
  // Error if a run that is resumed cannot be read, or the machine is too small. The folder must
  // live as long as this.
  Program(Options plan, run::RunFolder& folder, run::Text text, PairData data);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  run::Task task();  // which refers to this

 private:
  run::Loss next_loss();
  std::optional<run::Losses> losses_of(std::int64_t batches) const;
  void finish(run::Report& report) const;
  void print_examples(run::Report& report) const;
  run::SideCosts side_costs() const;
  run::RunHeader about() const;

  const Options plan_;
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
