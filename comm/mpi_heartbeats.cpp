#include "tapegrad/comm/internal/mpi_heartbeats.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "tapegrad/base/error.h"
#include "tapegrad/base/text/internal/number_text.h"

namespace tapegrad::detail {
namespace {

constexpr int kHeartbeatTag = 1;  // exchanges have another one

}  // namespace

std::chrono::seconds process_timeout() {
  constexpr const char* kTimeout = "TAPEGRAD_PROCESS_TIMEOUT";
  const char* value = std::getenv(kTimeout);
  if (value == nullptr) return std::chrono::seconds(30);
  const std::string_view text = value;
  const std::optional<int> seconds = number_of<int>(text);
  check(seconds && *seconds >= 2 && *seconds <= 86400,
        "[processes] {} must be a number of seconds from 2 to 86400, not '{}'", kTimeout, text);
  return std::chrono::seconds(*seconds);
}

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int size = 0;
  MPI_Error_string(code, text, &size);
  fail("[processes] {} has failed: {}", call, text);
}

Heartbeats::Heartbeats(int rank, int size, std::chrono::seconds timeout)
    : rank_(rank),
      timeout_(timeout),
      interval_(std::min(std::chrono::milliseconds(2000), std::chrono::milliseconds(timeout_) / 5)),
      last_tick_(Clock::now()) {
  for (int other = 0; other < size; ++other) {
    if (other != rank && (rank == 0 || other == 0)) {
      peers_.push_back({.rank = other, .heard = last_tick_, .sent = {}});
    }
  }
}

std::string Heartbeats::tick(std::int64_t begun) {
  const auto now = Clock::now();
  begun_ = begun;
  // While this process itself was stopped, it could not have heard anybody.
  const auto pause = now - last_tick_;
  last_tick_ = now;
  bool left = true, answered = true;
  for (Peer& peer : peers_) {
    if (pause > std::chrono::milliseconds(timeout_) / 3) peer.heard += pause;
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
  return rank_ == 0 ? left_early() : "";
}

void Heartbeats::listen(Peer& peer) {
  while (!peer.left) {
    if (peer.receiving == MPI_REQUEST_NULL) {
      check_mpi(MPI_Irecv(&peer.incoming, sizeof peer.incoming, MPI_BYTE, peer.rank, kHeartbeatTag,
                          MPI_COMM_WORLD, &peer.receiving),
                "MPI_Irecv");
    }
    int received = 0;
    check_mpi(MPI_Test(&peer.receiving, &received, MPI_STATUS_IGNORE), "MPI_Test");
    if (received == 0) return;
    peer.heard = last_tick_;
    peer.begun = peer.incoming.begun;
    peer.left = peer.incoming.goodbye != 0;
  }
}

void Heartbeats::talk(Peer& peer, bool goodbye) {
  int sent = 1;
  if (peer.sending != MPI_REQUEST_NULL) {
    check_mpi(MPI_Test(&peer.sending, &sent, MPI_STATUS_IGNORE), "MPI_Test");
  }
  const bool due = goodbye || last_tick_ - peer.sent >= interval_;
  if (sent == 0 || peer.answered || !due) return;
  peer.outgoing = {.begun = begun_, .goodbye = goodbye};
  peer.answered = goodbye;
  peer.sent = last_tick_;
  check_mpi(MPI_Isend(&peer.outgoing, sizeof peer.outgoing, MPI_BYTE, peer.rank, kHeartbeatTag,
                      MPI_COMM_WORLD, &peer.sending),
            "MPI_Isend");
}

std::string Heartbeats::name(int rank) const {
  if (hosts_.empty()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} on {}", rank, hosts_[static_cast<std::size_t>(rank)]);
}

std::string Heartbeats::silent(const Peer& peer) const {
  return fmt::format(
      "{} has not answered for {} s: it was stopped, or its host cannot be reached. The run can be "
      "resumed from its last checkpoint",
      name(peer.rank), timeout_.count());
}

// Of rank 0, which hears all.
std::string Heartbeats::left_early() const {
  struct {
    int rank;
    std::int64_t begun;
  } first{0, begun_}, last = first;  // to leave, and to have begun most
  bool any = leaving_;
  for (const Peer& peer : peers_) {
    if (peer.begun > last.begun) last = {peer.rank, peer.begun};
    if (!peer.left || (any && peer.begun >= first.begun)) continue;
    first = {peer.rank, peer.begun};
    any = true;
  }
  if (!any || first.begun >= last.begun) return "";
  return fmt::format(
      "{} has ended, and {} waits for it: all processes must be given the same arguments",
      name(first.rank), name(last.rank));
}

}  // namespace tapegrad::detail
