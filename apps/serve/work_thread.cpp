#include "tapegrad/apps/serve/work_thread.h"

#include <algorithm>
#include <utility>

#include "tapegrad/base/blocked_signals.h"

namespace tapegrad::serve {
namespace {

constexpr std::size_t kRemembered = 1000;  // clients

}  // namespace

WorkThread::WorkThread(std::size_t most_pieces, std::size_t most_bytes)
    : most_pieces_(most_pieces), most_bytes_(most_bytes) {
  const BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
}

WorkThread::~WorkThread() { stop(); }

bool WorkThread::submit(Id id, const std::string& client, std::size_t bytes,
                        std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (pieces_.size() >= most_pieces_) return false;
  if (!pieces_.empty() && bytes_ + bytes > most_bytes_) return false;
  pieces_.push_back({id, client, bytes, std::move(work)});
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

// The first piece of the client that has waited the longest for a turn.
WorkThread::Piece WorkThread::next() {
  const auto last_turn = [this](const Piece& piece) {
    const auto turn = turns_.find(piece.client);
    return turn == turns_.end() ? 0 : turn->second;
  };
  const auto place = std::ranges::min_element(pieces_, {}, last_turn);
  Piece piece = std::move(*place);
  pieces_.erase(place);
  bytes_ -= piece.bytes;
  turns_[piece.client] = ++turn_;
  if (turns_.size() > kRemembered) {
    turns_.erase(
        std::ranges::min_element(turns_, {}, [](const auto& turn) { return turn.second; }));
  }
  return piece;
}

void WorkThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    news_.wait(lock, [this] { return ends_ || !pieces_.empty(); });
    if (ends_) return;
    const Piece piece = next();
    lock.unlock();
    piece.work();
    lock.lock();
  }
}

}  // namespace tapegrad::serve
