#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

namespace tapegrad::detail {

// How a group ends that cannot go on.

// For the launcher to end all processes, after MPI_Abort.
inline constexpr unsigned kSecondsToAbort = 10;

// Writes a line to stderr in one call, so that it does not mix with other processes' words.
void say_last(std::string line);
// By the thread of MPI.
[[noreturn]] void abort_all(int exit_code);

// MPI_Init and MPI_Finalize wait for all processes, and no heartbeat is heard meanwhile: that they
// take long is the only sign that a process is missing.
struct Meeting {
  int rank;
  std::chrono::seconds timeout;
  const char* purpose;  // of all processes: "begin"
};
// Waits for `met`, which another thread sets; ends this process if that takes longer than the
// timeout. Its launcher then ends the others.
void meet_or_end(std::unique_lock<std::mutex>& lock, std::condition_variable& news, const bool& met,
                 const Meeting& meeting);

}  // namespace tapegrad::detail
