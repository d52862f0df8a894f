// The output and the end of processes that work together: ranks_main.cpp under mpirun.

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <sstream>

#include "tapegrad/base/parallel.h"
#include "tapegrad/tests/apps/program.h"
#include "tapegrad/tests/catch.h"
#include "tapegrad/tests/places.h"

namespace {

const std::filesystem::path kPrograms = tapegrad::places::kPrograms;

bool no_mpirun() {
  if (*tapegrad::places::kMpirun == '\0') WARN("skipped: there is no MPI, or no mpirun");
  return *tapegrad::places::kMpirun == '\0';
}

// Open MPI starts neither as root nor more processes than processors unless it is asked to. At its
// end it leaves memory to the system.
Args under_mpirun(const Args& args, const Args& variables = {}) {
  return Args{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
              "OMPI_MCA_rmaps_base_oversubscribe=1",
              "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe",
              "ASAN_OPTIONS=detect_leaks=0"} +
         variables + Args{tapegrad::places::kMpirun} + args;
}

Args ranks(int count, const std::string& name, const Args& variables = {}) {
  return under_mpirun({"-n", fmt::format("{}", count), kPrograms / "ranks_main", name}, variables);
}

Result run_ranks(int count, const std::string& name, const Args& variables = {}) {
  return run_program("/usr/bin/env", ranks(count, name, variables));
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

bool has(const std::string& text, const std::string& part) { return count_of(text, part) > 0; }

// True if a process is still at work a few seconds later. One that has ended is there until its
// parent has asked how.
bool goes_on(pid_t pid) {
  for (int i = 0; i < 500; ++i) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string line;
    if (!std::getline(file, line) || line.find(") Z ") != std::string::npos) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

// True if processes that a program has started are at work.
bool has_children(pid_t parent) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");  // number (name) state parent ...
    std::string line;
    if (!std::getline(file, line)) continue;
    std::istringstream rest(line.substr(line.rfind(')') + 1));
    char state = 0;
    pid_t other = 0;
    if (rest >> state >> other && other == parent && state != 'Z') return true;
  }
  return false;
}

// The end of a program that must not wait for ever. mpirun of Open MPI 4.1.4 does so once in some
// hundred cases, after all its processes have ended and it has told how: PMIx_server_finalize waits
// for a lock that no thread holds any more. It is started anew then, and where a signal ended it.
Result end_of(const Args& args) {
  for (int left = 2;; --left) {
    Program program("/usr/bin/env", args);
    if (program.ends_within(std::chrono::seconds(60))) {
      Result result = program.wait();
      if (result.code >= 0 || left == 0) return result;
      WARN("signal " << -result.code << " has ended mpirun");
    } else if (left > 0 && !has_children(program.pid())) {
      WARN("mpirun hangs, its processes have ended");
    } else {
      program.send(SIGTERM);  // mpirun then ends its processes, stopped ones as well
      static_cast<void>(program.ends_within(std::chrono::seconds(10)));
      throw std::runtime_error("it goes on");
    }
  }
}

// Three processes at work.
class AtWork {
 public:
  explicit AtWork(const Args& variables = {})
      : program_("/usr/bin/env", ranks(3, "hold", variables)) {
    while (pids_.size() < 3) {
      program_.wait_for("pid");
      pids_.clear();
      std::istringstream words(program_.out());
      for (std::string word; words >> word;) {
        if (word != "pid") pids_.push_back(std::stoi(word));
      }
    }
  }

  void send(int signal, std::size_t rank) const { ::kill(pids_[rank], signal); }
  bool ends_within(std::chrono::seconds time) const { return program_.ends_within(time); }

  struct End {
    Result result;
    bool left_over;  // some process goes on
  };
  End end() {
    if (!ends_within(std::chrono::seconds(60))) throw std::runtime_error("it goes on");
    End end{program_.wait(), false};
    for (const pid_t pid : pids_) end.left_over |= goes_on(pid);
    return end;
  }

 private:
  Program program_;
  std::vector<pid_t> pids_;
};

}  // namespace

TEST_CASE("only rank 0 prints, and processes share their processors out", "[processes]") {
  if (no_mpirun()) return;
  const Result result = run_ranks(2, "print");
  CHECK(result.code == 0);
  const int threads = std::max(1, tapegrad::num_threads() / 2);
  CHECK(result.out == fmt::format("printed once\n{} threads\n", threads));
  CHECK(result.err == "a note\n");
}

TEST_CASE("a program that no launcher started is alone", "[processes]") {
  const Result result = run_program("ranks_main", {"print"});
  CHECK(result.code == 0);
  CHECK(result.out == fmt::format("printed once\n{} threads\n", tapegrad::num_threads()));
  const Result wrong = run_program("ranks_main", {"error"});
  CHECK(wrong.code == 1);
  CHECK(wrong.err == "ranks_main: error: the disk is gone\n");
}

TEST_CASE("the exit code of all is mpirun's", "[processes]") {
  if (no_mpirun()) return;
  CHECK(run_ranks(2, "code").code == 7);
}

TEST_CASE("what is wrong in all processes is told once", "[processes]") {
  if (no_mpirun()) return;
  const Result usage = run_ranks(3, "usage");
  CHECK(usage.code == 2);
  CHECK(has(usage.err, "ranks_main: error: --steps must be a number\nTry 'ranks_main --help'.\n"));
  CHECK(count_of(usage.err, "--steps") == 1);
  const Result error = run_ranks(3, "error");
  CHECK(error.code == 1);
  CHECK(has(error.err, "ranks_main: error (rank 0 on "));
  CHECK(count_of(error.err, "the disk is gone") == 1);
}

TEST_CASE("what is wrong in one process names it, and ends all", "[processes]") {
  if (no_mpirun()) return;
  for (const char* name : {"one", "leave"}) {
    INFO(name);
    const Result result = run_ranks(2, name);
    CHECK(result.code == 1);
    CHECK(has(result.err, "ranks_main: error (rank 1 on "));
    CHECK(count_of(result.err, "the disk is gone") == 1);
  }
  const Result gone = run_ranks(2, "exit");
  CHECK(gone.code != 0);
}

TEST_CASE("processes that do not do the same are ended", "[processes]") {
  if (no_mpirun()) return;
  const Result result = run_ranks(2, "unlike");
  CHECK(result.code == 1);
  CHECK(has(result.err, "ranks_main: error (rank "));
}

// Open MPI's mpirun tells the rank and the host, MPICH's the host alone.
TEST_CASE("a killed process ends all, and mpirun names it", "[processes]") {
  if (no_mpirun()) return;
  AtWork processes;
  processes.send(SIGKILL, 1);
  const AtWork::End ended = processes.end();
  const std::string& told = ended.result.err;
  if (has(told, " RUNNING AT ")) {
    CHECK(ended.result.code == SIGKILL);
    CHECK(has(told, "Killed (signal 9)"));
  } else {
    CHECK(ended.result.code == 128 + SIGKILL);
    CHECK(has(told, "process rank 1 with PID"));
    CHECK(has(told, "exited on signal 9 (Killed)"));
  }
  CHECK_FALSE(ended.left_over);
}

TEST_CASE("a process that does not answer is named, and ends all", "[processes]") {
  if (no_mpirun()) return;
  for (const std::size_t rank : {0, 2}) {
    AtWork processes({"TAPEGRAD_PROCESS_TIMEOUT=3"});
    processes.send(SIGSTOP, rank);
    const AtWork::End ended = processes.end();
    CHECK(ended.result.code == 1);
    CHECK(has(ended.result.err, fmt::format("rank {} on ", rank)));
    CHECK(count_of(ended.result.err,
                   " has not answered for 3 s: it was stopped, or its host cannot be reached. The "
                   "run can be resumed from its last checkpoint\n") == 1);
    CHECK_FALSE(ended.left_over);
  }
}

TEST_CASE("a process that stops before it is heard, or after, ends all", "[processes]") {
  if (no_mpirun()) return;
  const auto stopped = [](const char* place) {
    const Args args = ranks(
        3, "print", {"TAPEGRAD_PROCESS_TIMEOUT=2", fmt::format("RANKS_MAIN_STOP_AT={}", place)});
    // One rank speaks. Where mpirun takes seconds to end the others, the next one may, too: three
    // times in turn that is no chance.
    for (int left = 2;; --left) {
      const Result result = end_of(args);
      INFO(place << "\n" << result.err);
      const int messages =
          count_of(result.err, "it was stopped") + count_of(result.err, "was stopped or has");
      if (messages > 1 && left > 0) continue;
      CHECK(result.code == 1);
      CHECK(messages == 1);
      return result.err;
    }
  };
  CHECK(
      has(stopped("start"), "rank 0 has waited for 2 s for all processes to begin: one of them "));
  CHECK(has(stopped("joined"), "rank 2 has not answered for 2 s: it was stopped, or its host "));
  CHECK(has(stopped("end"), "rank 0 has waited for 2 s for all processes to end: one of them "));
}

TEST_CASE("a process that ends before the others ends all, and is named", "[processes]") {
  if (no_mpirun()) return;
  for (const int rank : {0, 1}) {
    const Result result = end_of(ranks(2, rank == 0 ? "return of rank 0" : "return"));
    INFO(result.err);
    CHECK(result.code == 1);
    CHECK(has(result.err, fmt::format("rank {} on ", rank)));
    CHECK(count_of(result.err, " waits for it: all processes must be given the same arguments\n") ==
          1);
  }
  CHECK(end_of(ranks(2, "exit well")).code != 0);
}

// It never joins the others.
TEST_CASE("a process of another kind ends all", "[processes]") {
  if (no_mpirun()) return;
  const Result result = end_of(under_mpirun({"-n", "1", kPrograms / "ranks_main", "print", ":",
                                             "-n", "1", kPrograms / "tapegrad", "--version"},
                                            {"TAPEGRAD_PROCESS_TIMEOUT=2"}));
  INFO(result.err);
  CHECK(result.code != 0);
}

TEST_CASE("a process that computes or ends late is not taken for a silent one", "[processes]") {
  if (no_mpirun()) return;
  for (const char* name : {"busy", "late"}) {
    const Result result = run_ranks(2, name, {"TAPEGRAD_PROCESS_TIMEOUT=2"});
    INFO(name << "\n" << result.err);
    CHECK(result.code == 0);
  }
  const Result wrong = run_ranks(2, "print", {"TAPEGRAD_PROCESS_TIMEOUT=soon"});
  CHECK(wrong.code == 1);
  CHECK(has(wrong.err,
            "TAPEGRAD_PROCESS_TIMEOUT must be a number of seconds from 2 to 86400, not "
            "'soon'"));
}

TEST_CASE("processes that were all stopped for a while go on", "[processes]") {
  if (no_mpirun()) return;
  AtWork processes({"TAPEGRAD_PROCESS_TIMEOUT=2"});
  for (const std::size_t rank : {0, 1, 2}) processes.send(SIGSTOP, rank);
  std::this_thread::sleep_for(std::chrono::seconds(5));
  for (const std::size_t rank : {0, 1, 2}) processes.send(SIGCONT, rank);
  CHECK_FALSE(processes.ends_within(std::chrono::seconds(4)));
  processes.send(SIGKILL, 0);
  CHECK_FALSE(processes.end().left_over);
}

TEST_CASE("processes of different programs do not begin", "[processes]") {
  if (no_mpirun()) return;
  const TempFolder folder;
  std::filesystem::copy(kPrograms / "ranks_main", folder / "other");
  std::ofstream(folder / "other", std::ios::app) << "!";
  const Result result =
      run_program("/usr/bin/env", under_mpirun({"-n", "1", kPrograms / "ranks_main", "print", ":",
                                                "-n", "1", folder / "other", "print"}));
  CHECK(result.code == 1);
  CHECK(has(result.err, "the program must be the same in all processes, and is not: "));
  CHECK(has(result.err, " in rank 0 on "));
  CHECK(has(result.err, " in rank 1 on "));
  CHECK(result.out.empty());
}

TEST_CASE("a program without MPI that mpirun starts says how to get it", "[processes]") {
  const auto started = [](const Args& variables) {
    return run_program("/usr/bin/env", variables + Args{kPrograms / "ranks_without_mpi"});
  };
  const Result several = started({"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=0"});
  CHECK(several.code == 1);
  CHECK(has(several.err, "mpirun has started 2 processes, but this program was built without MPI"));
  CHECK(has(several.err, "apt install openmpi-bin libopenmpi-dev"));
  CHECK(has(started({"SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID=1"}).err, "srun has started 4"));
  CHECK(has(started({"PMIX_RANK=0"}).err, "has started several processes"));
  CHECK(has(started({"PMI_SIZE=two"}).err, "PMI_SIZE is 'two', not a number from 1 on"));
  // One process needs no MPI; and a script that Slurm runs is one, whatever the job has.
  CHECK(started({"OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_RANK=0"}).code == 0);
  CHECK(started({"SLURM_NTASKS=4", "SLURM_PROCID=0"}).code == 0);
  CHECK(started({}).code == 0);
}
