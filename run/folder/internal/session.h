#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tapegrad/run/folder/run_folder.h"

namespace tapegrad::run {

// sessions.jsonl has two lines for each call of a training program: one when it begins to train,
// and one when it ends. A call without the second was killed, or the power failed, if its first
// line has this member: those of earlier versions did not tell how they ended.
inline constexpr std::string_view kTellsEnd = "tells_end";

// The beginning of a call: its first step, the time, the command line (empty: a user of the library
// has none), the folder in which it was called, and what computes.
RunFolder::Metrics session_of(std::int64_t first_step, const std::string& command, int processes);

// How a call ended.
enum class Ending { finished, time_budget, early_stop, stopped, error };
inline constexpr std::string_view kEndingNames[] = {"finished", "time budget", "early stop",
                                                    "stopped", "error"};
inline std::span<const std::string_view> names_of(Ending) { return kEndingNames; }

// Of the call that began at `first_step`. `why`: the signal, the error's sentence.
RunFolder::Metrics end_of_session(std::int64_t first_step, std::int64_t last_step, Ending ending,
                                  const std::string& why);

}  // namespace tapegrad::run
