#pragma once

#include <chrono>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// Runs from its construction on. A new one, assigned to it, begins anew.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

template <class Work>
double seconds_of(const Work& work) {
  const Stopwatch watch;
  work();
  return watch.seconds();
}

}  // namespace tapegrad
