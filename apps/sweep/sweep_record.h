#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/sweep/varied_options.h"
#include "tapegrad/base/json/internal/json_file.h"

namespace tapegrad::sweep {

// sweep.json in the folder of a sweep: the options of the sweep, and the results so far. Each run
// has a folder beside it, named by its number: 001, 002, …

inline constexpr double kNoLoss = std::numeric_limits<double>::quiet_NaN();
inline constexpr const char* kSweepFile = "sweep.json";
inline constexpr const char* kTableFile = "sweep.csv";
inline constexpr const char* kOutputFile = "output.txt";  // of a run: all that it printed

struct RunRecord {
  std::string name = {};  // "001"
  Values values = {};
  // The final validation loss of each rung that it has come through; kNoLoss if it has none.
  std::vector<double> losses = {};
  std::int64_t steps = 0;
  double seconds = 0;      // of all its calls
  std::string error = {};  // the reason of its failure; empty: it has not failed

  // The last one; kNoLoss if there is none or the run has failed.
  double loss() const;
};

struct SweepRecord {
  Json asked = {};                      // the options that decide the results
  std::vector<std::string> names = {};  // of the varied options
  std::vector<RunRecord> runs = {};
};

// The first runs of a sweep, which have no results.
std::vector<RunRecord> new_runs(const std::vector<Values>& values);

// The runs with the results that `stored` has, the contents of the sweep.json at `path`. Error if
// it is not of these runs.
std::vector<RunRecord> with_results(const std::filesystem::path& path, const Json& stored,
                                    std::vector<RunRecord> runs);

// Makes the folder and takes over the results of the same sweep there; a run whose folder is gone
// has none. Error, with the difference, if another sweep is there; with `overwrite`, whatever sweep
// is there is removed with its runs. Error, before anything is removed, if a program trains in one,
// or if one of the paths that the new runs read is in one.
SweepRecord begin_in(const std::filesystem::path& folder, SweepRecord record, bool overwrite,
                     const std::vector<std::string>& reads = {});
void save(const std::filesystem::path& folder, const SweepRecord& record);

// The rate of products that the runs of the sweep in this folder go by; nothing if there is none.
std::optional<double> stored_gflops(const std::filesystem::path& folder);

// The last final validation loss that a run folder has, and its step; kNoLoss if it has none.
struct FinalLoss {
  double loss = kNoLoss;
  std::int64_t steps = 0;
};
FinalLoss final_loss_of(const std::filesystem::path& run_folder);

// The sentence of the last error in what a run has printed; empty if there is none.
std::string error_in(const std::string& output);

}  // namespace tapegrad::sweep
