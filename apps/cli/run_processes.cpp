#include "tapegrad/apps/cli/run_processes.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/base/file.h"
#include "tapegrad/base/internal/fingerprint.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/terminal.h"

namespace tapegrad::cli {
namespace {

// For rank 0 to tell an error that all have, and to end the others, before these tell it too.
constexpr unsigned kSecondsForRank0 = 2;

// Drops what a process prints. Of stderr, only what goes through C's stream is dropped: MPI and
// sanitizers write to the descriptor, and must be heard.
class Silence {
 public:
  Silence() : stderr_(stderr) {
    std::FILE* nothing = std::fopen("/dev/null", "w");
    check(nothing != nullptr && std::freopen("/dev/null", "w", stdout) != nullptr,
          "/dev/null cannot be opened");
    stderr = nothing;
  }
  ~Silence() { stderr = stderr_; }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  std::FILE* const stderr_;
};

int processors_of(pid_t process) {
  cpu_set_t set;
  return ::sched_getaffinity(process, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

// mpirun of Open MPI gives each of two processes a single core by default.
void note_idle_processors(const Processes& processes) {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return;
  int here = 0;
  for (int i = 0; i < processes.size(); ++i) here += processes.host(i) == processes.host(0);
  const int own = processors_of(0), all = processors_of(::getppid());
  if (processes.sharing_processors() > 1 || own * here >= all) return;
  print_error(
      fmt::format("note: mpirun lets each process use {} of {} processors; with --bind-to none "
                  "they share all\n",
                  own, all));
}

void set_up(Processes& processes) {
  if (processes.rank() == 0) note_idle_processors(processes);
  set_num_threads(std::max(1, num_threads() / processes.sharing_processors()));
  check_same(processes, {{"the program", fingerprint(read_file("/proc/self/exe"))}});
}

}  // namespace

int run_processes(const std::string& program, const std::function<int(Processes&)>& body) {
  std::unique_ptr<Processes> processes;
  std::unique_ptr<Silence> silence;
  const Outcome outcome = run_body([&] {
    processes = Processes::join();
    if (processes->rank() != 0) silence = std::make_unique<Silence>();
    if (!processes->alone()) set_up(*processes);
    return body(*processes);
  });
  if (outcome.error.empty()) return outcome.code;
  const int rank = processes ? processes->rank() : Processes::rank_of_environment();
  silence.reset();
  if (rank != 0) ::sleep(kSecondsForRank0);
  // A fault of the arguments is the same everywhere.
  const bool alone = !processes || processes->alone() || (rank == 0 && outcome.code == 2);
  print_failure(program, alone ? "" : " (" + processes->name(rank) + ")", outcome);
  if (processes) processes->abort(outcome.code);
  return outcome.code;
}

}  // namespace tapegrad::cli
