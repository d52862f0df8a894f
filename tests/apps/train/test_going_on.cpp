// Runs that go on beyond their first end.

#include <cmath>
#include <nlohmann/json.hpp>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/tests/apps/parsed.h"
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

TEST_CASE("a run of the schedule wsd goes on from its stable part", "[going-on]") {
  const Args wsd{"--schedule", "wsd", "--decay-share", "0.5", "--min-lr", "0.002"};
  const TinyRun tiny(10, wsd + Args{"--lr-decay-iters", "20"});
  check_ended_well(train(resume_run(tiny.run, 20)));
  const TinyRun whole(20, wsd);
  CHECK(same_model(tiny.run, whole.run));
  const auto rates = rates_of(tiny.run);
  REQUIRE(rates.size() == 20);
  CHECK(rates[9] == 0.01);
  CHECK(rates[15] == Approx(0.006));
  // From a checkpoint of the stable part on, another end may be chosen.
  const TinyRun other(10, wsd + Args{"--lr-decay-iters", "40"});
  check_ended_well(train(resume_run(other.run, 20) + Args{"--lr-decay-iters", "20"}));
  CHECK(same_model(other.run, whole.run));
  check_ended_well(train(resume_run(tiny.run, 40) + Args{"--schedule-restart"}));
  const auto again = rates_of(tiny.run);
  REQUIRE(again.size() == 40);
  for (std::size_t i = 0; i < 20; ++i) CHECK(again[20 + i] == rates[i]);
}

TEST_CASE("runs of PyTorch's schedules have their rates, and go on to the same bits",
          "[going-on]") {
  struct Shown {
    Args args;
    std::vector<double> rates;  // of the first 8 steps: a warm-up of 2, to 0.01
    std::string words;
  };
  const double w1 = 0.01 / 3, w2 = 0.02 / 3, half = 0.5 * (0.01 + 0.002);
  const Args least = {"--min-lr", "0.002"};
  const Shown all[] = {
      {{"--schedule", "step", "--step-size", "3", "--gamma", "0.5"},
       {w1, w2, 0.01, 0.01, 0.01, 0.005, 0.005, 0.005},
       "step (× 0.5 every 3 steps)"},
      {{"--schedule", "multistep", "--milestones", "6", "4"},
       {w1, w2, 0.01, 0.01, 1e-3, 1e-3, 1e-4, 1e-4},
       "multistep (× 0.1 at 6, 4)"},
      {{"--schedule", "exponential", "--gamma", "0.5"},
       {w1, w2, 0.01, 0.005, 0.0025, 0.00125, 0.000625, 0.0003125},
       "exponential (× 0.5 at each step)"},
      {least + Args{"--schedule", "cosine_with_restarts", "--step-size", "2", "--t-mult", "2"},
       {w1, w2, 0.01, half, 0.01, half + 0.004 * std::sqrt(0.5), half,
        half - 0.004 * std::sqrt(0.5)},
       "cosine_with_restarts (of 2 steps, then 2 times as many)"},
      {{"--schedule", "one_cycle"}, {4e-4, 0.01}, "one_cycle, "}};
  for (const Shown& shown : all) {
    const Args args = shown.args + Args{"--verbose"};
    INFO(shown.words);
    const TinyRun whole(8, args), parts(3, args);
    const auto rates = rates_of(whole.run);
    REQUIRE(rates.size() == 8);
    for (std::size_t i = 0; i < shown.rates.size(); ++i) {
      CHECK(rates[i] == Approx(shown.rates[i]).epsilon(1e-6));
    }
    const Result r = train(resume_run(parts.run, 8) + Args{"--verbose"});
    check_ended_well(r);
    CHECK_THAT(r.out, ContainsSubstring(shown.words));
    CHECK(same_model(whole.run, parts.run));
    CHECK(rates_of(parts.run) == rates);
  }
}

TEST_CASE("schedules that lack what they go by are refused, and so is what they do not use",
          "[going-on]") {
  const CorpusAndRun tiny("text.txt", tiny_text());
  const auto refused = [&](const Args& args, const std::string& words) {
    CHECK_THAT(train(tiny_run(tiny.corpus, tiny.run, 2) + args).err, ContainsSubstring(words));
  };
  refused({"--schedule", "step"}, "schedule step needs a step_size");
  refused({"--schedule", "cosine_with_restarts"},
          "schedule cosine_with_restarts needs a step_size");
  refused({"--schedule", "multistep"}, "schedule multistep needs milestones");
  refused({"--schedule", "multistep", "--milestones", "3", "x"}, "milestones: 'x' is not a step");
  refused({"--schedule", "exponential", "--min-lr", "0"},
          "schedule exponential needs a gamma, or a min_lr above 0");
  refused({"--step-size", "3"}, "--schedule cosine does not use --step-size");
  refused({"--milestones", "3"}, "--schedule cosine does not use --milestones");
  refused({"--gamma", "0.5"}, "--schedule cosine does not use --gamma");
  refused({"--decay-share", "0.5"}, "--schedule cosine does not use --decay-share");
  refused({"--schedule", "step", "--step-size", "3", "--t-mult", "2"},
          "--schedule step does not use --t-mult");
  refused({"--schedule", "one_cycle", "--min-lr", "0.001"},
          "--schedule one_cycle does not use --min-lr");
  refused({"--schedule", "exponential", "--gamma", "0.5", "--min-lr", "0.001"},
          "--schedule exponential does not use --min-lr beside --gamma");
  CHECK_FALSE(std::filesystem::exists(tiny.run));
}

TEST_CASE("--plan shows the learning rate of a run", "[going-on]") {
  const CorpusAndRun tiny("text.txt", tiny_text());
  const Args plan =
      tiny_run(tiny.corpus, tiny.run, 40) +
      Args{"--plan", "--gflops", "100", "--lr-decay-iters", "40", "--min-lr", "0.002"};
  const Result r = train(plan);
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("schedule:  0.01, cosine, 0.002 at the end\n") &&
                        ContainsSubstring("  0.01 ") && ContainsSubstring(" learning rate ") &&
                        ContainsSubstring(" 39\n"));
  // How many steps fit into a time is not known yet.
  const Result timed = train({"--corpus", tiny.corpus, "--tokenizer", "char", "--preset",
                              "char-cpu", "--plan", "--gflops", "100", "--max-minutes", "1"});
  check_ended_well(timed);
  CHECK_THAT(timed.out, ContainsSubstring("dtype:") && !ContainsSubstring("schedule:"));
}

namespace {

std::string step_of(const std::filesystem::path& file) {
  return tapegrad::load_safetensors(file.string()).metadata.at("iteration");
}

// Step 10 is the best one; ten more have made the model worse.
struct Worsened : TinyRun {
  Worsened() : TinyRun(10) {
    check_ended_well(train(resume_run(run, 20) + Args{"--learning-rate", "5"}));
    REQUIRE(step_of(run / "model-best.safetensors") == "10");
    REQUIRE(step_of(run / "model.safetensors") == "20");
  }
};

const Args kBest = {"--checkpoint", "best", "--learning-rate", "0.01"};

// The line of an evaluation.
std::string evaluation_at(int step, const std::string& out) {
  const std::size_t at = out.find("\nstep " + std::to_string(step) + ":");
  REQUIRE(at != out.npos);
  return out.substr(at, out.find('\n', at + 1) - at);
}

}  // namespace

TEST_CASE("a resume goes back to the best step, and on from there", "[going-on]") {
  const Worsened tiny;
  const Result r = train(resume_run(tiny.run, 15) + kBest);
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("resumed at step 10\n") &&
                        ContainsSubstring("went back from step 20 to step 10, whose val loss ") &&
                        ContainsSubstring("changed: learning_rate 5.0 → 0.01\n") &&
                        ContainsSubstring("changed: max_iters 20 → 15\n"));
  CHECK(step_of(tiny.run / "model.safetensors") == "15");
  const Worsened keeps;  // weights of steps that are gone go, too
  check_ended_well(train(resume_run(keeps.run, 21) + Args{"--keep", "best,9"}));
  CHECK(std::filesystem::exists(keeps.run / "model-21.safetensors"));
  check_ended_well(train(resume_run(keeps.run, 12) + kBest + Args{"--keep", "best,9"}));
  CHECK_FALSE(std::filesystem::exists(keeps.run / "model-21.safetensors"));
  CHECK(std::filesystem::exists(keeps.run / "model-12.safetensors"));
  // The weights are those of step 10, and the steps after it are told once.
  const TinyRun whole(10);
  const Result same = train(resume_run(whole.run, 10));
  CHECK(evaluation_at(10, r.out) == evaluation_at(10, same.out));
  CHECK(rates_of(tiny.run).size() == 15);
  const Worsened cut;
  check_ended_well(train(resume_run(cut.run, 12) + kBest));
  const Result on = train(resume_run(cut.run, 15));
  check_ended_well(on);
  CHECK_THAT(on.out, !ContainsSubstring("went back") && !ContainsSubstring("learning_rate"));
  CHECK(same_model(cut.run, tiny.run));
}

TEST_CASE("a resume at the best step itself goes on as without --checkpoint", "[going-on]") {
  const TinyRun a(10), b(10);
  const Result r = train(resume_run(a.run, 12) + Args{"--checkpoint", "best"});
  check_ended_well(r);
  CHECK_THAT(r.out, !ContainsSubstring("went back"));
  check_ended_well(train(resume_run(b.run, 12) + Args{"--checkpoint", "last"}));
  CHECK(same_model(a.run, b.run));
}

TEST_CASE("a resume goes back to what there is", "[going-on]") {
  const TinyRun tiny(10, {"--keep", "last,2"});
  check_error_of("train-gpt", train(resume_run(tiny.run, 12) + kBest), 1,
                 "keeps no checkpoint 'best'; it has 5, 10, last");
  check_unparsed(resume_run(tiny.run, 12) + Args{"--checkpoint", "5"}, 2,
                 "--init-from resume goes on from the checkpoint last or best, not 5");
  // A best model that the checkpoint does not know: the run was stopped between the two.
  const Worsened other;
  std::filesystem::copy_file(other.run / "model.safetensors", other.run / "model-best.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  check_error_of("train-gpt", train(resume_run(other.run, 25) + kBest), 1,
                 "this is of step 20, and the checkpoint knows step 10 as the best");
  check_unparsed_pairs({"--checkpoint", "best"}, 2, "--checkpoint needs --init-from");
}

TEST_CASE("pairs and fine-tuned models go back to their best, too", "[going-on]") {
  const TinyPairRun pairs(5);
  check_ended_well(train_pairs(resume_run(pairs.run, 10) + Args{"--learning-rate", "5"}));
  const Result r = train_pairs(resume_run(pairs.run, 8) + kBest);
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("went back from step 10 to step 5"));

  const TinyRun base(5);
  const auto tuned = base.folder / "tuned";
  check_ended_well(
      train({"--init-from", base.run, "--checkpoint", "last", "--corpus", base.corpus, "--out-dir",
             tuned, "--max-iters", "5", "--eval-interval", "5", "--eval-iters", "1", "--lora-rank",
             "2", "--schedule", "constant", "--no-sample"}));
  check_ended_well(train(resume_run(tuned, 10) + Args{"--learning-rate", "50"}));
  const Result back = train(resume_run(tuned, 7) + Args{"--checkpoint", "best"});
  check_ended_well(back);
  CHECK_THAT(back.out, ContainsSubstring("went back from step 10 to step 5"));
  const auto config = nlohmann::json::parse(TempFolder::get(tuned / "config.json"));
  CHECK(config.at("tuning").at("checkpoint") == "last");
}

TEST_CASE("a schedule that ends within its warm-up is refused by steps of the run", "[going-on]") {
  const TinyRun tiny(10, {"--warmup-iters", "3"});
  check_error_of(
      "train-gpt",
      train(resume_run(tiny.run, 20) + Args{"--schedule-restart", "--lr-decay-iters", "11"}), 1,
      "lr_decay_iters 11 comes before step 13, at which the warm-up ends: it has 3 steps and "
      "begins at step 10");
}
