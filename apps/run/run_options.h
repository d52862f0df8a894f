#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tapegrad/optim/adamw.h"
#include "tapegrad/optim/schedule.h"
#include "tapegrad/run/product_rate.h"

namespace tapegrad::apps {

// How long the value of an option lasts.
enum class Lasting {
  call,   // of this call only
  run,    // kept in config.json, and may be changed when the run is resumed
  model,  // kept, and cannot be changed
};

// What every training program can be told. Names and meanings are nanoGPT's where it has them.
struct RunOptions {
  // Of config.json, by which programs tell their runs from others'.
  std::string format;

  std::string preset;
  std::vector<std::string> corpus;  // empty: the text that is part of the program
  std::string tokenizer = "char";
  std::string out_dir;  // empty: the next free folder runs/<preset>-<n>
  std::string init_from = "scratch";
  bool overwrite = false;
  std::optional<int> threads;  // as many as there are processors
  uint64_t seed = 1337;
  std::string rng = "philox";

  int64_t batch_size = 12, gradient_accumulation_steps = 1, max_iters = 2000;
  double learning_rate = 1e-3, min_lr = 1e-4;
  std::string schedule = "cosine";
  int64_t warmup_iters = 100;
  std::optional<int64_t> lr_decay_iters;  // max_iters
  double weight_decay = 0.1, beta1 = 0.9, beta2 = 0.99, grad_clip = 1.0;
  bool decay_all = false;
  std::string dtype = "f32";

  int64_t eval_interval = 250, eval_offset = 0, eval_iters = 20, log_interval = 10;
  std::optional<int64_t> checkpoint_interval;  // at each evaluation

  bool resumes() const { return init_from == "resume"; }
  // Whether all random numbers come from the one generator that the initialisation begins.
  bool one_generator() const { return rng == "torch"; }
  Precision precision() const { return precision_of(dtype); }
  optim::AdamWOptions adamw_options() const;
  optim::Schedule lr_schedule() const;
  // Whether an evaluation, or a checkpoint, is due after so many steps.
  bool evaluates_at(int64_t iteration) const;
  bool saves_at(int64_t iteration) const;
  // Decides what is decided once: a run that is resumed with more steps keeps its schedule.
  void settle();
  // Throws Error for values that mean nothing, whoever gave them.
  void check_values() const;
};

// Of --threads: Error if there cannot be so many.
void check_threads(const std::optional<int>& threads);

// The tables of these options, by which they are read, printed, saved and compared (see
// option_table.h). `o` is const for a visitor that only reads.
template <class Options, class Visitor>
void visit_run(Options& o, Visitor&& v) {
  v.group("Run", Lasting::call);
  v("--out-dir", o.out_dir, "DIR", "the run folder [the next free runs/PRESET-N]");
  v.choice("--init-from", o.init_from, {"scratch", "resume"},
           "resume goes on from the last checkpoint in --out-dir");
  v.flag("--overwrite", o.overwrite, "replace a run that --out-dir holds already");
  v("--threads", o.threads, "N", "threads [one per processor]; results do not depend on it", 1);
}

template <class Options, class Visitor>
void visit_randomness(Options& o, Visitor&& v) {
  v("--seed", o.seed, "N", "of the initialisation, the batches and dropout");
  v.choice("--rng", o.rng, {"philox", "torch"},
           "dropout's generator: a fast one of its own, or PyTorch's, shared by all that draws");
}

template <class Options, class Visitor>
void visit_training(Options& o, Visitor&& v) {
  v.group("Optimisation", Lasting::run);
  v("--max-iters", o.max_iters, "N", "optimiser steps", 0);
  v("--batch-size", o.batch_size, "N", "sequences per forward pass", 1);
  v("--gradient-accumulation-steps", o.gradient_accumulation_steps, "N",
    "forward passes per optimiser step", 1);
  v("--learning-rate", o.learning_rate, "X", "after the warm-up", 0);
  v("--min-lr", o.min_lr, "X", "at the end of the decay", 0);
  v.choice("--schedule", o.schedule, {"constant", "linear", "cosine"}, "how the rate decays");
  v("--warmup-iters", o.warmup_iters, "N", "steps until the full learning rate", 0);
  v("--lr-decay-iters", o.lr_decay_iters, "N", "steps until --min-lr [--max-iters]", 0);
  v("--weight-decay", o.weight_decay, "X", "of matrices and embeddings", 0);
  v.flag("--decay-all", o.decay_all, "weight decay of biases and norms, too", true);
  v("--beta1", o.beta1, "X", "AdamW's", 0);
  v("--beta2", o.beta2, "X", "AdamW's", 0);
  v("--grad-clip", o.grad_clip, "X", "the largest norm of the gradient; 0: any", 0);
  v.choice("--dtype", o.dtype, dtype_names(),
           "bf16: linear layers round both operands of their products to it; all else stays f32");

  v.group("Evaluation and output", Lasting::run);
  v("--eval-interval", o.eval_interval, "N", "steps between evaluations", 1);
  v("--eval-offset", o.eval_offset, "N", "steps before the first one", 0);
  v("--checkpoint-interval", o.checkpoint_interval, "N",
    "steps between checkpoints [at each evaluation]", 1);
  v("--eval-iters", o.eval_iters, "N", "batches per split and evaluation", 1);
  v("--log-interval", o.log_interval, "N", "steps between iter lines", 1);
}

}  // namespace tapegrad::apps
