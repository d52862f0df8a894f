#include "tapegrad/run/train_loop.h"

#include <cmath>

#include "tapegrad/autograd/tape.h"
#include "tapegrad/optim/clip.h"
#include "tapegrad/run/interrupt.h"

namespace tapegrad::apps {
namespace {

void evaluate(const Training& t) {
  const auto losses = t.evaluate();
  if (!losses) return;
  Progress& at = t.state.progress;
  t.report.evaluation(*losses);
  check(std::isfinite(losses->train) && std::isfinite(losses->val),
        "the loss of step {} is not a number: the weights are broken. The last checkpoint is kept; "
        "lower the learning rate or clip the gradients",
        at.iteration);
  if (!at.best_val_loss || losses->val < *at.best_val_loss) {
    at.best_val_loss = losses->val;
    at.best_iteration = at.iteration;
  }
}

// An evaluation may draw from the generator of the batches. A run that is resumed here evaluates
// again, and so a checkpoint has that generator as it was before: that is how it is left. Returns
// what it had become, which is what training goes on with.
std::optional<std::string> evaluate_undrawn(const Training& t) {
  const std::string before = t.state.loader.state();
  evaluate(t);
  const std::string drawn = t.state.loader.state();
  t.state.loader.set_state(before);
  return drawn;
}

Report::Step make_step(const Training& t, double lr) {
  Report::Step step(lr);
  const double share = 1.0 / static_cast<double>(t.options.gradient_accumulation_steps);
  for (int64_t i = 0; i < t.options.gradient_accumulation_steps; ++i) {
    Tape tape;
    const BatchLoss batch = t.next_loss();
    tape.backward(batch.loss, {.seeds = {Tensor::scalar(share)}});
    step.loss += share * batch.loss.item();
    step.tokens += batch.tokens;
  }
  const auto [norm, factor] =
      optim::measure_clipping(t.state.params.parameters(), t.options.grad_clip);
  step.norm = norm;
  t.state.adamw.step(lr, factor);
  t.state.adamw.zero_grad();
  return step;
}

}  // namespace

bool run_training(const Training& t) {
  const optim::Schedule schedule = t.options.lr_schedule();
  Progress& at = t.state.progress;
  const int64_t begin = at.iteration;
  int64_t saved = -1;
  const auto save = [&] {
    if (saved == at.iteration) return;
    t.folder.save(t.state);
    saved = at.iteration;
  };
  catch_interrupts();
  while (!interrupted()) {
    const bool ends = at.iteration >= t.options.max_iters;
    const auto drawn =
        ends || t.options.evaluates_at(at.iteration) ? evaluate_undrawn(t) : std::nullopt;
    if (ends || t.options.saves_at(at.iteration)) save();
    if (at.iteration > begin && !interrupted()) t.after_step();
    if (ends || interrupted()) break;
    if (drawn) t.state.loader.set_state(*drawn);
    at.seconds += t.report.step(make_step(t, schedule(at.iteration)));
    ++at.iteration;
  }
  if (!interrupted()) return true;
  save();
  t.report.stopped();
  return false;
}

}  // namespace tapegrad::apps
