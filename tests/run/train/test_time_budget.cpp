// How many steps fit into a time, and that measuring them leaves no trace.

#include <thread>

#include "tapegrad/autograd/ops.h"
#include "tapegrad/nn/layers.h"
#include "tapegrad/run/train/time_budget.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/temp_folder.h"

using namespace tapegrad;

namespace {

struct Numbers {
  Rng rng{5};
  Tensor next() {
    Tensor x = Tensor::empty({4, 1});
    rng.uniform(std::span(x.mutable_data<float>(), 4), -1, 1);
    return x;
  }
  std::string state() const { return rng.state(); }
  void set_state(std::string_view saved) { rng.set_state(saved); }
};

// A task whose step takes at least two milliseconds.
struct SlowTask {
  Rng rng{1}, dropout{2};
  nn::Params params{rng};
  nn::Linear line{params / "line", 1, 1};
  Numbers numbers = {};
  run::Task task() {
    return {.params = params,
            .batches = numbers,
            .objective = run::objective_of(
                [this] {
                  std::this_thread::sleep_for(std::chrono::milliseconds(2));
                  dropout.randint(10);
                  return run::Loss(mse_loss(line(numbers.next()), numbers.next()));
                },
                [this] {
                  numbers.next();
                  return run::Losses{};
                }),
            .dropout = &dropout};
  }
  std::vector<float> weights() const {
    return {line.weight.values<float>()[0], line.bias.values<float>()[0]};
  }
};

}  // namespace

TEST_CASE("steps within a time leave room for what is due beside them", "[time-budget]") {
  const run::RunCosts costs{.step = 1, .checkpoint = 2, .side = {.evaluation = 10, .end = 5}};
  const run::EvaluationOptions options{.eval_interval = 100};
  // Whatever is decided: it fits, and one step more does not. An evaluation comes with a
  // checkpoint; both are due at 0, 100, … and at the end.
  const auto needed = [](std::int64_t n) {
    return static_cast<double>(n) + 12.0 * static_cast<double>((n + 99) / 100 + 1) + 5;
  };
  for (const double seconds : {30.0, 40.0, 129.0, 130.0, 142.0, 1000.0, 12345.6}) {
    const std::int64_t n = run::steps_within(seconds, costs, options);
    CAPTURE(seconds, n);
    CHECK(n > 0);
    CHECK(needed(n) <= seconds);
    CHECK(needed(n + 1) > seconds);
  }
  CHECK(run::steps_within(29.9, costs, options) == 0);
  CHECK(run::steps_within(-1, costs, options) == 0);
  // With a rhythm of their own: evaluations at 70, 170, …, checkpoints at 0, 50, 100, …
  const run::EvaluationOptions apart{
      .eval_interval = 100, .eval_offset = 70, .checkpoint_interval = 50};
  CHECK(run::steps_within(100 + 3 * 2 + 2 * 10 + 5, costs, apart) == 100);
  CHECK(run::steps_within(101 + 4 * 2 + 2 * 10 + 5 - 0.1, costs, apart) == 100);
  CHECK(run::steps_within(101 + 4 * 2 + 2 * 10 + 5, costs, apart) == 101);
}

TEST_CASE("measured steps leave parameters, batches and generators as they were", "[time-budget]") {
  SlowTask slow;
  const auto weights = slow.weights();
  const std::string batches = slow.numbers.state(), dropout = slow.dropout.state();
  const auto fitting = run::fit_steps(slow.task(), {.evaluation = {.eval_interval = 1000},
                                                    .time = run::TimeBudget{.minutes = 0.05}});
  REQUIRE(fitting);
  CHECK(fitting->steps > 0);
  CHECK(fitting->steps <= 1500);  // of two milliseconds in three seconds
  CHECK_THAT(fitting->reason, ContainsSubstring("fit into 0.05 minutes"));
  CHECK(slow.weights() == weights);
  CHECK(slow.numbers.state() == batches);
  CHECK(slow.dropout.state() == dropout);
  for (const auto& [name, parameter] : slow.params.parameters()) {
    CHECK_FALSE(parameter.grad().defined());
  }
}

TEST_CASE("a run by the clock ends sooner after the most steps", "[time-budget]") {
  SlowTask slow;
  const auto fitting =
      run::fit_steps(slow.task(), {.time = run::TimeBudget{.minutes = 0.05, .most_steps = 12}});
  REQUIRE(fitting);
  CHECK(fitting->steps == 12);
  CHECK_THAT(fitting->reason, ContainsSubstring("more than 12 would read so short a text"));
}

TEST_CASE("a time that is too short for one step is refused", "[time-budget]") {
  SlowTask slow;
  CHECK_THROWS_WITH(run::fit_steps(slow.task(), {.time = run::TimeBudget{.minutes = 1e-5}}),
                    ContainsSubstring("not one step fits into 1e-05 minutes"));
}

TEST_CASE("a new run by the clock makes the steps that fit, and a resumed one knows its number",
          "[time-budget][train]") {
  const TempFolder folder;
  const auto train = [&](const char* init_from, const run::TrainOptions& options) {
    run::RunFolder run =
        run::RunFolder::open({.out_dir = folder / "run", .init_from = init_from}, "slow");
    SlowTask slow;
    return run::train(slow.task(), run, options);
  };
  run::TrainOptions options{.optimizer = {.max_iters = 1 << 30},
                            .evaluation = {.eval_interval = 1000},
                            .time = run::TimeBudget{.minutes = 0.01}};
  CHECK(train(run::kScratch, options));
  const std::int64_t made = run::checkpoint_iteration(folder / "run");
  CHECK(made > 0);
  CHECK(made <= 300);  // of two milliseconds in 0.6 seconds
  CHECK_THROWS_WITH(train(run::kResume, options), ContainsSubstring("a time is for new runs"));
}

TEST_CASE("a task without an objective is refused", "[time-budget][train]") {
  const TempFolder folder;
  SlowTask slow;
  run::Task task = slow.task();
  task.objective = nullptr;
  run::RunFolder run = run::RunFolder::open({.out_dir = folder / "run"}, "slow");
  const char* why = "[train] a task needs an objective";
  CHECK_THROWS_WITH(run::train(task, run), ContainsSubstring(why));
  CHECK_THROWS_WITH(run::fit_steps(task, {.time = run::TimeBudget{.minutes = 1}}),
                    ContainsSubstring(why));
}

TEST_CASE("a schedule that is restarted begins at the checkpoint", "[train]") {
  const TempFolder folder;
  const auto config_after = [&](const std::string& init_from, bool restart) {
    run::RunFolder run =
        run::RunFolder::open({.out_dir = folder / "run", .init_from = init_from}, "slow");
    Rng rng(1);
    SlowTask slow{.params = run.params(rng)};
    run::OptimizerOptions optimizer{.max_iters = 3, .warmup_iters = 1};
    if (init_from == run::kResume) optimizer.max_iters = 9;
    run::train(slow.task(), run, {.optimizer = optimizer, .restart_schedule = restart});
    run::OptimizerOptions stored;
    const auto path = run.path() / run::kConfigFile;
    run::read_section(path, run.config("tapegrad-task"), "optimizer", stored);
    return stored;
  };
  CHECK(config_after(run::kScratch, true).schedule_begin == 0);
  const run::OptimizerOptions again = config_after(run::kResume, true);
  CHECK(again.schedule_begin == 3);
  CHECK(again.lr_decay_iters == 9);
}
