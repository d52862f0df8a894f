#include "tapegrad/run/record/machine_load.h"

#include <array>
#include <fstream>
#include <string>

#include "tapegrad/base/memory/available_memory.h"

namespace tapegrad::run {

// The first line of /proc/stat: see proc(5). Time of guests is part of user and nice already.
std::optional<MachineLoad::Ticks> MachineLoad::ticks() const {
  std::ifstream file(root_ / "proc/stat");
  std::string name;
  std::array<std::uint64_t, 8> times{};  // user, nice, system, idle, iowait, irq, softirq, steal
  file >> name;
  for (std::uint64_t& time : times) file >> time;
  if (!file || name != "cpu") return std::nullopt;
  std::uint64_t all = 0;
  for (const std::uint64_t time : times) all += time;
  return Ticks{.busy = all - times[3] - times[4], .all = all};
}

std::optional<MachineLoad::Percent> MachineLoad::next(Clock::time_point now) {
  if (last_ && now - read_ < std::chrono::seconds(1)) return std::nullopt;
  read_ = now;
  const auto before = std::exchange(last_, ticks());
  const auto memory = available_memory(root_);
  if (!before || !last_ || !memory || memory->total <= 0) return std::nullopt;
  // The kernel's sums may go back a little: see proc(5) on iowait.
  if (last_->all <= before->all || last_->busy < before->busy) return std::nullopt;
  const auto part = [](auto some, auto all) {
    return 100 * static_cast<double>(some) / static_cast<double>(all);
  };
  return Percent{.cpu = part(last_->busy - before->busy, last_->all - before->all),
                 .memory = 100 - part(memory->bytes, memory->total)};
}

}  // namespace tapegrad::run
