#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace tapegrad::serve {

// A thread that does pieces of work one after the other, as they came. What waits is bounded: by
// pieces, and by the bytes that these hold.
class WorkThread {
 public:
  using Id = std::int64_t;

  WorkThread(std::size_t most_pieces, std::size_t most_bytes);
  // Calls stop().
  ~WorkThread();
  WorkThread(const WorkThread&) = delete;
  WorkThread& operator=(const WorkThread&) = delete;

  // False if too much waits already. One piece alone may hold more bytes. `work` throws nothing.
  bool submit(Id id, std::size_t bytes, std::function<void()> work);
  // Drops a piece. False if it has begun.
  bool cancel(Id id);
  // Drops what waits, and returns when what has begun is done.
  void stop();

 private:
  struct Piece {
    Id id;
    std::size_t bytes;
    std::function<void()> work;
  };
  void run();

  const std::size_t most_pieces_, most_bytes_;
  std::mutex mutex_;  // of what follows
  std::condition_variable news_;
  std::deque<Piece> pieces_;
  std::size_t bytes_ = 0;
  bool ends_ = false;
  std::thread thread_;  // begins when all else is there
};

}  // namespace tapegrad::serve
