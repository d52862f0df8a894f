#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tapegrad/tests/faults/training.h"

namespace faults {

struct Options {
  bool is_long = false;
  unsigned seed = 1;
};

// The ways to stop a training. Each returns the exit code of the program.
int stop_at_calls(const Options& options);
int cut_power(const Options& options);
int kill_at_random(const Options& options);
int fill_disks(const Options& options);

// All trainings: both programs, all starts.
std::vector<std::unique_ptr<Training>> make_trainings(const std::filesystem::path& root,
                                                      Training::Length length, const Args& more);

// Runs jobs side by side, each with servers of its thread.
void run_jobs(const std::filesystem::path& root, std::size_t count,
              const std::function<void(std::size_t job, Servers&)>& run);

// Tells what is wrong on stderr, and counts it; nothing if `what` is empty.
class Failures {
 public:
  void add(const std::string& where, const std::string& what);
  int count() const { return count_; }
  int exit_code() const { return count_ == 0 ? 0 : 1; }

 private:
  std::atomic<int> count_{0};
};

}  // namespace faults
