#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

namespace detail {
class Carrier;
class PartCarrier;
struct Exchange;
}  // namespace detail

// Processes that a launcher (mpirun, srun) has started together, by MPI. All calls of MPI are made
// by one thread of this object: it moves data while the others compute, and watches whether the
// other processes live. If nothing is heard of one for 30 seconds (the environment variable
// TAPEGRAD_PROCESS_TIMEOUT has another number), all of them are ended with a message that names it.
//
// Functions that all processes must call, in the same order, are marked (all). They may be called
// by one thread at a time. Errors: a size that does not fit; MPI fails.
class Processes {
 public:
  // (all) The group that this process was started in; a group of one if no launcher started it, and
  // then MPI is not touched. At most one such object may be made in a process's life. Errors: a
  // launcher started several, but this build is without MPI, or is not one for that launcher.
  static std::unique_ptr<Processes> join();
  // The later rank(), if the launcher's environment names it; otherwise 0.
  static int rank_of_environment();
  // (all) Waits for the others, unless an exception is on its way: then the group cannot end well,
  // and its launcher ends it.
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // (all) The processes of these ranks, in this order, as a group of their own, whose functions
  // they alone call. This process must be one of them. All processes get a part, of as many ranks
  // each, and call the same functions of it in the same order among those of the whole: each counts
  // what the others have begun. A part must end before the whole, whose traffic() has its own.
  std::unique_ptr<Processes> part(const std::vector<int>& ranks);

  int rank() const;
  int size() const;
  bool alone() const { return size() == 1; }
  // How many of the processes have processors in common with this one, itself included.
  int sharing_processors() const { return sharing_; }
  const std::string& host(int rank) const;
  std::string name(int rank) const;  // for messages: "rank 2 on node7"

  // (all) Waits. What each process gave, by rank.
  std::vector<std::string> all_gather(std::string_view mine);
  // (all) Waits. The bytes of rank `root` become everybody's; all give the same number of them.
  void broadcast(std::span<std::byte> bytes, int root = 0);

  // A transfer that goes on while the process computes. It must have ended before the Processes do.
  class Transfer {
   public:
    Transfer() = default;  // has ended
    // Throws what went wrong, the exception of `then` included.
    void wait();

   private:
    friend class Processes;
    Processes* processes_ = nullptr;
    std::shared_ptr<detail::Exchange> exchange_;
  };

  // (all) Sends part j of `send` to rank j, and receives a part of each into `receive`, by rank.
  // Parts lie one after the other; a size may be 0. What i sends to j is as long as what j receives
  // from i. Both spans must live, and `send` must not change, until the transfer has ended. `then`
  // is called at the end, before wait() returns: in the order in which transfers were begun, one at
  // a time, by the thread that moves data. That thread is alone: `then` should be a plain loop.
  Transfer all_to_all(std::span<const std::byte> send, const std::vector<std::size_t>& send_sizes,
                      std::span<std::byte> receive, const std::vector<std::size_t>& receive_sizes,
                      std::function<void()> then = {});
  // (all) Part j of `bytes` is that of rank j, and becomes everybody's. All give the same sizes.
  Transfer all_gather_parts(std::span<std::byte> bytes, const std::vector<std::size_t>& sizes);
  // (all) Waits. Each rank's `part` arrives at rank 0, in `whole` (which is empty elsewhere), by
  // rank.
  void gather_parts(std::span<const std::byte> part, std::span<std::byte> whole,
                    const std::vector<std::size_t>& sizes);

  // The cost so far.
  struct Traffic {
    std::int64_t bytes_sent = 0;  // to other processes
    double seconds_waited = 0;    // by the computing thread, for transfers to end
  };
  Traffic traffic() const { return traffic_; }

  // Ends all processes of the group; nothing is flushed or saved.
  [[noreturn]] void abort(int exit_code);

 private:
  friend class detail::PartCarrier;
  explicit Processes(std::unique_ptr<detail::Carrier> carrier);
  std::vector<std::span<std::byte>> parts(std::span<std::byte> bytes,
                                          const std::vector<std::size_t>& sizes) const;
  Transfer begin(std::shared_ptr<detail::Exchange> exchange);

  std::unique_ptr<detail::Carrier> carrier_;  // null: alone
  std::vector<std::string> hosts_;
  int sharing_ = 1;
  int exceptions_;  // under way when this was made
  Traffic traffic_;
};

// (all) Error if a text is not the same in all processes. It says which, and who has what. `texts`
// has a short text, such as a fingerprint, for each thing that must be the same: {"program", …}.
void check_same(Processes& processes, const std::map<std::string, std::string>& texts);

}  // namespace tapegrad
