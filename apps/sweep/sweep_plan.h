#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/sweep/halving.h"
#include "tapegrad/apps/sweep/sweep_record.h"

namespace tapegrad::sweep {

struct SweepPlan {
  std::filesystem::path folder = {};
  std::vector<std::string> args = {};  // of each run, behind `tapegrad train`
  // The first has all runs. A search without halving has one, of 0 steps.
  std::vector<Rung> rungs = {};
  std::optional<double> max_minutes = {};  // of each run
  int jobs = 1, threads = 1;               // runs side by side; threads of all of them
  std::string command = {};                // goes on with the sweep
};

// The largest number of jobs, at most `most` and as many as there are runs, of which the largest
// ones fit into the memory together; 1 at least. `bytes` has the memory of each run.
int fitting_jobs(int most, std::vector<double> bytes, std::optional<double> available);

// The runs of a rung, by the losses of the rung before it.
std::vector<std::size_t> members(const SweepPlan& plan, const SweepRecord& record,
                                 std::size_t rung);

// The threads of a run that starts when so many runs, itself among them, train or wait: its share,
// 1 at least.
int threads_of_run(const SweepPlan& plan, std::size_t runs);

// A run in a rung, a new one or one that goes on from its checkpoint.
struct Start {
  std::size_t rung = 0;
  bool resumes = false;
  int threads = 1;
};
// Its arguments, "train" the first.
std::vector<std::string> training_args(const SweepPlan& plan, const SweepRecord& record,
                                       const RunRecord& run, const Start& start);

// The command that trains a run again by itself, up to the end of the last rung that it has come
// through; it has come through one.
std::string command_of_run(const SweepPlan& plan, const SweepRecord& record, const RunRecord& run);

}  // namespace tapegrad::sweep
