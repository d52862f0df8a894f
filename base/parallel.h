#pragma once

#include <cstdint>
#include <vector>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// How many threads parallel_for may use, the caller's included. At first: as many as this process
// has processors. Libraries for matrix products use no threads of their own (gemm.h).
int num_threads();
inline constexpr int kMaxThreads = 1024;
// Error unless 1 <= n <= kMaxThreads, or if called from within parallel_for.
void set_num_threads(int n);

// When each thread was at work in the loops that the thread which made this calls, while it lives.
// The newest living one of a thread gets everything.
class LoopLog {
 public:
  struct Part {
    double begin, end;  // seconds of std::chrono::steady_clock
  };
  LoopLog();
  ~LoopLog();
  LoopLog(const LoopLog&) = delete;
  LoopLog& operator=(const LoopLog&) = delete;
  // The parts of each thread, in the order of time; the first thread is the caller. Each has
  // kMostParts at most, the earliest ones.
  const std::vector<std::vector<Part>>& parts() const { return parts_; }
  static constexpr std::size_t kMostParts = std::size_t{1} << 17;

 private:
  friend class Pool;
  void make_room(std::size_t threads);  // for a part of each

  std::vector<std::vector<Part>> parts_;
  LoopLog* before_;
};

namespace detail {
using RangeFunction = void (*)(const void* body, std::int64_t begin, std::int64_t end);
void parallel_ranges(std::int64_t n, std::int64_t grain, RangeFunction run, const void* body);
}  // namespace detail

// Calls body(begin, end) on ranges that together cover [0, n) once. The calls run in parallel if
// there are at least two ranges of `grain` or more. The ranges depend on the number of threads, so
// results must not depend on how [0, n) is cut: write independent outputs only, or let each index
// stand for a fixed chunk of the work. The first exception that a body throws is rethrown here. The
// calling thread does all the work if it is inside another parallel_for already, or if another
// thread uses the pool.
template <class Body>
void parallel_for(std::int64_t n, std::int64_t grain, const Body& body) {
  detail::parallel_ranges(
      n, grain,
      [](const void* b, std::int64_t begin, std::int64_t end) {
        (*static_cast<const Body*>(b))(begin, end);
      },
      &body);
}

}  // namespace tapegrad
