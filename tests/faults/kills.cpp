#include <chrono>
#include <iostream>
#include <random>

#include "tapegrad/tests/faults/ways.h"

namespace faults {
namespace {

namespace fs = std::filesystem;
using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::steady_clock;

// True if a checkpoint, or another file, was being written.
bool was_writing(const fs::path& work) {
  for (const auto& [name, contents] : read_files(work)) {
    const bool unfinished =
        name.find(".tmp-") != std::string::npos || name.find("checkpoint.") != std::string::npos;
    if (unfinished) return true;
  }
  return false;
}

struct Counts {
  std::atomic<int> kills{0}, while_writing{0}, runs{0}, trainings{0};
};

// One training, which is killed again and again until it comes to its end. Returns what is wrong.
std::string kill_until_end(const Training& training, const fs::path& work, std::mt19937& random,
                           microseconds longest, Counts& counts) {
  write_files(work, training.before());
  Args args = training.command();
  int promised = training.promised("");
  // A resume may also print the last words of a run that is overwritten: these promise nothing.
  const auto old = training.before().find("run/config.json");
  const auto is_old = [&] {
    return old != training.before().end() &&
           TempFolder::get(work / "run/config.json") == old->second;
  };
  bool new_run = promised >= 0;
  for (;;) {
    const microseconds delay(
        std::uniform_int_distribution<std::int64_t>(0, longest.count())(random));
    Program program(training.program(), args, work);
    std::this_thread::sleep_for(delay);
    program.send(SIGKILL);
    const Result r = program.wait();
    ++counts.runs;
    if (r.code == 0) break;
    if (r.code == -SIGKILL) {
      ++counts.kills;
      counts.while_writing += was_writing(work) ? 1 : 0;
      promised = std::max(promised, training.promised(r.out));
      new_run |= training.promised(r.out) >= 0 && !is_old();
      args = training.commands().resume;
    } else if (args == training.commands().resume && promised < 0 &&
               !fs::exists(work / "run/trainer.json")) {
      args = training.commands().replace;
    } else {
      return "code " + std::to_string(r.code) + ": " + r.err;
    }
  }
  ++counts.trainings;
  return training.check_end(work, new_run);
}

}  // namespace

int kill_at_random(const Options& options) {
  const TempFolder root;
  const auto begin = steady_clock::now();
  const auto trainings = make_trainings(root.path(), {.steps = 20, .interval = 1}, {});
  // Each has made one or two undisturbed runs.
  const auto longest = duration_cast<microseconds>(steady_clock::now() - begin) / 10;
  const int wanted = options.is_long ? 1000 : 100;
  Failures failures;
  Counts counts;
  run_jobs(root.path(), static_cast<std::size_t>(wanted), [&](std::size_t i, Servers& servers) {
    if (counts.kills >= wanted) return;
    std::mt19937 random(options.seed + 1000 * static_cast<unsigned>(i));
    const Training& training = *trainings[i % trainings.size()];
    const std::string wrong =
        kill_until_end(training, servers.place().work, random, longest, counts);
    failures.add(training.name() + ", job " + std::to_string(i), wrong);
  });
  std::cout << "kills: seed " << options.seed << ": " << counts.kills << " kills ("
            << counts.while_writing << " while files were written) in " << counts.runs
            << " runs of " << counts.trainings << " trainings: " << failures.count()
            << " failures\n";
  return failures.exit_code();
}

}  // namespace faults
