#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tapegrad::detail {

void check_mpi(int code, const char* call);

// For how long a process may be silent: TAPEGRAD_PROCESS_TIMEOUT, or 30 s. Error if that is no
// number of seconds from 2 to 86400.
std::chrono::seconds process_timeout();

// Watches over the other processes' lives: each one sends a message to rank 0 every two seconds,
// and rank 0 one to each, as long as the thread that calls tick() runs. A process that is computing
// is alive, therefore. The last message of each says goodbye: once rank 0 has it of all and has
// answered, all have come to the end, and no message is on its way any more.
//
// Each message says how many exchanges the process has begun. All begin the same ones: rank 0 sees
// by these numbers if a process has said goodbye before an exchange in which another one waits.
class Heartbeats {
 public:
  // From here on silence is noticed. Other processes need not have come as far.
  Heartbeats(int rank, int size, std::chrono::seconds timeout);
  // For messages, once they are known.
  void name_hosts(std::vector<std::string> hosts) { hosts_ = std::move(hosts); }

  // To be called at least every half second, with the number of exchanges that this process has
  // begun. Text of an error if a process is not heard any more, or has ended before the others.
  std::string tick(std::int64_t begun);
  // From now on this process is at its end, and begins no exchange; tick() goes on until all are.
  void leave() { leaving_ = true; }
  bool all_left() const { return all_left_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Message {
    std::int64_t begun = 0, goodbye = 0;
  };
  struct Peer {
    int rank;
    Clock::time_point heard, sent;
    MPI_Request sending = MPI_REQUEST_NULL, receiving = MPI_REQUEST_NULL;
    Message outgoing = {}, incoming = {};
    std::int64_t begun = 0;
    bool left = false;      // has said goodbye
    bool answered = false;  // got the goodbye
  };
  void listen(Peer& peer);
  void talk(Peer& peer, bool goodbye);
  std::string silent(const Peer& peer) const;
  std::string left_early() const;
  std::string name(int rank) const;

  std::vector<std::string> hosts_;  // empty: not known yet
  const int rank_;
  const std::chrono::seconds timeout_;
  const std::chrono::milliseconds interval_;
  std::vector<Peer> peers_;  // never moved: MPI writes to them
  Clock::time_point last_tick_;
  std::int64_t begun_ = 0;
  bool leaving_ = false, all_left_ = false;
};

}  // namespace tapegrad::detail
