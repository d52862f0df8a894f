#include <cmath>
#include <regex>
#include <string>

#include "tapegrad/apps/bench/measured_step.h"
#include "tapegrad/tests/apps/tiny_runs.h"

using namespace tapegrad;

namespace {

struct Plan {
  double estimate, recompute_saves, measured;
  explicit Plan(const Args& args) {
    const Result r = run_program("train-gpt", args + Args{"--preset", "char-cpu", "--plan"});
    INFO(r.out << r.err);
    REQUIRE(r.code == 0);
    CHECK_THAT(r.out, ContainsSubstring("\ndtype:     "));
    const auto number = [&](const std::string& pattern) {
      std::smatch found;
      REQUIRE(std::regex_search(r.out, found, std::regex(pattern)));
      return std::stod(found[1]);
    };
    estimate = number("memory:    about ([0-9.]+) MB at once");
    recompute_saves = number("take[s]? (-?[0-9.]+) MB less at once for [0-9]+ % more work");
    measured = number("measured:.* ms per step, .* tokens/s, ([0-9.]+) MB of tensors");
  }
};

}  // namespace

TEST_CASE("--plan knows the memory that training takes", "[plan]") {
  const Args wide = {"--n-layer",    "4",   "--n-embd",     "128", "--n-head", "4",
                     "--block-size", "256", "--batch-size", "8"};
  double stored = 0;
  for (const Args& more : {Args{}, Args{"--recompute"}, Args{"--dropout", "0.1", "--ff-dropout"},
                           Args{"--activation", "relu", "--positions", "rotary"},
                           Args{"--activation", "gelu-erf", "--tied"},
                           Args{"--n-inner", "64", "--separate-qkv", "--bias"},
                           Args{"--tokenizer", "gpt2", "--batch-size", "2"},
                           Args{"--rng", "torch", "--dropout", "0.1"}, Args{"--dtype", "bf16"},
                           Args{"--dtype", "bf16", "--tokenizer", "gpt2", "--batch-size", "2"}}) {
    const Plan plan(wide + more);
    INFO((more.empty() ? "as it is" : more.front())
         << ": " << plan.estimate << " MB, in truth " << plan.measured);
    CHECK(std::abs(plan.estimate - plan.measured) < 0.03 * plan.measured);
    if (more.empty()) stored = plan.measured;
    if (more == Args{"--recompute"}) {
      CHECK(stored - plan.measured == Approx(plan.recompute_saves).epsilon(0.15));
    }
  }
}

TEST_CASE("a run with --recompute is the same run", "[plan]") {
  const TempFolder folder;
  const auto corpus = folder.put("text.txt", tiny_text());
  const auto weights = [&](const std::string& name, const Args& more) {
    const Result r = run_program("train-gpt", tiny_run(corpus, folder / name, 6) + more);
    REQUIRE(r.code == 0);
    return TempFolder::get(folder / name / "model.safetensors");
  };
  CHECK(weights("stored", {}) == weights("again", {"--recompute"}));
}

TEST_CASE("--plan says that it measures, for how long at most, and what", "[plan]") {
  const TempFolder folder;
  const auto corpus = folder.put("text.txt", tiny_text());
  const Result r = run_program("train-gpt", tiny_run(corpus, folder / "run", 6) + Args{"--plan"});
  INFO(r.out << r.err);
  CHECK(r.code == 0);
  CHECK_THAT(r.out, ContainsSubstring("measuring: a step, for at most 20 s\nmeasured:  "));
}

TEST_CASE("of a step that there is no time for, --plan measures a sequence", "[plan]") {
  const nn::DecoderConfig tiny{
      .vocab_size = 11, .block_size = 8, .n_layer = 1, .n_head = 2, .n_embd = 8};
  const auto measured_rows = [&](double seconds_left) {
    bench::Trial trial(tiny, 4, 8);
    return bench::measured_step(trial, 4, 8, [&] { return seconds_left; })->rows;
  };
  CHECK(measured_rows(0) == 1);
  CHECK(measured_rows(3600) == 4);
}

TEST_CASE("--plan measures whole periods of an optimiser's steps if there is time", "[plan]") {
  const TempFolder folder;
  const Args soap = tiny_run(folder.put("text.txt", tiny_text()), folder / "run", 6) +
                    Args{"--plan", "--optimizer", "soap"};
  CHECK_THAT(run_program("train-gpt", soap).out, !ContainsSubstring("uncounted:"));
  CHECK_THAT(run_program("train-gpt", soap + Args{"--precondition-frequency", "1000"}).out,
             ContainsSubstring("uncounted: SOAP's eigenvectors"));
}
