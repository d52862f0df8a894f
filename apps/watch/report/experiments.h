#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tapegrad/apps/watch/run_files.h"

namespace tapegrad::watch {

using Runs = std::vector<const RunFiles*>;

// JSON's texts without quotes, other values as JSON has them.
std::string text_of(const Json& value);

// An option as text, in each run; nothing in a run that lacks it.
struct OptionRow {
  std::string name;
  std::vector<std::optional<std::string>> values;
};

// The options in one section of config.json.
std::vector<OptionRow> option_rows(const Runs& runs, const std::string& section);

// The options in which runs differ, the optimiser's first. Those that some runs only lack are left
// out, if the others tell the same runs apart: of two kinds of models, nearly all are of that kind.
std::vector<OptionRow> differing_options(const Runs& runs, bool seeds = true);

// Mean ± standard deviation of results over runs that differ in nothing but the seed.
struct Experiments {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;  // the lowest validation loss first
  std::vector<std::string> notes;              // on runs that were left out, or do not fit
  bool repeated = false;                       // an experiment has several runs
};

// Error if no run has a validation loss. `apart`: mean and deviation in columns of their own, and
// nine digits, for programs.
Experiments experiments_of(const Runs& runs, bool apart = false);

}  // namespace tapegrad::watch
