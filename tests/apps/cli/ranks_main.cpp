// What mpirun's processes do if something goes wrong in them, run by `mpirun -n R ranks_main CASE`.

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

int main(int argc, char** argv) {
  return cli::run_processes("ranks_main",
                            [&](Processes& p) { return run_case(p, argc > 1 ? argv[1] : ""); });
}
