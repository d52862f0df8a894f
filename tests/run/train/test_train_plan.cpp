// The plan of the loop, of options and facts: nothing is trained here.

#include <cmath>
#include <limits>

#include "tapegrad/run/train/internal/train_plan.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

namespace {

run::OptimizerOptions planned(const run::TrainOptions& options, const run::TrainFacts& facts) {
  return run::resolve(options, facts, "run").options.optimizer;
}

}  // namespace

TEST_CASE("the schedule of a run is fixed, and begins anew only on resume", "[train-plan]") {
  run::TrainOptions options{.optimizer = {.max_iters = 50, .warmup_iters = 7}};
  const run::OptimizerOptions fresh = planned(options, {});
  CHECK(fresh.lr_decay_iters == 50);
  CHECK(fresh.warmup_iters == 7);
  options.restart_schedule = true;
  CHECK(planned(options, {}).schedule_begin == 0);
  CHECK(planned(options, {.steps_made = 20}).schedule_begin == 20);
  options.restart_schedule = false;
  CHECK(planned(options, {.steps_made = 20}).schedule_begin == 0);
}

TEST_CASE("the schedule exponential reaches the least rate where the decay ends, on resume too",
          "[train-plan]") {
  const run::TrainOptions options{.optimizer = {.max_iters = 50,
                                                .learning_rate = 1e-2,
                                                .min_lr = 1e-3,
                                                .schedule = optim::Schedule::Kind::exponential,
                                                .warmup_iters = 10}};
  run::OptimizerOptions o = planned(options, {});
  CHECK(o.learning_rates()(10) == 1e-2);
  CHECK(o.learning_rates()(30) == Approx(std::sqrt(1e-5)));
  CHECK(o.learning_rates()(50) == Approx(1e-3));
  const double rate = o.learning_rates()(20);
  o.max_iters = 100;
  CHECK(planned({.optimizer = o}, {.steps_made = 50}).learning_rates()(20) == rate);
}

TEST_CASE("the steps that fit into a time replace those of the options", "[train-plan]") {
  const run::TrainOptions options{.optimizer = {.max_iters = 1000},
                                  .time = run::TimeBudget{.minutes = 2}};
  const run::TrainFacts facts{
      .fitting = run::FittingSteps{.steps = 40, .minutes = "2 minutes", .reason = "measured"}};
  const run::TrainPlan plan = run::resolve(options, facts, "run");
  CHECK(plan.options.optimizer.max_iters == 40);
  CHECK(plan.options.optimizer.lr_decay_iters == 40);
  CHECK(plan.minutes == "2 minutes");
  CHECK(plan.minutes_reason == "measured");
  CHECK(planned(options, {}).max_iters == 1000);  // before they are measured
}

TEST_CASE("a run that is resumed has no time, and steps left", "[train-plan]") {
  const run::TrainFacts made{.steps_made = 20};
  CHECK_THROWS_WITH(
      planned({.optimizer = {.max_iters = 50}, .time = run::TimeBudget{.minutes = 2}}, made),
      ContainsSubstring("a time is for new runs: this one has made 20 steps"));
  CHECK_THROWS_WITH(planned({.optimizer = {.max_iters = 19}}, made),
                    ContainsSubstring("has made 20 steps already: max_iters 19"));
  CHECK(planned({.optimizer = {.max_iters = 20}}, made).max_iters == 20);
}

TEST_CASE("a run with local steps ends and evaluates where processes meet", "[train-plan]") {
  run::TrainOptions options{.optimizer = {.max_iters = 1001, .warmup_iters = 7, .local_steps = 50},
                            .evaluation = {.eval_interval = 120, .eval_offset = 10}};
  const run::TrainPlan plan = run::resolve(options, {}, "run");
  CHECK(plan.options.optimizer.max_iters == 1050);
  CHECK(plan.options.optimizer.lr_decay_iters == 1050);
  CHECK(plan.options.evaluation.eval_interval == 150);
  CHECK(plan.options.evaluation.eval_offset == 50);
  CHECK(plan.notes == std::vector<std::string>{
                          "processes meet every 50 steps (--local-steps), and so the run has 1,050 "
                          "steps, and evaluates every 150 from step 50 on"});
  options.optimizer.max_iters = 1000;
  options.evaluation.eval_interval = 250, options.evaluation.eval_offset = 0;
  CHECK(run::resolve(options, {}, "run").notes.empty());
  constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  options.evaluation.eval_interval = never, options.evaluation.eval_offset = never - 1;
  CHECK(run::resolve(options, {}, "run").options.evaluation.eval_interval == never);
  CHECK(run::resolve(options, {}, "run").options.evaluation.eval_offset == never);
  options.evaluation.eval_interval = 250, options.evaluation.eval_offset = 0;
  options.time = run::TimeBudget{.minutes = 2};
  const auto fitting = [](std::int64_t steps) {
    return run::TrainFacts{
        .fitting = run::FittingSteps{.steps = steps, .minutes = "2 minutes", .reason = ""}};
  };
  CHECK(planned(options, fitting(149)).max_iters == 100);
  CHECK_THROWS_WITH(planned(options, fitting(49)),
                    ContainsSubstring("49 steps fit into the time, fewer than --local-steps 50"));
}
