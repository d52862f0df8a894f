#include "tapegrad/run/record/internal/start_notes.h"

#include <cmath>

#include "tapegrad/base/text/words.h"
#include "tapegrad/run/options/keep_rule.h"

namespace tapegrad::run {
namespace {

// With fewer evaluations of weights that have learnt, "the best of them" says little. In a run of
// fewer steps nobody expects a choice.
constexpr std::int64_t kFewEvaluations = 3, kLongRun = 1000;

void add_warmup(std::vector<std::string>& notes, const OptimizerOptions& o) {
  const std::int64_t full = o.schedule_begin + o.warmup();
  if (o.warmup() == 0 || full < o.max_iters || o.learning_rate == 0) return;
  notes.push_back(fmt::format(
      "the learning rate does not reach {:g}: its warm-up ends at step {}, and the run "
      "at step {}, with {:.3g}. A smaller --warmup-iters reaches it",
      o.learning_rate, grouped(full), grouped(o.max_iters), o.learning_rates()(o.max_iters - 1)));
}

void add_evaluations(std::vector<std::string>& notes, const OptimizerOptions& o,
                     const EvaluationOptions& e) {
  const StepInterval evaluations = e.evaluations();
  const std::int64_t before = evaluations.before(o.max_iters);
  if (e.early_stop && before <= *e.early_stop) {
    notes.push_back(fmt::format(
        "--early-stop {} cannot come: the run evaluates {} before its end, and {} are needed. A "
        "smaller --eval-interval than {} evaluates more often",
        *e.early_stop, counted(before, "time"), *e.early_stop + 1, e.eval_interval));
  }
  const std::int64_t learnt = before - evaluations.before(1) + 1;  // the last one, too
  if (keep_rule(e.keep).best && learnt < kFewEvaluations && o.max_iters >= kLongRun) {
    notes.push_back(fmt::format(
        "the best weights are those of the lowest val loss, and the run evaluates {} after step 0. "
        "A smaller --eval-interval than {} gives more to choose from",
        counted(learnt, "time"), e.eval_interval));
  }
}

// The first step's weights begin moving averages, and each later step leaves DECAY of their share.
void add_averages(std::vector<std::string>& notes, const OptimizerOptions& o) {
  constexpr double much = 0.05;
  constexpr std::int64_t least = 100;
  if (o.swa_start && *o.swa_start >= o.max_iters) {
    notes.push_back(
        fmt::format("--swa-start {} averages nothing in a run of {}: a smaller one averages the "
                    "weights from there on",
                    *o.swa_start, counted(o.max_iters, "step")));
  }
  if (!o.ema || o.max_iters < least) return;
  const double share = std::pow(*o.ema, static_cast<double>(o.max_iters - 1));
  if (share <= much) return;
  notes.push_back(
      fmt::format("averages of about {} (--ema {:g}) end with {:.0f} % of the first step's weights "
                  "in a run of {}. --ema {:.6g} averages a tenth of the run",
                  counted(o.averaged_steps(), "step"), *o.ema, 100 * share, grouped(o.max_iters),
                  1 - 10 / static_cast<double>(o.max_iters)));
}

}  // namespace

std::vector<std::string> start_notes(const OptimizerOptions& o, const EvaluationOptions& e,
                                     int ranks) {
  std::vector<std::string> notes;
  if (o.max_iters > 0) {
    add_warmup(notes, o);
    add_evaluations(notes, o, e);
    add_averages(notes, o);
  }
  if (o.own_batches() % ranks != 0) {
    notes.push_back(fmt::format(
        "{} processes cannot share out the {} forward passes of a step evenly: some wait", ranks,
        o.own_batches()));
  }
  return notes;
}

}  // namespace tapegrad::run
