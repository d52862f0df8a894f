// Which models a run keeps, when it ends early, and how much its last evaluation sees.

#include <nlohmann/json.hpp>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace fs = std::filesystem;
using namespace tapegrad;

namespace {

// The first steps raise the loss, so that the best model is the one before them.
const Args kWorse = {"--learning-rate", "5", "--warmup-iters", "0"};

std::string iteration_of(const fs::path& file) {
  return load_safetensors(file.string()).metadata.at("iteration");
}

Result sample(const fs::path& run, const Args& more) {
  return run_program("sample-text",
                     Args{"--model", run, "--prompt", "the", "--max-new-tokens", "20"} + more);
}

}  // namespace

TEST_CASE("a run keeps its best and its last model", "[kept-models]") {
  const TempFolder folder;
  const auto corpus = folder.put("text.txt", tiny_text());
  const fs::path run = folder / "run";
  const Result r = train(tiny_run(corpus, run, 10) + kWorse);
  check_ended_well(r);
  CHECK(iteration_of(run / "model-best.safetensors") == "0");
  CHECK(iteration_of(run / "model.safetensors") == "10");
  CHECK_THAT(r.out, ContainsSubstring("at step 0, whose weights are kept: --checkpoint best") &&
                        ContainsSubstring("--num-samples 3 --checkpoint best"));
  const Result best = sample(run, {"--checkpoint", "best"}), last = sample(run, {});
  check_ended_well(best);
  CHECK(best.out != last.out);
  CHECK(sample(run, {"--checkpoint", "last"}).out == last.out);
  check_error_of("sample-text", sample(run, {"--checkpoint", "3"}), 1,
                 "keeps no checkpoint of step 3; it has best, last");
  check_error_of("sample-text", sample(run, {"--checkpoint", "first"}), 1,
                 "a checkpoint is best, last or the number of a step, not 'first'");
  // A new run in its place keeps nothing of it, and files of somebody else's stay.
  for (const char* other : {"mine", "5e0", "05", "2_0"}) {
    folder.put(fmt::format("run/model-{}.safetensors", other), "");
  }
  check_ended_well(train(tiny_run(corpus, run, 1) + Args{"--overwrite", "--keep", "last"}));
  CHECK_FALSE(fs::exists(run / "model-best.safetensors"));
  for (const char* other : {"mine", "5e0", "05", "2_0"}) {
    CHECK(fs::exists(run / fmt::format("model-{}.safetensors", other)));
  }
}

TEST_CASE("a run keeps so many of its latest checkpoints", "[kept-models]") {
  const TempFolder folder;
  const auto corpus = folder.put("text.txt", tiny_text());
  const fs::path run = folder / "run";
  check_ended_well(
      train(tiny_run(corpus, run, 7) + Args{"--checkpoint-interval", "2", "--keep", "2"}));
  CHECK_FALSE(fs::exists(run / "model-best.safetensors"));
  CHECK_FALSE(fs::exists(run / "model-4.safetensors"));
  CHECK(iteration_of(run / "model-6.safetensors") == "6");
  CHECK(iteration_of(run / "model-7.safetensors") == "7");
  check_ended_well(sample(run, {"--checkpoint", "6"}));
  check_unparsed(tiny_run(corpus, folder / "x", 1) + Args{"--keep", "best,0"}, 2,
                 "--keep: 'best,0' is not best, last, or a number of checkpoints");
}

TEST_CASE("what has the name of a kept model is not replaced where there is no run",
          "[kept-models]") {
  const TempFolder folder;
  const auto corpus = folder.put("text.txt", tiny_text());
  fs::create_directory(folder / "mine");
  std::ofstream(folder / "mine/model-best.safetensors") << "mine";
  check_error_of("train-gpt", train(tiny_run(corpus, folder / "mine", 1)), 1,
                 "has a file model-best.safetensors that is not of a run");
}

TEST_CASE("a run ends early when its validation loss no longer falls", "[kept-models]") {
  const TempFolder folder;
  const auto corpus = folder.put("text.txt", tiny_text());
  const fs::path run = folder / "run";
  const Result r = train(tiny_run(corpus, run, 50) + kWorse + Args{"--early-stop", "2"});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("no new lowest val loss in 2 evaluations") &&
                        ContainsSubstring("final: val loss"));
  CHECK(iteration_of(run / "model.safetensors") == "10");
  // Its resume ends at once, unless it is given more patience.
  check_ended_well(train(resume_run(run, 50)));
  CHECK(iteration_of(run / "model.safetensors") == "10");
  check_ended_well(train(resume_run(run, 50) + Args{"--early-stop", "3"}));
  CHECK(iteration_of(run / "model.safetensors") == "15");
}

TEST_CASE("the last evaluation sees as much as the user says", "[kept-models]") {
  const TempFolder folder;
  const auto corpus = folder.put("text.txt", tiny_text());
  const auto out = [&](const std::string& limit) {
    const Result r =
        train(tiny_run(corpus, folder / "run", 2) + Args{"--final-eval", limit, "--overwrite"});
    check_ended_well(r);
    return r.out;
  };
  const std::string all = out("all");
  CHECK_THAT(all, ContainsSubstring(" (whole split)"));
  CHECK_THAT(out("auto"), ContainsSubstring(all.substr(all.find("final:"), 60)));
  CHECK_THAT(out("none"), !ContainsSubstring("final:"));
  const std::string some = out("2");
  CHECK_THAT(some, ContainsSubstring(" % of the split)"));
  const auto metrics = TempFolder::get(folder / "run/metrics.jsonl");
  CHECK_THAT(metrics, ContainsSubstring("\"final_val_share\":0."));
  check_unparsed(tiny_run(corpus, folder / "x", 1) + Args{"--final-eval", "some"}, 2,
                 "--final-eval: 'some' is not auto, all, none or a number of batches");
}
