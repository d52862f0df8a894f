#include "tapegrad/run/options/options.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

TEST_CASE("an interval is due at its first step and every so many later", "[options]") {
  const run::StepInterval interval{.every = 4, .first = 3};
  std::int64_t before = 0;
  for (std::int64_t step = 0; step < 20; ++step) {
    INFO("step " << step);
    CHECK(interval.before(step) == before);
    const bool due = step == 3 || step == 7 || step == 11 || step == 15 || step == 19;
    CHECK(interval.due(step) == due);
    if (due) ++before;
  }
}

TEST_CASE("checkpoints are due at evaluations unless they have an interval", "[options]") {
  run::EvaluationOptions options{.eval_interval = 10, .eval_offset = 5};
  CHECK(options.checkpoints().due(15));
  CHECK_FALSE(options.checkpoints().due(10));
  options.checkpoint_interval = 7;
  CHECK(options.checkpoints().due(0));
  CHECK(options.checkpoints().due(14));
  CHECK_FALSE(options.checkpoints().due(15));
  CHECK(options.evaluations().due(15));
}
