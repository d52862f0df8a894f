#include "tapegrad/comm/mpi_heartbeats.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/number_text.h"

namespace tapegrad::detail {
namespace {

constexpr char kAlive = 0, kGoodbye = 1;
constexpr const char* kTimeout = "TAPEGRAD_PROCESS_TIMEOUT";

std::chrono::seconds timeout_of_environment() {
  const char* value = std::getenv(kTimeout);
  if (value == nullptr) return std::chrono::seconds(30);
  const std::string_view text = value;
  const std::optional<int> seconds = number_of<int>(text);
  check(seconds && *seconds >= 2 && *seconds <= 86400,
        "[processes] {} must be a number of seconds from 2 to 86400, not '{}'", kTimeout, text);
  return std::chrono::seconds(*seconds);
}

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int size = 0;
  MPI_Error_string(code, text, &size);
  fail("[processes] {} has failed: {}", call, text);
}

Heartbeats::Heartbeats(std::vector<std::string> hosts, int rank)
    : hosts_(std::move(hosts)),
      rank_(rank),
      timeout_(timeout_of_environment()),
      interval_(std::min(std::chrono::milliseconds(2000), std::chrono::milliseconds(timeout_) / 5)),
      last_tick_(Clock::now()) {
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  const int size = static_cast<int>(hosts_.size());
  for (int other = 0; other < size; ++other) {
    if (other != rank && (rank == 0 || other == 0)) {
      peers_.push_back({.rank = other, .heard = last_tick_, .sent = {}});
    }
  }
}

std::string Heartbeats::tick() {
  const auto now = Clock::now();
  // While this process itself was stopped, it could not have heard anybody.
  const auto pause = now - last_tick_;
  last_tick_ = now;
  bool left = true, answered = true;
  for (Peer& peer : peers_) {
    if (pause > timeout_ / 3) peer.heard += pause;
    listen(peer);
    left = left && peer.left;
  }
  for (Peer& peer : peers_) {
    // Rank 0 answers when all are there.
    talk(peer, leaving_ && (rank_ != 0 || left));
    answered = answered && peer.answered && peer.sending == MPI_REQUEST_NULL;
    // Rank 1 speaks before the others if rank 0 is gone, so that one message is enough.
    const auto patience = timeout_ + std::chrono::seconds(rank_ > 1 ? 2 : 0);
    if (!peer.left && now - peer.heard > patience) return silent(peer);
  }
  all_left_ = leaving_ && left && answered;
  return "";
}

void Heartbeats::listen(Peer& peer) {
  while (!peer.left) {
    if (peer.receiving == MPI_REQUEST_NULL) {
      check_mpi(
          MPI_Irecv(&peer.incoming, 1, MPI_CHAR, peer.rank, 0, communicator_, &peer.receiving),
          "MPI_Irecv");
    }
    int received = 0;
    check_mpi(MPI_Test(&peer.receiving, &received, MPI_STATUS_IGNORE), "MPI_Test");
    if (received == 0) return;
    peer.heard = last_tick_;
    peer.left = peer.incoming == kGoodbye;
  }
}

void Heartbeats::talk(Peer& peer, bool goodbye) {
  int sent = 1;
  if (peer.sending != MPI_REQUEST_NULL) {
    check_mpi(MPI_Test(&peer.sending, &sent, MPI_STATUS_IGNORE), "MPI_Test");
  }
  const bool due = goodbye || last_tick_ - peer.sent >= interval_;
  if (sent == 0 || peer.answered || !due) return;
  peer.outgoing = goodbye ? kGoodbye : kAlive;
  peer.answered = goodbye;
  peer.sent = last_tick_;
  check_mpi(MPI_Isend(&peer.outgoing, 1, MPI_CHAR, peer.rank, 0, communicator_, &peer.sending),
            "MPI_Isend");
}

std::string Heartbeats::silent(const Peer& peer) const {
  return fmt::format(
      "rank {} on {} has not answered for {} s: it was stopped, or its host cannot be reached. The "
      "run can be resumed from its last checkpoint",
      peer.rank, hosts_[static_cast<std::size_t>(peer.rank)], timeout_.count());
}

}  // namespace tapegrad::detail
