#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tapegrad::detail {

// Transfers are cut into pieces of so many bytes at most: Open MPI sends up to 64 KiB by TCP, its
// header among them, without asking the receiver.
inline constexpr std::size_t kPiece = 60000;

// The bytes that go from this process to each one, and those that come. The parts for and of this
// process itself are not moved: Processes has copied them.
struct Exchange {
  std::vector<std::span<const std::byte>> send;  // by rank
  std::vector<std::span<std::byte>> receive;
  std::function<void()> then;
  // The exchange of a part of the processes (Processes::part) that this one moves, or null. `then`
  // finishes it.
  std::shared_ptr<Exchange> inner = {};

  std::exception_ptr error;  // to be read once ended
  std::atomic<int> ended{0};

  // All bytes are there.
  void finish() {
    std::exception_ptr why;
    try {
      if (then) then();
    } catch (...) {
      why = std::current_exception();
    }
    then = {};  // before those who wait destroy what it refers to
    end(std::move(why));
  }
  void end(std::exception_ptr why) {
    if (inner && why) inner->end(why);  // `then` is not called any more
    error = std::move(why);
    ended = 1;
    ended.notify_all();
  }
};

// Moves bytes between the processes of a group.
class Carrier {
 public:
  virtual ~Carrier() = default;

  int rank = 0;
  std::vector<std::string> hosts;  // of each rank

  // Exchanges end in the order in which they were begun, which is the same in all processes.
  virtual void begin(std::shared_ptr<Exchange> exchange) = 0;
  virtual void wait(Exchange& exchange) = 0;
  // Waits until all processes have come here. Nothing may be under way.
  virtual void leave() = 0;
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

// How many processes a launcher has started: the environment's word for it.
struct Launch {
  std::string launcher;  // "mpirun"; empty: there was none
  int size = 1;          // 0: a launcher has started this, and does not say how many
  int rank = 0;          // if the launcher says so
};
Launch launch_of_environment();

// A carrier by MPI. Error if MPI does not find the processes that `launch` names.
std::unique_ptr<Carrier> mpi_carrier(const Launch& launch);

}  // namespace tapegrad::detail
