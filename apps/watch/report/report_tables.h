#pragma once

#include <string>
#include <vector>

#include "tapegrad/apps/watch/run_files.h"

// Parts of a report about runs, as HTML. Tables are "" where there is nothing to show.

namespace tapegrad::watch {

using Runs = std::vector<const RunFiles*>;

std::string heading(const std::string& text);
std::string name_of_run(const RunFiles& run);  // which may be any bytes, as UTF-8
// "name: " before what is of one run of several.
std::string run_prefix(const Runs& runs, const RunFiles& run);

std::string differences(const Runs& runs);  // of options, between several runs
std::string options(const Runs& runs);
std::string sizes(const Runs& runs);  // of files
// What each call of the training program was, and on which machine.
std::string sessions(const Runs& runs);

}  // namespace tapegrad::watch
