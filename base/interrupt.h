#pragma once

#include <string>

#include "tapegrad/base/cxx20.h"

namespace tapegrad {

// From now on, the first SIGINT (Ctrl-C), SIGTERM or SIGHUP only sets a flag, so that the program
// can stop where nothing is lost; a second one ends it at once. A signal that the caller of the
// program had ignored stays ignored.
void catch_interrupts();
bool interrupted();
// For programs whose signals are others', as Python's are: while one lives, such a signal sets the
// flag and goes on to the handler that was there before; none ends the program, and
// catch_interrupts() changes nothing. At its end, the handlers of before are back and the interrupt
// is cleared; a signal that had no handler comes once more, and does what it would have done.
// At most one, which ends in the thread that made it.
class SharedInterrupts {
 public:
  SharedInterrupts();
  ~SharedInterrupts();
  SharedInterrupts(const SharedInterrupts&) = delete;
  SharedInterrupts& operator=(const SharedInterrupts&) = delete;
};
// From now on, writing to a pipe that nobody reads fails and does not end the program.
// catch_interrupts() does so, too.
void ignore_closed_pipes();
// Waits until `descriptor` has something to read, or has ended. False if a signal came first.
bool wait_for_input(int descriptor);
// In a group of processes, all must stop at the same place. While one of these lives and holds,
// interrupted() does not tell of signals, but interrupt_requested() does: the group agrees what to
// do, and all its processes call interrupt().
class HeldInterrupts {
 public:
  explicit HeldInterrupts(bool hold);
  ~HeldInterrupts() { release(); }
  HeldInterrupts(const HeldInterrupts&) = delete;
  HeldInterrupts& operator=(const HeldInterrupts&) = delete;
  void release();
};
bool interrupt_requested();
// Acts as if such a signal had come. `cause` must live as long as the program.
void interrupt(const char* cause = "another process was stopped");
// Why interrupted() is true, for people: "SIGINT (Ctrl-C)", "SIGTERM", "SIGHUP", or the
// cause that interrupt() got.
std::string interrupt_cause();
// Clears the interrupt, for programs that continue.
void forget_interrupt();

// The exit code of a program that stopped for such a signal, as shells report Ctrl-C.
inline constexpr int kInterruptedExitCode = 130;
// The same for one that stopped since nobody reads its output (`| head`), as shells report SIGPIPE.
inline constexpr int kClosedPipeExitCode = 141;

}  // namespace tapegrad
