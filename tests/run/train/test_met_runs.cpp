// Runs of groups that meet through files, against processes that meet by MPI.

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tapegrad/base/interrupt.h"
#include "tapegrad/run/folder/internal/folder_calls.h"
#include "tapegrad/tests/apps/on_processes.h"
#include "tapegrad/tests/apps/tiny_runs.h"

namespace {

constexpr int kMetEvery = 6;  // steps between meetings

// Groups with a folder for their files, and a run folder each.
struct Met {
  TempFolder folder;
  std::filesystem::path corpus = folder.put("text.txt", tiny_text()), files = folder / "meetings";

  Met() { std::filesystem::create_directory(files); }

  Args args(const std::string& run, int iters, const Args& more = {}) const {
    return tiny_run(corpus, folder / run, iters) +
           Args{"--local-steps", std::to_string(kMetEvery), "--eval-interval", "6"} + more;
  }
  Args group(const std::string& name, const std::string& all, int iters,
             const Args& more = {}) const {
    return args(name, iters, Args{"--meet", files, "--group", name, "--of", all} + more);
  }
  std::string weights(const std::string& run) const {
    const std::string file = TempFolder::get(folder / run / "model.safetensors");
    std::uint64_t header = 0;
    std::memcpy(&header, file.data(), sizeof(header));
    return file.substr(sizeof(header) + header);
  }
  Result meet(const Args& more = {}) const { return run_program("meet", Args{files} + more); }
};

const std::string kWaits = "is waited for";

}  // namespace

TEST_CASE("groups that meet through files have the bits of processes that meet by MPI",
          "[met_runs]") {
  if (!have_processes()) return;
  const Met met;
  const std::string sent = GENERATE("f32", "int8");
  const Args more = {"--comm-dtype", sent};
  std::vector<std::unique_ptr<Program>> groups;
  for (const char* name : {"a", "b", "c"})
    groups.push_back(
        std::make_unique<Program>("train-gpt", met.group(name, "a,b,c", 2 * kMetEvery, more)));
  for (int meeting = 1; meeting <= 2; ++meeting) check_ended_well(met.meet({"--wait", "5"}));
  for (const auto& group : groups) check_ended_well(group->wait());
  check_ended_well(on_processes(3, "train-gpt", met.args("mpi", 2 * kMetEvery, more)));
  CHECK(met.weights("a") == met.weights("mpi"));
  CHECK(met.weights("b") == met.weights("mpi"));
  CHECK(met.weights("c") == met.weights("mpi"));
}

TEST_CASE("a group of several processes makes the steps of a group of one", "[met_runs]") {
  if (!have_processes()) return;
  const Met met, alone;
  const Args more = {"--gradient-accumulation-steps", "4"};  // two for each group
  for (const Met* one : {&met, &alone}) {
    const Args a = one->group("a", "a,b", kMetEvery, more);
    Program first(one == &met
                      ? tapegrad::places::kMpirun
                      : (std::filesystem::path(tapegrad::places::kPrograms) / "train-gpt").string(),
                  one == &met ? processes_args(2, "train-gpt", a) : a);
    Program second("train-gpt", one->group("b", "a,b", kMetEvery, more));
    check_ended_well(one->meet({"--wait", "5"}));
    check_ended_well(first.wait());
    check_ended_well(second.wait());
    CHECK(one->weights("a") == one->weights("b"));
  }
  CHECK(met.weights("a") == alone.weights("a"));
}

TEST_CASE("a group that is stopped while it waits goes on when it is resumed", "[met_runs]") {
  const Met met;
  for (const int signal : {SIGTERM, SIGKILL}) {
    std::filesystem::remove_all(met.files);
    std::filesystem::create_directory(met.files);
    for (const char* name : {"a", "b"}) {
      Program group("train-gpt", met.group(name, "a,b", kMetEvery, {"--overwrite"}));
      group.wait_for(kWaits);
      group.send(signal);
      const Result r = group.wait();
      CHECK(r.code == (signal == SIGTERM ? tapegrad::kInterruptedExitCode : -SIGKILL));
    }
    check_ended_well(met.meet());
    CHECK_THAT(train(resume_run(met.folder / "a", kMetEvery)).err,
               ContainsSubstring("meet says in which folder"));
    for (const char* name : {"a", "b"}) {
      const Result r = train(resume_run(met.folder / name, kMetEvery) + Args{"--meet", met.files});
      check_ended_well(r);
      CHECK_THAT(r.out, ContainsSubstring("meeting 1 of a, b"));
    }
    CHECK(met.weights("a") == met.weights("b"));
  }
}

TEST_CASE("a meeting is held without groups that are missing if somebody says so", "[met_runs]") {
  const Met met;
  check_error_of("meet", met.meet(), 1, "no group has a file for meeting 1");
  Program a("train-gpt", met.group("a", "a,b", kMetEvery));
  a.wait_for(kWaits);
  check_error_of("meet", met.meet(), 1, "the file of b is missing");
  const Result r = met.meet({"--wait", "0"});
  check_ended_well(r);
  CHECK_THAT(r.out, ContainsSubstring("meeting 1 of a, without b: bring "));
  check_ended_well(a.wait());
  // b comes too late, and begins where a is.
  const Program late("train-gpt", met.group("b", "a,b", kMetEvery));
  late.wait_for("meeting 1 of a\n");
  late.wait_for("meeting-000002-b.safetensors is written");
}

TEST_CASE("files without the key of a run's groups count nothing", "[met_runs]") {
  const Met met;
  const std::string key = met.folder.put("key", std::string(40, 'k')),
                    other = met.folder.put("other", std::string(40, 'o'));
  Program a("train-gpt", met.group("a", "a,b", kMetEvery, {"--meet-key", key}));
  Program b("train-gpt", met.group("b", "a,b", kMetEvery, {"--meet-key", other}));
  a.wait_for(kWaits);
  b.wait_for(kWaits);
  const Result r = met.meet({"--meet-key", key});
  CHECK(r.code == 1);
  CHECK_THAT(r.err, ContainsSubstring("the file of b is missing") &&
                        ContainsSubstring("signed with another key"));
  check_ended_well(met.meet({"--meet-key", key, "--wait", "0"}));
  check_ended_well(a.wait());
  b.wait_for("signed with another key");
}

TEST_CASE("meetings are held by one program at a time", "[met_runs]") {
  const Met met;
  const int lock = tapegrad::run::lock_folder(met.files, "testing");
  check_error_of("meet", met.meet({"--wait", "1"}), 1, "another program is holding meetings");
  ::close(lock);
}

TEST_CASE("options of groups that meet go together", "[met_runs]") {
  const Met met;
  const auto error = [&](const Args& more) { return train(met.args("run", 6, more)).err; };
  CHECK_THAT(error({"--meet", met.files}), ContainsSubstring("the name of this group"));
  CHECK_THAT(error({"--group", "a"}), ContainsSubstring("groups that meet through files"));
  CHECK_THAT(error({"--meet", met.files, "--group", "c", "--of", "a,b"}),
             ContainsSubstring("group c is not among those that meet"));
  CHECK_THAT(error({"--meet", met.files, "--group", "a", "--of", "a"}),
             ContainsSubstring("two or more groups"));
  CHECK_THAT(error({"--meet", met.folder / "none", "--group", "a", "--of", "a,b"}),
             ContainsSubstring("it is not there"));
  CHECK_THAT(error({"--meet", met.files, "--group", "a", "--of", "a,b",
                    "--gradient-accumulation-steps", "3"}),
             ContainsSubstring("2 groups cannot share out"));
  CHECK(run_program("meet", {}).code == 2);
  check_error_of("meet", run_program("meet", {met.folder / "none"}), 1, "no such folder");
}
