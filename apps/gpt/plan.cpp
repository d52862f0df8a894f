#include "tapegrad/apps/gpt/plan.h"

#include <optional>

#include "tapegrad/apps/cli/cli.h"
#include "tapegrad/apps/gpt/trial.h"
#include "tapegrad/apps/median.h"
#include "tapegrad/autograd/base/memory.h"
#include "tapegrad/nn/summary.h"
#include "tapegrad/run/interrupt.h"
#include "tapegrad/run/memory_estimate.h"

namespace tapegrad::apps {
namespace {

using nn::grouped;

constexpr double enough_seconds = 2;
constexpr int least_steps = 3, most_steps = 20;

// "8 s", "2:05 min", "3:20 h"
std::string duration(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02} min", s / 60, s % 60);
  return fmt::format("{}:{:02} h", s / 3600, s / 60 % 60);
}

// Seconds of one optimiser step: the median of as many as a few seconds allow, after two that reach
// for memory. Nothing if a signal interrupts it.
std::optional<double> measured_step(Trial& trial, int64_t accumulation) {
  std::vector<double> seconds;
  double all = 0;
  for (int i = -2; i < least_steps || (all < enough_seconds && i < most_steps); ++i) {
    const Trial::Phases p = trial.step();
    const double step =
        static_cast<double>(accumulation) * (p.forward + p.backward) + p.norm + p.adamw;
    if (i >= 0) seconds.push_back(step);
    all += p.total();
    if (interrupted()) return std::nullopt;
  }
  return median(seconds);
}

std::string price_of_recomputing(const nn::Summary& model, const MemoryEstimate& stored,
                                 const MemoryEstimate& recomputed) {
  double blocks = 0;
  for (const nn::SummaryRow& row : model.block) blocks += row.flops;
  blocks *= static_cast<double>(model.blocks);
  return fmt::format("{:.0f} MB less at once for {:.0f} % more work",
                     (stored.total - recomputed.total) / 1e6, 100 * blocks / (3 * model.flops()));
}

}  // namespace

int print_plan(const TrainOptions& o, int64_t vocab_size) {
  const nn::GPTConfig config = o.model_config(vocab_size);
  const auto estimate_with = [&](bool recompute) {
    return estimate_memory(
        config, o.batch_size,
        {.recompute = recompute, .stored_masks = o.one_generator(), .precision = o.precision()});
  };
  const MemoryEstimate estimate = estimate_with(o.recompute);
  check_memory(estimate);
  const nn::Summary model = nn::summary(config);
  fmt::print("model:     {} parameters, {:.3g} GFLOP per step\n", grouped(model.parameters()),
             3e-9 * model.flops() *
                 static_cast<double>(o.batch_size * o.block_size * o.gradient_accumulation_steps));
  fmt::print("memory:    {}\n", describe(estimate));
  fmt::print("recompute: {}{}\n", o.recompute ? "on; it takes " : "off; --recompute would take ",
             price_of_recomputing(model, estimate_with(false), estimate_with(true)));
  if (o.precision() == Precision::bf16) {
    fmt::print("dtype:     {}\n",
               describe_bf16({o.batch_size * o.block_size, config.inner(), config.n_embd}));
  }
  std::fflush(stdout);

  catch_interrupts();
  reset_peak_memory();
  Trial trial(config, o.batch_size, o.block_size,
              {.recompute = o.recompute,
               .precision = o.precision(),
               .dropout = o.one_generator() ? Rng::Kind::torch : Rng::Kind::philox});
  const auto step = measured_step(trial, o.gradient_accumulation_steps);
  if (!step) return interrupted_exit_code;
  const auto tokens =
      static_cast<double>(o.batch_size * o.block_size * o.gradient_accumulation_steps);
  fmt::print("measured:  {:.1f} ms per step, {:.0f} tokens/s, {:.0f} MB of tensors at once\n",
             *step * 1e3, tokens / *step, static_cast<double>(memory_stats().peak) / 1e6);
  if (!o.epochs) {
    fmt::print("run:       {} steps take {}, and evaluations beside\n", grouped(o.max_iters),
               duration(*step * static_cast<double>(o.max_iters)));
  }
  return 0;
}

}  // namespace tapegrad::apps
