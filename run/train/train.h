#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tapegrad/run/folder/run_folder.h"
#include "tapegrad/run/options/options.h"
#include "tapegrad/run/record/header_lines.h"
#include "tapegrad/run/record/losses.h"
#include "tapegrad/run/train/objective.h"

namespace tapegrad::run {

class Report;

// Seconds that a run takes beside its steps.
struct SideCosts {
  double evaluation = 0;  // of one evaluation
  double each_step = 0;   // of after_step, the mean
  double end = 0;         // of finish
};

// A task of training: parameters, batches and an objective. All that it refers to must live as long
// as train() runs.
//
//   run::RunFolder folder = run::RunFolder::open({.out_dir = "runs/moons"}, "moons");
//   const nn::Params params = folder.params(rng);
//   const Classifier model(params);
//   Points points(…);
//   run::train({.params = params,
//               .batches = points,
//               .objective = run::objective_of(
//                   [&] { auto [x, y] = points.next(); return cross_entropy(model(x), y); },
//                   [&] { return run::Losses{…}; })},
//              folder, {.optimizer = {.max_iters = 500}});
struct Task {
  nn::Params params;
  // The source of the batches: a checkpoint saves its state.
  Resumable batches;
  std::shared_ptr<Objective> objective;  // needed: Error if it is null
  // The generator that the model's dropout draws from, if it is not the batches' own.
  Rng* dropout = nullptr;
  // config.json: its format, and its sections beside those of TrainOptions. A run that is resumed
  // must have the same section "model".
  Config config = {.format = "tapegrad-task", .sections = {}};
  // Writes what the model needs beside its parameters, such as a tokenizer.
  std::function<void(const std::filesystem::path& folder)> write_files = {};
  // After each step, and its evaluation if there is one; in a resumed run also at the step of its
  // checkpoint, which is not `made` here: metrics.jsonl then has only what came before that step.
  // With averages (ema, swa_start), the parameters have them meanwhile, as in evaluations and in
  // finish.
  std::function<void(Report&, bool made)> after_step = {};
  // False where after_step has nothing to do, so that no step waits until the averages are in the
  // parameters' place, or processes have gathered what they share. All processes must get the same
  // answer. Without this function, after_step is called each time.
  std::function<bool(std::int64_t step, bool made)> after_step_due = {};
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
// saved, unless the signal came while steps were measured. With averages of the weights, it
// evaluates and saves these; the parameters end with their own values. A run that is resumed ends
// with the same bits as one that never stopped, if its task is made in the same way: of the model,
// that is checked. Errors: a loss that is not a number, which keeps the last checkpoint; a
// checkpoint of another model, or of more steps than max_iters; a time for a run that is resumed.
//
// The folder's processes, if there are several, each with a task that is made in the same way, make
// the steps that one would make with the same gradient_accumulation_steps, to the bit (with
// comm_dtype f32). What they share (shard) is whole again in each of them where a task is asked for
// an evaluation, samples or a file, and at the end. With local_steps, each makes its own between
// two meetings, and a run evaluates and ends at meetings: its steps are rounded up to one. Groups
// that meet through files (optim::MeetingPlace) are saved before each meeting, and wait for it; a
// signal ends the waiting, as it does a run. Error, before the first step, if processes differ in
// their options, weights or batches. Tasks of ranks other than 0 evaluate, but are not asked for
// anything else.
bool train(const Task& task, RunFolder& folder, const TrainOptions& options = {});

}  // namespace tapegrad::run
