#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// The memory that this process can still get without swapping, in bytes.
struct AvailableMemory {
  double bytes = 0, total = 0;  // total: of the machine, or the limit
  // The limit that decides: "the control group /user/job", as a container or a batch system sets
  // it, or "ulimit -v". Empty where the machine does.
  std::string limit = {};

  std::string text() const;  // "3.1 GB of this machine's 25.0 GB are available"
};

// The least of what Linux reports: MemAvailable of /proc/meminfo; the limits of this process
// (ulimit -v and -d) less what it has; and for its control group (version 2 or 1) and each group
// around it the limit less what is used, where the cached pages of files count as free. Nothing if
// it cannot be read. `root` is the root of the file system, for tests.
std::optional<AvailableMemory> available_memory(const std::filesystem::path& root = "/");

}  // namespace tapegrad
