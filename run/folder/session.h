#pragma once

#include <cstdint>
#include <string>

#include "tapegrad/run/folder/run_folder.h"

namespace tapegrad::run {

// A line of sessions.jsonl, for one call of a training program: its first step, the time, the
// command line (empty: a user of the library has none), the folder in which it was called, and what
// computes.
RunFolder::Metrics session_of(std::int64_t first_step, const std::string& command, int processes);

}  // namespace tapegrad::run
