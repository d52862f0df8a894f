// Runs with --local-steps.

#include <signal.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "tapegrad/autograd/formats/safetensors.h"
#include "tapegrad/tests/apps/on_processes.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

constexpr int kProcesses = 2, kEvery = 97;  // steps between meetings

// Experts whose selection biases move in each step.
const Args kBalanced = {"--arch", "llama", "--moe-experts", "4", "--moe-selection-bias"};

// A corpus, and arguments of runs that are evaluated at their beginning and their end alone.
struct Local {
  TempFolder folder;
  std::filesystem::path corpus = folder.put("text.txt", tiny_text());

  Args args(const std::string& run, int iters, const Args& more = {}) const {
    return tiny_run(corpus, folder / run, iters) +
           Args{"--local-steps", std::to_string(kEvery), "--eval-interval", "1000000"} + more;
  }
};

// The step of a run's last checkpoint.
int saved_step(const std::filesystem::path& run) {
  const std::string words = "\"iteration\": ", text = TempFolder::get(run / "trainer.json");
  return std::stoi(text.substr(text.find(words) + words.size()));
}

// The bytes of a run's weights, without the header, which has the step.
std::string weights_in(const std::filesystem::path& run,
                       const std::string& name = "model.safetensors") {
  const std::string file = TempFolder::get(run / name);
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof(header));
  return file.substr(sizeof(header) + header);
}

// A process of the training program in that folder: mpirun does not pass signals on in time.
pid_t process_of(const std::filesystem::path& run) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string words{std::istreambuf_iterator<char>(file), {}};
    const std::string first = words.substr(0, words.find('\0'));
    if (first.ends_with("train-gpt") && words.find(run.string()) != words.npos)
      return std::stoi(entry.path().filename());
  }
  throw std::runtime_error("no process trains in " + run.string());
}

// The step at which a signal stops the run of a program, between two meetings.
int stop_between_meetings(const std::string& program, const Args& args,
                          const std::filesystem::path& run) {
  Program running(program, args);
  running.wait_for("iter 8:");
  ::kill(process_of(run), SIGTERM);
  const Result r = running.wait();
  INFO(r.out << r.err);
  const int step = saved_step(run);
  REQUIRE(step % kEvery != 0);
  return step;
}

}  // namespace

TEST_CASE("processes that are stopped between two meetings go on to the same bits",
          "[local_runs]") {
  if (!have_processes()) return;
  const Local local;
  const Args time_to_save = {"--mca", "odls_base_sigkill_timeout", "20"};
  const auto run = local.folder / "stopped";
  const int step = stop_between_meetings(
      tapegrad::places::kMpirun,
      time_to_save + processes_args(kProcesses, "train-gpt", local.args("stopped", 1'000'000)),
      run);
  const int end = step + 2 * kEvery;
  if (step < kEvery) {  // a reader has the model of the last meeting, which is the first one
    check_ended_well(train(local.args("new", 0, {"--gradient-accumulation-steps", "2"})));
    CHECK(weights_in(run) == weights_in(local.folder / "new"));
  }
  CHECK_THAT(train(resume_run(run, end)).err, ContainsSubstring("mpirun -n 2 must go on"));
  CHECK_THAT(on_processes(3, "train-gpt",
                          resume_run(run, end) + Args{"--gradient-accumulation-steps", "3"})
                 .err,
             ContainsSubstring("the weights and moments of 2 processes"));
  check_ended_well(on_processes(kProcesses, "train-gpt", resume_run(run, end)));
  check_ended_well(on_processes(kProcesses, "train-gpt", local.args("straight", end)));
  CHECK(checkpoint_bytes(run) == checkpoint_bytes(local.folder / "straight"));
}

TEST_CASE("so does a process alone, whose local steps are Lookahead", "[local_runs]") {
  const Local local;
  const Args more = GENERATE(Args{}, kBalanced);
  const auto run = local.folder / "stopped";
  const int step = stop_between_meetings("train-gpt", local.args("stopped", 1'000'000, more), run);
  const int end = step + 2 * kEvery;
  check_ended_well(train(resume_run(run, end)));
  check_ended_well(train(local.args("straight", end, more)));
  CHECK(checkpoint_bytes(run) == checkpoint_bytes(local.folder / "straight"));
}

TEST_CASE("processes train apart, and tell means of their losses", "[local_runs]") {
  if (!have_processes()) return;
  const Local local;
  const Args more = {"--local-steps", "2", "--eval-interval", "4"};
  const Result r = on_processes(kProcesses, "train-gpt", local.args("two", 12, more));
  check_ended_well(r);
  CHECK(r.out.find("iter 3:") == r.out.rfind("iter 3:"));
  const Result plain = on_processes(
      kProcesses, "train-gpt",
      tiny_run(local.corpus, local.folder / "plain", 12) + Args{"--eval-interval", "4"});
  check_ended_well(plain);
  CHECK_FALSE(same_model(local.folder / "two", local.folder / "plain"));
  // The first step's batches and weights are the same.
  const auto line_of = [](const Result& result) {
    const std::size_t at = result.out.find("iter 0:");
    return result.out.substr(at, result.out.find(',', at) - at);
  };
  CHECK(line_of(r) == line_of(plain));
}

TEST_CASE("groups of processes train as processes by themselves, to the bit", "[local_runs]") {
  if (!have_processes()) return;
  const Local local;
  const Args more = {
      "--local-steps", "3", "--eval-interval", "3", "--gradient-accumulation-steps", "4"};
  check_ended_well(on_processes(2, "train-gpt", local.args("each", 6, more)));
  const Result grouped =
      on_processes(4, "train-gpt", local.args("grouped", 6, more + Args{"--groups", "2"}));
  check_ended_well(grouped);
  const auto each = local.folder / "each", groups = local.folder / "grouped";
  CHECK(weights_in(groups) == weights_in(each));
  CHECK(weights_in(groups, "optimizer.safetensors") == weights_in(each, "optimizer.safetensors"));
  // As many groups may go on with fewer processes.
  check_ended_well(on_processes(2, "train-gpt", resume_run(groups, 9)));
  check_ended_well(on_processes(2, "train-gpt", resume_run(each, 9)));
  CHECK(weights_in(groups) == weights_in(each));
  CHECK_THAT(on_processes(4, "train-gpt", local.args("odd", 6, more + Args{"--groups", "3"})).err,
             ContainsSubstring("3 groups cannot share out"));
  CHECK_THAT(on_processes(3, "train-gpt", local.args("odd", 6, more + Args{"--groups", "2"})).err,
             ContainsSubstring("--groups 2: 3 processes cannot be divided"));
}

TEST_CASE("a run with local steps evaluates and ends where processes meet", "[local_runs]") {
  const Local local;
  const Result r = train(
      local.args("run", 10, {"--local-steps", "4", "--eval-interval", "5", "--early-stop", "9"}));
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("processes meet every 4 steps (--local-steps), and so the "
                                      "run has 12 steps, and evaluates every 8"));
  for (const char* line : {"step 0:", "step 8:", "step 12:"})
    CHECK_THAT(r.out, ContainsSubstring(line));
  CHECK_THAT(r.out, !ContainsSubstring("step 4:"));
}

TEST_CASE("models that are kept between two meetings have the number of the last one",
          "[local_runs]") {
  const Local local;
  const Args more = GENERATE(Args{}, kBalanced);
  const Args keep = {"--local-steps", "4", "--checkpoint-interval", "3", "--keep", "3"};
  const auto run = local.folder / "run";
  check_ended_well(train(local.args("run", 12, more + keep)));  // saves at 0, 3, 6, 9 and 12
  const Args short_run = more + Args{"--local-steps", "4"};
  for (const int step : {4, 8, 12}) {
    INFO(step);
    const std::string at = std::to_string(step), name = "model-" + at + ".safetensors";
    check_ended_well(train(local.args(at, step, short_run)));
    CHECK(weights_in(run, name) == weights_in(local.folder / at));
    CHECK(tapegrad::load_safetensors((run / name).string()).metadata.at("iteration") == at);
  }
  for (const char* step : {"0", "3", "6", "9"}) {
    CHECK_FALSE(std::filesystem::exists(run / (std::string("model-") + step + ".safetensors")));
  }
}

TEST_CASE("a run with local steps goes back to its best model", "[local_runs]") {
  const Local local;
  const auto run = local.folder / "run";
  const Args more = {"--local-steps", "3", "--eval-interval", "3"};
  check_ended_well(train(local.args("run", 6, more)));
  const std::string best = TempFolder::get(run / "model-best.safetensors");
  // Steps that lead away, and end between two meetings as far as the file can tell.
  check_ended_well(train(resume_run(run, 9) + Args{"--outer-learning-rate", "20"}));
  CHECK(TempFolder::get(run / "model-best.safetensors") == best);
  CHECK(TempFolder::get(run / "model.safetensors") != best);
  check_ended_well(train(resume_run(run, 6) + Args{"--checkpoint", "best"}));
  CHECK(TempFolder::get(run / "model.safetensors") == best);
  check_ended_well(train(resume_run(run, 9)));
}

TEST_CASE("local steps are a run's own, and refuse what cannot be with them", "[local_runs]") {
  const Local local;
  const auto error = [](const Args& args) { return train(args).err; };
  CHECK_THAT(error(local.args("run", 3, {"--skip-outliers", "3"})),
             ContainsSubstring("skip_outliers and local_steps exclude each other"));
  CHECK_THAT(error(local.args("run", 3, {"--outer-momentum", "1"})),
             ContainsSubstring("--outer-momentum"));
  check_ended_well(train(local.args("run", 2, {"--local-steps", "2"})));
  CHECK_THAT(error(resume_run(local.folder / "run", 8) + Args{"--local-steps", "4"}),
             ContainsSubstring("--local-steps 4 does not fit the run to resume, which has 2"));
  check_ended_well(train(tiny_run(local.corpus, local.folder / "plain", 2)));
  CHECK_THAT(error(resume_run(local.folder / "plain", 8) + Args{"--local-steps", "4"}),
             ContainsSubstring("--local-steps 4 does not fit the run to resume"));
}
