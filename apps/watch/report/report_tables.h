#pragma once

#include <string>
#include <vector>

#include "tapegrad/apps/watch/report/experiments.h"

// Parts of a report about runs, as HTML. Tables are "" where there is nothing to show.

namespace tapegrad::watch {

std::string heading(const std::string& text);
// A part of the page: of several runs, one that a reader opens. "" without a text.
std::string part(const Runs& runs, const std::string& name, const std::string& text);
std::string name_of_run(const RunFiles& run);  // which may be any bytes, as UTF-8
// "name: " before what is of one run of several.
std::string run_prefix(const Runs& runs, const RunFiles& run);

// A row for each of several runs: results, state, and the options in which they differ. Below it,
// a row for all runs that differ in nothing but the seed, if there are such.
std::string results_table(const Runs& runs);
std::string options(const Runs& runs);
std::string sizes(const Runs& runs);  // of files
// A row for each call of the training program, with its machine.
std::string sessions(const Runs& runs);

}  // namespace tapegrad::watch
