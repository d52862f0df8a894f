// Runs of a sweep that are stopped, by the sweep or by somebody else.

#include <sys/file.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "tapegrad/apps/sweep/training_child.h"
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/tests/apps/sweep/tiny_sweep.h"

using namespace tapegrad;

namespace {

namespace fs = std::filesystem;

constexpr int kForever = 10'000'000;

void wait_for_checkpoint(const TinySweep& sweep) {
  for (int i = 0; i < 6000 && !fs::exists(sweep.out / "001/trainer.json"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  REQUIRE(fs::exists(sweep.out / "001/trainer.json"));
}

// The process that a program has started. /proc/N/stat is "N (name) state parent …".
pid_t child_of(pid_t parent) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");
    std::string stat;
    std::getline(file, stat);
    const std::size_t end = stat.rfind(") ");
    if (end == stat.npos || stat.size() < end + 4) continue;
    if (std::atoi(stat.c_str() + end + 4) == parent) return std::atoi(stat.c_str());
  }
  return -1;
}

// A sweep of two runs that are done, but for the first, whose folder is empty.
void train_all_but_first(const TinySweep& sweep, const Args& options) {
  check_ended_well(sweep.run(options));
  fs::remove_all(sweep.out / "001");
  fs::create_directory(sweep.out / "001");
  Json record = sweep.record();
  record["runs"][0]["final_val_losses"] = Json::array();
  write_json(sweep.out / "sweep.json", record);
}

}  // namespace

TEST_CASE("Ctrl-C lets the runs of a sweep save", "[sweep]") {
  const TinySweep sweep;
  Program program("tapegrad", sweep.args({"--vary", "n-layer=1,2", "--jobs", "1"}, kForever));
  wait_for_checkpoint(sweep);
  program.send(SIGINT);
  const Result stopped = program.wait();
  INFO(stopped.out << stopped.err);
  REQUIRE(stopped.code == 130);
  CHECK_THAT(stopped.out, ContainsSubstring("sweep --out-dir " + sweep.out.string()));
  CHECK_THAT(sweep.file("001/sessions.jsonl"), ContainsSubstring("\"stopped\""));
  CHECK(!fs::exists(sweep.out / "002"));
  const Json record = sweep.record();
  for (const Json& run : record.at("runs")) {
    CHECK(run.at("final_val_losses").empty());
    CHECK(run.at("error") == "");
  }
}

TEST_CASE("runs save where a whole session is ended", "[sweep]") {
  const TinySweep sweep;
  Program program("tapegrad", sweep.args({"--vary", "n-layer=1,2", "--jobs", "1"}, kForever));
  wait_for_checkpoint(sweep);
  const pid_t run = child_of(program.pid());
  REQUIRE(run > 0);
  // Two signals would end a program that heeds them, before it has saved.
  ::kill(run, SIGTERM);
  ::kill(run, SIGHUP);
  program.send(SIGTERM);
  const Result stopped = program.wait();
  INFO(stopped.out << stopped.err);
  CHECK(stopped.code == 130);
  CHECK_THAT(sweep.file("001/sessions.jsonl"), ContainsSubstring("\"stopped\""));
}

TEST_CASE("a run that somebody else ends is not done, and the others go on", "[sweep]") {
  for (const int signal : {SIGKILL, SIGINT}) {
    INFO(signal);
    const TinySweep sweep;
    Program program("tapegrad", sweep.args({"--vary", "max-iters=10000000,4", "--jobs", "1"}));
    wait_for_checkpoint(sweep);
    const pid_t run = child_of(program.pid());
    REQUIRE(run > 0);
    ::kill(run, signal);
    const Result r = program.wait();
    INFO(r.out << r.err);
    CHECK(r.code == 1);
    CHECK_THAT(r.out, ContainsSubstring("001: not done: "));
    CHECK_THAT(r.out, ContainsSubstring("This goes on"));
    const Json runs = sweep.record().at("runs");
    CHECK(runs.at(0).at("error") == "");
    CHECK(runs.at(0).at("final_val_losses").empty());
    CHECK(runs.at(1).at("final_val_losses").size() == 1);
  }
}

TEST_CASE("a run that crashes has failed", "[sweep]") {
  const TinySweep sweep;
  const Args args = sweep.args({"--vary", "max-iters=10000000,4", "--jobs", "1"});
  Program program("tapegrad", args);
  wait_for_checkpoint(sweep);
  const pid_t run = child_of(program.pid());
  REQUIRE(run > 0);
  ::kill(run, SIGSEGV);
  const Result r = program.wait();
  INFO(r.out << r.err);
  CHECK(r.code == 0);
  CHECK_THAT(r.out, ContainsSubstring("001: failed: "));
  CHECK(sweep.record().at("runs").at(0).at("error") != "");
}

TEST_CASE("a run whose folder another program takes as it starts is not done", "[sweep]") {
  const TinySweep sweep;
  const Args options = {"--vary", "n-layer=1,2", "--jobs", "1"};
  train_all_but_first(sweep, options);
  // A sweep that looks does not see a shared lock, and a run cannot train beside one.
  const int lock = ::open((sweep.out / "001").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(::flock(lock, LOCK_SH | LOCK_NB) == 0);
  {
    Program program("tapegrad", sweep.args(options));
    for (int i = 0; i < 60'000 && !fs::exists(sweep.out / "001/output.txt"); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    REQUIRE(::flock(lock, LOCK_EX) == 0);
    const Result r = program.wait();
    INFO(r.out << r.err);
    CHECK(r.code == 1);
    CHECK_THAT(r.out, ContainsSubstring("001: not done: another program trains"));
    CHECK(sweep.record().at("runs").at(0).at("error") == "");
  }
  ::close(lock);
  check_ended_well(sweep.run(options));
  CHECK(sweep.record().at("runs").at(0).at("final_val_losses").size() == 1);
}

TEST_CASE("a sweep waits for a folder in which another program trains", "[sweep]") {
  const TinySweep sweep;
  const Args options = {"--vary", "n-layer=1,2", "--jobs", "1"};
  train_all_but_first(sweep, options);
  const int lock = run::lock_folder(sweep.out / "001", "testing");
  REQUIRE(lock >= 0);
  {
    Program program("tapegrad", sweep.args(options + Args{"--overwrite=false"}));
    program.wait_for("001: waits");
    program.send(SIGINT);
    const Result r = program.wait();
    INFO(r.out << r.err);
    CHECK(r.code == 130);
    CHECK_THAT(r.out, ContainsSubstring(sweep.out.string() + " --no-overwrite --preset"));
    CHECK_THAT(r.out, !ContainsSubstring("overwrite=false"));
  }
  const Result refused = sweep.run(options + Args{"--overwrite"});
  check_error_of("tapegrad sweep", refused, 1, "another program trains there");
  CHECK(fs::exists(sweep.out / "002/model.safetensors"));
  Program program("tapegrad", sweep.args(options));
  program.wait_for("001: waits");
  ::close(lock);
  check_ended_well(program.wait());
  CHECK(sweep.record().at("runs").at(0).at("final_val_losses").size() == 1);
}

TEST_CASE("the exit codes of runs are known where ended children are ignored", "[sweep]") {
  const TinySweep sweep;
  ::signal(SIGCHLD, SIG_IGN);
  Program program("tapegrad", sweep.args({"--vary", "n-layer=1"}));
  ::signal(SIGCHLD, SIG_DFL);
  check_ended_well(program.wait());
  CHECK(sweep.record().at("runs").at(0).at("final_val_losses").size() == 1);
}

TEST_CASE("a run that cannot be started is an error of the sweep", "[sweep]") {
  const TempFolder folder;
  const std::string too_long(std::size_t{1} << 23, 'x');
  CHECK_THROWS_WITH(sweep::TrainingChild({too_long}, folder / "output.txt"),
                    ContainsSubstring("a run cannot be started: "));
}
