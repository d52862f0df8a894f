// Runs that go on beyond their first end.

#include <nlohmann/json.hpp>

#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

// The learning rates of the iter lines, by step.
std::vector<double> rates_of(const std::filesystem::path& run) {
  std::vector<double> rates;
  std::istringstream lines(TempFolder::get(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("lr")) rates.push_back(json.at("lr").get<double>());
  }
  return rates;
}

}  // namespace

TEST_CASE("a run that goes on stays at the lowest rate, and says so", "[going-on]") {
  const TinyRun tiny(10, {"--lr-decay-iters", "10", "--min-lr", "0.001"});
  const Result r = train(resume_run(tiny.run, 14));
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("learning rate 0.001 from now on: its schedule has ended at "
                                      "step 10, and --schedule-restart begins it anew"));
  const auto rates = rates_of(tiny.run);
  REQUIRE(rates.size() == 14);
  for (std::size_t i = 10; i < 14; ++i) CHECK(rates[i] == 0.001);
}

TEST_CASE("--schedule-restart warms up and decays anew, and later resumes keep to it",
          "[going-on]") {
  const TinyRun tiny(10, {"--lr-decay-iters", "10", "--min-lr", "0.001"});
  CHECK_THAT(train(Args{"--schedule-restart"}).err, ContainsSubstring("needs --init-from resume"));
  const Result r = train(resume_run(tiny.run, 20) + Args{"--schedule-restart", "--verbose"});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("0.01, cosine, 0.001 at the end, begun at step 10") &&
                        ContainsSubstring("--max-iters 40 --schedule-restart"));
  auto rates = rates_of(tiny.run);
  REQUIRE(rates.size() == 20);
  for (std::size_t i = 0; i < 10; ++i) CHECK(rates[10 + i] == rates[i]);
  // A run that stops on the way goes on as if it had not.
  const TinyRun cut(10, {"--lr-decay-iters", "10", "--min-lr", "0.001"});
  check_ended_well(
      train(resume_run(cut.run, 15) + Args{"--schedule-restart", "--lr-decay-iters", "20"}));
  check_ended_well(train(resume_run(cut.run, 20)));
  CHECK(rates_of(cut.run) == rates);
  CHECK(same_model(cut.run, tiny.run));
}
