#pragma once

#include <optional>

#include "tapegrad/run/model_folder.h"
#include "tapegrad/run/run_options.h"

namespace tapegrad::apps {

// What train-gpt can be told. The values here are those of the preset char-cpu.
struct TrainOptions : RunOptions {
  TrainOptions() { format = gpt_format; }

  bool sample = true;
  bool summary = false;  // print the model's parts and do nothing else
  bool plan = false;     // print what a run would need and do nothing else
  bool recompute = false;

  int n_layer = 4, n_head = 4;
  int64_t n_embd = 128, block_size = 64;
  double dropout = 0;
  bool bias = false, qkv_bias = false, tied = false;
  std::string activation = "gelu";
  bool separate_qkv = false, rope = false, unbiased_norm = false;
  bool ff_dropout = false, attn_out_dropout = true;
  std::optional<int64_t> n_inner;  // 4·n_embd

  std::string init = "gpt2", batches = "random";
  std::optional<int64_t> stride;  // block_size
  std::optional<int64_t> epochs;  // in place of max_iters, until the text is known
  std::string sample_prompt;      // empty: no samples but those at the end

  bool in_passes() const { return batches == "epochs"; }

  nn::GPTConfig model_config(int64_t vocab_size) const;
  void check_values() const;
  // What follows from other options. With epochs, this waits for the length of a pass.
  void settle();
  void settle_epochs(int64_t batches_per_epoch);
  template <class Options, class Visitor>
  static void visit(Options& o, Visitor&& v);  // the table: see option_table.h
};

// See parse_run_options.
std::optional<TrainOptions> parse_train_options(int argc, const char* const* argv);

// For config.json: how the run was set up, without where it lies and how it was called.
Json json_of_options(const TrainOptions& options);

}  // namespace tapegrad::apps
