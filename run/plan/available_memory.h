#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::run {

// The memory that this process can still get without swapping, in bytes.
struct AvailableMemory {
  double bytes = 0, total = 0;  // total: of the machine, or the limit of the group
  // The control group whose limit decides, as a container or a batch system sets it; empty where
  // the machine does.
  std::string group = {};

  std::string text() const;  // "3.1 GB of this machine's 25.0 GB are available"
};

// The least of what Linux reports: MemAvailable of /proc/meminfo, and for this process's control
// group (version 2 or 1) and each group around it the limit less what is used, where the cached
// pages of files count as free. Nothing if it cannot be read. `root` is the root of the file
// system, for tests.
std::optional<AvailableMemory> available_memory(const std::filesystem::path& root = "/");

}  // namespace tapegrad::run
