// train-gpt --preferences: runs that learn which of two answers is preferred.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Short answers are preferred.
std::string pair_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::string a = std::to_string(i % 10), b = std::to_string(i % 7);
    text += R"({"prompt":"what is )" + a + " and " + b + R"(","chosen":")" + a + b +
            R"(","rejected":")" + a + " and " + b + " and so on\"}\n";
  }
  return text;
}

// A model that has seen a few conversations; made once.
const fs::path& talker() {
  static const TempFolder folder;
  static const fs::path run = [] {
    std::string lines;
    for (int i = 0; i < 40; ++i) {
      const std::string a = std::to_string(i % 10), b = std::to_string(i % 7);
      lines += R"({"prompt":"what is )" + a + " and " + b + R"(","completion":")" + a + " and " +
               b + "\"}\n";
    }
    const Result r = train({"--chat",       folder.put("chats.jsonl", lines),
                            "--out-dir",    folder / "talker",
                            "--preset",     "char-cpu",
                            "--tokenizer",  "bpe:270",
                            "--n-layer",    "1",
                            "--n-head",     "2",
                            "--n-embd",     "16",
                            "--block-size", "128",
                            "--batch-size", "4",
                            "--max-iters",  "10",
                            "--no-sample"});
    check_ended_well(r);
    return folder / "talker";
  }();
  return run;
}

struct Pairs {
  TempFolder folder;
  fs::path file = folder.put("pairs.jsonl", pair_lines(60));

  Args args(const std::string& run, int iters) const {
    return {"--init-from",
            talker(),
            "--preferences",
            file,
            "--out-dir",
            folder / run,
            "--max-iters",
            std::to_string(iters),
            "--batch-size",
            "3",
            "--eval-iters",
            "2",
            "--gradient-accumulation-steps",
            "3",
            "--eval-interval",
            "5",
            "--log-interval",
            "1",
            "--warmup-iters",
            "2",
            "--lr-decay-iters",
            "20",
            "--learning-rate",
            "0.01",
            "--no-sample"};
  }
  Result train(const std::string& run, int iters, const Args& more = {}) const {
    return run_program("train-gpt", args(run, iters) + more);
  }
  std::string weights(const std::string& run) const {
    return TempFolder::get(folder / run / "model.safetensors");
  }
  std::vector<Json> metrics(const std::string& run) const {
    std::vector<Json> lines;
    std::istringstream file(TempFolder::get(folder / run / "metrics.jsonl"));
    for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
    return lines;
  }
};

const Args kLoraOfPairs = {"--lora-rank", "2", "--lora-target", "all"};

}  // namespace

TEST_CASE("a run on pairs is resumed to the same bits, on any number of threads", "[preferences]") {
  const Pairs pairs;
  const Args more = GENERATE(Args{}, kLoraOfPairs, kLoraOfPairs + Args{"--weights", "stored"},
                             Args{"--preference-loss", "orpo", "--dropout", "0.1"});
  check_ended_well(pairs.train("whole", 8, more));
  check_ended_well(pairs.train("parts", 5, more));
  check_ended_well(run_program("train-gpt", resume_run(pairs.folder / "parts", 8)));
  CHECK(pairs.weights("whole") == pairs.weights("parts"));
  for (const std::string threads : {"1", "4"}) {
    check_ended_well(pairs.train("threads" + threads, 8, more + Args{"--threads", threads}));
    CHECK(pairs.weights("whole") == pairs.weights("threads" + threads));
  }
}

TEST_CASE("the margin begins at 0, grows, and stands beside the loss", "[preferences]") {
  const Pairs pairs;
  const Args more = GENERATE(Args{}, kLoraOfPairs, Args{"--preference-loss", "dpo-norm"});
  const Result r = pairs.train("run", 15, more + Args{"--final-eval", "all"});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("pairs:   pairs.jsonl: ") &&
                        ContainsSubstring("in 54 and 6 pairs") &&
                        ContainsSubstring("iter 0: loss 0.6931, reward margin ") &&
                        ContainsSubstring("val reward margin ") &&
                        ContainsSubstring("final: val loss "));
  const auto metrics = pairs.metrics("run");
  const auto last_with = [&](const char* name) {
    for (auto it = metrics.rbegin(); it != metrics.rend(); ++it) {
      if (it->contains(name)) return it->at(name).get<double>();
    }
    FAIL("no metric " << name);
    return 0.0;
  };
  CHECK(last_with("reward_margin") > 0.01);
  CHECK(last_with("val_reward_margin") > 0.01);
  CHECK(last_with("val_reward_accuracy") > 0.9);
  CHECK(last_with("final_reward_margin") == Approx(last_with("val_reward_margin")).epsilon(1e-3));
  CHECK(last_with("final_val_loss") < 0.69);
  CHECK_THAT(TempFolder::get(pairs.folder / "run/report.html"),
             ContainsSubstring("Reward margin of the validation pairs"));
}

TEST_CASE("the loss is the mean over pairs, in whichever batch of a step they are",
          "[preferences]") {
  const Pairs pairs;
  const auto losses = [&](const std::string& run, const Args& batches) {
    check_ended_well(pairs.train(run, 3, batches));
    std::vector<double> found;
    for (const Json& line : pairs.metrics(run)) {
      if (line.contains("reward_accuracy")) found.push_back(line["loss"]);
    }
    return found;
  };
  const auto whole = losses("whole", {"--batch-size", "6", "--gradient-accumulation-steps", "1"});
  const auto parts = losses("parts", {"--batch-size", "1", "--gradient-accumulation-steps", "6"});
  REQUIRE(whole.size() == 3);
  REQUIRE(parts.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(parts[i] == Approx(whole[i]).epsilon(1e-5));
}

TEST_CASE("bad pairs are named, and --strict-data stops at the first", "[preferences]") {
  const Pairs pairs;
  pairs.folder.put("pairs.jsonl", pair_lines(20) + "{}\n" +
                                      R"({"prompt":"a","chosen":"b","rejected":"b"})" + "\n" +
                                      R"({"prompt":"a","chosen":"b","rejected":")" +
                                      std::string(400, 'x') + "\"}\n");
  const Result r = pairs.train("run", 0);
  check_ended_well(r);
  CHECK_THAT(r.err, ContainsSubstring("2 lines are left out") &&
                        ContainsSubstring("pairs.jsonl', line 21: it has no 'chosen'") &&
                        ContainsSubstring("line 22: chosen and rejected are equal") &&
                        ContainsSubstring("1 pair is left out"));
  CHECK_THAT(r.out, ContainsSubstring("2 bad lines left out; 1 left out as too long"));
  check_error_of("train-gpt", pairs.train("strict", 0, {"--strict-data"}), 1, "line 21");
}

TEST_CASE("options that do not fit pairs are refused by name", "[preferences]") {
  const Pairs pairs;
  const auto refused = [&](const Args& more, int code, const std::string& why) {
    if (code == 2) return check_unparsed(pairs.args("no", 2) + more, 2, why);
    check_error_of("train-gpt", pairs.train("no", 2, more), code, why);
    CHECK_FALSE(fs::exists(pairs.folder / "no"));
  };
  refused({"--init-from", "scratch"}, 2, "--preferences needs --init-from PATH");
  refused({"--init-from", "scratch", "--lora-rank", "8"}, 2,
          "--preferences needs --init-from PATH");
  refused({"--chat", pairs.file}, 2, "--preferences excludes --corpus, --data and --chat");
  refused({"--batches", "random"}, 2, "batches of conversations are packed");
  refused({"--loss", "all"}, 2, "--loss needs --chat");
  refused({"--beta", "0"}, 2, "--beta");
  refused({"--block-size", "16"}, 1, "no pair is left for the training part");
  refused({"--preferences", pairs.folder.put("empty.jsonl", "\n")}, 1,
          "no line is a pair of answers");
  check_unparsed({"--beta", "0.2"}, 2, "--beta needs --preferences");
  check_unparsed({"--preference-loss", "orpo"}, 2, "--preference-loss needs --preferences");
}

TEST_CASE("a run knows where its pairs are, and does not write over them", "[preferences]") {
  const Pairs pairs;
  Args relative = pairs.args("run", 0);
  relative[3] = pairs.file.filename();
  check_ended_well(train(relative, pairs.folder / "."));
  check_ended_well(train(resume_run(pairs.folder / "run", 1)));
  Args inside = pairs.args("out", 1);
  inside[3] = pairs.folder.put("out/metrics.jsonl", pair_lines(60));
  check_error_of("train-gpt", train(inside + Args{"--overwrite"}), 1, "--preferences");
  CHECK(TempFolder::get(inside[3]) == pair_lines(60));
}

TEST_CASE("a reference is never the model with adapters that a run begins with", "[preferences]") {
  const Pairs pairs;
  check_ended_well(pairs.train("first", 2, kLoraOfPairs + Args{"--weights", "stored"}));
  const Args more = {"--adapter", pairs.folder / "first"};
  check_unparsed(pairs.args("next", 2) + more, 2,
                 "Merge them into it first (tapegrad merge --adapter)");
  check_ended_well(pairs.train("next", 2, more + Args{"--preference-loss", "orpo"}));
  // A run that has adapters merged into what it starts from begins with a margin of 0, too.
  const Result r =
      pairs.train("merged", 2, Args{"--init-from", pairs.folder / "first"} + kLoraOfPairs);
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("iter 0: loss 0.6931, reward margin "));
}

TEST_CASE("a run whose starting model has changed is not compared with another", "[preferences]") {
  const Pairs pairs;
  const fs::path start = pairs.folder / "start";
  fs::copy(talker(), start, fs::copy_options::recursive);
  check_ended_well(pairs.train("run", 2, {"--init-from", start}));
  fs::copy_file(pairs.folder / "run/model.safetensors", start / "model-best.safetensors",
                fs::copy_options::overwrite_existing);
  check_error_of("train-gpt", run_program("train-gpt", resume_run(pairs.folder / "run", 4)), 1,
                 "whose weights have changed since the run began");
  check_error_of("train-gpt",
                 run_program("train-gpt", {"--eval-only", "--out-dir", pairs.folder / "run"}), 2,
                 "--eval-only is for runs on texts or conversations");
}

TEST_CASE("the memory of a run on pairs is planned within 3 %", "[preferences][plan]") {
  const Pairs pairs;
  const Args more =
      GENERATE(Args{}, kLoraOfPairs, Args{"--recompute"}, Args{"--preference-loss", "orpo"});
  const Result r = pairs.train("run", 1, more + Args{"--plan", "--batch-size", "48"});
  check_ended_well(r);
  std::smatch found;
  const auto number = [&](const std::string& pattern) {
    REQUIRE(std::regex_search(r.out, found, std::regex(pattern)));
    return std::stod(found[1]);
  };
  CHECK(number("about ([0-9.]+) MB at once") ==
        Approx(number("([0-9.]+) MB of tensors at once")).margin(1).epsilon(0.03));
}

TEST_CASE("a run on pairs with --recompute is the same run", "[preferences]") {
  const Pairs pairs;
  check_ended_well(pairs.train("stored", 4));
  check_ended_well(pairs.train("again", 4, {"--recompute"}));
  CHECK(pairs.weights("stored") == pairs.weights("again"));
}
