#pragma once

#include <filesystem>

#include "tapegrad/autograd/profile.h"

namespace tapegrad::run {

// Writes a profile's timeline as a Chrome trace, which ui.perfetto.dev and chrome://tracing open
// (Google, "Trace Event Format", complete events): on the first row the parts, the blocks of the
// model and the ops; on a row for each other thread, what it did for them. An op tells its module,
// bytes and GFLOP/s. Returns how many ops it lacks, since the profile kept no more. Error if the
// profile has no timeline, or the file cannot be written.
std::int64_t write_chrome_trace(const std::filesystem::path& path, const Profile& profile);

}  // namespace tapegrad::run
