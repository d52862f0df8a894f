#include "tapegrad/comm/internal/mpi_moves.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "tapegrad/base/error.h"
#include "tapegrad/comm/internal/mpi_heartbeats.h"

namespace tapegrad::detail {
namespace {

constexpr int kPiecesAtOnce = 16;
constexpr int kMoveTag = 0;  // heartbeats have another one

std::size_t index(int i) { return static_cast<std::size_t>(i); }

// Cuts the next piece off.
template <class T>
std::span<T> next_piece(std::span<T>& rest) {
  const std::span<T> piece = rest.first(std::min(rest.size(), kPiece));
  rest = rest.subspan(piece.size());
  return piece;
}

}  // namespace

Moves::Moves(int rank, int size) : rank_(rank), size_(size), receivers_(index(size)) {}

void Moves::begin(std::shared_ptr<Exchange> exchange) {
  Move& move = moves_.emplace_back();
  move.exchange = std::move(exchange);
  for (int i = 1; i < size_; ++i) {  // from the next ranks on, so that not all begin with rank 0
    receive(move, (rank_ + size_ - i) % size_);
  }
  for (int i = 1; i < size_; ++i) {
    const int to = (rank_ + i) % size_;
    for (std::span<const std::byte> rest = move.exchange->send[index(to)]; !rest.empty();) {
      receivers_[index(to)].waiting.push_back({next_piece(rest), &move});
      ++move.unsent;
    }
    send_next(to);
  }
}

void Moves::receive(Move& move, int from) {
  for (std::span<std::byte> rest = move.exchange->receive[index(from)]; !rest.empty();) {
    const std::span<std::byte> piece = next_piece(rest);
    const int bytes = static_cast<int>(piece.size());
    move.expected.push_back(bytes);
    check_mpi(MPI_Irecv(piece.data(), bytes, MPI_BYTE, from, kMoveTag, MPI_COMM_WORLD,
                        &move.receiving.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Irecv");
  }
}

void Moves::send_next(int to) {
  Receiver& receiver = receivers_[index(to)];
  while (receiver.sending < kPiecesAtOnce && !receiver.waiting.empty()) {
    const Piece piece = receiver.waiting.front();
    receiver.waiting.pop_front();
    check_mpi(MPI_Isend(piece.bytes.data(), static_cast<int>(piece.bytes.size()), MPI_BYTE, to,
                        kMoveTag, MPI_COMM_WORLD, &requests_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Isend");
    sending_.push_back({piece.move, to});
    ++receiver.sending;
  }
}

void Moves::end_sends() {
  if (requests_.empty()) return;
  int count = 0;
  ended_.resize(requests_.size());
  check_mpi(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                         ended_.data(), MPI_STATUSES_IGNORE),
            "MPI_Testsome");
  // From the last one on: the place of each is taken by the last one, which is not among those that
  // are left to be done.
  std::sort(ended_.begin(), ended_.begin() + count, std::greater<>());
  for (int i = 0; i < count; ++i) {
    const std::size_t at = index(ended_[index(i)]);
    const auto [move, to] = sending_[at];
    --move->unsent;
    --receivers_[index(to)].sending;
    requests_[at] = requests_.back();
    sending_[at] = sending_.back();
    requests_.pop_back();
    sending_.pop_back();
    send_next(to);
  }
}

bool Moves::received(Move& move) {
  int all = 0;
  const int count = static_cast<int>(move.receiving.size());
  statuses_.resize(move.receiving.size());
  const int code = MPI_Testall(count, move.receiving.data(), &all, statuses_.data());
  for (const MPI_Status& status : statuses_) {
    if (code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_ERR_PENDING) {
      check_mpi(status.MPI_ERROR, "MPI_Irecv");
    }
  }
  check_mpi(code, "MPI_Testall");
  if (all == 0) return false;
  for (std::size_t i = 0; i < move.expected.size(); ++i) {
    int bytes = 0;
    MPI_Get_count(&statuses_[i], MPI_BYTE, &bytes);
    check(bytes == move.expected[i],
          "[processes] rank {} has sent {} bytes where {} were expected: the processes do not call "
          "the same functions in the same order",
          statuses_[i].MPI_SOURCE, bytes, move.expected[i]);
  }
  return true;
}

bool Moves::advance() {
  bool ended = false;
  end_sends();
  while (!moves_.empty() && moves_.front().unsent == 0 && received(moves_.front())) {
    const std::shared_ptr<Exchange> exchange = moves_.front().exchange;
    moves_.pop_front();
    exchange->finish();
    ended = true;
  }
  return ended;
}

void Moves::fail(const std::exception_ptr& error) {
  for (Move& move : moves_) move.exchange->end(error);
  moves_.clear();
  receivers_.assign(receivers_.size(), {});
  requests_.clear();
  sending_.clear();
}

}  // namespace tapegrad::detail
