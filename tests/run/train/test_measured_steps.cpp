#include <vector>

#include "tapegrad/run/record/losses.h"
#include "tapegrad/run/train/internal/measured_steps.h"
#include "tapegrad/tests/catch.h"

using namespace tapegrad;

namespace {

// The seconds of the steps that count, of those that take 1, 2, 3 … seconds, if measuring ends when
// `all` seconds have gone by.
std::vector<double> counted(double all) {
  double next = 0;
  const auto steps =
      run::measured_steps([&] { return run::StepTimes{.forward = ++next}; },
                          [&](int, double seconds, const auto&) { return seconds >= all; });
  std::vector<double> seconds;
  for (const run::StepTimes& step : steps.value()) seconds.push_back(step.total());
  return seconds;
}

}  // namespace

TEST_CASE("the first two steps are measured but do not count", "[measured_steps]") {
  CHECK(counted(15) == std::vector<double>{3, 4, 5});
  CHECK(counted(6) == std::vector<double>{3});
}

TEST_CASE("the steps that count are those behind the first two", "[measured_steps]") {
  std::vector<int> counts;
  run::measured_steps([] { return run::StepTimes{.forward = 1}; },
                      [&](int count, double, const auto&) {
                        counts.push_back(count);
                        return count == 2;
                      });
  CHECK(counts == std::vector<int>{0, 0, 1, 2});
}

TEST_CASE("the last steps of whole periods are those whose mean counts", "[measured_steps]") {
  const std::vector<int> steps{1, 2, 3, 4, 5, 6, 7};
  const auto counted = [&](std::int64_t period) {
    const auto last = run::whole_periods(steps, period);
    return std::vector<int>(last.begin(), last.end());
  };
  CHECK(counted(1) == steps);
  CHECK(counted(3) == std::vector<int>{2, 3, 4, 5, 6, 7});
  CHECK(counted(5) == std::vector<int>{3, 4, 5, 6, 7});
  CHECK(counted(7) == steps);
  CHECK(counted(8) == steps);
}

TEST_CASE("without a third step the last one counts", "[measured_steps]") {
  CHECK(counted(3) == std::vector<double>{2});
  CHECK(counted(1) == std::vector<double>{1});
}
