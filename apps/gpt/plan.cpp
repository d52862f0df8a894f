#include "tapegrad/apps/gpt/plan.h"

#include <cstdio>
#include <optional>

#include "tapegrad/apps/gpt/gpt_program.h"
#include "tapegrad/apps/gpt/trial.h"
#include "tapegrad/autograd/base/memory.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/run/interrupt.h"
#include "tapegrad/run/median.h"
#include "tapegrad/run/terminal.h"

namespace tapegrad::gpt {
namespace {

constexpr double kEnoughSeconds = 2;
constexpr int kLeastSteps = 3, kMostSteps = 20;

// Seconds of one optimiser step: the median of as many steps as fit into about two seconds. Two
// steps before them, which get memory from the system, do not count. Nothing if a signal interrupts
// it.
std::optional<double> measured_step(Trial& trial, int64_t accumulation) {
  std::vector<double> seconds;
  double all = 0;
  for (int i = -2; i < kLeastSteps || (all < kEnoughSeconds && i < kMostSteps); ++i) {
    const Trial::Phases p = trial.step();
    const double step =
        static_cast<double>(accumulation) * (p.forward + p.backward) + p.norm + p.adamw;
    if (i >= 0) seconds.push_back(step);
    all += p.total();
    if (run::interrupted()) return std::nullopt;
  }
  return run::median(seconds);
}

std::string price_of_recomputing(const nn::Summary& model, const run::MemoryEstimate& stored,
                                 const run::MemoryEstimate& recomputed) {
  double blocks = 0;
  for (const nn::SummaryRow& row : model.block) blocks += row.flops;
  blocks *= static_cast<double>(model.blocks);
  return fmt::format("{:.0f} MB less at once for {:.0f} % more work",
                     (stored.total - recomputed.total) / 1e6, 100 * blocks / (3 * model.flops()));
}

}  // namespace

int print_plan(const Options& o) {
  const nn::GPTConfig& config = o.model;
  const run::OptimizerOptions& a = o.optimizer;
  const auto estimate_with = [&](bool recompute) {
    Options other = o;
    other.extras.recompute = recompute;
    return memory_of(other);
  };
  const run::MemoryEstimate estimate = memory_of(o);
  const nn::Summary model = nn::summary(config);
  const auto tokens =
      static_cast<double>(a.batch_size * config.block_size * a.gradient_accumulation_steps);
  fmt::print("model:     {} parameters, {:.3g} GFLOP per step\n", nn::grouped(model.parameters()),
             3e-9 * model.flops() * tokens);
  fmt::print("memory:    {}\n", run::describe(estimate));
  fmt::print("recompute: {}{}\n",
             o.extras.recompute ? "on; it takes " : "off; --recompute would take ",
             price_of_recomputing(model, estimate_with(false), estimate_with(true)));
  const std::string dtype = run::describe_precision(a.precision(), Program::product(o));
  if (!dtype.empty()) fmt::print("dtype:     {}\n", dtype);
  std::fflush(stdout);

  // A run that does not fit has its memory told, but no time: measuring would not fit, either.
  run::check_memory(estimate, o.call.max_minutes.has_value());
  run::catch_interrupts();
  reset_peak_memory();
  Trial trial(config, a.batch_size, config.block_size,
              {.recompute = o.extras.recompute,
               .precision = a.precision(),
               .dropout = o.random.rng,
               .tuning = o.tuning});
  const auto step = measured_step(trial, a.gradient_accumulation_steps);
  if (!step) return run::kInterruptedExitCode;
  fmt::print("measured:  {:.1f} ms per step, {:.0f} tokens/s, {:.0f} MB of tensors at once\n",
             *step * 1e3, tokens / *step, static_cast<double>(memory_stats().peak) / 1e6);
  if (o.call.max_minutes) {
    fmt::print(
        "run:       about {:.0f} steps fit into {:.4g} minutes, less what evaluations take\n",
        60 * *o.call.max_minutes / *step, *o.call.max_minutes);
  } else if (!o.passes.epochs) {
    fmt::print("run:       {} steps take {}, and evaluations beside\n", nn::grouped(a.max_iters),
               run::duration(*step * static_cast<double>(a.max_iters)));
  }
  return 0;
}

}  // namespace tapegrad::gpt
