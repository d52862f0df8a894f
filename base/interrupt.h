#pragma once

namespace tapegrad {

// From now on, the first SIGINT (Ctrl-C), SIGTERM or SIGHUP only sets a flag, so that the program
// can stop where nothing is lost; a second one ends it at once. A signal that the caller of the
// program had ignored stays ignored.
void catch_interrupts();
bool interrupted();
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
// Acts as if such a signal had come.
void interrupt();
// Clears the interrupt, for programs that continue.
void forget_interrupt();

// The exit code of a program that stopped for such a signal, as shells report Ctrl-C.
inline constexpr int kInterruptedExitCode = 130;

}  // namespace tapegrad
