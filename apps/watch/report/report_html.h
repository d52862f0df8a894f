#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tapegrad/apps/watch/run_files.h"

namespace tapegrad::watch {

// A page about runs, as one file without scripts and without requests, that can be mailed: results,
// charts as SVG, samples, options, sizes, machine, and the command lines that repeat it. Of several
// runs, the curves stand in the same charts, and the options in which they differ come first.
// `at_end`: the program that asks trains the run itself, and has ended.
std::string report_of(const std::vector<const RunFiles*>& runs, bool at_end = false);

// A page with the curves of its loss alone, to be shown in another page.
std::string loss_page(const std::filesystem::path& folder);

// Writes the report of the run in that folder to its report.html.
void write_report(const std::filesystem::path& folder);

}  // namespace tapegrad::watch
