#include "tapegrad/apps/train/plan/print_plan.h"

#include <fmt/ranges.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapegrad/apps/bench/measured_step.h"
#include "tapegrad/apps/bench/trial.h"
#include "tapegrad/apps/train/objectives.h"
#include "tapegrad/apps/train/plan/facts.h"
#include "tapegrad/apps/train/plan/presets.h"
#include "tapegrad/apps/train/plan/print_forecast.h"
#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/base/memory/memory.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/base/text/words.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/run/plan/assumed_step.h"
#include "tapegrad/run/plan/step_forecast.h"
#include "tapegrad/run/record/header_lines.h"
#include "tapegrad/run/record/internal/group_lines.h"

namespace tapegrad::gpt {
namespace {

std::string price_of_recomputing(const nn::Summary& model, const run::MemoryEstimate& stored,
                                 const run::MemoryEstimate& recomputed) {
  return fmt::format("{:.0f} MB less at once for {:.0f} % more work",
                     (stored.total - recomputed.total) / 1e6,
                     100 * model.block_flops() / (3 * model.flops()));
}

// The parameters that are trained, without values.
NamedTensors shapes_of_parameters(const Plan& o) {
  const DryRun dry;
  const nn::Params params = nn::Params::shapes_only();
  nn::make_decoder(params, o.model, o.tuning.build_options(o.extras.recomputes()));
  return params.parameters();
}

std::vector<std::int64_t> elements_of(const NamedTensors& parameters) {
  std::vector<std::int64_t> sizes;
  for (const auto& [name, t] : parameters) sizes.push_back(t.numel());
  return sizes;
}

// The parts of a step of one process, as it was measured.
run::StepParts parts_of(const bench::Trial::Phases& phases, const bench::Trial& trial) {
  return {.forward = phases.forward,
          .backward = phases.backward,
          .norm = phases.norm,
          .update = phases.update,
          .sizes = elements_of(trial.parameters()),
          .completed = phases.completed,
          .units = optim::units_of(trial.parameters(), trial.groups()),
          .blocks = optim::blocks_of(trial.parameters()),
          .threads = num_threads()};
}

// The groups of the parameters that are trained.
void print_groups(const Plan& o) {
  const NamedTensors parameters = shapes_of_parameters(o);
  std::string heading = "groups:";
  for (const std::string& line :
       run::group_lines(parameters, optim::make_groups(parameters, o.optimizer.rules))) {
    fmt::print("{:<10} {}\n", std::exchange(heading, ""), line);
  }
}

// The learning rate, where the number of steps is known before a step is measured.
void print_schedule(const Plan& o) {
  if (o.call.max_minutes || o.epochs.epochs || o.optimizer.max_iters == 0) return;
  std::string heading = "schedule:";
  for (const std::string& line : run::schedule_lines(o.optimizer)) {
    fmt::print("{:<10} {}\n", std::exchange(heading, ""), line);
  }
}

// The optimiser of that name, if it updates a parameter; null if not.
std::shared_ptr<const optim::Optimizer> updater_of(const Plan& o, std::string_view name) {
  const auto all = optim::make_groups(shapes_of_parameters(o), o.optimizer.rules);
  for (const optim::ParameterGroup& group : all.groups) {
    if (group.optimizer->name() == name) return group.optimizer;
  }
  return nullptr;
}

// True if a model that is not trained runs, too.
bool has_second_model(const Plan& o) {
  const DryRun dry;
  const nn::Params params = nn::Params::shapes_only();
  const nn::Decoder trained =
      nn::make_decoder(params, o.model, o.tuning.build_options(o.extras.recomputes()));
  return objective_of(o)->make_second(trained).has_value();
}

// What a step costs that assumed_step() does not know: see there.
void print_unknown_costs(const Plan& o) {
  std::vector<std::string> costs;
  for (const char* name : {"muon", "soap"}) {
    if (const auto updater = updater_of(o, name))
      costs.push_back(fmt::format("the products of {}'s updates", updater->title()));
  }
  if (o.optimizer.averages()) {
    costs.emplace_back(o.optimizer.ema ? "the averages of --ema" : "the averages of --swa-start");
  }
  if (has_second_model(o))
    costs.emplace_back("the forward pass of the reference model or the teacher");
  if (o.tuning.adapters().rank > 0 || !o.tuning.frozen().empty())
    costs.emplace_back("what frozen weights save in backward");
  if (!costs.empty()) fmt::print("uncounted: {}\n", fmt::join(costs, "; "));
}

// How long the run takes, if a step takes so long.
void print_run(const Plan& o, double step) {
  if (o.call.max_minutes) {
    fmt::print(
        "run:       about {:.0f} steps fit into {:.4g} minutes, less what evaluations take{}\n",
        60 * *o.call.max_minutes / step, *o.call.max_minutes,
        o.most_epochs ? fmt::format("; {:g} epochs of a short text end it sooner", *o.most_epochs)
                      : "");
  } else if (!o.epochs.epochs) {
    fmt::print("run:       {} steps take {}, and evaluations beside\n",
               grouped(o.optimizer.max_iters),
               duration_text(step * static_cast<double>(o.optimizer.max_iters)));
  }
}

double tokens_of_batch(const Plan& o) {
  return static_cast<double>(o.optimizer.batch_size * o.text.block_size);
}

// For a model that takes too long to make, or to take a step of one sequence.
int print_prediction(const Plan& o, const bench::PredictedStep& predicted) {
  const auto batches = static_cast<double>(o.optimizer.gradient_accumulation_steps);
  const double step = predicted.step * batches;
  fmt::print(
      "predicted: {:.0f} ms per step at least, {:.0f} tokens/s at most, by {:.0f} GFLOP/s of its "
      "products: to measure one takes longer than {:.0f} s\n",
      step * 1e3, tokens_of_batch(o) * batches / step, predicted.rate * 1e-9,
      bench::kMostMeasuring);
  print_run(o, step);
  if (o.extras.ranks > 1) fmt::print("forecast:  none, since no step was measured\n");
  return 0;
}

// For the machine of --gflops: no step is measured.
int print_assumed(const Plan& o, const nn::Summary& model, const run::MemoryEstimate& estimate) {
  const NamedTensors parameters = shapes_of_parameters(o);
  const double forward = model.flops() * tokens_of_batch(o);
  const double again = o.extras.recomputes() ? model.block_flops() * tokens_of_batch(o) : 0;
  run::StepParts parts = run::assumed_step(
      {.forward = forward,
       .backward = 2 * forward + again,
       .kept = estimate.optimizer,
       .sizes = elements_of(parameters),
       .units = optim::units_of(parameters, optim::make_groups(parameters, o.optimizer.rules))},
      *o.extras.gflops * 1e9, num_threads());
  parts.blocks = optim::blocks_of(parameters);
  const std::int64_t batches = o.optimizer.gradient_accumulation_steps;
  const double step = run::forecast_step(parts, {.batches = batches}, {1, 0}).step;
  fmt::print("predicted: {:.1f} ms per step, {:.0f} tokens/s, by --gflops {:.4g} and {}\n",
             step * 1e3, tokens_of_batch(o) * static_cast<double>(batches) / step, *o.extras.gflops,
             counted(parts.threads, "thread"));
  print_unknown_costs(o);
  print_run(o, step);
  if (o.extras.ranks > 1) print_forecast(o, parts, estimate);
  return 0;
}

// Prints the work and the memory of a step, by computing alone.
run::MemoryEstimate print_needs(const Plan& o, const nn::Summary& model, double tokens) {
  if (!o.preset_note.empty()) fmt::print("recipe:    {}\n", o.preset_note);
  const std::string obstacle = export_obstacle(o.model, o.text.preset);
  if (!obstacle.empty()) fmt::print("export:    not {}\n", obstacle);
  const std::string active =
      o.model.moe.exist() ? fmt::format(" ({} active)", grouped(model.active_parameters())) : "";
  fmt::print("model:     {} parameters{}, {:.3g} GFLOP per step\n", grouped(model.parameters()),
             active, 3e-9 * model.flops() * tokens);
  std::fflush(stdout);
  const auto estimate_with = [&](bool recompute) {
    Plan other = o;
    other.extras.recompute = recompute ? Recompute::on : Recompute::off;
    return memory_of(other);
  };
  const run::MemoryEstimate stored = estimate_with(false), recomputed = estimate_with(true);
  const run::MemoryEstimate& estimate = o.extras.recomputes() ? recomputed : stored;
  fmt::print("memory:    {}\n",
             run::describe(run::memory_of_rank(estimate, 1, o.optimizer.sharing())));
  fmt::print("recompute: {}{}\n",
             o.extras.recomputes() ? "on; it takes " : "off; --recompute would take ",
             price_of_recomputing(model, stored, recomputed));
  if (!o.recompute_note.empty()) fmt::print("auto:      {}\n", o.recompute_note);
  fmt::print("dtype:     {}\n", describe_precision(o.optimizer.precision(), product_of(o)));
  print_schedule(o);
  std::fflush(stdout);
  return estimate;
}

}  // namespace

int print_plan(const Plan& o) {
  const nn::DecoderConfig& config = o.model;
  const run::OptimizerOptions& a = o.optimizer;
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds_left = [&] {
    const auto now = std::chrono::steady_clock::now();
    return bench::kMostMeasuring - std::chrono::duration<double>(now - begin).count();
  };
  const nn::Summary model = nn::summary(config, o.text.block_size);
  const double tokens = tokens_of_batch(o) * static_cast<double>(a.gradient_accumulation_steps);
  const run::MemoryEstimate estimate = print_needs(o, model, tokens);
  if (o.extras.assumes_machine()) {
    print_groups(o);
    return print_assumed(o, model, estimate);
  }
  // A run that does not fit has its memory told, but no time: measuring would not fit, either.
  run::check_memory(run::memory_of_rank(estimate, 1, a.sharing()), o.call.max_minutes.has_value());
  print_groups(o);
  fmt::print("measuring: a step, for at most {:.0f} s\n", bench::kMostMeasuring);
  std::fflush(stdout);
  catch_interrupts();
  const bench::PredictedStep predicted = bench::predicted_step(
      3 * model.flops() * tokens_of_batch(o), product_of(o), a.precision(), estimate);
  const double one = predicted.step / static_cast<double>(a.batch_size);
  if (predicted.making + one > seconds_left()) return print_prediction(o, predicted);
  reset_peak_memory();
  run::StepOptions how = step_options(o);
  const auto objective = objective_of(o);
  std::optional<nn::Decoder> second;  // made of the model that is measured
  bool made = false;
  how.loss = [&](const nn::Decoder& gpt, const nn::Decoder*, const nn::TokenRows& inputs,
                 const Tensor& targets, Rng* dropout) {
    if (!std::exchange(made, true)) second = objective->make_second(gpt);
    return objective->loss_of_rows({gpt, second ? &*second : nullptr}, inputs, targets, dropout);
  };
  bench::Trial trial(config, a.batch_size, o.text.block_size, how);
  const auto measured = bench::measured_step(trial, a.batch_size, o.text.block_size, seconds_left);
  if (!measured) return kInterruptedExitCode;
  const run::StepParts parts = parts_of(measured->phases, trial);
  const double step =
      run::forecast_step(parts, {.batches = a.gradient_accumulation_steps}, {1, 0}).step;
  const std::string amount =
      measured->rows == a.batch_size
          ? fmt::format("{:.0f} MB of tensors at once",
                        static_cast<double>(memory_stats().peak) / 1e6)
          : fmt::format("by {} of the {} sequences of a batch", measured->rows, a.batch_size);
  fmt::print("measured:  {:.1f} ms per step, {:.0f} tokens/s, {}\n", step * 1e3, tokens / step,
             amount);
  if (!measured->whole_period) {
    fmt::print(
        "uncounted: SOAP's eigenvectors: there is no time for --precondition-frequency steps\n");
  }
  print_run(o, step);
  if (o.extras.ranks > 1) print_forecast(o, parts, estimate);
  return 0;
}

}  // namespace tapegrad::gpt
