// train-gpt --teacher: runs that learn from another model beside a text.

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tapegrad/tests/apps/parsed.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

namespace fs = std::filesystem;

// A model that has learnt something; made once.
const TinyRun& teacher() {
  static const TinyRun run(40, {"--n-embd", "32", "--dropout", "0"});
  return run;
}

// A smaller one that learns from it.
struct Taught {
  TempFolder folder;

  Args args(const std::string& run, int iters, const Args& more = {}) const {
    return tiny_run(teacher().corpus, folder / run, iters) + Args{"--teacher", teacher().run} +
           more;
  }
  Result train(const std::string& run, int iters, const Args& more = {}) const {
    return ::train(args(run, iters, more));
  }
  std::string weights(const std::string& run) const {
    return TempFolder::get(folder / run / "model.safetensors");
  }
  double val_loss(const std::string& run) const {
    double loss = 0;
    std::istringstream file(TempFolder::get(folder / run / "metrics.jsonl"));
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json.contains("val_loss")) loss = json["val_loss"];
    }
    return loss;
  }
};

}  // namespace

TEST_CASE("a run with a teacher is resumed to the same bits, on any number of threads",
          "[distillation]") {
  const Taught runs;
  const Result r = runs.train("whole", 8);
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("teacher: " + teacher().run.string() +
                                      ", 0.5 of the loss at temperature 2"));
  check_ended_well(runs.train("parts", 5));
  check_ended_well(::train(resume_run(runs.folder / "parts", 8)));
  CHECK(runs.weights("whole") == runs.weights("parts"));
  for (const std::string threads : {"1", "4"}) {
    check_ended_well(runs.train("threads" + threads, 8, {"--threads", threads}));
    CHECK(runs.weights("whole") == runs.weights("threads" + threads));
  }
}

TEST_CASE("a teacher's word alone brings a model to its text", "[distillation]") {
  const Taught runs;
  check_ended_well(runs.train("begin", 0, {"--teacher-weight", "1"}));
  check_ended_well(runs.train("run", 40, {"--teacher-weight", "1"}));
  CHECK(runs.val_loss("run") < 0.9 * runs.val_loss("begin"));
}

TEST_CASE("a teacher without weight changes nothing but rounding", "[distillation]") {
  const Taught runs;
  check_ended_well(runs.train("none", 5, {"--teacher-weight", "0"}));
  check_ended_well(::train(tiny_run(teacher().corpus, runs.folder / "plain", 5)));
  CHECK(runs.val_loss("none") == Approx(runs.val_loss("plain")).epsilon(1e-5));
}

TEST_CASE("teachers that do not fit are refused by name", "[distillation]") {
  const Taught runs;
  const auto refused = [&](const Args& more, const std::string& why) {
    check_error_of("train-gpt", runs.train("no", 2, more), 1, why);
    CHECK_FALSE(fs::exists(runs.folder / "no"));
  };
  check_unparsed(runs.args("no", 2, {"--teacher", "nowhere"}), 1, "nowhere");
  refused({"--block-size", "17"}, "it sees 16 tokens at once, fewer than --block-size 17");
  refused({"--tokenizer", "bpe:280"}, "both must have the same tokenizer");
  const fs::path other = runs.folder.put("other.txt", std::string(2000, 'x') + tiny_text());
  refused({"--corpus", other}, "both must have the same tokenizer");
  check_unparsed(runs.args("no", 2, {"--teacher-weight", "2"}), 2, "--teacher-weight");
  check_unparsed({"--teacher-weight", "0.2"}, 2, "--teacher-weight needs --teacher");
  check_unparsed({"--teacher-temperature", "3"}, 2, "--teacher-temperature needs --teacher");
}

TEST_CASE("a run whose teacher has changed is not resumed", "[distillation]") {
  const Taught runs;
  const fs::path changing = runs.folder / "teacher";
  fs::copy(teacher().run, changing, fs::copy_options::recursive);
  check_ended_well(runs.train("run", 2, {"--teacher", changing}));
  check_ended_well(::train(resume_run(changing, 42)));
  check_error_of("train-gpt", ::train(resume_run(runs.folder / "run", 4)), 1,
                 "its weights have changed since the run began");
}

TEST_CASE("a teacher is not written over, does not go, and does not come later", "[distillation]") {
  const Taught runs;
  const fs::path folder = runs.folder / "teacher";
  fs::copy(teacher().run, folder, fs::copy_options::recursive);
  check_unparsed(runs.args("teacher", 2, {"--teacher", folder, "--overwrite"}), 2,
                 "--teacher and --out-dir are both");
  check_ended_well(runs.train("run", 2, {"--teacher", folder}));
  check_unparsed(resume_run(runs.folder / "run", 3) + Args{"--teacher", ""}, 2,
                 "the run to resume has learnt from a teacher");
  check_unparsed(resume_run(folder, 42) + Args{"--teacher", runs.folder / "run"}, 2,
                 "the run to resume has had none");
}

TEST_CASE("the memory of a run with a teacher is planned within 3 %", "[distillation][plan]") {
  const Taught runs;
  const Result r = runs.train("run", 1, {"--plan", "--batch-size", "256"});
  check_ended_well(r);
  std::smatch found;
  const auto number = [&](const std::string& pattern) {
    REQUIRE(std::regex_search(r.out, found, std::regex(pattern)));
    return std::stod(found[1]);
  };
  CHECK(number("about ([0-9.]+) MB at once") ==
        Approx(number("([0-9.]+) MB of tensors at once")).margin(1).epsilon(0.03));
}
