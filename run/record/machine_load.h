#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

#include "tapegrad/base/cxx20.h"

namespace tapegrad::run {

// How busy the machine is, with this program and all others, as Linux reports it; of memory, the
// machine or the control group whose limit is nearer. `root` is the
// root of the file system, for tests.
class MachineLoad {
 public:
  using Clock = std::chrono::steady_clock;
  explicit MachineLoad(std::filesystem::path root = "/") : root_(std::move(root)) {}

  struct Percent {
    double cpu;     // of the time of all processors since the last numbers
    double memory;  // that could not be had without swapping
  };
  // Nothing at first, or less than a second after the last numbers: reading them takes longer than
  // a small step. Nothing if they cannot be read.
  std::optional<Percent> next(Clock::time_point now = Clock::now());

 private:
  struct Ticks {
    std::uint64_t busy, all;
  };
  std::optional<Ticks> ticks() const;

  const std::filesystem::path root_;
  std::optional<Ticks> last_;
  Clock::time_point read_;
};

}  // namespace tapegrad::run
