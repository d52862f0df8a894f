// Options that keep a run from harm, or find faults of a model.

#include <nlohmann/json.hpp>

#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

const Args kQuiet = {"--eval-interval", "1000", "--lr-decay-iters", "200"};

int skipped_steps(const std::filesystem::path& run) {
  int count = 0;
  std::istringstream lines(TempFolder::get(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (!json.contains("skipped")) continue;
    ++count;
    CHECK(json.at("skipped") == true);
    CHECK(json.at("iteration").get<int>() >= 128);
    CHECK(json.at("norm").get<double>() > 0);
  }
  return count;
}

}  // namespace

TEST_CASE("--skip-outliers leaves out steps, says so, and remembers on a resume",
          "[training-safety]") {
  const Args more = kQuiet + Args{"--skip-outliers", "1"};
  const TinyRun whole(200, more);
  const int skipped = skipped_steps(whole.run);
  CHECK(skipped > 0);
  CHECK(skipped < 72);
  const auto trainer = nlohmann::json::parse(whole.file("trainer.json"));
  CHECK(trainer.at("skipped") == skipped);
  CHECK(trainer.at("last_losses").size() == 128);

  // Beyond the first steps that are skipped, which the optimiser's count of steps lacks.
  const TinyRun cut(180, more);
  const Result r = train(resume_run(cut.run, 200));
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring(std::to_string(skipped) + " of 200 steps were skipped"));
  CHECK(same_model(cut.run, whole.run));
  CHECK(skipped_steps(cut.run) == skipped);

  const TinyRun plain(200, kQuiet);
  CHECK(!nlohmann::json::parse(plain.file("trainer.json")).contains("last_losses"));
  CHECK(!same_model(plain.run, whole.run));
}

TEST_CASE("--skip-outliers refuses what could never be reached", "[training-safety]") {
  check_unparsed({"--skip-outliers", "12"}, 2, "must be from 1 to 11");
}

TEST_CASE("a checkpoint whose list of losses is broken is refused by name", "[training-safety]") {
  const TinyRun tiny(3, Args{"--skip-outliers", "5"});
  auto trainer = nlohmann::json::parse(tiny.file("trainer.json"));
  REQUIRE(trainer.at("last_losses").size() == 3);
  const auto refused = [&](const std::string& name, const nlohmann::json& value,
                           const std::string& message) {
    auto broken = trainer;
    broken[name] = value;
    tiny.folder.put("run/trainer.json", broken.dump());
    check_error_of("train-gpt", train(resume_run(tiny.run, 4)), 1, message);
  };
  refused("last_losses", {1, "2"}, "'last_losses' must be a list of numbers");
  refused("last_norms", std::vector<double>(129, 1), "at most 128 values, not 129");
  refused("last_norms", {1}, "must have as many values");
  refused("skipped", 4, "'skipped' must be from 0 to 3, not 4");
  refused("skipped", 1, "the optimiser has made 3 steps, but trainer.json says 2");
}

TEST_CASE("--overfit-batch learns one batch by heart, also over a resume", "[training-safety]") {
  const Args more = kQuiet + Args{"--overfit-batch", "--dropout", "0", "--n-embd", "32"};
  const TinyRun whole(200, more);
  const Result r = train(resume_run(whole.run, 220));
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("--overfit-batch: the loss of the batch is 0.0"));
  // Evaluations draw batches, too: they must not change the one that is learnt.
  const TinyRun evaluated(120, more + Args{"--eval-interval", "7"});
  check_ended_well(train(resume_run(evaluated.run, 220)));
  CHECK(same_model(evaluated.run, whole.run));

  const TinyRun other(220, kQuiet + Args{"--dropout", "0", "--n-embd", "32"});
  CHECK(!same_model(other.run, whole.run));
}

TEST_CASE("--plan tells the memory of a model that does not fit", "[training-safety]") {
  const Result r =
      train({"--plan", "--preset", "gpt2-124m", "--batch-size", "262144", "--block-size", "1024"});
  INFO(r.out << r.err);
  CHECK(r.code == 1);
  CHECK_THAT(r.out, ContainsSubstring("memory:    about ") && !ContainsSubstring("measured:"));
  CHECK_THAT(r.err,
             ContainsSubstring("training needs about") && ContainsSubstring("are available"));
}
