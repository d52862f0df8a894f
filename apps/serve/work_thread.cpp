#include "tapegrad/apps/serve/work_thread.h"

#include <algorithm>
#include <utility>

#include "tapegrad/base/blocked_signals.h"

namespace tapegrad::serve {

WorkThread::WorkThread(std::size_t most_pieces, std::size_t most_bytes)
    : most_pieces_(most_pieces), most_bytes_(most_bytes) {
  const BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
}

WorkThread::~WorkThread() { stop(); }

bool WorkThread::submit(Id id, std::size_t bytes, std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (pieces_.size() >= most_pieces_) return false;
  if (!pieces_.empty() && bytes_ + bytes > most_bytes_) return false;
  pieces_.push_back({id, bytes, std::move(work)});
  bytes_ += bytes;
  news_.notify_one();
  return true;
}

bool WorkThread::cancel(Id id) {
  const std::lock_guard lock(mutex_);
  const auto piece = std::ranges::find(pieces_, id, &Piece::id);
  if (piece == pieces_.end()) return false;
  bytes_ -= piece->bytes;
  pieces_.erase(piece);
  return true;
}

void WorkThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    news_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void WorkThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    news_.wait(lock, [this] { return ends_ || !pieces_.empty(); });
    if (ends_) return;
    const Piece piece = std::move(pieces_.front());
    pieces_.pop_front();
    bytes_ -= piece.bytes;
    lock.unlock();
    piece.work();
    lock.lock();
  }
}

}  // namespace tapegrad::serve
