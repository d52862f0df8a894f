#pragma once

#include <cstdint>
#include <string>

#include "tapegrad/base/interrupt.h"
#include "tapegrad/base/stopwatch.h"
#include "tapegrad/base/terminal.h"
#include "tapegrad/run/plan/time_left.h"

namespace tapegrad::run {

// A signal has come: what is complete stays.
struct Interrupted {};

inline void stop_if_interrupted() {
  if (interrupted()) throw Interrupted();
}

// The rate of some work, and how long it will take, on the line below the output.
class ProgressLine {
 public:
  ProgressLine(Terminal& terminal, std::string what, std::int64_t all)
      : terminal_(terminal), what_(std::move(what)), all_(all) {}

  // So many bytes are done.
  void at(std::int64_t bytes);
  double seconds() const;

 private:
  Terminal& terminal_;
  std::string what_;
  std::int64_t all_, steps_ = 0;
  Stopwatch watch_, since_last_;
  TimeLeft left_;
};

}  // namespace tapegrad::run
