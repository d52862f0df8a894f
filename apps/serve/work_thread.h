#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace tapegrad::serve {

// A thread that does pieces of work one after the other. Clients take turns, and the pieces of each
// are done as they came. What waits is bounded: by pieces, and by the bytes that these hold.
class WorkThread {
 public:
  using Id = std::int64_t;

  WorkThread(std::size_t most_pieces, std::size_t most_bytes);
  // Calls stop().
  ~WorkThread();
  WorkThread(const WorkThread&) = delete;
  WorkThread& operator=(const WorkThread&) = delete;

  // False if too much waits already. One piece alone may hold more bytes. `work` throws nothing.
  bool submit(Id id, const std::string& client, std::size_t bytes, std::function<void()> work);
  // Drops a piece. False if it has begun.
  bool cancel(Id id);
  // Drops what waits, and returns when what has begun is done.
  void stop();

 private:
  struct Client {
    std::int64_t turn = 0;  // its last one
    std::size_t waiting = 0;
  };
  using Clients = std::map<std::string, Client>;
  struct Piece {
    Id id;
    Clients::iterator client;
    std::size_t bytes;
    std::function<void()> work;
  };
  void run();
  Piece next();
  Piece take(std::deque<Piece>::iterator place);
  void forget();

  const std::size_t most_pieces_, most_bytes_;
  std::mutex mutex_;  // of what follows
  std::condition_variable news_;
  std::deque<Piece> pieces_;
  Clients clients_;  // those that wait, and the latest ones
  std::size_t waiting_clients_ = 0;
  std::int64_t turn_ = 0;
  std::size_t bytes_ = 0;
  bool ends_ = false;
  std::thread thread_;  // begins when all else is there
};

}  // namespace tapegrad::serve
