#include "tapegrad/apps/bench/measured_step.h"

#include <algorithm>
#include <span>

#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/run/train/internal/measured_steps.h"

namespace tapegrad::bench {
namespace {

constexpr double kEnoughSeconds = 2;
constexpr std::int64_t kLeastSteps = 3, kMostSteps = 20;

// As many sequences as there is time for in two steps, by what a step of one takes.
std::int64_t rows_within(double seconds, const Trial::Phases& one, std::int64_t all) {
  const double fit = (seconds / 2 - one.norm - one.update) / (one.forward + one.backward);
  if (fit >= static_cast<double>(all)) return all;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(fit));
}

// Forward and backward go by the sequences; the norm and the update do not.
Trial::Phases scaled(Trial::Phases p, double factor) {
  p.forward *= factor;
  p.backward *= factor;
  for (double& seconds : p.completed) seconds *= factor;
  return p;
}

double mean_update(std::span<const Trial::Phases> steps) {
  double seconds = 0;
  for (const Trial::Phases& step : steps) seconds += step.update;
  return seconds / static_cast<double>(steps.size());
}

}  // namespace

std::optional<MeasuredStep> measured_step(Trial& trial, std::int64_t B, std::int64_t T,
                                          const std::function<double()>& seconds_left) {
  const std::int64_t longest = optim::longest_period(trial.groups());
  trial.set_batch(1, T);
  Trial::Phases one = trial.step();
  if (interrupted()) return std::nullopt;
  if (seconds_left() < 2 * one.total()) {
    return MeasuredStep{scaled(one, static_cast<double>(B)), 1, longest == 1};
  }
  one = trial.step();  // with the memory that the first one got
  const std::int64_t rows = rows_within(seconds_left(), one, B);
  trial.set_batch(rows, T);
  const std::int64_t period = std::min(longest, kMostSteps);
  auto steps = run::measured_steps(
      [&] { return trial.step(); },
      [&](int count, double seconds, const Trial::Phases& last) {
        const bool enough = seconds >= kEnoughSeconds || count >= kMostSteps;
        return (count >= std::max(kLeastSteps, period) && enough) || seconds_left() < last.total();
      });
  if (!steps) return std::nullopt;
  const double update = mean_update(run::whole_periods(*steps, period));
  std::sort(steps->begin(), steps->end(),
            [](const auto& a, const auto& b) { return a.parts() < b.parts(); });
  Trial::Phases median = (*steps)[steps->size() / 2];
  if (period > 1) median.update = update;
  return MeasuredStep{scaled(median, static_cast<double>(B) / static_cast<double>(rows)), rows,
                      static_cast<std::int64_t>(steps->size()) >= longest};
}

PredictedStep predicted_step(double flops, const Product& product, Precision precision,
                             const run::MemoryEstimate& memory) {
  constexpr std::int64_t some = std::int64_t{1} << 21;
  constexpr std::int64_t rows = 256;
  Rng rng(0);
  const double draw = seconds_of([&] {
    Tensor drawn = Tensor::empty({some});
    rng.normal(std::span(drawn.mutable_data<float>(), static_cast<std::size_t>(some)), 0, 1);
  });
  const double rate =
      product_rate({std::min(product.rows, rows), product.columns, product.depth}, precision);
  return {.making = draw * memory.total / (sizeof(float) * static_cast<double>(some)),
          .step = flops / rate,
          .rate = rate};
}

}  // namespace tapegrad::bench
