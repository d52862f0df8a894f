// Runs that are too short for what their options ask for.

#include <nlohmann/json.hpp>

#include "tapegrad/run/record/internal/start_notes.h"
#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace tapegrad;
using nlohmann::json;

namespace {

// The arguments of tiny_run(), without a schedule.
Args unscheduled(const CorpusAndRun& files, int iters) {
  return {"--corpus",       files.corpus,
          "--out-dir",      files.run,
          "--max-iters",    std::to_string(iters),
          "--preset",       "char-cpu",
          "--n-layer",      "1",
          "--n-head",       "2",
          "--n-embd",       "16",
          "--block-size",   "16",
          "--batch-size",   "2",
          "--dropout",      "0",
          "--eval-iters",   "1",
          "--log-interval", "1",
          "--no-sample"};
}

double highest_rate(const CorpusAndRun& files) {
  double highest = 0;
  std::istringstream lines(files.file("metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    highest = std::max(highest, json::parse(line).value("lr", 0.0));
  }
  return highest;
}

json optimizer_of(const CorpusAndRun& files) {
  return json::parse(files.file("config.json")).at("optimizer");
}

}  // namespace

TEST_CASE("a short run reaches its learning rate", "[short-runs]") {
  const CorpusAndRun files("text.txt", tiny_text());
  const Result r = train(unscheduled(files, 40));
  check_ended_well(r);
  CHECK(highest_rate(files) == 1e-3);
  CHECK(optimizer_of(files).at("warmup_iters") == 4);
  CHECK_THAT(r.out, !ContainsSubstring("does not reach"));
  // A schedule that begins anew has a warm-up of its own length, unless it was given.
  check_ended_well(train(resume_run(files.run, 140) + Args{"--schedule-restart"}));
  CHECK(optimizer_of(files).at("warmup_iters") == 10);
  check_ended_well(train(resume_run(files.run, 150)));
  CHECK(optimizer_of(files).at("warmup_iters") == 10);
}

TEST_CASE("long runs have the warm-up of their preset", "[short-runs]") {
  for (const std::int64_t steps : {1000, 2000, 5000, 600000}) {
    CHECK(run::OptimizerOptions{.max_iters = steps}.warmup() == 100);
  }
  CHECK(run::OptimizerOptions{.max_iters = 5}.warmup() == 0);
  CHECK(run::OptimizerOptions{.max_iters = 40, .warmup_iters = 30}.warmup() == 30);
  CHECK(run::OptimizerOptions{.max_iters = 4000, .lr_decay_iters = 50}.warmup() == 5);
}

TEST_CASE("a warm-up that a run cannot reach is told at the start", "[short-runs]") {
  const CorpusAndRun files("text.txt", tiny_text());
  const Result r = train(unscheduled(files, 40) + Args{"--warmup-iters", "100"});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("note: the learning rate does not reach 0.001: its warm-up "
                                      "ends at step 100, and the run at step 40, with 0.000396"));
  CHECK(r.out.find("note: the learning") < r.out.find("iter 0"));
  CHECK(highest_rate(files) < 1e-3);
}

TEST_CASE("few evaluations are told where the options need more", "[short-runs]") {
  const auto notes = [](std::int64_t steps, const run::EvaluationOptions& e) {
    std::string all;
    for (const std::string& note : run::start_notes({.max_iters = steps}, e)) all += note + "\n";
    return all;
  };
  CHECK_THAT(notes(1000, {.eval_interval = 1000}),
             ContainsSubstring("the run evaluates 1 time after step 0. A smaller "
                               "--eval-interval than 1000"));
  CHECK(notes(1000, {.eval_interval = 1000, .keep = "last"}).empty());
  for (const std::int64_t steps : {2, 40, 600, 2000}) CHECK(notes(steps, {}).empty());
  CHECK(notes(0, {}).empty());
  // Evaluations at steps 0, 5, 10 and 15: the last could be the third without a new best.
  const auto patience = [&](std::int64_t n) {
    return notes(20, {.eval_interval = 5, .early_stop = n});
  };
  CHECK(patience(3).empty());
  CHECK_THAT(patience(4), ContainsSubstring("--early-stop 4 cannot come: the run evaluates 4 times "
                                            "before its end, and 5 are needed"));
}

TEST_CASE("--epochs implies --batches epochs", "[short-runs]") {
  const CorpusAndRun files("text.txt", tiny_text());
  Args args = unscheduled(files, 1);
  args.erase(args.begin() + 4, args.begin() + 6);  // --max-iters
  CHECK(parsed(args + Args{"--epochs", "1"}).text.batches == tapegrad::run::BatchKind::epochs);
  check_unparsed(args + Args{"--epochs", "1", "--batches", "random"}, 2,
                 "--epochs needs --batches epochs");
}
