#include "tapegrad/base/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <system_error>

#include "tapegrad/base/error.h"

namespace tapegrad {
namespace {

// Set by a signal; by the program itself; and whether the first is not to be heeded yet.
std::atomic<bool> flag{false}, asked{false}, held{false};
std::atomic<int> first_signal{0};
std::atomic<const char*> cause_asked{nullptr};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler sets them");

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

// Tells whether it is the first one.
bool note_signal(int signal) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);  // before anybody asks for the cause
  return !flag.exchange(true);
}

void on_signal(int signal) {
  if (!note_signal(signal)) ::_exit(kInterruptedExitCode);
}

// What SharedInterrupts puts back.
std::atomic<bool> shared{false};
struct sigaction actions_before[std::size(kSignals)];
stack_t stack_before;

// Handlers that a signal goes on to.
bool is_handler(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

void on_shared_signal(int signal, siginfo_t* info, void* context) {
  (void)note_signal(signal);
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    const struct sigaction& before = actions_before[i];
    if (kSignals[i] != signal || !is_handler(before)) continue;
    if ((before.sa_flags & SA_SIGINFO) != 0) {
      before.sa_sigaction(signal, info, context);
    } else {
      before.sa_handler(signal);
    }
  }
}

// While oneDNN multiplies, the stack pointer of the thread may point to the end of a buffer in the
// heap, which its kernels use for quantised matrices (seen in 2.6.3, with AVX-512). A handler on
// that "stack" would overwrite whatever lies before the buffer.
void use_another_stack_for_handlers() {
  alignas(64) static std::byte memory[64 << 10];
  const stack_t stack{.ss_sp = memory, .ss_flags = 0, .ss_size = sizeof memory};
  ::sigaltstack(&stack, nullptr);
}

}  // namespace

void catch_interrupts() {
  if (shared) return;
  use_another_stack_for_handlers();
  ignore_closed_pipes();
  for (const int signal : kSignals) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    ::sigaction(signal, &action, nullptr);
  }
}

SharedInterrupts::SharedInterrupts() {
  forget_interrupt();
  ::sigaltstack(nullptr, &stack_before);
  use_another_stack_for_handlers();
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    ::sigaction(kSignals[i], nullptr, &actions_before[i]);
    if (!is_handler(actions_before[i]) && actions_before[i].sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_sigaction = on_shared_signal;
    action.sa_flags = SA_RESTART | SA_ONSTACK | SA_SIGINFO;
    ::sigaction(kSignals[i], &action, nullptr);
  }
  shared = true;
}

SharedInterrupts::~SharedInterrupts() {
  shared = false;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    ::sigaction(kSignals[i], &actions_before[i], nullptr);
  }
  ::sigaltstack(&stack_before, nullptr);
  const int signal = first_signal;
  forget_interrupt();
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    if (kSignals[i] == signal && !is_handler(actions_before[i])) ::raise(signal);
  }
}

void ignore_closed_pipes() { ::signal(SIGPIPE, SIG_IGN); }

bool interrupted() { return (flag && !held) || asked; }

HeldInterrupts::HeldInterrupts(bool hold) { held = hold; }

void HeldInterrupts::release() { held = false; }

bool interrupt_requested() { return flag; }

bool wait_for_input(int descriptor) {
  // poll() ends for a signal, where read() would go on. One that comes just before it, or to
  // another thread, is seen in the next round.
  constexpr int milliseconds = 100;
  pollfd input{.fd = descriptor, .events = POLLIN, .revents = 0};
  while (!interrupted()) {
    const int ready = ::poll(&input, 1, milliseconds);
    if (ready > 0) return !interrupted();
    check(ready == 0 || errno == EINTR, "input cannot be waited for: {}",
          std::generic_category().message(errno));
  }
  return false;
}

void interrupt(const char* cause) {
  cause_asked = cause;
  asked = true;
}

std::string interrupt_cause() {
  switch (first_signal) {
    case SIGINT:
      return "SIGINT (Ctrl-C)";
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP";
    default:
      const char* cause = cause_asked;
      return cause == nullptr ? "" : cause;
  }
}

void forget_interrupt() {
  flag = asked = held = false;
  first_signal = 0;
  cause_asked = nullptr;
}

}  // namespace tapegrad
