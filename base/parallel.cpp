#include "tapegrad/base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "tapegrad/base/error.h"
#include "tapegrad/base/internal/blocked_signals.h"
#include "tapegrad/base/memory/dry_run.h"

namespace tapegrad {
namespace {

// Ranges per thread. With several, the other threads take over from one that is slowed down by
// other programs.
constexpr std::int64_t kRangesPerThread = 4;
// Long loops are cut at multiples of this many elements, which is at least the width of any vector
// code. The vector part of a loop and its scalar rest may round differently. With this quantum, the
// index of an element alone decides which of the two computes it, not the cut.
constexpr std::int64_t kQuantum = 64;
// How often a waiting thread checks before it sleeps (a worker) or yields (the caller). This takes
// some tens of microseconds, which is longer than the pause between two ops of a small model.
constexpr int kSpins = 4000;

thread_local bool inside = false;
thread_local LoopLog* current_log = nullptr;

double now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

// Counts the processors that this process may run on, which taskset or mpirun may have limited. The
// standard library counts all of the system.
int processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");  // waits about as long; a yield() is a call of the system
#else
  std::this_thread::yield();
#endif
}

// One thread's share of a job. Threads that have finished their own share take ranges from it too.
struct alignas(64) Share {
  std::atomic<std::int64_t> next{0};
  std::int64_t end = 0;
};

}  // namespace

// A pool whose jobs never wait for a thread that has not begun. Threads take the ranges of a job
// one by one. If the system runs something else on a worker's processor, the other threads do that
// worker's share. (An OpenMP team waits for all of its threads at the end of each loop. On a busy
// machine this makes small loops a hundred times slower.)
//
// Invariants: the job's fields change only while `open_` is false and `active_` is 0. A worker adds
// itself to `active_` before it reads `open_`. The caller sets `open_` to false before it waits for
// `active_` to become 0. All of this is sequentially consistent: a worker either sees that the job
// is closed, or the caller waits for it.
class Pool {
 public:
  int threads() const { return threads_; }

  void set_threads(int n) {
    check(!inside, "the number of threads cannot be changed inside a parallel loop");
    const std::lock_guard lock(mutex_);
    threads_ = n;
  }

  // False, having done nothing, if another thread's job is running.
  bool run(std::int64_t n, std::int64_t grain, detail::RangeFunction run, const void* body) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    const std::int64_t most = std::max<std::int64_t>(1, n / std::max<std::int64_t>(1, grain));
    shares_used_ = static_cast<int>(std::min<std::int64_t>(most, threads_));
    if (shares_used_ == 1) return false;
    start_workers();
    const std::int64_t ranges = std::min(most, shares_used_ * kRangesPerThread);
    const std::int64_t quantum = grain >= kQuantum ? kQuantum : 1;
    const auto rounded = [=](std::int64_t i) { return (i + quantum - 1) / quantum * quantum; };
    range_ = rounded((n + ranges - 1) / ranges);
    run_ = run;
    body_ = body;
    error_ = nullptr;
    log_ = current_log;
    if (log_ != nullptr) log_->make_room(static_cast<std::size_t>(shares_used_));
    for (std::int64_t i = 0; i < shares_used_; ++i) {
      Share& share = shares_[static_cast<std::size_t>(i)];
      share.next = std::min(n, rounded(n * i / shares_used_));
      share.end = std::min(n, rounded(n * (i + 1) / shares_used_));
    }
    open_ = true;
    ++epoch_;
    epoch_.notify_all();
    work(0);
    open_ = false;
    for (int spins = 0; active_ != 0; ++spins) {
      spins < kSpins ? relax() : std::this_thread::yield();
    }
    if (error_) std::rethrow_exception(error_);
    return true;
  }

 private:
  // A job can be done by any number of workers. If the system refuses more threads, those that
  // exist do all the work.
  void start_workers() {
    const BlockedSignals blocked;
    try {
      while (started_ < threads_ - 1) {
        std::thread([this, id = started_ + 1] { serve(id); }).detach();
        ++started_;
      }
    } catch (const std::system_error&) {
    }
  }

  void serve(int id) {
    for (std::uint64_t seen = 0;;) {
      for (int spins = 0; epoch_ == seen && spins < kSpins; ++spins) relax();
      epoch_.wait(seen);
      seen = epoch_;
      ++active_;
      if (open_ && id < shares_used_) work(id);
      --active_;
    }
  }

  void work(int id) {
    inside = true;
    const double began = log_ == nullptr ? 0 : now();
    bool worked = false;
    for (int i = 0; i < shares_used_; ++i) {
      Share& share = shares_[static_cast<std::size_t>((id + i) % shares_used_)];
      while (true) {
        const std::int64_t begin = share.next.fetch_add(range_);
        if (begin >= share.end) break;
        worked = true;
        try {
          run_(body_, begin, std::min(begin + range_, share.end));
        } catch (...) {
          const std::lock_guard lock(error_mutex_);
          if (!error_) error_ = std::current_exception();
        }
      }
    }
    inside = false;
    if (log_ == nullptr || !worked) return;
    std::vector<LoopLog::Part>& parts = log_->parts_[static_cast<std::size_t>(id)];
    if (parts.size() < parts.capacity()) parts.push_back({began, now()});
  }

  std::mutex mutex_;  // held by the caller whose job runs
  std::atomic<int> threads_{std::clamp(processors(), 1, kMaxThreads)};
  int started_ = 0;
  std::atomic<std::uint64_t> epoch_{0};
  std::atomic<bool> open_{false};
  std::atomic<int> active_{0};

  detail::RangeFunction run_ = nullptr;
  const void* body_ = nullptr;
  LoopLog* log_ = nullptr;  // of the caller; each thread writes to its own part
  std::int64_t range_ = 1;
  int shares_used_ = 1;
  std::vector<Share> shares_ = std::vector<Share>(kMaxThreads);
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

namespace {

// Never destroyed: its workers wait for jobs until the process ends.
Pool& pool() {
  static Pool* const instance = new Pool;
  return *instance;
}

}  // namespace

// Here, since a worker must not fail.
void LoopLog::make_room(std::size_t threads) {
  if (parts_.size() < threads) parts_.resize(threads);
  for (std::size_t i = 0; i < threads; ++i) {
    if (parts_[i].size() < parts_[i].capacity() || parts_[i].size() == kMostParts) continue;
    parts_[i].reserve(std::clamp<std::size_t>(2 * parts_[i].size(), 1024, kMostParts));
  }
}

LoopLog::LoopLog() : before_(current_log) { current_log = this; }
LoopLog::~LoopLog() { current_log = before_; }

int num_threads() { return pool().threads(); }

void set_num_threads(int n) {
  check(n >= 1 && n <= kMaxThreads, "the number of threads must be from 1 to {}, not {}",
        +kMaxThreads, n);
  pool().set_threads(n);
}

void detail::parallel_ranges(std::int64_t n, std::int64_t grain, RangeFunction run,
                             const void* body) {
  if (n <= 0 || in_dry_run()) return;
  if (inside || n < 2 * grain || !pool().run(n, grain, run, body)) run(body, 0, n);
}

}  // namespace tapegrad
