#include "tapegrad/apps/serve/work_thread.h"

#include <algorithm>
#include <utility>

#include "tapegrad/base/internal/blocked_signals.h"

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
  const auto place = clients_.try_emplace(client).first;
  pieces_.push_back({id, place, bytes, std::move(work)});
  if (place->second.waiting++ == 0) ++waiting_clients_;
  bytes_ += bytes;
  news_.notify_one();
  return true;
}

bool WorkThread::cancel(Id id) {
  const std::lock_guard lock(mutex_);
  const auto piece = std::ranges::find(pieces_, id, &Piece::id);
  if (piece == pieces_.end()) return false;
  take(piece);
  forget();
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
  const auto last_turn = [](const Piece& piece) { return piece.client->second.turn; };
  // A log's lines are many, and of one client.
  const auto place =
      waiting_clients_ == 1 ? pieces_.begin() : std::ranges::min_element(pieces_, {}, last_turn);
  Piece piece = take(place);
  piece.client->second.turn = ++turn_;
  forget();
  return piece;
}

// The client with the oldest turn of those that do not wait, if there are too many. For each piece
// that goes: no more than one client came with it.
void WorkThread::forget() {
  if (clients_.size() <= kRemembered) return;
  const auto order = [](const auto& entry) {
    return std::pair(entry.second.waiting > 0, entry.second.turn);
  };
  const auto oldest = std::ranges::min_element(clients_, {}, order);
  if (oldest->second.waiting == 0) clients_.erase(oldest);
}

WorkThread::Piece WorkThread::take(std::deque<Piece>::iterator place) {
  Piece piece = std::move(*place);
  pieces_.erase(place);
  bytes_ -= piece.bytes;
  if (--piece.client->second.waiting == 0) --waiting_clients_;
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
