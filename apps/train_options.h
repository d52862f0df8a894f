#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/cli.h"
#include "apps/json_file.h"
#include "nn/gpt.h"
#include "optim/adamw.h"
#include "optim/schedule.h"

namespace tapegrad::apps {

// What train-gpt can be told. Names and meanings are nanoGPT's where it has them; the values here
// are those of the preset char-cpu.
struct TrainOptions {
  std::string preset = "quickstart";
  std::vector<std::string> corpus;  // empty: the text that is part of the program
  std::string tokenizer = "char";
  std::string out_dir;  // empty: the next free folder runs/<preset>-<n>
  std::string init_from = "scratch";
  bool overwrite = false;
  bool sample = true;
  std::optional<int> threads;  // as many as there are processors

  int n_layer = 4, n_head = 4;
  int64_t n_embd = 128, block_size = 64;
  double dropout = 0;
  bool bias = false, qkv_bias = false, tied = false;
  std::string activation = "gelu";
  uint64_t seed = 1337;

  int64_t batch_size = 12, gradient_accumulation_steps = 1, max_iters = 2000;
  double learning_rate = 1e-3, min_lr = 1e-4;
  std::string schedule = "cosine";
  int64_t warmup_iters = 100;
  std::optional<int64_t> lr_decay_iters;  // max_iters
  double weight_decay = 0.1, beta1 = 0.9, beta2 = 0.99, grad_clip = 1.0;

  int64_t eval_interval = 250, eval_iters = 20, log_interval = 10;

  bool resumes() const { return init_from == "resume"; }
  nn::GPTConfig model_config(int64_t vocab_size) const;
  optim::AdamWOptions adamw_options() const;
  optim::Schedule lr_schedule() const;
};

// The options that the arguments ask for: those of the preset, or of the run to resume, with what
// was given explicitly in their place. Nothing if --help was all that was wanted. Throws
// UsageError for values that mean nothing and for what cannot change when a run is resumed.
std::optional<TrainOptions> parse_train_options(int argc, const char* const* argv);

// For config.json: how the run was set up, without where it lies and how it was called.
Json options_to_json(const TrainOptions& options);
TrainOptions options_from_json(const std::filesystem::path& path, const Json& json);

}  // namespace tapegrad::apps
