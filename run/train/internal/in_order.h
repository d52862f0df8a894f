#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "tapegrad/base/interrupt.h"
#include "tapegrad/comm/processes.h"

namespace tapegrad::run {

// Rank r of R processes has made values r, r + R, … of `count`: all of them, in order. If a signal
// has asked one of the processes to stop, it interrupts all. Null: one process has made them all.
template <class T>
std::vector<T> in_order(std::vector<T> own, std::size_t count, Processes* processes) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (processes == nullptr) return own;
  std::string mine(1, interrupt_requested() ? 1 : 0);
  mine.append(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(T));
  const std::vector<std::string> all = processes->all_gather(mine);
  for (const std::string& text : all) {
    if (text.front() != 0) interrupt();
  }
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const char* from = all[i % all.size()].data() + 1 + i / all.size() * sizeof(T);
    std::memcpy(&values[i], from, sizeof(T));
  }
  return values;
}

}  // namespace tapegrad::run
