#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::sweep {

// This program, started again as `tapegrad ARGUMENT…` in a process group of its own, so that Ctrl-C
// reaches it by way of stop() alone. It reads nothing. What it prints is added to a file. If this
// program is killed, it is stopped as by stop().
class TrainingChild {
 public:
  // Error if it cannot be started.
  TrainingChild(const std::vector<std::string>& args, const std::filesystem::path& output);
  // Stops it and waits until it has saved.
  ~TrainingChild();
  TrainingChild(const TrainingChild&) = delete;
  TrainingChild& operator=(const TrainingChild&) = delete;

  // Sends SIGINT, once: training then saves and ends.
  void stop();
  // The exit code, or −signal if a signal ended it; nothing while it runs.
  std::optional<int> ended();

 private:
  pid_t process_ = -1;
  bool stopped_ = false;
  std::optional<int> code_;
};

}  // namespace tapegrad::sweep
