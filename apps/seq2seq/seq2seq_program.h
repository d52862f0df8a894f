#pragma once

#include <cstdint>
#include <optional>

#include "tapegrad/apps/cli/training/training_call.h"
#include "tapegrad/apps/seq2seq/pair_data.h"
#include "tapegrad/run/models/model.h"

namespace tapegrad::seq2seq {

// The command line of train-seq2seq.
const cli::TrainingProgram<Options>& training();

using Arguments = cli::Arguments<Options>;

// What a plan depends on beside the arguments. What is not known yet leaves options open.
struct Facts {
  std::optional<Precision> faster = {};         // for --dtype auto
  std::optional<std::int64_t> vocab_size = {};  // of the pairs
};
// The only way from arguments to a plan: nothing changes it after this. Pure.
Options resolve(const Arguments& arguments, const Facts& facts);

// A call up to where a text is needed.
struct ParsedCall {
  Arguments arguments;
  Facts facts;
  Options plan;
};
// Nothing if --help or --version was printed. UsageError for invalid values, and for values that
// cannot change when a run is resumed. --dtype may still be automatic.
std::optional<ParsedCall> parse(const cli::Call& call, int processes = 1);
// The same of these processes, with the dtype that is faster on the machine where it is automatic.
// Chooses what multiplies.
std::optional<ParsedCall> parse(const cli::Call& call, Processes& processes);

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
