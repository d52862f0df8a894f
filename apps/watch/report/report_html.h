#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tapegrad/apps/watch/run_files.h"

namespace tapegrad::watch {

// A page about runs, as one file without scripts and without requests, that can be mailed: results,
// charts as SVG, samples, options, sizes, machine, and the command lines that repeat it. Of several
// runs, the curves stand in the same charts, and the options in which they differ come first.
std::string report_of(const std::vector<const RunFiles*>& runs);

// A page with the curves of its loss alone, to be shown in another page.
std::string loss_page(const std::filesystem::path& folder);

// Writes the report of the run in that folder to its report.html. Unlike a report to be mailed, it
// has a link to the page of the run's model, if there is one: see model_page.h. Only for the
// program that trains the run, and has ended.
void write_report(const std::filesystem::path& folder);

// Writes report.html anew, with the link, where there is one already, a page to link, and no
// program that trains the run. True if it was written.
bool link_model_page(const std::filesystem::path& folder);

}  // namespace tapegrad::watch
