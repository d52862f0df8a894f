#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/options/options.h"
#include "tapegrad/run/record/header_lines.h"
#include "tapegrad/run/record/losses.h"

namespace tapegrad::run {

class Report;

// The loss of one batch: a scalar that a tape records, and how many tokens (or other units) the
// batch has, for the rate that iter lines tell; and numbers beside it.
struct Loss {
  Loss(Tensor loss, std::int64_t count = 0)  // NOLINT: a Tensor is one
      : value(std::move(loss)), tokens(count) {}
  Tensor value;
  std::int64_t tokens;
  std::array<double, kMostMetrics> metrics = {};  // see Task
};

// Seconds that a run takes beside its steps.
struct SideCosts {
  double evaluation = 0;  // of one evaluation
  double each_step = 0;   // of after_step, the mean
  double end = 0;         // of finish
};

// A task of training. The model, its data and its loss are the caller's; the task says how the loop
// reaches them. All that it refers to must live as long as train() runs.
//
//   run::RunFolder folder = run::RunFolder::open({.out_dir = "runs/moons"}, "moons");
//   const nn::Params params = folder.params(rng);
//   const Classifier model(params);
//   Points points(…);
//   run::train({.params = params,
//               .batches = points,
//               .loss = [&] { auto [x, y] = points.next(); return cross_entropy(model(x), y); },
//               .evaluate = [&] { return run::Losses{…}; }},
//              folder, {.optimizer = {.max_iters = 500}});
struct Task {
  nn::Params params;
  // The source of the batches: a checkpoint saves its state.
  Resumable batches;
  // The loss of the next batch. A tape that lives around the call records it.
  std::function<Loss()> loss;
  // Passes over a batch of another process: draws the random numbers that loss() would draw.
  // Without it, loss() is called in a DryRun.
  std::function<void()> skip_batch = {};
  // How many targets of each of the next batches count, where that differs: a step's loss is then
  // the mean over all of its targets that count, whichever batch they are in. Empty: batches count
  // the same.
  std::function<std::vector<std::int64_t>(std::int64_t batches)> counted = {};
  // The names of numbers beside the loss in iter lines and metrics.jsonl, such as
  // "reward_margin": means over a batch, as the loss is.
  std::vector<std::string> metrics = {};
  // Returns nothing if a signal interrupts it. It may draw from the generator of the batches.
  std::function<std::optional<Losses>()> evaluate;
  // The generator that the model's dropout draws from, if it is not the batches' own.
  Rng* dropout = nullptr;
  // config.json: its format, and its sections beside those of TrainOptions. A run that is resumed
  // must have the same section "model".
  Config config = {.format = "tapegrad-task", .sections = {}};
  // Writes what the model needs beside its parameters, such as a tokenizer.
  std::function<void(const std::filesystem::path& folder)> write_files = {};
  // After each step that is made here, and its evaluation if there is one.
  std::function<void(Report&)> after_step = {};
  // Runs when after_step does and, in a resumed run, at the step of its checkpoint once more:
  // metrics.jsonl then has only what came before that step.
  std::function<void(Report&)> at_step = {};
  // At the end of a run that no signal has stopped: a last evaluation, samples.
  std::function<void(Report&)> finish = {};
  // Measures a small part of each. It may draw from the generators. Without it, one evaluation is
  // measured as a whole, and other costs count as zero. See time_budget.h.
  std::function<SideCosts()> side_costs = {};
  RunHeader about = {};
};

struct TrainOptions {
  OptimizerOptions optimizer = {};
  EvaluationOptions evaluation = {};
  TraceOptions trace = {};
  // Decides max_iters of a new run: see fit_steps() in time_budget.h.
  std::optional<TimeBudget> time = {};
  // A run that is resumed begins its schedule anew, to decay until max_iters unless lr_decay_iters
  // is given.
  bool restart_schedule = false;
};

// Loss → backward → clip → optimiser, with an evaluation and a checkpoint now and then, until
// max_iters steps are made (true), or a signal (Ctrl-C) has stopped the run (false), which is then
// saved, unless the signal came while steps were measured. A run that is resumed ends with the same
// bits as one that never stopped, if its task is made in the same way: of the model, that is
// checked. Errors: a loss that is not a number, which keeps the last checkpoint; a checkpoint of
// another model, or of more steps than max_iters; a time for a run that is resumed.
//
// The folder's processes, if there are several, each with a task that is made in the same way, make
// the steps that one would make with the same gradient_accumulation_steps, to the bit (with
// comm_dtype f32). Error, before the first step, if they differ in their options, weights or
// batches. Tasks of ranks other than 0 evaluate, but are not asked for anything else.
bool train(const Task& task, RunFolder& folder, const TrainOptions& options = {});

}  // namespace tapegrad::run
