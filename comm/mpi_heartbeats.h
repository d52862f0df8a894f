#pragma once

#include <mpi.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace tapegrad::detail {

void check_mpi(int code, const char* call);

// Whether the other processes live: each one sends a byte to rank 0 every two seconds, and rank 0
// one to each, as long as the thread that calls tick() runs. A process that is computing is alive,
// therefore. The last byte of each says goodbye: once rank 0 has it of all and has answered, all
// have come to the end, and no message is on its way any more.
class Heartbeats {
 public:
  Heartbeats(std::vector<std::string> hosts, int rank);

  // To be called at least every half second. Text of an error if a process is not heard any more.
  std::string tick();
  // From now on this process is at its end; tick() goes on until all are.
  void leave() { leaving_ = true; }
  bool all_left() const { return all_left_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    int rank;
    Clock::time_point heard, sent;
    MPI_Request sending = MPI_REQUEST_NULL, receiving = MPI_REQUEST_NULL;
    char outgoing = 0, incoming = 0;
    bool left = false;      // has said goodbye
    bool answered = false;  // was told goodbye
  };
  void listen(Peer& peer);
  void talk(Peer& peer, bool goodbye);
  std::string silent(const Peer& peer) const;

  MPI_Comm communicator_ = MPI_COMM_NULL;
  const std::vector<std::string> hosts_;
  const int rank_;
  const std::chrono::seconds timeout_;
  const std::chrono::milliseconds interval_;
  std::vector<Peer> peers_;  // never moved: MPI writes to them
  Clock::time_point last_tick_;
  bool leaving_ = false, all_left_ = false;
};

}  // namespace tapegrad::detail
