#pragma once

#include <mpi.h>

#include <deque>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "tapegrad/comm/internal/carrier.h"

namespace tapegrad::detail {

// The exchanges that MPI moves: all those that are under way. By point-to-point messages, not MPI's
// collectives of parts: their offsets are ints, which ends at 2 GiB.
//
// Parts are cut into small pieces, of which a few at a time are handed to MPI for each receiver.
// Large messages would let a network's two directions work in turns: MPI asks the receiver first,
// and the answer waits behind all that the receiver has begun to send itself. At 1 Gbit/s, parts of
// 12 MB took up to twice as long.
class Moves {
 public:
  Moves(int rank, int size);

  void begin(std::shared_ptr<Exchange> exchange);
  // Goes on with what is under way. Ends exchanges whose bytes are there, in the order of their
  // beginning. Returns whether one ended.
  bool advance();
  bool empty() const { return moves_.empty(); }
  // Ends all that is under way by this error.
  void fail(const std::exception_ptr& error);

 private:
  struct Move {
    std::shared_ptr<Exchange> exchange;
    std::vector<MPI_Request> receiving;
    std::vector<int> expected;  // bytes of each of them
    int unsent = 0;             // pieces
  };
  struct Piece {
    std::span<const std::byte> bytes;
    Move* move;
  };
  struct Receiver {
    std::deque<Piece> waiting;
    int sending = 0;
  };
  struct Sending {  // of a request
    Move* move;
    int to;
  };

  void receive(Move& move, int from);
  void send_next(int to);
  void end_sends();
  bool received(Move& move);

  int rank_, size_;
  std::deque<Move> moves_;  // in the order of their beginning; they do not move in memory
  std::vector<Receiver> receivers_;
  std::vector<MPI_Request> requests_;  // of pieces that MPI sends
  std::vector<Sending> sending_;       // their records
  std::vector<int> ended_;             // room for MPI's answers
  std::vector<MPI_Status> statuses_;
};

}  // namespace tapegrad::detail
