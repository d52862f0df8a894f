#include "tapegrad/comm/internal/mpi_end.h"

#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "tapegrad/base/error.h"

namespace tapegrad::detail {
namespace {

// For the launcher to pass on what was printed: MPICH's one drops what it has not read by
// MPI_Abort.
constexpr std::chrono::milliseconds kLastWords{200};
// How often a process that waits looks whether it was stopped itself.
constexpr std::chrono::milliseconds kLook{250};

}  // namespace

void say_last(std::string line) {
  line += '\n';
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
}

void abort_all(int exit_code) {
  ::signal(SIGALRM, SIG_DFL);  // which ends this process if MPI_Abort hangs
  ::alarm(kSecondsToAbort);
  std::this_thread::sleep_for(kLastWords);
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  ::_exit(exit_code);
}

void meet_or_end(std::unique_lock<std::mutex>& lock, std::condition_variable& news, const bool& met,
                 const Meeting& meeting) {
  using Clock = std::chrono::steady_clock;
  const auto [rank, timeout, purpose] = meeting;
  // The lowest rank that waits speaks before the others, so that one message is enough.
  const auto patience = timeout + std::chrono::seconds(2 * std::min(rank, 2));
  auto last = Clock::now(), limit = last + patience;
  while (!news.wait_for(lock, kLook, [&] { return met; })) {
    const auto now = Clock::now();
    const bool was_stopped = now - last > std::chrono::milliseconds(timeout) / 3;  // itself
    if (was_stopped) limit += now - last;
    last = now;
    if (now < limit) continue;
    say_last(fmt::format(
        "rank {} has waited for {} s for all processes to {}: one of them was stopped or has "
        "ended, or its host cannot be reached. TAPEGRAD_PROCESS_TIMEOUT can give them more seconds",
        rank, timeout.count(), purpose));
    ::_exit(1);  // MPI_Abort is not to be had here
  }
}

}  // namespace tapegrad::detail
