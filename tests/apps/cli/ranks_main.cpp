// Faults in processes of mpirun, run by `mpirun -n R ranks_main CASE`.

#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tapegrad/apps/cli/run_main.h"
#include "tapegrad/apps/cli/run_processes.h"
#include "tapegrad/base/parallel.h"
#include "tapegrad/base/terminal.h"

using namespace tapegrad;

namespace {

// The last rank stops itself there if the variable RANKS_MAIN_STOP_AT names this place.
void stop_at(const std::string& place) {
  const char* asked = std::getenv("RANKS_MAIN_STOP_AT");
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (asked == nullptr || rank == nullptr || size == nullptr || place != asked) return;
  if (std::atoi(rank) == std::atoi(size) - 1) ::raise(SIGSTOP);
}

// Prints on rank 0 and on the last one, which nobody hears.
void print(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

// Each computes for a while and meets the others, until the test ends one of them.
[[noreturn]] void hold(Processes& p) {
  for (const std::string& pid : p.all_gather(std::to_string(::getpid()))) print("pid " + pid);
  while (true) {
    ::usleep(100000);
    p.all_gather("");
  }
}

void compute_for(int seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

int run_case(Processes& p, const std::string& name) {
  const bool last = p.rank() == p.size() - 1;
  if (name == "print") {
    print("printed once");
    print_error("a note\n");
    print(std::to_string(num_threads()) + " threads");
  } else if (name == "code") {
    return 7;
  } else if (name == "usage") {
    cli::usage_error("--steps must be a number");
  } else if (name == "error") {
    fail("the disk is gone");
  } else if (name == "one") {
    check(!last, "the disk is gone");
    p.all_gather("");  // in which the others wait
  } else if (name == "leave") {
    check(!last, "the disk is gone");  // the others are at their end
  } else if (name == "hold") {
    hold(p);
  } else if (name == "exit") {
    if (last) std::_Exit(3);
    p.all_gather("");
  } else if (name == "exit well") {
    if (last) std::exit(0);
    p.all_gather("");
  } else if (name == "return") {
    if (last) return 0;
    p.all_gather("");
  } else if (name == "return of rank 0") {
    if (p.rank() == 0) return 0;
    p.all_gather("");
  } else if (name == "busy") {
    if (last) compute_for(5);
    p.all_gather("");
  } else if (name == "late") {
    if (last) compute_for(5);
  } else if (name == "unlike") {
    std::string bytes(last ? 10 : 20, 'x');
    p.broadcast(std::as_writable_bytes(std::span(bytes)));
  } else {
    cli::usage_error("there is no case {}", name);
  }
  return 0;
}

}  // namespace

// Found by the linker before MPI's functions of these names, which are called from here.
extern "C" int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  using Function = int (*)(int*, char***, int, int*);
  const auto init = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "MPI_Init_thread"));
  const int code = init(argc, argv, required, provided);
  stop_at("joined");
  return code;
}
extern "C" int MPI_Finalize() {
  stop_at("end");
  return reinterpret_cast<int (*)()>(::dlsym(RTLD_NEXT, "MPI_Finalize"))();
}

int main(int argc, char** argv) {
  stop_at("start");
  return cli::run_processes("ranks_main",
                            [&](Processes& p) { return run_case(p, argc > 1 ? argv[1] : ""); });
}
