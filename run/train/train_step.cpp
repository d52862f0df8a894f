#include "tapegrad/run/train/train_step.h"

#include <algorithm>
#include <array>

#include "tapegrad/autograd/profile.h"
#include "tapegrad/autograd/tape.h"
#include "tapegrad/base/memory/dry_run.h"
#include "tapegrad/base/seconds_of.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/run/train/in_order.h"

namespace tapegrad::run {
namespace {

struct BatchLoss {
  double loss;
  std::int64_t tokens;
  std::array<double, kMostBeside> beside;
};

// The share of each of a step's batches in its loss.
std::vector<double> shares_of(const Task& task, std::int64_t batches) {
  const std::vector<std::int64_t> counted =
      task.counted ? task.counted(batches) : std::vector<std::int64_t>();
  if (counted.empty()) {
    return std::vector<double>(static_cast<std::size_t>(batches),
                               1.0 / static_cast<double>(batches));
  }
  double all = 0;
  for (const std::int64_t count : counted) all += static_cast<double>(count);
  std::vector<double> shares;
  for (const std::int64_t count : counted) shares.push_back(static_cast<double>(count) / all);
  return shares;
}

// Draws what the next batch would, and computes nothing.
void skip_batch(const Task& task) {
  if (task.skip_batch) return task.skip_batch();
  const DryRun dry(DryRun::Draws::made);
  task.loss();
}

}  // namespace

Report::Step make_step(const Task& task, const OptimizerOptions& options, double lr,
                       optim::GradientSync& sync, Progress& progress, Processes* processes,
                       LayerStats* stats) {
  Report::Step step(lr);
  const std::int64_t batches = options.gradient_accumulation_steps;
  const std::vector<double> shares = shares_of(task, batches);
  const int ranks = processes == nullptr ? 1 : processes->size();
  const int rank = processes == nullptr ? 0 : processes->rank();
  std::vector<BatchLoss> own;
  std::size_t next = static_cast<std::size_t>(rank);  // the batch that is due here
  const auto backward = [&](const auto& take) {
    const double share = shares[next];
    next += static_cast<std::size_t>(ranks);
    Tape tape({.check_finite = options.check_finite, .names = task.params.tensors()});
    std::optional<Loss> loss;
    step.times.forward += seconds_of([&] {
      const ProfiledPart part("forward");
      loss = task.loss();
    });
    step.times.backward += seconds_of([&] {
      const ProfiledPart part("backward");
      const Tensor seed = Tensor::scalar(share, loss->value.dtype());
      tape.backward(loss->value, {.seeds = {seed}, .take = take});
    });
    own.push_back({loss->value.item(), loss->tokens, loss->beside});
  };
  for (std::int64_t first = 0; first < batches; first += ranks) {
    const int active = static_cast<int>(std::min<std::int64_t>(ranks, batches - first));
    for (int r = 0; r < std::min(rank, active); ++r) skip_batch(task);
    sync.round(active, backward);
    for (int r = rank + 1; r < active; ++r) skip_batch(task);
  }
  optim::Clipping clipping;
  step.times.norm = seconds_of([&] {
    const ProfiledPart part("norm of the gradients");
    clipping = sync.measure_clipping(options.grad_clip);
  });
  step.norm = clipping.norm;
  const std::vector<BatchLoss> all = in_order(own, static_cast<std::size_t>(batches), processes);
  for (const std::string& name : task.beside) step.beside.emplace_back(name, 0.0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    step.loss += shares[i] * all[i].loss;
    step.tokens += all[i].tokens;
    for (std::size_t j = 0; j < step.beside.size(); ++j) {
      step.beside[j].second += shares[i] * all[i].beside.at(j);
    }
  }
  if (options.skip_outliers) {
    step.loss_z = progress.losses.z_score(step.loss);
    step.norm_z = progress.norms.z_score(step.norm);
    step.skipped = std::max(step.loss_z, step.norm_z) > *options.skip_outliers;
  }
  if (stats != nullptr) stats->before(sync);
  if (step.skipped) {
    ++progress.skipped;
  } else {
    step.times.update = seconds_of([&] {
      const ProfiledPart part("update");
      sync.step(step.lr, clipping.factor, options.decay_factor_at(progress.iteration));
    });
  }
  if (stats != nullptr) step.layers = stats->after();
  step.times.update += seconds_of([&] { sync.zero_grad(); });
  return step;
}

}  // namespace tapegrad::run
