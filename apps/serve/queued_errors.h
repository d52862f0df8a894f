#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "tapegrad/apps/serve/work_thread.h"

namespace tapegrad::serve {

// While it lives, print_error() waits for nobody: a thread of its own writes, for a server must not
// stand still where nobody reads its log. What comes while too much waits is lost, and a line says
// how often that was. At its end, what waits is written, for a moment at most.
class QueuedErrors {
 public:
  explicit QueuedErrors(int file = STDERR_FILENO);
  ~QueuedErrors();
  QueuedErrors(const QueuedErrors&) = delete;
  QueuedErrors& operator=(const QueuedErrors&) = delete;

  static constexpr std::size_t kMostPrints = 10'000, kMostBytes = std::size_t{16} << 20;

 private:
  void put(const std::string& text);
  void write(std::string_view text);

  const int file_;
  std::atomic<bool> hurries_ = false;      // what cannot be written at once is lost
  std::atomic<std::int64_t> waiting_ = 0;  // prints
  std::mutex mutex_;                       // of what follows
  std::int64_t lost_ = 0;                  // prints since the last one that was taken
  WorkThread writer_;
};

}  // namespace tapegrad::serve
