#pragma once

#include <grp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include "tapegrad/tests/sanitized.h"

namespace tapegrad::faults {

// Of how many inputs one is tried: all are if the environment has TAPEGRAD_LONG. Under sanitizers,
// processes are slow to begin.
inline std::size_t one_of(std::size_t normal, std::size_t sanitized) {
  return std::getenv("TAPEGRAD_LONG") != nullptr ? 1 : kSanitized ? sanitized : normal;
}

inline std::size_t processors() {
  return static_cast<std::size_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

constexpr uid_t kNobody = 65534;

// If the tests run as root, gives the folder to the user nobody, as whom children run.
inline void give_to_nobody(const std::filesystem::path& path) {
  if (::geteuid() == 0 && ::chown(path.c_str(), kNobody, kNobody) != 0) {
    throw std::runtime_error("cannot give " + path.string() + " away");
  }
}

// How a process ended.
struct Ended {
  int code = 0;              // −signal if a signal ended it; see never_ended()
  std::string err;           // what it wrote to stderr, 64 KiB at most
  std::int64_t most_kb = 0;  // of memory that it had at once
};

// True if it was stopped, after 20 seconds of work or five minutes of waiting.
inline bool never_ended(const Ended& ended) {
  return ended.code == -SIGALRM || ended.code == -SIGXCPU || ended.code == -SIGKILL;
}

// A process that calls a function and ends with what that returns: a program without exec, which
// is why thousands of them take seconds. It has no stdin and no stdout and is not root.
class Child {
 public:
  explicit Child(const std::function<int()>& body) : err_(::memfd_create("stderr", 0)) {
    ::fflush(nullptr);  // or the child would write what waits here a second time
    pid_ = ::fork();
    if (pid_ < 0 || err_ < 0) throw std::runtime_error("no more processes");
    if (pid_ == 0) run(body);
  }
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), err_(std::exchange(other.err_, -1)) {}
  Child& operator=(Child&&) = delete;
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      wait();
    }
    if (err_ >= 0) ::close(err_);
  }

  Ended wait() {
    int status = 0;
    rusage used{};
    ::wait4(std::exchange(pid_, -1), &status, 0, &used);
    Ended ended{.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
                .err = std::string(std::size_t{1} << 16, ' '),
                .most_kb = used.ru_maxrss};
    const ssize_t count = ::pread(err_, ended.err.data(), ended.err.size(), 0);
    ended.err.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    return ended;
  }

 private:
  [[noreturn]] void run(const std::function<int()>& body) const {
    const bool root = ::geteuid() == 0;
    if (std::freopen("/dev/null", "r", stdin) == nullptr ||
        std::freopen("/dev/null", "w", stdout) == nullptr || ::dup2(err_, STDERR_FILENO) < 0 ||
        (root &&
         (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0))) {
      ::_exit(126);
    }
    const rlimit seconds{20, 20};
    ::setrlimit(RLIMIT_CPU, &seconds);
    ::alarm(300);  // other programs may keep the machine busy
    const int code = body();
    ::fflush(nullptr);
    ::_exit(code);
  }

  pid_t pid_ = -1;
  int err_;
};

// Calls `start(i, slot)`, which returns a Child, for each i below n, and `judge(i, ended)` when it
// has ended. Of the children that run at once, each has another slot, from 0 on.
template <class Start, class Judge>
void run_children(std::size_t n, std::size_t slots, const Start& start, const Judge& judge) {
  std::deque<std::pair<std::size_t, Child>> running;
  const auto finish_one = [&] {
    auto& [i, child] = running.front();
    judge(i, child.wait());
    running.pop_front();
  };
  for (std::size_t i = 0; i < n; ++i) {
    if (running.size() == slots) finish_one();
    running.emplace_back(i, start(i, i % slots));
  }
  while (!running.empty()) finish_one();
}

}  // namespace tapegrad::faults
