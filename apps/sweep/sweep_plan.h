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
  int jobs = 1, threads = 1;               // runs side by side; threads of each
  std::string command = {};                // goes on with the sweep
};

// The largest number of jobs, at most `most` and as many as there are runs, of which the largest
// ones fit into the memory together; 1 at least. `bytes` has the memory of each run.
int fitting_jobs(int most, std::vector<double> bytes, std::optional<double> available);

// The runs of a rung, by the losses of the rung before it.
std::vector<std::size_t> members(const SweepPlan& plan, const SweepRecord& record,
                                 std::size_t rung);

// The arguments of a run in a rung, "train" the first: of a new one, or of one that goes on from
// its checkpoint.
std::vector<std::string> training_args(const SweepPlan& plan, const SweepRecord& record,
                                       const RunRecord& run, std::size_t rung, bool resumes);

}  // namespace tapegrad::sweep
