// --max-minutes of the training programs.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

constexpr const char* kShort = "0.03";

// The same arguments with --max-minutes in place of --max-iters.
Args by_the_clock(Args args) {
  const auto it = std::find(args.begin(), args.end(), "--max-iters");
  it[0] = "--max-minutes", it[1] = kShort;
  return args;
}

nlohmann::json json_of(const std::filesystem::path& path) {
  return nlohmann::json::parse(TempFolder::get(path));
}

int max_iters_of(const std::filesystem::path& run) {
  return json_of(run / "config.json").at("optimizer").at("max_iters");
}

void check_same_run(const std::filesystem::path& a, const std::filesystem::path& b) {
  CHECK(same_model(a, b));
  CHECK(TempFolder::get(a / "config.json") == TempFolder::get(b / "config.json"));
  CHECK(json_of(a / "trainer.json").at("loader") == json_of(b / "trainer.json").at("loader"));
  CHECK(json_of(a / "trainer.json").at("dropout") == json_of(b / "trainer.json").at("dropout"));
}

const Args kRare = {"--eval-interval", "400", "--log-interval", "100", "--threads", "1"};

}  // namespace

TEST_CASE("a run by the clock is the run with its number of steps", "[max-minutes]") {
  const TempFolder folder;
  const auto corpus = folder.put("text.txt", tiny_text());
  const Args more = GENERATE(Args{}, Args{"--rng", "torch"}, Args{"--batches", "epochs"},
                             Args{"--gradient-accumulation-steps", "2"});
  const Result r =
      train(by_the_clock(tiny_run(corpus, folder / "clock", 0)) + kRare + more + Args{"--verbose"});
  check_ended_well(r);
  const int steps = max_iters_of(folder / "clock");
  CHECK(steps > 0);
  CHECK_THAT(r.out, ContainsSubstring("steps took"));
  CHECK_THAT(r.out, ContainsSubstring("fit into 0.03 minutes"));
  CHECK_THAT(r.out, ContainsSubstring(" tokens, about 0.03 minutes\n"));
  check_ended_well(train(tiny_run(corpus, folder / "hand", steps) + kRare + more));
  check_same_run(folder / "clock", folder / "hand");
}

TEST_CASE("a run of pairs by the clock is the run with its number of steps", "[max-minutes]") {
  const TempFolder folder;
  const auto corpus = folder.put("pairs.tsv", tiny_pairs());
  check_ended_well(train_pairs(by_the_clock(tiny_pair_run(corpus, folder / "clock", 0)) + kRare));
  check_ended_well(
      train_pairs(tiny_pair_run(corpus, folder / "hand", max_iters_of(folder / "clock")) + kRare));
  check_same_run(folder / "clock", folder / "hand");
}

TEST_CASE("a run by the clock that was stopped keeps its number of steps", "[max-minutes]") {
  const TempFolder folder;
  const auto corpus = folder.put("text.txt", tiny_text());
  const Args args = tiny_run(corpus, folder / "clock", 0) + kRare;
  {
    Program program("train-gpt", by_the_clock(args));
    program.wait_for("iter 0:");
    program.send(SIGTERM);
    CHECK(program.wait().code == 130);
  }
  const int steps = max_iters_of(folder / "clock");
  const Args resume = {"--init-from", "resume", "--out-dir", folder / "clock", "--no-sample"};
  check_unparsed(resume + Args{"--max-minutes", "2"}, 2,
                 "--max-minutes is for new runs: this one has " + std::to_string(steps));
  check_ended_well(train(resume));
  CHECK(json_of(folder / "clock/trainer.json").at("iteration") == steps);
  check_ended_well(train(tiny_run(corpus, folder / "hand", steps) + kRare));
  check_same_run(folder / "clock", folder / "hand");
}

TEST_CASE("one thing decides how many steps a run has", "[max-minutes]") {
  const auto refused = [](const Args& args, const std::string& text) {
    check_unparsed(args, 2, text);
  };
  refused({"--max-minutes", "1", "--max-iters", "5"}, "give one");
  refused({"--max-minutes", "1", "--epochs", "2", "--batches", "epochs"}, "exclude each other");
  refused({"--max-minutes", "0"}, "--max-minutes: must be from 0.01 to");
  refused({"--max-minutes", "nan"}, "not a number");
}
