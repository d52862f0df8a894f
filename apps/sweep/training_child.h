#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::sweep {

// This program, started again as `tapegrad ARGUMENT…`, also where its file was replaced. It reads
// nothing. What it prints is added to a file. A second signal would end it before it has saved, so
// that one comes, by way of stop(): it has a process group of its own, which Ctrl-C does not reach,
// and ignores SIGTERM and SIGHUP, which a whole session may get. If this program ends without
// stop(), the system sends what stop() would.
class TrainingChild {
 public:
  // Error if it cannot be started. From then on, this program does not ignore SIGCHLD: the system
  // would keep no exit codes.
  TrainingChild(const std::vector<std::string>& args, const std::filesystem::path& output);
  // Stops it and waits until it has saved.
  ~TrainingChild();
  TrainingChild(const TrainingChild&) = delete;
  TrainingChild& operator=(const TrainingChild&) = delete;

  // Sends SIGINT, once: training then saves and ends.
  void stop();
  // The exit code, or −signal if a signal ended it; nothing while it runs. If somebody else has
  // taken the code, it is kNoStatus.
  static constexpr int kNoStatus = 256;
  std::optional<int> ended();

 private:
  pid_t process_ = -1;
  bool stopped_ = false;
  std::optional<int> code_;
};

}  // namespace tapegrad::sweep
