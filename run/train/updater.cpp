#include "tapegrad/run/train/internal/updater.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tapegrad/autograd/profile.h"
#include "tapegrad/autograd/tape.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/optim/internal/averaged_sync.h"
#include "tapegrad/run/train/internal/in_order.h"

namespace tapegrad::run {
namespace {

// The seconds of a part of a step, which a trace shows by that name.
template <class Work>
double seconds_of_part(const char* name, const Work& work) {
  return seconds_of([&] {
    const ProfiledPart part(name);
    work();
  });
}

// Sums over all processes, of which each has as many numbers.
std::vector<std::int64_t> summed(std::vector<std::int64_t> own, Processes* processes) {
  if (processes == nullptr || own.empty()) return own;
  const std::size_t bytes = own.size() * sizeof(std::int64_t);
  const std::vector<std::string> all =
      processes->all_gather({reinterpret_cast<const char*>(own.data()), bytes});
  std::fill(own.begin(), own.end(), 0);
  for (const std::string& text : all) {
    check(text.size() == bytes, "[train] processes count {} and {} bytes", text.size(), bytes);
    for (std::size_t i = 0; i < own.size(); ++i) {
      std::int64_t number = 0;
      std::memcpy(&number, text.data() + i * sizeof(number), sizeof(number));
      own[i] += number;
    }
  }
  return own;
}

}  // namespace

std::unique_ptr<optim::GradientSync> make_sync(const Task& task, const OptimizerOptions& options,
                                               Processes* processes) {
  const NamedTensors& parameters = task.params.parameters();
  auto sync = optim::make_gradient_sync(parameters, options.rules, processes, options.sharing(),
                                        task.params.buffers());
  const std::optional<optim::EMAOptions> averages = options.averages();
  if (!averages) return sync;
  return optim::with_averages(std::move(sync), parameters, *averages);
}

Updater::Updater(const Task& task, const OptimizerOptions& options, optim::GradientSync& sync,
                 Processes* processes)
    : task_(task),
      batches_(options.own_batches()),
      max_norm_(options.grad_clip),
      decay_(options.decay_factor()),
      most_deviations_(options.skip_outliers),
      check_finite_(options.check_finite),
      local_(options.local_steps && !options.meet),
      sync_(sync),
      processes_(processes) {
  order_.ranks = processes == nullptr ? 1 : processes->size();
  order_.groups = static_cast<int>(options.groups.value_or(order_.ranks));
}

// The share of each of a step's batches in its loss.
std::vector<double> Updater::shares() const {
  const std::vector<std::int64_t> counted = task_.objective->counted(batches_);
  if (counted.empty()) {
    return std::vector<double>(static_cast<std::size_t>(batches_),
                               1.0 / static_cast<double>(batches_));
  }
  double all = 0;
  for (const std::int64_t count : counted) all += static_cast<double>(count);
  std::vector<double> shares;
  for (const std::int64_t count : counted) shares.push_back(static_cast<double>(count) / all);
  return shares;
}

// The shares of this process's batches in the gradient that it takes: with local steps, the mean of
// those of its group.
std::vector<double> Updater::gradient_shares(std::vector<double> shares) const {
  if (!local_) return shares;
  double own = 0;
  const auto group = static_cast<std::size_t>(order_.group_of(rank()));
  for (std::size_t i = group; i < shares.size(); i += static_cast<std::size_t>(order_.groups))
    own += shares[i];
  for (double& share : shares) share /= own > 0 ? own : 1;
  return shares;
}

// The losses of this process's batches, whose gradients go into `sync`.
std::vector<Updater::BatchLoss> Updater::add_gradients(const std::vector<double>& shares,
                                                       StepTimes& times) {
  const int ranks = order_.ranks, turn = order_.first_batch(rank());
  std::vector<BatchLoss> own;
  std::size_t next = static_cast<std::size_t>(turn);  // the batch that is due here
  const auto backward = [&](const auto& take) {
    const double share = shares[next];
    next += static_cast<std::size_t>(ranks);
    Tape tape({.check_finite = check_finite_, .names = task_.params.tensors()});
    std::optional<Loss> loss;
    times.forward += seconds_of_part("forward", [&] { loss = task_.objective->loss(); });
    times.backward += seconds_of_part("backward", [&] {
      const Tensor seed = Tensor::scalar(share, loss->value.dtype());
      tape.backward(loss->value, {.seeds = {seed}, .take = take});
    });
    own.push_back({loss->value.item(), 0, loss->tokens, loss->metrics});
  };
  for (std::int64_t first = 0; first < batches_; first += ranks) {
    const int active = static_cast<int>(std::min<std::int64_t>(ranks, batches_ - first));
    for (int t = 0; t < std::min(turn, active); ++t) task_.objective->skip_batch();
    sync_.round(active, backward);
    for (int t = turn + 1; t < active; ++t) task_.objective->skip_batch();
  }
  return own;
}

void Updater::find_outlier(Report::Step& step, Progress& progress) const {
  if (!most_deviations_) return;
  step.loss_z = progress.losses.z_score(step.loss);
  step.norm_z = progress.norms.z_score(step.norm);
  step.skipped = std::max(step.loss_z, step.norm_z) > *most_deviations_;
  if (step.skipped) ++progress.skipped;
}

Report::Step Updater::step(double lr, Progress& progress, LayerStats* stats) {
  const Stopwatch watch;
  Report::Step step{.lr = lr};
  const std::vector<double> shares = this->shares();
  std::vector<BatchLoss> own = add_gradients(gradient_shares(shares), step.times);
  optim::Clipping clipping;
  step.times.norm = seconds_of_part("norm of the gradients",
                                    [&] { clipping = sync_.measure_clipping(max_norm_); });
  for (BatchLoss& batch : own) batch.norm = clipping.norm;
  const std::vector<BatchLoss> all =
      in_order(std::move(own), static_cast<std::size_t>(batches_), processes_, order_.groups);
  for (const std::string& name : task_.objective->metrics()) step.metrics.emplace_back(name, 0.0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    step.loss += shares[i] * all[i].loss;
    step.norm += local_ ? shares[i] * all[i].norm : 0;
    step.tokens += all[i].tokens;
    for (std::size_t j = 0; j < step.metrics.size(); ++j) {
      step.metrics[j].second += shares[i] * all[i].metrics.at(j);
    }
  }
  if (!local_) step.norm = clipping.norm;  // which is everybody's
  find_outlier(step, progress);
  if (stats != nullptr) {
    sync_.gather_parameters();
    stats->before(sync_);
  }
  if (!step.skipped) {
    step.times.update = seconds_of_part(
        "update", [&] { sync_.step(step.lr, clipping.factor, decay_(progress.iteration)); });
  }
  task_.objective->end_step(summed(task_.objective->take_counts(), processes_),
                            !step.skipped && lr != 0);
  if (stats != nullptr) {
    sync_.gather_parameters();
    step.layers = stats->after();
  }
  step.times.update += seconds_of([&] { sync_.zero_grad(); });
  step.times.other = watch.seconds() - step.times.total();
  return step;
}

}  // namespace tapegrad::run
